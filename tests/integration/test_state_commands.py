"""``chsink state``: a person decides, and the real job goes on from there with every record once."""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession
from typer.testing import CliRunner, Result

from chsink.cli.main import app
from chsink.clickhouse.landing import assemble
from chsink.driver.ledger import Ledger, read_records
from chsink.embedded.base.ports import free_port
from chsink.embedded.stack import Stack
from chsink.embedded.topics import delete_records
from chsink.errors import FencedError, HaltError, PreflightError, UnavailableError
from chsink.formats.pipeline import Untouched
from chsink.observe.metrics import Metrics
from chsink.observe.observer import JobObserver
from chsink.sharding import Layout, Shard
from chsink.state.keepermap import KeeperMapStore
from chsink.statemachine.ranges import TopicPartition
from chsink.statemachine.tokens import token_head
from tests.integration.exits.commands import follow
from tests.integration.job.conftest import MakeJob, failpoints, make_job, services  # noqa: F401 - fixtures
from tests.integration.job.faults import Failpoints, crash_before_after
from tests.support.doubt import announce, edit, forget_state, insert, quietly_connected, run
from tests.support.job import DATABASE, Job, command, eventually
from tests.support.told import option_of, says, setting_of, statements_of

pytestmark = pytest.mark.slow

DOCS = Path(__file__).parents[2] / "docs"


def shown(job: Job, partition: int = 0) -> dict[str, Any]:
    """The record of a partition, by ``state show --json``."""
    result = run(job, "show", "--json")
    assert result.exit_code == 0, result.output
    records: Sequence[dict[str, Any]] = json.loads(result.stdout)["records"]
    return next(r for r in records if r["partition"] == partition)


def rows(job: Job) -> int:
    """Rows of the first topic on all shards."""
    return len(job.landed())


@pytest.fixture
def doubtful(make_job: MakeJob) -> Job:  # noqa: F811
    """A sink that landed [0, 10), announced [10, 25) and crashed before an insert."""
    job = make_job(partitions=1)
    job.send(0, 25)
    insert(job, 0, range(10))
    announce(job, {0: (10, 25)})
    assert job.phases() == {0: ("BEFORE", 10, 25)}
    return job


# --- show ------------------------------------------------------------------------------------------------------------


def test_show(doubtful: Job) -> None:
    record = shown(doubtful)

    assert (record["phase"], record["start"], record["end"], record["first"]) == ("BEFORE", 10, 25, 0)
    assert record["tokens"] == "remembered"
    assert record["window"] == [[10_000, None]]
    assert " ".join(record) == (
        "topic partition table phase first start end gaps age_s tokens window before_at marks topic_id incarnation "
        "chunk_offsets layout pipeline epoch attempt"
    )
    lines = run(doubtful, "show").stdout
    assert f"sink {doubtful.name} in keepermap: owned by " in lines
    assert re.search(rf"{doubtful.topic} +0 +job\.\w+ +BEFORE +0 +10 +25", lines)
    assert re.search(r"^layout [0-9a-f]{16}: ", lines, re.MULTILINE)


def test_show_of_a_sink_that_never_ran(make_job: MakeJob) -> None:  # noqa: F811
    assert "has not run yet" in run(make_job(partitions=1), "show").stdout


def test_show_names_what_becomes_of_a_null_key_as_the_job_file_does(make_job: MakeJob) -> None:  # noqa: F811
    job = make_job(partitions=1, shards=2, shard_key=("id",))
    move_to(job, None)

    assert '"null_shard_key":"halt"' in run(job, "show").stdout


# --- status ----------------------------------------------------------------------------------------------------------


def status(job: Job, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["status", "-c", str(job.file()), *arguments])


@pytest.mark.soak
def test_status_without_kafka_shows_what_is_recorded(doubtful: Job) -> None:
    away = ("--set", f"kafka.bootstrap=127.0.0.1:{free_port()}", "--set", "kafka.timeout_s=2")

    result = status(doubtful, "--json", *away)

    assert result.exit_code == 0, result.output
    assert len(result.stderr.splitlines()) == 1
    assert "warning: the lag is not known: Kafka at 127.0.0.1:" in result.stderr
    found = json.loads(result.stdout)
    assert (found["lag"], found["partitions"][0]["lag"], found["in_doubt"]) == (None, None, 1)
    assert re.search(r"BEFORE +10 +25 +\d+\.\d +- ", status(doubtful, *away).stdout)


