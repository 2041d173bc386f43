"""A replica that is asked first and lags: what it does not show may be there.

Its endpoint lists it with two others.  While it is out of reach, records land through the others (their quorum is two of
three), and it takes up none of them.  Then it is asked first again, by a new process: another replica that is current
answers in its place; and where only the lagging one can be asked, this is an error, never "no rows".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from chsink.embedded.stack import Stack
from chsink.errors import PreflightError, UnavailableError
from tests.integration.job.conftest import MakeJob, maker
from tests.integration.job.faults import Failpoints, crash_before_after
from tests.support.doubt import forget_state, run
from tests.support.job import Job, command, eventually, select
from tests.support.proxies import HttpProxy
from tests.support.replicas.service import ReplicaClickHouse

pytestmark = pytest.mark.slow
WAYS = ("FETCHES", "PULLING REPLICATION LOG")
"""What a replica may stop; tests of less have one of them."""
FORGETFUL = (
    "ENGINE = MergeTree ORDER BY tuple() SETTINGS non_replicated_deduplication_window = 8, cleanup_delay_period = 1, "
    "max_cleanup_delay_period = 1, cleanup_delay_period_random_add = 0"
)


@pytest.fixture
def gate(trio: Sequence[ReplicaClickHouse]) -> Iterator[HttpProxy]:
    """Before the first replica."""
    with HttpProxy(trio[0].url) as proxy:
        yield proxy


@pytest.fixture
def make_job(
    services: Stack, trio: Sequence[ReplicaClickHouse], gate: HttpProxy, tmp_path: Path, request: pytest.FixtureRequest
) -> MakeJob:
    """The first replica is reached through its gate."""
    others = [server.url for server in trio[1:]]
    return maker(services, tmp_path, request, lambda _: {"shards": [gate.url], "replicas": others})


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A replica that cannot catch up is not waited for as long as in production."""
    monkeypatch.setattr("chsink.clickhouse.replicas.CATCH_UP_S", 3)


class Lag:
    """The first replica of a job's table: since when it does not take up what others insert."""

    def __init__(self, job: Job, gate: HttpProxy, stopped: str) -> None:
        self.job, self.table = job, job.tables[job.topic]
        self._gate, self._stopped = gate, stopped

    def begin(self) -> None:
        """It is out of reach and takes up nothing."""
        command(self._gate.url, f"SYSTEM STOP {self._stopped} {self.table}")
        self._gate.leave()

    def asked(self) -> None:
        """It can be reached, and still takes up nothing."""
        self._gate.heal()
        there = [len(self.job.landed(servers=[url])) for url in (*self.job.shards, *self.job.replicas)]
        assert there[0] < there[1] == there[2], there

    def end(self) -> None:
        """It takes up everything."""
        command(self._gate.url, f"SYSTEM START {self._stopped} {self.table}")

    def alone(self) -> None:
        """The job file names no other replica, and the job demands a quorum of them all the same."""
        self.job.settings = {"clickhouse.settings.insert_quorum": "auto"}
        self.job.replicas = ()

    def is_named(self, text: str) -> None:
        """An error names the replica and the table."""
        said = text.replace("\n", " ")
        assert self._gate.url in said and self.table in said, text


@pytest.fixture
def engine() -> str:
    """Of the table; the default of :meth:`Job.make_table`."""
    return ""


@pytest.fixture(params=WAYS)
def lag(make_job: MakeJob, gate: HttpProxy, request: pytest.FixtureRequest, engine: str) -> Lag:
    """Of a new job."""
    return Lag(make_job(partitions=1, engine=engine), gate, request.param)


@pytest.fixture
def half(lag: Lag, spark: SparkSession) -> Lag:
    """30 records have landed on all replicas, and 30 wait."""
    lag.job.send(0, 30)
    lag.job.drain(spark)
    lag.job.check()
    lag.job.send(0, 30)
    lag.begin()
    return lag


def landed_elsewhere(lag: Lag, spark: SparkSession) -> Job:
    """What waits has landed, on the others; then state and checkpoint are lost."""
    lag.job.drain(spark)
    lag.asked()
    forget_state(lag.job)
    lag.job.lose_checkpoint()
    return lag.job


