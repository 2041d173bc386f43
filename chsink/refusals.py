"""From a query that gets no answer, or is refused, to an error for users."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from chsink.errors import ChsinkError, preflight, services, without_values
from chsink.findings import grant_of, server_sentence
from chsink.notation import codes
from chsink.ports import ServerRefused, Unanswered


@contextmanager
def asking_target() -> Iterator[None]:
    """A question to the target that gets no answer, or is refused, is an error for users like any other."""
    try:
        yield
    except Unanswered as error:
        raise services.TARGET_UNANSWERED(error=error) from error
    except ServerRefused as error:
        raise refusal(error) from error


def refusal(refused: ServerRefused) -> ChsinkError:
    """Why the server answered a query with an error, and what to do.  Only what a retry may help is Unavailable."""
    url, reason = refused.url or "ClickHouse", without_values(server_sentence(refused))
    if refused.code == codes.ACCESS_DENIED:
        return preflight.QUERY_FORBIDDEN(url=url, reason=reason, grant=grant_of(refused))
    if refused.code in codes.AUTH:
        return preflight.LOGIN_REFUSED(what=url, message=reason)
    if refused.code in codes.LIMITS:
        return preflight.QUERY_LIMITED(url=url, code=refused.code, reason=reason)
    if refused.code in codes.REFUSED:
        return preflight.QUERY_REFUSED(url=url, code=refused.code, reason=reason)
    return services.QUERY_FAILED(url=url, code=refused.code, reason=reason)