@pytest.mark.soak
def test_status_of_a_topic_with_fewer_partitions(landed: Job, services: Stack) -> None:  # noqa: F811
    assert recover(landed).exit_code == 0
    services.kafka.delete_topic(landed.topic)
    services.kafka.create_topic(landed.topic, 1)

    result = status(landed, "--json")

    assert result.exit_code == 0, result.output
    assert [p["lag"] for p in json.loads(result.stdout)["partitions"]] == [0, None]


@pytest.mark.soak
def test_status_of_a_topic_that_was_deleted(landed: Job, services: Stack) -> None:  # noqa: F811
    assert recover(landed).exit_code == 0
    services.kafka.delete_topic(landed.topic)

    result = status(landed, "--json")

    assert result.exit_code == 0, result.output
    assert [(p["end"], p["lag"]) for p in json.loads(result.stdout)["partitions"]] == [(LOG_END, None), (30, None)]


def test_status_of_a_sink_that_never_landed_anything(make_job: MakeJob) -> None:  # noqa: F811
    job = make_job(partitions=2)
    job.send(1, 30)

    def lag(*arguments: str) -> Any:
        return json.loads(status(job, "--json", *arguments).stdout)["lag"]

    assert lag() == 30
    assert lag("--set", "kafka.starting_offsets=latest") == 0
    away = ("--set", f"kafka.bootstrap=127.0.0.1:{free_port()}", "--set", "kafka.timeout_s=2")
    assert lag(*away) is None


# --- a shard that is gone --------------------------------------------------------------------------------------------


def move_to(job: Job, layout: Layout | None) -> None:
    """Let a driver own the sink; what is in doubt becomes in doubt under that layout."""
    with quietly_connected(job) as opened:
        ledger = Ledger(opened.store, job.name, "a test", opened.clock, lambda: uuid.uuid4().hex)
        kept = layout or opened.clickhouse.layout(opened.config.routes[0])
        ledger.claim([], {kept.fingerprint(): kept.to_json()})
        attempt = ledger.attempt()
        moved = {
            k: replace(r, attempt=attempt, sent=replace(r.sent, layout=kept.fingerprint()))
            for k, r in ledger.records.items()
        }
        if moved:
            ledger.write(moved)


@pytest.fixture(params=["taken out of the configuration", "in the configuration still"])
def with_a_dead_shard(doubtful: Job, request: pytest.FixtureRequest) -> Job:
    alive, dead = doubtful.shards[0], f"http://127.0.0.1:{free_port()}"
    move_to(doubtful, Layout((Shard((alive,)), Shard((dead,))), "xxHash64", ("id",)))
    if request.param == "in the configuration still":
        doubtful.shards, doubtful.weights, doubtful.shard_key = [alive, dead], [1, 1], ("id",)
    return doubtful


@pytest.mark.soak
def test_show_where_a_shard_is_gone(with_a_dead_shard: Job) -> None:
    record = shown(with_a_dead_shard)

    assert (record["phase"], record["start"], record["end"]) == ("BEFORE", 10, 25)
    assert record["tokens"].startswith("unknown: ClickHouse did not answer")


@pytest.mark.soak
@pytest.mark.parametrize("verdict", ["--lost", "--landed"])
@pytest.mark.exit_of("RESEND_NOT_COUNTED")
def test_a_persons_word_holds_where_a_shard_is_gone(with_a_dead_shard: Job, verdict: str) -> None:
    refused = resend(with_a_dead_shard, "--senders-gone")
    assert error_of(refused) == "CHS-322"

    result = run(with_a_dead_shard, "resolve", with_a_dead_shard.topic, "0", option_of(refused, verdict), "--yes")

    assert result.exit_code == 0, result.output
    assert all("could not be counted (ClickHouse did not answer" in said for said in (refused.stderr, result.stdout))
    assert shown(with_a_dead_shard)["phase"] == "AFTER"


# --- resolve ---------------------------------------------------------------------------------------------------------


def test_a_person_is_asked_and_may_refuse(doubtful: Job) -> None:
    before = shown(doubtful)

    result = run(doubtful, "resolve", doubtful.topic, "0", "--landed", stdin="n\n")

    assert result.exit_code == 1
    assert "holds 0 rows of it now" in result.stdout
    assert "Record these ranges as landed? [y/N]: n" in result.stdout
    assert shown(doubtful)["attempt"] == before["attempt"]


