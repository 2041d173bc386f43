"""Whatever a profile hides from a SELECT, each read of a table that decides something finds all rows, or fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack

import numpy as np
import pytest

from chsink.clickhouse.checks.emptied import _is_empty
from chsink.clickhouse.client import WHOLE, ClickHouseClient, Connection
from chsink.clickhouse.probe import count_rows, rows_by_offset, words_there
from chsink.clickhouse.shards import ShardTable
from chsink.clickhouse.table import TargetTable, read_table
from chsink.clickhouse.unaccounted import rows_of
from chsink.clickhouse.writer import PINNED
from chsink.clock import SystemClock
from chsink.config.options import refused
from chsink.decode import Column
from chsink.dlq import digest
from chsink.dlq.letters import create_table
from chsink.dlq.table import LettersInTable
from chsink.dlq.where import Where
from chsink.embedded.base.ports import free_port
from chsink.embedded.clickhouse import EmbeddedClickHouse
from chsink.errors import PreflightError
from chsink.notation.sql import TableName
from chsink.ports import ServerRefused, StoreUnavailable
from chsink.recovery.landed import extent, present
from chsink.refusals import asking_target
from chsink.state.keepermap import KeeperMapStore
from chsink.statemachine.ranges import OffsetRange, TopicPartition
from chsink.statemachine.records import StateKey
from chsink.verify.digests import Digester, Place
from tests.support.profiles import users_of

TP, RANGE = TopicPartition("t", 0), OffsetRange(0, 400)
OFFSETS = "_kafka_topic String, _kafka_partition UInt32, _kafka_offset UInt64"
HIDING: Mapping[str, Mapping[str, object]] = {
    "table_filter": {"additional_table_filters": "{'d.t': '_kafka_offset = 1', 'd.letters': '0', 'd.state': '0'}"},
    "result_filter": {"additional_result_filter": "rowNumberInAllBlocks() = 0"},
    "final": {"final": 1},
    "deleted": {"apply_deleted_mask": 0},
    "patched": {"apply_patch_parts": 0},
    "limit": {"limit": 1},
    "read": {"max_rows_to_read": 10, "read_overflow_mode": "break"},
    "leaf": {"max_rows_to_read_leaf": 10, "read_overflow_mode_leaf": "break"},
    "groups": {"max_rows_to_group_by": 3, "group_by_overflow_mode": "any"},
    "result": {"max_result_rows": 3, "result_overflow_mode": "break"},
    "set": {"max_rows_in_set": 3, "set_overflow_mode": "break"},
    "distinct": {"max_rows_in_distinct": 3, "distinct_overflow_mode": "break"},
    "empty": {"empty_result_for_aggregation_by_empty_set": 1},
    "null": {"aggregate_functions_null_for_empty": 1},
    "names": {"prefer_column_name_to_alias": 1},
    "replicas": {
        "enable_parallel_replicas": 1,
        "max_parallel_replicas": 2,
        "parallel_replicas_mode": "sampling_key",
        "parallel_replicas_count": 2,
        "parallel_replica_offset": 1,
    },
    **{
        mode: {
            "enable_parallel_replicas": 1,
            "max_parallel_replicas": 2,
            "cluster_for_parallel_replicas": "two",
            "parallel_replicas_for_non_replicated_merge_tree": 1,
            "parallel_replicas_mode": mode,
            "parallel_replicas_custom_key": "rand()",
        }
        for mode in ("custom_key_range", "custom_key_sampling")
    },
}
FIXED = {"final": 1, "constraints": "<final><const/></final>"}
"""Profiles, and users of the same names."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URL of a server on which 400 rows of one topic landed, two of each sorting key, and two of which were deleted."""
    given = users_of({name: {**settings, "max_block_size": 10} for name, settings in HIDING.items()} | {"fixed": FIXED})
    path, port = tmp_path_factory.mktemp("hidden"), free_port()
    with EmbeddedClickHouse(path, users_xml=given, extra_xml=_two(port), native_port=port) as server:
        client = ClickHouseClient(Connection((server.url,)))
        for statement in (
            "CREATE DATABASE d",
            (
                f"CREATE TABLE d.t ({OFFSETS}, k UInt64, p String, word String) "
                "ENGINE = ReplacingMergeTree ORDER BY intHash32(k) SAMPLE BY intHash32(k) "
                "SETTINGS index_granularity = 64, enable_block_number_column = 1, enable_block_offset_column = 1"
            ),
            *(f"INSERT INTO d.t SELECT 't', 0, number + {at}, number, '', '' FROM numbers(200)" for at in (0, 200)),
            "DELETE FROM d.t WHERE _kafka_offset = 300",
            "DELETE FROM d.t WHERE _kafka_offset = 301 SETTINGS lightweight_delete_mode = 'lightweight_update_force'",
            create_table("d.letters"),
            (
                "INSERT INTO d.letters (sink, _kafka_topic, _kafka_offset, `table`) SELECT 's', 't', number, 'd.t' "
                "FROM numbers(20)"
            ),
            (
                "INSERT INTO d.letters (sink, _kafka_topic, _kafka_offset, `table`, headers) SELECT 's~replay', 't', "
                f"_kafka_offset, 'd.t', [('list', ''), ('digest', {digest.SQL})] FROM d.letters WHERE _kafka_offset > 9"
            ),
            "CREATE TABLE d.state (key String, attempt String, body String) ENGINE = MergeTree ORDER BY key",
            "INSERT INTO d.state SELECT 's/' || toString(number), '', '' FROM numbers(20)",
        ):
            client.command(statement)
        yield server.url
        client.close()


