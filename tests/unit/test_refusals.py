"""A query that a server refused is never reported as one without an answer."""

from __future__ import annotations

import pytest

from chsink.errors import ChsinkError, PreflightError, UnavailableError
from chsink.findings import grant_of
from chsink.ports import ServerRefused, Unanswered
from chsink.refusals import asking_target

HEAD = "Received ClickHouse exception, code: 497, server response: Code: 497. DB::Exception: "
DENIED = "job user: Not enough privileges. To execute this query, it's necessary to have the grant "
TAIL = " (ACCESS_DENIED) (version 26.9.2.1) (for url http://a)"


def asked(raised: Exception) -> ChsinkError:
    with pytest.raises(ChsinkError) as caught, asking_target():
        raise raised
    return caught.value


@pytest.mark.parametrize(
    ("needed", "grant"),
    [
        ("SELECT ON system.parts.", "SELECT ON system.parts"),
        ("SELECT(a, `b.c`) ON d.`t-1`.", "SELECT(a, `b.c`) ON d.`t-1`"),
        ("SELECT(a, b) ON d.t. (Missing permissions: SELECT(b) ON d.t).", "SELECT(b) ON d.t"),
        ("TABLE ENGINE ON KeeperMap.", "TABLE ENGINE ON KeeperMap"),
        ("CLUSTER ON *.*.", "CLUSTER ON *.*"),
    ],
)
def test_the_grant_is_taken_from_the_servers_sentence(needed: str, grant: str) -> None:
    assert grant_of(ServerRefused(497, f"{HEAD}{DENIED}{needed}{TAIL}")) == f"GRANT {grant} TO `job user`"


def test_a_sentence_that_names_no_grant() -> None:
    refused = ServerRefused(497, f"{HEAD}job: Not enough privileges.{TAIL}")
    assert grant_of(refused) == "the GRANT statement for what the message names"


@pytest.mark.parametrize(
    ("code", "message", "id", "family", "said"),
    [
        (
            497,
            f"{HEAD}{DENIED}SELECT ON d.t.{TAIL}",
            "CHS-216",
            PreflightError,
            "run GRANT SELECT ON d.t TO `job user`",
        ),
        (516, "wrong password", "CHS-232", PreflightError, "wrong password"),
        (158, "Limit for rows exceeded", "CHS-243", PreflightError, "because of a limit (code 158): Limit for rows"),
        (277, "Index is not used", "CHS-243", PreflightError, "raise the limit"),
        (60, "Unknown table", "CHS-243", PreflightError, "refused a query (code 60): Unknown table"),
        (241, "Memory limit exceeded", "CHS-709", UnavailableError, "with an error (code 241): Memory limit exceeded"),
        (49, "Logical error", "CHS-709", UnavailableError, "remove its cause on the server"),
        (None, "HTTP status 503", "CHS-709", UnavailableError, "HTTP status 503"),
    ],
)
def test_a_refusal_says_what_the_server_said(
    code: int | None, message: str, id: str, family: type[ChsinkError], said: str
) -> None:
    """⚑ Only what a new start may help has exit code 5; and no answer is something else."""
    error = asked(ServerRefused(code, message, "http://a"))
    assert (error.id, type(error)) == (id, family)
    assert said in str(error) and "http://a" in error.message and "did not answer" not in str(error)


def test_no_answer() -> None:
    error = asked(Unanswered("http://a: reset"))
    assert (error.id, error.exit_code) == ("CHS-709", 5)
    assert "did not answer" in error.message