def test_what_is_given_up_is_counted(doubtful: Job) -> None:
    """⚑ Only rows were counted, and of an expired range not even these."""
    insert(doubtful, 0, range(10, 17))

    def said(*arguments: str) -> str:
        result = run(doubtful, *arguments, stdin="n\n")
        assert result.exit_code == 1, result.output
        return " ".join(result.stdout.split())

    for verdict in ("--landed", "--lost"):
        assert (
            "holds 7 rows of it now; of the 15 offsets [10, 25), 8 have no row and no dead letter in a table"
            in said("resolve", doubtful.topic, verdict)
        )
    assert "no part of it becomes a gap now" in said("resolve", doubtful.topic, "--expired")
    delete_records(doubtful.bootstrap, doubtful.topic, 0, 19)
    expired = said("resolve", doubtful.topic, "--expired")
    assert "[10, 19) becomes a gap: of the 9 offsets [10, 19), 2 have no row and no dead letter in a table" in expired


def test_rows_that_share_an_offset_are_named(doubtful: Job) -> None:
    """⚑ Found by the simulator (seed 4600001607): a piece that had landed twice was counted as rows, and settled so."""
    insert(doubtful, 0, range(10, 25))
    assert "copy" not in run(doubtful, "resolve", doubtful.topic, "--landed", stdin="n\n").stdout
    insert(doubtful, 0, range(12, 14))

    said = " ".join(run(doubtful, "resolve", doubtful.topic, "--landed", stdin="n\n").stdout.split())

    assert "holds 17 rows of it now; 2 of these rows share their offset with another row: unless a transform" in said


def test_landed_takes_the_word_for_it(doubtful: Job) -> None:
    result = run(doubtful, "resolve", doubtful.topic, "0", "--landed", stdin="y\n")

    assert result.exit_code == 0, result.output
    assert doubtful.phases() == {0: ("AFTER", 10, 25)}
    assert rows(doubtful) == 10


def test_rows_that_a_delete_is_about_to_remove_are_not_counted(doubtful: Job) -> None:
    table, [shard] = doubtful.tables[doubtful.topic], doubtful.shards
    command(shard, f"SYSTEM STOP MERGES {table}")
    command(shard, f"ALTER TABLE {table} DELETE WHERE _kafka_offset >= 5 SETTINGS mutations_sync = 0")
    result = run(doubtful, "resolve", doubtful.topic, "0", "--landed", stdin="n\n")
    assert "could not be counted" in result.stdout and "is still running DELETE" in result.stdout.replace("\n", " ")
    command(shard, f"SYSTEM START MERGES {table}")


def test_lost_is_a_gap(doubtful: Job) -> None:
    result = run(doubtful, "resolve", doubtful.topic, "0", "--lost", "--yes")

    assert result.exit_code == 0, result.output
    assert "gaps [10, 25)" in result.stdout
    assert shown(doubtful)["gaps"] == [[10, 25]]
    assert doubtful.phases() == {0: ("AFTER", 10, 25)}


def resend(job: Job, *more: str) -> Result:
    return run(job, "resolve", job.topic, "0", "--resend", "--yes", *more)


def error_of(result: Result) -> str:
    found = re.search(r"error (CHS-\d+)", result.stderr)
    assert found, result.output
    return found[1]


def test_resend_needs_the_word_that_nobody_is_sending(doubtful: Job) -> None:
    result = resend(doubtful)

    assert (result.exit_code, error_of(result)) == (2, "CHS-321")


def test_resend_names_the_other_routes_table_that_is_missing(doubtful: Job) -> None:
    doubtful.tables["another-topic"] = f"{DATABASE}.nowhere"

    refused = resend(doubtful, "--senders-gone")

    assert error_of(refused) == "CHS-322"
    assert f"{DATABASE}.nowhere does not exist" in refused.stderr
    assert "no route" not in refused.stderr


@pytest.mark.soak
def test_resend_after_the_table_changed(doubtful: Job, spark: SparkSession) -> None:
    """CHS-309 and its way out: the range is sent by the pipeline of today."""
    table = doubtful.tables[doubtful.topic]
    command(doubtful.shards[0], f"ALTER TABLE {table} ADD COLUMN more Nullable(UInt8) FIRST")
    with pytest.raises(HaltError, match="CHS-309"):
        doubtful.drain(spark)

    assert resend(doubtful, "--senders-gone").exit_code == 0

    doubtful.drain(spark)
    doubtful.check()


@pytest.mark.soak
def test_rows_that_were_removed_by_hand_are_sent_again(
    make_job: MakeJob,  # noqa: F811
    spark: SparkSession,
    failpoints: Failpoints,  # noqa: F811
) -> None:
    """Their tokens are still remembered: under these the server would drop them, and nobody would notice."""
    job = make_job(partitions=1)
    job.send(0, 15)
    crash_before_after(job, spark, failpoints)
    assert job.in_doubt() == {0}
    assert rows(job) == 15
    refused = resend(job, "--senders-gone")
    assert error_of(refused) == "CHS-322"
    delete = re.search(r"DELETE FROM [^;]+", refused.stderr)
    assert delete
    command(job.shards[0], f"{delete[0]} SETTINGS lightweight_deletes_sync = 2")
    assert rows(job) == 0

    assert resend(job, "--senders-gone").exit_code == 0

    job.drain(spark)
    job.check()


