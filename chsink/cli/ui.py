"""``chsink ui``: the status page."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated

import typer

from chsink.cli.options import DEFAULT_CONFIG, ConfigOption, SetOption, load_config


def ui(
    config: ConfigOption = DEFAULT_CONFIG,
    assignments: SetOption = None,
    listen: Annotated[
        str | None,
        typer.Option(
            help="Address to serve the page on. Default: observe.ui, or 127.0.0.1:8686. Port 0 chooses a free port.",
            metavar="HOST:PORT",
        ),
    ] = None,
    show_values: Annotated[
        bool, typer.Option("--show-values", help="Show the keys and values of dead letters to all who open the page.")
    ] = False,
) -> None:
    """Serve the sink's status as a web page. Changes nothing.

    \b
    chsink ui -c job.toml
    chsink ui -c job.toml --listen 127.0.0.1:9000
    curl http://127.0.0.1:8686/status.json | jq .health

    It shows the sink's health in a sentence, lag and speed of each topic and table, all partitions, ranges in doubt,
    halts with their fix, dead letters by reason, and the mirror's tables. It reads the state store and Kafka while
    the page is open, and works without a running job. With observe.ui in the job file, `chsink run` serves the same
    page, and adds what only the running job knows; `chsink mirror run` serves it with the mirror alone.

    If other machines can reach the address, whoever opens the page must enter the token of observe.ui_token.
    Needs the extra `ui`: pip install 'chsink[ui]'.
    """  # noqa: D301 - a backspace keeps the lines of a paragraph apart
    more = [] if listen is None else [f"observe.ui={listen}"]
    loaded = load_config(config, [*(assignments or []), *more])
    from chsink.ui.package import check_installed

    check_installed()
    from chsink.observe.logs import configure, logger
    from chsink.ui.eyes import Eyes
    from chsink.ui.serve import StatusPage

    configure(loaded.observe.log_format, "error")
    page = StatusPage(loaded, logger(loaded.sink.name), Eyes(loaded, show_values=show_values))
    typer.echo(f"{page.url}  Ctrl-C stops the page, not the job", err=True)
    with suppress(KeyboardInterrupt):
        page.run()
