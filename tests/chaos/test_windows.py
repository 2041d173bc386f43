"""What a token cannot answer for: windows that overflow, servers that restart, tables and shards that change in doubt.

The job runs in this process's Spark session; its crash is a failpoint that raises, or a server that gives no answer.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from chsink.errors import ChsinkError, HaltError, UnavailableError
from tests.chaos.world import TINY_WINDOW, World, overflow
from tests.integration.job.faults import Failpoints
from tests.support.job import Job, command, eventually
from tests.support.proxies import HttpFault, TcpFault

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHORT = {"clickhouse.insert_timeout_s": 4, "clickhouse.connect_timeout_s": 3}


def stops(error: type[ChsinkError], id: str, run: Callable[[], None]) -> ChsinkError:
    """The job stops with this error."""
    with pytest.raises(error, match=id) as caught:
        run()
    return caught.value


def half_landed(world: World, job: Job, spark: SparkSession, gate: int = 0) -> None:
    """Partition 0 lands; every insert of partition 1 is refused until the job gives up: both are in doubt."""
    job.send(0, 25)
    job.send(1, 15)
    refused = world.fault(HttpFault.STATUS_503, f":{job.topic}:1:", gate=gate, times=10_000)
    stops(UnavailableError, "CHS-704", lambda: job.drain(spark, {"clickhouse.retry_for_s": 1}))
    world.heal()
    world.tally.fired("insert: refused until the job gives up", refused())
    assert refused() > 1
    assert job.in_doubt() == {0, 1}


def test_window_overflowed_by_count_is_probed(world: World, tmp_path: Path, spark: SparkSession) -> None:
    job = world.job(tmp_path, engine=TINY_WINDOW, settings=SHORT)
    half_landed(world, job, spark)
    overflow(world, job)
    before = world.gates[0].sent(job.topic)
    job.drain(spark)
    later = world.gates[0].sent(job.topic) - before
    assert any(f":{job.topic}:1:" in token for token in later)
    again = [token for token in later if f":{job.topic}:0:" in token and token in before]
    assert not again, "what landed is not sent again; the last round of partition 0 was not sent before"
    world.judge(job)


def test_window_overflowed_and_no_columns_to_probe(world: World, tmp_path: Path, spark: SparkSession) -> None:
    job = world.job(tmp_path, engine=TINY_WINDOW, settings=SHORT, metadata="")
    half_landed(world, job, spark)
    overflow(world, job)
    rows, sent = world.rows(job), world.gates[0].sent(job.topic)
    assert stops(HaltError, "CHS-317", lambda: job.drain(spark)).exit_code == 3
    assert (world.rows(job), world.gates[0].sent(job.topic)) == (rows, sent), "never a blind re-insert"


def test_server_is_killed_during_an_insert(world: World, tmp_path: Path, spark: SparkSession) -> None:
    """SIGKILL of ClickHouse with inserts applied and unanswered: its token log may not hold what its parts hold."""
    job = world.job(tmp_path, settings={**SHORT, "clickhouse.retry_for_s": 30}, shard=1)
    job.send(0, 25)
    job.send(1, 15)
    applied = world.fault(HttpFault.DROP_ANSWER, f":{job.topic}:0:", gate=1, times=10_000)
    lost = world.fault(HttpFault.DROP_REQUEST, f":{job.topic}:1:", gate=1, times=10_000)
    server = world.servers[1]

    def blow() -> None:
        # the second try of an insert: the server has applied the first
        eventually("insert applied", lambda: applied() > 1 and lost() > 0)
        server.kill()
        server.start()

    killer = threading.Thread(target=blow)
    killer.start()
    stops(UnavailableError, "CHS-70", lambda: job.drain(spark))
    killer.join()
    world.heal()
    world.tally.killed("ClickHouse during an insert")
    world.tally.fired("insert: applied, answer lost, server killed", applied())
    assert job.in_doubt() == {0, 1}
    before = world.gates[1].sent(job.topic)
    job.drain(spark)
    again = world.gates[1].sent(job.topic) - before
    assert f":{job.topic}:0:0-25:0:" not in " ".join(again), "what is there is found, not sent"
    world.judge(job)


def test_shard_list_changes_in_doubt(world: World, tmp_path: Path, spark: SparkSession) -> None:
    """What was announced for one shard is not cut anew for two: it is settled by the recorded list, on the old shard."""
    job = world.job(tmp_path, shards=2)
    both = job.settings
    one = {"clickhouse.endpoints": f'[{{ url = "{world.gates[0].url}" }}]'}
    job.settings = {**both, **one}
    half_landed(world, job, spark)
    job.settings = both
    job.drain(spark)
    world.judge(job)
    assert not world.gates[1].sent(job.topic), "the announced range lies on the shard it was announced for"
    world.tally.fired("shard list changed in doubt")
    job.send(0, 30)
    job.drain(spark)
    assert world.gates[1].sent(job.topic), "the new shard is used"
    world.judge(job)


def test_table_is_altered_in_doubt(world: World, tmp_path: Path, spark: SparkSession, failpoints: Failpoints) -> None:
    job = world.job(tmp_path)
    in_doubt_at("driver.after_before", job, spark, failpoints)
    command(job.shards[0], f"ALTER TABLE {job.tables[job.topic]} ADD COLUMN more String FIRST")
    assert stops(HaltError, "CHS-309", lambda: job.drain(spark)).exit_code == 3
    assert world.rows(job) == 0
    command(job.shards[0], f"ALTER TABLE {job.tables[job.topic]} DROP COLUMN more")
    job.drain(spark)
    world.judge(job)
    world.tally.fired("table altered in doubt")


def in_doubt_at(step: str, job: Job, spark: SparkSession, failpoints: Failpoints) -> None:
    """Records in both partitions, and a job that fails at a step of their batch."""
    job.send(0, 25)
    job.send(1, 15)
    failpoints.arm(f"{step}=fail")
    stops(UnavailableError, "CHS-708", lambda: job.drain(spark))
    failpoints.assert_fired(step)
    failpoints.disarm()
    assert job.in_doubt() == {0, 1}


def test_dependent_view_throws(world: World, tmp_path: Path, spark: SparkSession) -> None:
    """The source's rows stay although the insert is refused; the retry does not double them, nor the view's."""
    job = world.job(tmp_path)
    table = job.tables[job.topic]
    columns, how = "id UInt64, _kafka_offset UInt64", "ORDER BY id SETTINGS non_replicated_deduplication_window = 1000"
    command(job.shards[0], f"CREATE TABLE {table}_copy ({columns}) ENGINE = MergeTree {how}")
    view = f"CREATE MATERIALIZED VIEW {table}_view TO {table}_copy AS SELECT id, _kafka_offset FROM {table}"
    command(job.shards[0], f"{view} WHERE NOT throwIf(id = 12)")
    job.send(0, 25)
    before = world.errors("FUNCTION_THROW_IF_VALUE_IS_NON_ZERO")
    stops(HaltError, "CHS-315", lambda: job.drain(spark))
    world.tally.fired("dependent view throws", world.errors("FUNCTION_THROW_IF_VALUE_IS_NON_ZERO") - before)
    assert job.in_doubt() == {0}
    command(job.shards[0], f"DROP VIEW {table}_view")
    job.drain(spark)
    world.judge(job)


def test_memory_limit_is_waited_for_but_not_for_ever(world: World, tmp_path: Path, spark: SparkSession) -> None:
    job = world.job(tmp_path)
    job.send(0, 25)
    before = world.errors("MEMORY_LIMIT_EXCEEDED")
    limits = {"clickhouse.settings.max_memory_usage": 1000, "clickhouse.settings.max_untracked_memory": 0}
    stops(UnavailableError, "CHS-704", lambda: job.drain(spark, {**limits, "clickhouse.retry_for_s": 2}))
    world.tally.fired("server: MEMORY_LIMIT_EXCEEDED", world.errors("MEMORY_LIMIT_EXCEEDED") - before)
    assert max(world.gates[0].sent(job.topic).values()) > 1, "it was tried again"
    job.drain(spark)
    world.judge(job)


def test_store_is_unreachable(world: World, tmp_path: Path, spark: SparkSession) -> None:
    """Cut off from the Keeper for longer than the bound: the job stops in time, and nothing is inserted."""
    job = world.job(tmp_path)
    job.send(0, 25)
    job.drain(spark)
    sent = world.gates[0].sent(job.topic)
    job.send(0, 5)
    before = world.keeper.fired[TcpFault.PARTITION]
    world.keeper.partition()
    stopped = stops(UnavailableError, "CHS-701", lambda: job.drain(spark, {"state.timeout_s": 3}))
    assert stopped.exit_code == 5
    world.heal()
    world.tally.fired("store: unreachable", world.keeper.fired[TcpFault.PARTITION] - before)
    assert world.gates[0].sent(job.topic) == sent
    eventually("the store", lambda: _answers(job))
    job.drain(spark)
    world.judge(job)


def test_store_takes_no_write(world: World, tmp_path: Path, spark: SparkSession) -> None:
    """Reads are answered, no BEFORE is taken: no insert without BEFORE."""
    job = world.job(tmp_path)
    job.send(0, 25)
    refused = world.fault(HttpFault.STATUS_503, '"phase":"BEFORE"', times=10_000)
    stops(UnavailableError, "CHS-701", lambda: job.drain(spark, {"state.timeout_s": 2}))
    world.heal()
    world.tally.fired("store: takes no write", refused())
    assert not world.gates[0].sent(job.topic)
    job.drain(spark)
    world.judge(job)


def _answers(job: Job) -> bool:
    try:
        job.status()
    except ChsinkError:
        return False
    return True
