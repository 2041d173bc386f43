"""A replica of two is gone for good, and a person does what CHS-247, CHS-249 and then CHS-207 say.

What was in doubt has to be looked for, and was announced for both replicas.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Thread

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from chsink.cli.main import app
from chsink.driver.ledger import Ledger, read_records
from chsink.embedded.stack import Stack
from chsink.embedded.zookeeper import EmbeddedZooKeeper
from chsink.errors import PreflightError
from chsink.statemachine.records import StateRecord
from chsink.statemachine.tokens import piece_token
from tests.integration.exits.commands import settings_of
from tests.integration.job.conftest import MakeJob, maker
from tests.integration.job.test_replay import Kept, make_kept, rows_of
from tests.replicated.conftest import started
from tests.support.doubt import announce, edit, insert, quietly_connected, run
from tests.support.job import Job, command, connect, eventually, select
from tests.support.proxies import HttpProxy
from tests.support.replicas.service import ReplicaClickHouse
from tests.support.told import setting_of

ALONE = {
    "clickhouse.connect_timeout_s": 2,
    "clickhouse.insert_timeout_s": 3,
    "clickhouse.settings.insert_quorum": "auto",
}
__all__ = ["make_kept"]
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def duo(
    tmp_path_factory: pytest.TempPathFactory, zookeeper: EmbeddedZooKeeper
) -> Iterator[Sequence[ReplicaClickHouse]]:
    """Replicas of their own: one goes away."""
    yield from started(tmp_path_factory.mktemp("duo"), zookeeper, 2)


@pytest.fixture
def gate(duo: Sequence[ReplicaClickHouse]) -> Iterator[HttpProxy]:
    with HttpProxy(duo[1].url) as proxy:
        yield proxy


@pytest.fixture
def make_job(
    services: Stack,
    duo: Sequence[ReplicaClickHouse],
    gate: HttpProxy,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> MakeJob:
    return maker(services, tmp_path, request, lambda _: {"shards": [duo[0].url], "replicas": [gate.url]})


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chsink.clickhouse.replicas.CATCH_UP_S", 6)
    monkeypatch.setattr("chsink.clickhouse.window.OUTLAST_S", 3)


def gone(job: Job, gate: HttpProxy, duo: Sequence[ReplicaClickHouse], *tables: str) -> None:
    """The second replica, from the Keeper and from the job file."""
    for table in tables:
        for server in duo:
            command(server.url, f"SYSTEM SYNC REPLICA {table}")
        command(duo[1].url, f"DETACH TABLE {table}")
    gate.leave()
    for table in tables:
        eventually("a replica that is dropped", lambda: _dropped(duo[0].url, table))  # noqa: B023 - called at once
    job.replicas = []
    job.settings = {**job.settings, **ALONE}


def _dropped(url: str, table: str) -> bool:
    """The Keeper takes a while to notice that a replica is away."""
    try:
        command(url, f"SYSTEM DROP REPLICA '1' FROM TABLE {table}")
    except AssertionError:
        return False
    return True


@pytest.mark.exit_of("QUORUM_TOO_LARGE")
def test_a_range_in_doubt(
    make_job: MakeJob, gate: HttpProxy, duo: Sequence[ReplicaClickHouse], spark: SparkSession
) -> None:
    """⚑ It waited for the replica for ever, and could only be given up.  ClickHouse confirms no insert by a quorum of one."""
    job = make_job(partitions=1)
    job.send(0, 20)
    insert(job, 0, range(10))
    announce(job, {0: (10, 20)})
    edit(job, doubt={"probe": True})
    gone(job, gate, duo, job.tables[job.topic])
    with pytest.raises(PreflightError, match=r"CHS-207.* has 1 replica and insert_quorum is auto") as refused:
        job.drain(spark)
    [quorum] = setting_of(refused.value, "insert_quorum").values()
    job.settings = {**job.settings, "clickhouse.settings.insert_quorum": quorum}
    job.drain(spark)
    job.check()


@pytest.mark.soak
def test_its_shard_is_renamed_in_the_same_edit(
    make_job: MakeJob, gate: HttpProxy, duo: Sequence[ReplicaClickHouse], spark: SparkSession
) -> None:
    """⚑ Found by an adversary: it was asked for under the old name, and no message said that this was why."""
    job = make_job(partitions=1)
    job.settings = {"clickhouse.endpoints": [{"url": duo[0].url, "name": "a", "replicas": [gate.url]}]}
    job.send(0, 20)
    insert(job, 0, range(10))
    announce(job, {0: (10, 20)})
    edit(job, doubt={"probe": True})
    gone(job, gate, duo, job.tables[job.topic])
    alone = {"clickhouse.endpoints": [{"url": duo[0].url, "name": "b"}], "clickhouse.settings.insert_quorum": 1}
    job.settings = {**job.settings, **alone}
    job.drain(spark)
    job.check()


@pytest.mark.soak
@pytest.mark.parametrize("verdict", [[], ["--resend"]])
def test_a_replay_in_doubt(
    make_kept: Callable[..., Kept],
    monkeypatch: pytest.MonkeyPatch,
    gate: HttpProxy,
    duo: Sequence[ReplicaClickHouse],
    verdict: list[str],
) -> None:
    """⚑ Each verdict but the one that loses its records asked the replica that is gone."""
    kept = make_kept()
    job = kept.job
    kept.widen()
    kept.crash(monkeypatch, "driver.after_before", "partition=0")
    with quietly_connected(job) as opened:
        ledger = Ledger(opened.store, f"{job.name}~replay", "a test", opened.clock, lambda: uuid.uuid4().hex)
        ledger.claim([], opened.clickhouse.layouts)
        attempt = ledger.attempt()

        def probed(record: StateRecord) -> StateRecord:
            return replace(record, epoch=ledger.epoch, attempt=attempt, doubt=replace(record.doubt, probe=True))

        ledger.write({key: probed(record) for key, record in ledger.records.items() if record.in_doubt})
    gone(job, gate, duo, kept.target, kept.table)
    job.settings = {**job.settings, "clickhouse.settings.insert_quorum": 1}
    sets = [word for name, value in job.settings.items() for word in ("--set", f"{name}={value}")]
    seen = CliRunner().invoke(app, ["status", "-c", str(job.file()), *sets])
    assert f"a replay of 6 dead letters of {job.topic}-0 into {kept.target} is in doubt" in seen.output
    done = CliRunner().invoke(app, [*kept.arguments("replay", *verdict, "--yes"), *sets])
    assert done.exit_code == 0, done.output
    assert ("stop this command, and run it with that value" in done.stderr) == bool(verdict)
    assert kept.job.verdict(rows_of=rows_of, servers=[duo[0].url]).exactly_once
    assert select(duo[0].url, f"SELECT count() FROM {kept.target} WHERE id >= 1000").strip() == "12"


@pytest.mark.soak
def test_one_that_was_removed_and_still_inserts(
    make_job: MakeJob, gate: HttpProxy, duo: Sequence[ReplicaClickHouse], spark: SparkSession
) -> None:
    """⚑ Found by an adversary: chsink cannot reach it, it has its Keeper, and its rows came after those of --resend."""
    job = make_job(partitions=1)
    job.send(0, 20)
    insert(job, 0, range(10))
    announce(job, {0: (10, 20)})
    with quietly_connected(job) as opened:
        [(key, record)] = read_records(opened.store, job.name).items()
    rows = f"SELECT number, concat('0:', toString(number)), '{job.topic}', 0, number FROM numbers(10, 10)"
    settings = {
        "insert_deduplication_token": piece_token(key, record, 0, 0),
        "max_block_size": 1000,
        "max_insert_threads": 1,
        "function_sleep_max_microseconds_per_block": 100_000_000,
    }
    said = f"INSERT INTO {job.tables[job.topic]} {rows} WHERE NOT ignore(sleepEachRow(1))"
    slow = Thread(target=lambda: connect(duo[1].url).command(said, settings=settings))
    slow.start()
    gate.leave()
    job.replicas = []
    job.settings = {**job.settings, **ALONE, "clickhouse.insert_timeout_s": 15}
    done = run(job, "resolve", job.topic, "0", "--resend", "--senders-gone", "--yes", *settings_of(job))
    assert done.exit_code in {0, 2} and "stop this command, and run it with that value" in done.stderr
    slow.join()
    there = select(duo[0].url, f"SELECT count() FROM {job.tables[job.topic]}")
    assert there.strip() == "20", "it has ended before anything was decided"