@pytest.mark.soak
@pytest.mark.parametrize("older_end", [0, 10, 25])
def test_resend_is_refused_while_rows_are_there_in_any_incarnation(
    doubtful: Job, spark: SparkSession, older_end: int
) -> None:
    """After a reset, a recovery or a recreated topic the rows may be an earlier life's, or the range's own."""
    edit(doubtful, life={"incarnation": 1, "older_end": older_end})
    insert(doubtful, 0, range(10, 25))

    refused = resend(doubtful, "--senders-gone")

    assert error_of(refused) == "CHS-322"
    assert ("cannot tell" in refused.stderr.replace("\n", " ")) == (older_end > 10)
    assert rows(doubtful) == 25
    delete = re.search(r"DELETE FROM .+? < \d+", refused.stderr, re.DOTALL)
    assert delete
    command(doubtful.shards[0], f"{delete[0]} SETTINGS lightweight_deletes_sync = 2")
    assert resend(doubtful, "--senders-gone").exit_code == 0
    doubtful.drain(spark)
    doubtful.check()


@pytest.mark.soak
def test_resend_waits_for_an_insert_whose_sender_is_gone(doubtful: Job) -> None:
    """⚑ A server goes on with an insert that it has read whole; its rows come after they were counted."""
    shard, table = doubtful.shards[0], doubtful.tables[doubtful.topic]
    with quietly_connected(doubtful) as opened:
        [(key, record)] = read_records(opened.store, doubtful.name).items()
    slow = (
        f"INSERT INTO {table} SETTINGS insert_deduplication_token = '{token_head(key, record)}x' "
        f"SELECT 10, '0:10', '{doubtful.topic}', 0, 10 WHERE sleep(3) = 0"
    )
    with ThreadPoolExecutor(1) as server:
        inserting = server.submit(command, shard, slow)
        time.sleep(0.3)
        refused = resend(doubtful, "--senders-gone")
        inserting.result()

    assert error_of(refused) == "CHS-322"
    assert "find it in system.processes and stop it with KILL QUERY" in refused.stderr
    assert rows(doubtful) == 11


@pytest.mark.soak
def test_all_partitions_of_a_topic_are_resolved_at_once(
    make_job: MakeJob,  # noqa: F811
    spark: SparkSession,
    failpoints: Failpoints,  # noqa: F811
) -> None:
    job = make_job(partitions=3)
    for partition in (0, 1):
        job.send(partition, 15)
    failpoints.arm("driver.after_before=fail")
    with pytest.raises(UnavailableError, match="CHS-708"):
        job.drain(spark)
    failpoints.disarm()
    assert job.in_doubt() == {0, 1}
    assert error_of(run(job, "resolve", job.topic, "2", "--resend", "--yes")) == "CHS-320"

    result = run(job, "resolve", job.topic, "--resend", "--senders-gone", "--yes")

    assert result.exit_code == 0, result.output
    for partition in (0, 1):
        assert f"- {job.topic}-{partition} [0, 15) will be sent again by the next start" in result.stdout
    job.drain(spark)
    job.check()
    assert error_of(run(job, "resolve", job.topic, "--resend", "--yes")) == "CHS-320"


def test_what_is_not_in_doubt_is_not_resolved(landed: Job) -> None:
    assert error_of(run(landed, "resolve", landed.topic, "0", "--landed", "--yes")) == "CHS-320"
    assert recover(landed).exit_code == 0
    assert error_of(run(landed, "resolve", landed.topic, "0", "--landed", "--yes")) == "CHS-320"
    assert error_of(run(landed, "resolve", landed.topic, "7", "--landed", "--yes")) == "CHS-320"


def test_one_verdict_is_needed(doubtful: Job) -> None:
    assert run(doubtful, "resolve", doubtful.topic, "0").exit_code == 2
    assert run(doubtful, "resolve", doubtful.topic, "0", "--landed", "--lost").exit_code == 2


