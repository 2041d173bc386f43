"""The files of ``sql/``, run as an administrator would, and a user who was granted what they grant and nothing else."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from chsink.clickhouse.client import ClickHouseClient, Connection
from chsink.errors import PreflightError
from chsink.notation.sql import TableName
from chsink.ports import ServerRefused, StoredRow, Swap
from chsink.state import sql_files
from chsink.state.keepermap import KeeperMapStore
from chsink.statemachine import writes
from chsink.statemachine.codec import encode
from chsink.statemachine.owner import claim, encode_owner
from chsink.statemachine.parts import Mark, Seen, Sending
from chsink.statemachine.ranges import OffsetRange
from chsink.statemachine.records import StateKey

if TYPE_CHECKING:
    from chsink.embedded.zookeeper import EmbeddedZooKeeper

TABLE = "chsink_state"
NAMES = {"database": "default", "table": TABLE, "path": f"/sql-test/{uuid.uuid4().hex}", "user": "job"}
KEY = StateKey("flights", "raw.flights", 7, "analytics.flights")


@dataclass(frozen=True, slots=True)
class Servers:
    admin: ClickHouseClient
    job: ClickHouseClient
    guest: ClickHouseClient


def grants(kept: int) -> tuple[str, ...]:
    return tuple(s.removesuffix(" TO job") for s in sql_files.statements(sql_files.GRANTS, NAMES)[:kept])


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory, zookeeper: EmbeddedZooKeeper) -> Iterator[Servers]:
    from chsink.embedded.clickhouse import EmbeddedClickHouse
    from chsink.embedded.clickhouse.users import ClickHouseUser

    users = (
        ClickHouseUser("default"),
        ClickHouseUser("job", "secret", grants(2)),
        ClickHouseUser("guest", "", (f"GRANT SELECT ON default.{TABLE}",)),
    )
    folder: Path = tmp_path_factory.mktemp("sql")
    with EmbeddedClickHouse(folder, zookeeper=zookeeper.hosts, users=users) as server:
        made = Servers(
            ClickHouseClient(Connection((server.url,))),
            ClickHouseClient(Connection((server.url,), user="job", password="secret")),
            ClickHouseClient(Connection((server.url,), user="guest")),
        )
        for name in (sql_files.TABLE, sql_files.VIEWS) * 2:
            for statement in sql_files.statements(name, NAMES):
                made.admin.command(statement)
        yield made
        for client in (made.admin, made.job, made.guest):
            client.close()


def store(client: ClickHouseClient) -> KeeperMapStore:
    return KeeperMapStore(client, TableName("default", TABLE), path=NAMES["path"])


def record_row() -> StoredRow:
    said = writes.Announcement(
        "topic-id", Sending(100_000, "layout", "pipeline"), Seen(1_763_700_000_123, (Mark(3, 60), Mark(0, 1)))
    )
    record = writes.before(writes.empty(1, "a0"), OffsetRange(10, 42), said, epoch=2, attempt="a1", fresh=True)
    return StoredRow(str(KEY), "a1", encode(record))


def test_a_user_with_the_grants_can_keep_state(servers: Servers) -> None:
    mine = store(servers.job)
    mine.prepare()
    old = [StoredRow(f"least/topic/{i}/t", "a1", "{}") for i in range(3)]
    assert mine.create(old)
    assert mine.swap([Swap("a1", StoredRow(r.key, "a2", "{}")) for r in old])
    mine.catch_up(old[0])
    assert {r.attempt for r in mine.load("least").values()} == {"a2"}
    with pytest.raises(ServerRefused, match="privileges"):
        servers.job.command(f"ALTER TABLE {mine.table} DELETE WHERE key = 'least/topic/0/t'")


def test_a_user_without_the_grants_is_refused(servers: Servers) -> None:
    old = [StoredRow("guest", "a1", "{}")]
    assert store(servers.admin).create(old)
    theirs = store(servers.guest)
    assert theirs.load("guest") == {"guest": old[0]}
    with pytest.raises(PreflightError, match="run GRANT INSERT"):
        theirs.create([StoredRow("guest/t/0/x", "a1", "{}")])
    with pytest.raises(PreflightError, match=r"(?s)cannot write to .*run GRANT INSERT"):
        theirs.catch_up(old[0])
    with pytest.raises(PreflightError, match="run GRANT ALTER UPDATE"):
        theirs.swap([Swap("a1", StoredRow("guest", "a2", "{}"))])
    assert store(servers.admin).load("guest") == {"guest": old[0]}
    with pytest.raises(ServerRefused, match="privileges"):
        servers.guest.command("CREATE TABLE default.x (a UInt8) ENGINE = Memory")


def test_the_views_show_ranges_and_owners(servers: Servers) -> None:
    owner = claim(None, sink="flights", attempt="o1", driver="host:42", now_ms=1_763_700_000_123)
    mine = store(servers.job)
    assert mine.create([record_row(), StoredRow("flights", "o1", encode_owner(owner))])
    when = "2025-11-21 04:40:00.123"
    assert servers.admin.query(
        "SELECT topic, partition, target, phase, range_start, range_end, first_offset, gaps, toString(before_at_utc), "
        "epoch, topic_id, chunk_offsets, layout, pipeline, marks, attempt "
        f"FROM {TABLE}_ranges WHERE sink = 'flights'"
    ) == [
        (
            *("raw.flights", 7, "analytics.flights", "BEFORE", 10, 42, 10, [], when),
            *(2, "topic-id", 100_000, "layout", "pipeline", [(3, 60), (0, 1)], "a1"),
        )
    ]
    assert servers.admin.query(
        f"SELECT epoch, driver, toString(claimed_at_utc), layouts, attempt FROM {TABLE}_owners WHERE sink = 'flights'"
    ) == [(1, "host:42", when, "{}", "o1")]


def test_the_checks_pass_for_the_job(servers: Servers) -> None:
    checks = [
        row for statement in sql_files.statements(sql_files.CHECKS, NAMES) for row in servers.job.query(statement)
    ]
    assert len(checks) == 14
    assert [name for name, ok in checks if ok != 1] == []


def test_the_checks_see_a_wrong_table(servers: Servers) -> None:
    servers.admin.command("CREATE TABLE default.wrong (key String, attempt String, body String) ENGINE = Memory")
    servers.admin.command("INSERT INTO default.wrong SELECT 'k', '', 'not json'")
    checks: dict[str, int] = dict(
        row
        for statement in sql_files.statements(sql_files.CHECKS, NAMES | {"table": "wrong"})
        for row in servers.admin.query(statement)
    )
    assert [name for name, ok in checks.items() if ok != 1] == [
        "the table is a KeeperMap of three columns",
        "every row is readable",
    ]


def test_a_missing_table_is_made_or_refused_by_name(servers: Servers) -> None:
    table = TableName("default", "made `by` \\ the job")
    path = f"/sql-test/{uuid.uuid4().hex}/it's"
    made = KeeperMapStore(servers.admin, table, path=path)
    with pytest.raises(PreflightError, match="sql/1_state_table"):
        KeeperMapStore(servers.admin, table, path=path, create=False).prepare()
    with pytest.raises(PreflightError, match="privileges"):
        KeeperMapStore(servers.job, table, path="/x").prepare()
    made.prepare()
    made.prepare()
    assert made.create([StoredRow("s", "a1", "{}")])


def test_a_path_of_another_definition_is_refused(servers: Servers) -> None:
    path = f"/sql-test/{uuid.uuid4().hex}"
    servers.admin.command(f"CREATE TABLE default.other (k String) ENGINE = KeeperMap('{path}') PRIMARY KEY k")
    with pytest.raises(PreflightError, match="definition"):
        KeeperMapStore(servers.admin, TableName("default", "same_path"), path=path).prepare()


def test_a_server_without_keeper_map_is_refused(tmp_path: Path) -> None:
    from chsink.embedded.clickhouse import EmbeddedClickHouse

    with EmbeddedClickHouse(tmp_path / "bare") as server:
        client = ClickHouseClient(Connection((server.url,)))
        with pytest.raises(PreflightError, match="keeper_map_path_prefix"):
            KeeperMapStore(client, TableName("default", TABLE), path="/x").prepare()
        client.close()
