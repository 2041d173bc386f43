"""What a server's answer is worth: of a write, nothing before it is read back."""

from __future__ import annotations

from typing import Any

import pytest

from chsink.errors import PreflightError
from chsink.notation.sql import TableName
from chsink.ports import ServerRefused, StoredRow, Swap, Unanswered
from chsink.state.keepermap import KeeperMapStore


class Refusing:
    """A server that answers every statement with one error."""

    url = "http://server:8123"

    def __init__(self, code: int) -> None:
        self.refusal = ServerRefused(code, f"Code: {code}. DB::Exception: the server's words. (NAME) (version 25.8)")

    def query(self, *_: Any) -> list[tuple[Any, ...]]:
        raise self.refusal

    command = insert = query


@pytest.mark.parametrize("create", [True, False])
@pytest.mark.parametrize(
    ("code", "id", "fix"),
    [
        (516, "CHS-232", "clickhouse.user and clickhouse.password"),
        (192, "CHS-232", "clickhouse.user and clickhouse.password"),
        (193, "CHS-232", "clickhouse.user and clickhouse.password"),
        (194, "CHS-232", "clickhouse.user and clickhouse.password"),
        (81, "CHS-220", "CREATE DATABASE `d`"),
        (60, "CHS-220", "state.create_table = true"),
        (497, "CHS-220", "sql/3_state_grants.sql"),
        (36, "CHS-220", "<keeper_map_path_prefix>"),
    ],
)
def test_what_keeps_the_state_table_from_use_is_told_apart(code: int, id: str, fix: str, create: bool) -> None:
    refused = code if code != 36 else 60  # a server without a Keeper refuses to make the table
    client = Refusing(refused)
    if code == 36:
        client.command = Refusing(36).query  # type: ignore[method-assign]
        create = True
    store = KeeperMapStore(client, TableName("d", "state"), path="/p", create=create)  # type: ignore[arg-type]

    with pytest.raises(PreflightError, match="the server's words") as raised:
        store.prepare()

    assert raised.value.id == id
    assert fix in raised.value.hint


class Answering:
    """A server that answers a write with ``error`` (None: done), and then holds ``stored``."""

    url = "http://server:8123"

    def __init__(self, error: Exception | None, stored: dict[str, str]) -> None:
        self.error, self.stored = error, stored

    def query(self, *_: Any) -> list[tuple[Any, ...]]:
        return list(self.stored.items())

    def command(self, *_: Any) -> None:
        if self.error is not None:
            raise self.error


@pytest.mark.parametrize(
    ("error", "stored", "applied"),
    [
        (None, {"s/t": "new"}, True),
        (None, {"s/t": "old"}, False),
        (None, {}, False),
        (ServerRefused(395, "fenced"), {"s/t": "other"}, False),
        (ServerRefused(999, "Transaction failed (Bad version): Op #0"), {"s/t": "new"}, True),
        (ServerRefused(999, "Coordination error: Connection loss"), {"s/t": "new"}, True),
        (ServerRefused(None, "HTTP status 503"), {"s/t": "old"}, False),
        (Unanswered("reset"), {"s/t": "new"}, True),
        (Unanswered("reset"), {"s/t": "old"}, False),
    ],
)
def test_a_write_is_applied_when_it_reads_back_whatever_the_server_said(
    error: Exception | None, stored: dict[str, str], applied: bool
) -> None:
    """⚑ a statement that changes no row reports success; one that was sent twice reports a conflict."""
    store = KeeperMapStore(Answering(error, stored), TableName("d", "state"), path="/p")  # type: ignore[arg-type]
    assert store.swap([Swap("old", StoredRow("s/t", "new", "{}"))]) is applied


def test_a_write_without_the_right_to_it_is_no_silence() -> None:
    """It would be tried again until the time is up, and reported as a store that does not respond."""
    said = (
        "job: Not enough privileges. To execute this query, it's necessary to have the grant ALTER UPDATE(body) ON d.s."
    )
    refused = ServerRefused(497, f"DB::Exception: {said} (ACCESS_DENIED) (version 26.9)")
    store = KeeperMapStore(Answering(refused, {}), TableName("d", "s"), path="/p")  # type: ignore[arg-type]
    with pytest.raises(PreflightError, match=r"CHS-220(?s:.*)run GRANT ALTER UPDATE\(body\) ON d.s TO `job`"):
        store.swap([Swap("old", StoredRow("s/t", "new", "{}"))])


def test_a_write_that_cannot_be_read_back_is_not_known_to_be_applied() -> None:
    store = KeeperMapStore(Refusing(159), TableName("d", "state"), path="/p")  # type: ignore[arg-type]
    assert not store.create([StoredRow("s/t", "new", "{}")])