def test_a_running_driver_is_fenced(doubtful: Job) -> None:
    """It learns who took the sink, and writes nothing any more."""
    with quietly_connected(doubtful) as opened:
        stream = Untouched("read_committed")
        observer = JobObserver(opened.log, Metrics(doubtful.name), opened.clock)
        lanes, _ = assemble(opened.clickhouse, opened.store, opened.kafka, stream, observer, opened.log)
        lanes.claim(opened.clickhouse.layouts)
        assert run(doubtful, "resolve", doubtful.topic, "0", "--landed", "--yes").exit_code == 0

        with pytest.raises(FencedError, match=r"CHS-801.*`chsink state resolve --landed` on "):
            lanes.ledger.write({key: r for key, r in lanes.ledger.records.items() if r.in_doubt})

    assert doubtful.phases() == {0: ("AFTER", 10, 25)}


# --- reset -----------------------------------------------------------------------------------------------------------


@pytest.mark.soak
def test_reset_begins_a_new_incarnation(make_job: MakeJob, spark: SparkSession) -> None:  # noqa: F811
    """With the table emptied and a new checkpoint, everything lands again, though its tokens are still remembered."""
    job = make_job(partitions=1)
    job.send(0, 25)
    job.drain(spark)

    result = run(job, "reset", job.topic, "--yes")

    assert result.exit_code == 0, result.output
    assert (shown(job)["phase"], shown(job)["incarnation"]) == ("EMPTY", 1)
    command(job.shards[0], f"DELETE FROM {job.tables[job.topic]} WHERE 1 SETTINGS lightweight_deletes_sync = 2")
    job.lose_checkpoint()
    job.drain(spark)
    job.check()


def test_reset_says_what_is_forgotten(doubtful: Job) -> None:
    result = run(doubtful, "reset", doubtful.topic, "--yes")

    assert "these ranges are in doubt and are forgotten, too" in result.stdout
    assert shown(doubtful)["phase"] == "EMPTY"


def test_reset_of_one_partition_leaves_the_others(landed: Job) -> None:
    assert recover(landed).exit_code == 0

    assert run(landed, "reset", landed.topic, "1", "--yes").exit_code == 0

    assert (shown(landed, 0)["phase"], shown(landed, 1)["phase"]) == ("AFTER", "EMPTY")


# --- recover ---------------------------------------------------------------------------------------------------------


def recover(job: Job, *more: str) -> Result:
    return run(job, "recover", "--senders-gone", "--yes", *more)


def fill(job: Job) -> None:
    """Records in two partitions; in the first, transactions' markers and an aborted record lie between them."""
    for n in range(3):
        job.send(0, 7, transactional=f"{job.name}-{n}")
    job.send_values(0, ['{"id": 1000, "text": "never"}'], transactional=f"{job.name}-x", abort=True)
    job.send(1, 30)


IN_TRANSACTIONS = [*range(7), *range(8, 15), *range(16, 23)]
LOG_END = 26


@pytest.fixture
def landed(make_job: MakeJob) -> Job:  # noqa: F811
    """A sink whose records are all in the tables of two shards, and whose state is gone."""
    job = make_job(partitions=2, shards=2, shard_key=("id",))
    fill(job)
    insert(job, 0, IN_TRANSACTIONS, range(21))
    insert(job, 1, range(30))
    return job


@pytest.mark.soak
def test_recover_names_the_views_whose_rows_it_cannot_prove(landed: Job) -> None:
    """An insert may have failed between the table and its view just before the state was lost."""
    table = landed.tables[landed.topic]
    view = f"CREATE MATERIALIZED VIEW {table}_view ENGINE = MergeTree ORDER BY id AS SELECT id FROM {table}"
    command(landed.shards[1], view)

    result = recover(landed)

    assert result.exit_code == 0, result.output
    said = " ".join(result.stdout.split())
    assert f"{table}: these dependent views may lack rows that the table holds" in said
    assert said.count(f"{table}_view") == 1


@pytest.mark.soak
@pytest.mark.exit_of("CHECKPOINT_BEFORE_RESET")
def test_the_old_checkpoint_after_a_reset(make_job: MakeJob, spark: SparkSession) -> None:  # noqa: F811
    """⚑ the query would find nothing new and end well, with none of the records in the table."""
    job = make_job(partitions=2)
    job.send(0, 20)
    job.send(1, 10)
    job.drain(spark)
    assert run(job, "reset", job.topic, "0", "--yes").exit_code == 0
    command(
        job.shards[0],
        f"DELETE FROM {job.tables[job.topic]} WHERE _kafka_partition = 0 SETTINGS lightweight_deletes_sync = 2",
    )

    with pytest.raises(HaltError, match=r"(?s)CHS-302.*the state of .*-0 in .* was reset.*sink.checkpoint") as halted:
        job.drain(spark)
    assert f"{job.topic}-1" not in str(halted.value)
    says(halted.value, "set sink.checkpoint to a new folder")
    job.lose_checkpoint()
    job.drain(spark, {"kafka.starting_offsets": "latest"})
    job.check()