@pytest.mark.soak
@pytest.mark.parametrize("lag", WAYS[:1], indirect=True)
def test_a_start_without_state_does_not_land_records_twice(lag: Lag, spark: SparkSession) -> None:
    """⚑ They were there twice.  Their insert is the only entry of the replication log: it looks like an empty one."""
    lag.job.send(0, 10)
    lag.begin()
    job = landed_elsewhere(lag, spark)
    lost = r"CHS-229.*partition 0: 10 rows up to offset 9"
    with pytest.raises(PreflightError, match=lost):
        job.drain(spark)
    others = job.replicas
    lag.alone()
    with pytest.raises(UnavailableError) as behind:
        job.drain(spark)
    assert behind.value.exit_code == 5
    lag.is_named(str(behind.value))
    lag.end()
    job.replicas = others
    for servers in job.copies(job.topic):
        assert len(job.landed(servers=servers)) == 10


@pytest.mark.soak
@pytest.mark.parametrize("lag", WAYS[:1], indirect=True)
def test_recover_records_all_that_landed(half: Lag, spark: SparkSession) -> None:
    """⚑ [0, 30) of 60 was recorded, and the next run made 90 rows."""
    lag, job = half, landed_elsewhere(half, spark)
    others = job.replicas
    lag.alone()
    refused = run(job, "recover", "--senders-gone", "--yes")
    assert refused.exit_code == 5, refused.output
    lag.is_named(refused.output)
    assert not job.phases()
    job.replicas, job.settings = others, {}
    recovered = run(job, "recover", "--senders-gone", "--yes")
    assert recovered.exit_code == 0, recovered.output
    assert job.phases() == {0: ("AFTER", 0, 60)}
    job.send(0, 5)
    job.drain(spark)
    lag.end()
    job.check()


@pytest.mark.soak
@pytest.mark.parametrize("lag", WAYS[:1], indirect=True)
def test_resolve_counts_all_rows_of_a_range_in_doubt(half: Lag, spark: SparkSession, failpoints: Failpoints) -> None:
    """⚑ None of them would be deleted before the range is sent under new tokens."""
    lag, job = half, half.job
    crash_before_after(job, spark, failpoints)
    lag.asked()
    refused = run(job, "resolve", job.topic, "0", "--resend", "--senders-gone", "--yes")
    assert refused.exit_code == 2, refused.output
    said = refused.stderr.replace("\n", " ")
    assert "CHS-322" in said and "30 rows" in said, said
    assert job.phases() == {0: ("BEFORE", 30, 60)}
    lag.end()
    job.drain(spark)
    job.check()


@pytest.mark.soak
@pytest.mark.parametrize("lag", WAYS[1:], indirect=True)
def test_a_range_in_doubt_is_settled(half: Lag, spark: SparkSession, failpoints: Failpoints) -> None:
    """⚑ Its rows are not on the replica that is asked first: they were not deleted, and are not sent twice."""
    lag, job = half, half.job
    crash_before_after(job, spark, failpoints)
    lag.asked()
    job.drain(spark)
    lag.end()
    job.check()


@pytest.mark.soak
@pytest.mark.parametrize("lag", WAYS[:1], indirect=True)
@pytest.mark.parametrize("engine", [FORGETFUL])
def test_a_range_whose_tokens_are_forgotten_is_not_sent_again(
    lag: Lag, spark: SparkSession, failpoints: Failpoints, engine: str
) -> None:
    """⚑ It is looked for on a replica that does not have it, and the table would store it again."""
    job = lag.job
    job.settings = {"clickhouse.insert_timeout_s": 3, "clickhouse.connect_timeout_s": 2}
    job.send(0, 30)
    lag.begin()
    crash_before_after(job, spark, failpoints)
    forget_tokens(job)
    lag.asked()
    job.drain(spark)
    lag.end()
    job.check()


def forget_tokens(job: Job) -> None:
    """Other inserts come until the table has forgotten the tokens of the range in doubt."""
    table, other = job.tables[job.topic], job.replicas[0]

    def insert(token: str) -> int:
        row = f"INSERT INTO {table} SETTINGS insert_deduplication_token = '{token}' VALUES (1, 'x', 'other', 0, 0)"
        command(other, row)
        return int(select(other, f"SELECT count() FROM {table} WHERE _kafka_topic = 'other'"))

    insert("control")

    def forgotten() -> bool:
        before = [insert(f"{number}") for number in range(9)][-1]
        return insert("control") > before

    eventually("the tokens are forgotten", forgotten)
