"""What a server's answer to a write is worth, before anything is read back."""

from __future__ import annotations

import pytest

from chsink.ports import Outcome, ServerRefused, Unanswered, Unreachable
from chsink.state.keepermap import answer_of


def outcome(error: Exception | None) -> Outcome:
    def send() -> None:
        if error is not None:
            raise error

    return answer_of(send)


@pytest.mark.parametrize(
    "error",
    [
        ServerRefused(395, "fenced"),
        ServerRefused(60, "no such table"),
        ServerRefused(497, "not enough privileges"),
        ServerRefused(452, "setting may not be changed"),
        ServerRefused(999, "Transaction failed (Node exists): Op #0"),
        ServerRefused(999, "Transaction failed (Bad version): Op #3"),
        ServerRefused(999, "Transaction failed (No node): Op #3"),
    ],
)
def test_refused_means_that_no_transaction_was_made(error: ServerRefused) -> None:
    assert outcome(error) is Outcome.REFUSED


@pytest.mark.parametrize(
    "error",
    [
        ServerRefused(999, "Coordination error: Connection loss"),
        ServerRefused(999, "Session expired"),
        ServerRefused(159, "timeout exceeded"),
        ServerRefused(241, "memory limit"),
        ServerRefused(394, "query was cancelled"),
        ServerRefused(None, "HTTP status 503"),
        Unanswered("reset"),
        Unreachable("connection refused"),
    ],
)
def test_anything_else_is_unknown(error: Exception) -> None:
    assert outcome(error) is Outcome.UNKNOWN


def test_done_is_applied() -> None:
    assert outcome(None) is Outcome.APPLIED