@pytest.mark.soak
@pytest.mark.exit_of("CHECKPOINT_WITHOUT_STATE")
def test_lost_state_is_rebuilt_and_the_job_goes_on(make_job: MakeJob, spark: SparkSession) -> None:  # noqa: F811
    """⚑ state lost: the job halts, the state is rebuilt from the table, and every record is there once."""
    job = make_job(partitions=2, shards=2, shard_key=("id",))
    fill(job)
    job.drain(spark)
    ends = {p: end for p, (_, _, end) in job.phases().items()}
    forget_state(job)
    job.send(0, 5)
    job.send(1, 5)
    with pytest.raises(HaltError, match="CHS-302") as halted:
        job.drain(spark)
    assert halted.value.name == "CHECKPOINT_WITHOUT_STATE"

    follow(job, halted.value, "recover", "--senders-gone")

    assert {p: shown(job, p)["end"] for p in (0, 1)} == ends == {0: LOG_END, 1: 30}
    assert shown(job, 0)["incarnation"] > 1_000_000_000
    job.drain(spark)
    job.check()


@pytest.mark.soak
def test_what_is_not_there_yet_is_left_to_the_job(landed: Job, spark: SparkSession) -> None:
    """With a new checkpoint too."""
    landed.send(1, 5)

    assert recover(landed).exit_code == 0

    assert (shown(landed, 0)["end"], shown(landed, 1)["end"]) == (LOG_END, 30)
    landed.drain(spark)
    landed.check()


def on_the_page(title: str, job: Job) -> None:
    """Run the statements of docs/state-store.md that have this title, for the job's sink."""
    [block] = re.findall(rf'```sql title="{title}"\n(.*?)```', (DOCS / "state-store.md").read_text(), re.DOTALL)
    with quietly_connected(job) as opened:
        store = opened.store
        assert isinstance(store, KeeperMapStore)
        names = {
            "flights": job.name,
            "chsink_state": str(store.table),
            "state_backup": f"`{DATABASE}`.`backup {job.topic}`",
        }
        for statement in re.sub("|".join(names), lambda found: names[found[0]], block).split(";")[:-1]:
            command(store.client.url, statement)


@pytest.mark.soak
def test_a_restored_old_backup_and_the_command_that_the_start_names(
    make_job: MakeJob,  # noqa: F811
    spark: SparkSession,
) -> None:
    """The state is older than the table, so the same offsets would land again: with any checkpoint.  It is backed up and
    restored as docs/state-store.md says.
    """
    job = make_job(partitions=2, shards=2, shard_key=("id",))
    fill(job)
    job.drain(spark)
    on_the_page("back up", job)
    job.send(0, 5)
    job.send(1, 12)
    job.drain(spark)
    on_the_page("restore", job)
    for lost in (False, True):
        if lost:
            job.lose_checkpoint()
        with pytest.raises(
            PreflightError, match=r"CHS-229.*partition 1: 12 rows up to offset 41, recorded end 30"
        ) as e:
            job.drain(spark)
        assert "`chsink state recover --senders-gone --replace`" in e.value.hint
    assert "nothing to recover" in recover(job).stdout

    result = recover(job, "--replace")

    assert result.exit_code == 0, result.output
    assert shown(job, 1)["end"] == 42
    job.send(1, 5)
    job.drain(spark)
    job.check()
    assert "nothing to recover" in recover(job, "--replace").stdout


@pytest.mark.soak
def test_state_and_checkpoint_are_gone(make_job: MakeJob, spark: SparkSession) -> None:  # noqa: F811
    """Rows of the topic without state: refused, until the state is rebuilt."""
    job = make_job(partitions=1)
    job.send(0, 25)
    job.drain(spark)
    forget_state(job)
    job.lose_checkpoint()
    with pytest.raises(PreflightError, match=r"CHS-229.*partition 0: 25 rows up to offset 24\)") as refused:
        job.drain(spark)
    assert "`chsink state recover --senders-gone`" in refused.value.hint

    assert recover(job).exit_code == 0

    job.send(0, 5)
    job.drain(spark)
    job.check()


@pytest.mark.soak
def test_rows_without_state_may_be_accepted(landed: Job, spark: SparkSession) -> None:
    """Then they land again, as the user wants."""
    before = rows(landed)

    landed.drain(spark, {"errors.on_existing_rows": "accept"})

    assert rows(landed) == 2 * before