def _two(port: int) -> str:
    """A cluster of two replicas, which are the same server: what one is to read, the other one does not."""
    replica = f"<replica><host>127.0.0.1</host><port>{port}</port></replica>"
    return f"<remote_servers><two><shard>{2 * replica}</shard></two></remote_servers>"


def asked(client: ClickHouseClient, table: TargetTable) -> dict[str, Callable[[], object]]:
    """Each read that decides, by name."""
    clock = SystemClock()
    shard, letters, place = ShardTable(client, table), LettersInTable(client, "d.letters", "s"), Place(client, "d.t")
    digester, key = Digester((Column("k", "UInt64"),), clock, 0), StateKey("s", "t", 0, "d.t")
    store = KeeperMapStore(client, TableName("d", "state"), path="/")
    return {
        "check": lambda: list(rows_of(shard, "t", "1", clock)),
        "emptied": lambda: [_is_empty(shard, clock, topic) for topic in (None, "t", "other")],
        "extent": lambda: extent([(client, "d.t")], TP),
        "holes": lambda: np.flatnonzero(~present([(client, "d.t")], TP, RANGE)).tolist(),
        "counted": lambda: count_rows(client, "d.t", TP, RANGE),
        "by offset": lambda: rows_by_offset(client, "d.t", TP, RANGE),
        "words": lambda: words_there(client, "d.t", TP, RANGE),
        "digests": lambda: sorted(digester.of_table(place, TP, RANGE, [(0,)])[0].tolist()),
        "sums": lambda: int(digester.sums(place)[1]["rows"].sum()),
        "letters": lambda: letters.held(key),
        "listed": lambda: letters.listed(Where({}), 100),
        "open": lambda: letters.open_places(Where({}), None, 100),
        "reasons": lambda: letters.by_reason(100),
        "state": lambda: sorted(store.load("s")),
        "none": lambda: count_rows(client, "d.t", TP, OffsetRange(900, 901)),
    }


@pytest.fixture(scope="module")
def connect(server: str) -> Iterator[Callable[[str], ClickHouseClient]]:
    """Clients of that server, by user."""
    with ExitStack() as closing:

        def connected(user: str) -> ClickHouseClient:
            client = ClickHouseClient(Connection((server,), user))
            closing.callback(client.close)
            return client

        yield connected


@pytest.fixture(scope="module")
def table(connect: Callable[[str], ClickHouseClient]) -> TargetTable:
    return read_table(connect("default"), "d", "t")


@pytest.fixture(scope="module")
def truth(connect: Callable[[str], ClickHouseClient], table: TargetTable) -> dict[str, object]:
    found = {name: ask() for name, ask in asked(connect("default"), table).items()}
    assert (found["counted"], found["holes"], found["emptied"]) == (398, [300, 301], [False, False, True])
    return found


@pytest.mark.parametrize("user", HIDING)
def test_each_read_finds_every_row(
    connect: Callable[[str], ClickHouseClient], table: TargetTable, truth: Mapping[str, object], user: str
) -> None:
    """⚑ What the check before a start does not find lands a second time; so does what recovery does not find."""
    wrong = list[str]()
    for name, ask in asked(connect(user), table).items():
        try:
            found = ask()
        except (ServerRefused, PreflightError, StoreUnavailable) as error:
            found = str(error)
        if found != truth[name] and "imit" not in str(found):
            wrong.append(f"{name}: {found}")
    assert not wrong


def test_each_limit_of_the_engine_is_pinned(connect: Callable[[str], ClickHouseClient]) -> None:
    """⚑ A newer server may have one more setting by which an answer ends early."""
    known = connect("default").query("SELECT name FROM system.settings WHERE name LIKE '%overflow_mode%'")
    assert {name for (name,) in known} <= WHOLE.keys()


def test_a_job_file_may_not_set_what_is_pinned() -> None:
    assert [name for name in PINNED if not refused("clickhouse.settings", name)] == []


def test_a_profile_that_must_not_be_changed(connect: Callable[[str], ClickHouseClient]) -> None:
    with pytest.raises(PreflightError, match=r"CHS-243.* final is readonly"), asking_target():
        connect("fixed").query("SELECT 1")
