"""The page beside a running job, if the job file asks for one (``observe.ui``)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import structlog

from chsink.config import Config
from chsink.errors import ChsinkError
from chsink.observe.observer import Shown
from chsink.ui.package import check_installed
from chsink.ui.picture import JobView, failure_of


@contextmanager
def page_beside(
    config: Config, shown: Shown, log: structlog.typing.FilteringBoundLogger, *, clickhouse: bool = True
) -> Iterator[None]:
    """Serve the page until the block ends.  An error that leaves the block is shown before the page ends.  Without
    ``clickhouse``, the page shows the mirror alone.

    Raises PreflightError CHS-279 if the page cannot be served.
    """
    if config.observe.ui is None:
        yield
        return
    check_installed()
    from chsink.ui.eyes import Eyes
    from chsink.ui.serve import StatusPage, served  # their packages are an extra

    ending = False

    def view() -> JobView:
        end = () if shown.end is None else shown.end.parts or (shown.end,)
        return JobView(shown.last_batch, tuple(map(failure_of, end)), ending or shown.over)

    with served(StatusPage(config, log, Eyes(config, view, clickhouse=clickhouse), view)) as page:
        log.info("status page", url=page.url)
        try:
            yield
        except ChsinkError as error:
            shown.end = shown.end or error
            raise
        finally:
            ending = True