@pytest.mark.soak
@pytest.mark.exit_of("STATE_LOST")
def test_a_partition_without_rows_is_read_with_a_new_checkpoint(
    make_job: MakeJob,  # noqa: F811
    spark: SparkSession,
) -> None:
    """All its records were skipped.  The recovery finds nothing, and says what leads on."""
    job = make_job(partitions=2, settings={"errors.on_bad_value": "skip"})
    job.send(0, 10)
    job.send_values(1, ["not JSON"] * 5)
    job.drain(spark)
    forget_state(job)
    assert "start the job with a new checkpoint" in recover(job).stdout
    job.send(0, 5)
    job.send(1, 3)
    with pytest.raises(HaltError, match="CHS-302") as halted:
        job.drain(spark)
    assert halted.value.name == "STATE_LOST"
    says(
        halted.value, "if the table has neither rows nor dead letters of this partition", "start with a new checkpoint"
    )
    job.lose_checkpoint()

    job.drain(spark, setting_of(halted.value, "kafka.starting_offsets"))

    assert sorted((p, o) for p, o, *_ in job.landed()) == [*((0, o) for o in range(15)), *((1, o) for o in (5, 6, 7))]


@pytest.mark.soak
def test_an_open_transaction_is_not_passed_over(make_job: MakeJob, spark: SparkSession) -> None:  # noqa: F811
    """Its records become visible when it is committed, after the recovery."""
    job = make_job(partitions=1)
    job.send(0, 10)
    insert(job, 0, range(10))
    producer = Producer({"bootstrap.servers": job.bootstrap, "transactional.id": job.name})
    producer.init_transactions(60)
    producer.begin_transaction()
    for n in range(10, 15):
        producer.produce(job.topic, json.dumps({"id": n, "text": f"0:{n}"}), partition=0)
    assert producer.flush(60) == 0

    result = recover(job)

    assert result.exit_code == 0, result.output
    assert (shown(job)["phase"], shown(job)["end"]) == ("AFTER", 10)
    producer.commit_transaction(60)
    job.drain(spark)
    job.check()


def test_there_is_nothing_to_recover(landed: Job) -> None:
    assert recover(landed).exit_code == 0

    result = recover(landed)

    assert result.exit_code == 0
    assert "nothing to recover" in result.stdout


@pytest.mark.soak
@pytest.mark.exit_of("TABLE_PROVES_NOTHING")
@pytest.mark.exit_of("ROWS_PROVE_NOTHING")
def test_a_hole_that_kafka_cannot_explain_is_refused(landed: Job, spark: SparkSession) -> None:
    """A crash in the middle of a batch, and then the state is lost: some pieces are there, others are not."""
    table = landed.tables[landed.topic]
    delete = f"ALTER TABLE {table} DELETE WHERE _kafka_partition = 1 AND _kafka_offset = 11 SETTINGS mutations_sync = 2"
    view = f"CREATE MATERIALIZED VIEW {table}_view ENGINE = MergeTree ORDER BY id AS SELECT id FROM {table}"
    for shard in landed.shards:
        command(shard, view)
        command(shard, delete)

    refused = recover(landed)

    assert error_of(refused) == "CHS-330"
    assert refused.stderr.count("--accept-removed") > 1, "all that is to be added is named at once"
    assert f"{TopicPartition(landed.topic, 1)} from {table}: records that" in refused.stderr.replace("\n", " ")
    assert "offsets 11, 1 in all; rows follow up to 29" in refused.stderr.replace("\n", " ")
    assert f"from the targets of its views: {table}_view; then" in refused.stderr.replace("\n", " ")
    assert "has not run yet" in run(landed, "show").stdout
    statements = statements_of(refused, "DELETE FROM")
    for shard in landed.shards:
        for statement in statements:
            command(shard, f"{statement} SETTINGS lightweight_deletes_sync = 2")
    assert recover(landed, option_of(refused, "--accept-removed")).exit_code == 0
    assert shown(landed, 1)["end"] == 11
    landed.drain(spark)
    landed.check()


@pytest.mark.soak
def test_a_good_record_is_missed_where_others_are_skipped(landed: Job) -> None:
    """⚑ It is accepted by its offset alone, and what loses no record is named first."""
    skipping = ("--accept-removed", "--set", "errors.on_bad_value=skip")
    for shard in landed.shards:
        command(
            shard,
            f"ALTER TABLE {landed.tables[landed.topic]} DELETE WHERE _kafka_partition = 1 AND _kafka_offset = 11 "
            "SETTINGS mutations_sync = 2",
        )

    refused = recover(landed, *skipping)

    assert error_of(refused) == "CHS-331"
    assert 0 < refused.stderr.index("DELETE FROM") < refused.stderr.index("--accept-holes")
    [option] = re.findall(r"--accept-holes (\S+)`", refused.stderr)
    assert option == f"{landed.tables[landed.topic]}:{landed.topic}-1:11"
    assert error_of(recover(landed, *skipping, "--accept-holes", option.replace(":11", ":12-29"))) == "CHS-331"
    assert recover(landed, *skipping, "--accept-holes", option).exit_code == 0
    assert shown(landed, 1)["end"] == 30


@pytest.mark.soak
def test_rows_that_a_delete_is_about_to_remove_prove_nothing(
    make_job: MakeJob,  # noqa: F811
    spark: SparkSession,
) -> None:
    """⚑ They can still be read, so they would be recorded as landed."""
    job = make_job(partitions=1)
    job.send(0, 25)
    insert(job, 0, range(25))
    table, [shard] = job.tables[job.topic], job.shards
    command(shard, f"SYSTEM STOP MERGES {table}")
    command(shard, f"ALTER TABLE {table} DELETE WHERE _kafka_offset >= 20 SETTINGS mutations_sync = 0")

    assert error_of(recover(job, "--accept-removed")) == "CHS-710"

    command(shard, f"SYSTEM START MERGES {table}")
    eventually("end of the DELETE", lambda: rows(job) == 20)
    eventually("rebuilt state", lambda: recover(job, "--accept-removed").exit_code == 0)
    assert shown(job)["end"] == 20
    job.drain(spark)
    job.check()


@pytest.mark.soak
def test_what_kafka_no_longer_holds_is_accepted_by_its_offsets(landed: Job, spark: SparkSession) -> None:
    delete = f"ALTER TABLE {landed.tables[landed.topic]} DELETE WHERE _kafka_partition = 1 AND _kafka_offset IN "
    for shard in landed.shards:
        command(shard, f"{delete} (3, 5, 6) SETTINGS mutations_sync = 2")
    delete_records(landed.bootstrap, landed.topic, 1, 6)

    refused = recover(landed, "--accept-removed")

    assert "its log starts at 6): 3,5, 2 in all" in refused.stderr.replace("\n", " ")
    [option] = re.findall(r"add `--accept-holes (\S+)` to this command", refused.stderr)
    refused = recover(landed, "--accept-removed", "--accept-holes", option)
    assert "offsets 6, 1 in all" in refused.stderr.replace("\n", " ")
    fix = re.search(r"DELETE FROM .+? >= 6", refused.stderr)
    assert fix
    for shard in landed.shards:
        command(shard, f"{fix[0]} SETTINGS lightweight_deletes_sync = 2")
    assert recover(landed, "--accept-removed", "--accept-holes", option).exit_code == 0
    with pytest.raises(HaltError, match=r"CHS-307.*\[5, 6\)"):
        landed.drain(spark)
    landed.lose_checkpoint()
    landed.drain(spark, {"errors.on_gap": "record"})
    assert sorted(o for p, o, *_ in landed.landed() if p == 1) == [0, 1, 2, 4, *range(6, 30)]


@pytest.mark.soak
def test_several_rows_of_an_offset_are_refused(landed: Job) -> None:
    table = landed.tables[landed.topic]
    command(landed.shards[0], f"INSERT INTO {table} SELECT * FROM {table} WHERE _kafka_partition = 1 LIMIT 1")

    refused = recover(landed)
    assert error_of(refused) == "CHS-331"
    assert "and remove nothing; otherwise remove the duplicates" in refused.stderr
    assert recover(landed, "--accept-several").exit_code == 0


@pytest.mark.soak
def test_records_that_are_only_in_kafka_before_the_first_row(landed: Job) -> None:
    for shard in landed.shards:
        command(
            shard,
            f"ALTER TABLE {landed.tables[landed.topic]} DELETE WHERE _kafka_partition = 1 AND _kafka_offset < 3 "
            "SETTINGS mutations_sync = 2",
        )

    refused = recover(landed, "--accept-removed")

    assert error_of(refused) == "CHS-331"
    assert "offsets 0-2, 3 in all" in refused.stderr.replace("\n", " ")


def test_a_table_that_cannot_tell(make_job: MakeJob) -> None:  # noqa: F811
    refused = recover(make_job(partitions=1, metadata=""))

    assert error_of(refused) == "CHS-330"
    assert "_kafka_offset" in refused.stderr


def test_another_topic_of_the_same_name(landed: Job, services: Stack) -> None:  # noqa: F811
    services.kafka.delete_topic(landed.topic)
    services.kafka.create_topic(landed.topic, 2)

    refused = recover(landed)

    assert error_of(refused) == "CHS-331"
    assert "the topic was recreated" in refused.stderr
