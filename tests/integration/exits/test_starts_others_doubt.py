"""What a start says of ranges in doubt, of the shards, and of rows without state: what it tells to do leads on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession

from chsink.embedded.stack import Stack
from chsink.embedded.topics import delete_records
from tests.integration.exits.looked import cli, done, leads_on, look
from tests.integration.exits.person import Person
from tests.integration.job.conftest import MakeJob
from tests.integration.job.test_dead_letters import make_letters
from tests.integration.job.test_replay import Kept
from tests.support.doubt import announce, edit, forget_state, insert, run
from tests.support.job import Job, command, select
from tests.support.told import says, setting_of, words_of

pytestmark = [pytest.mark.slow, pytest.mark.soak]


def goes_on(job: Job, spark: SparkSession) -> None:
    """More records come: each record has its row once."""
    job.send(0, 5)
    job.drain(spark)
    job.check()


@pytest.mark.exit_of("DOUBT_NOT_ROUTED")
@pytest.mark.parametrize("restored", [True, False])
def test_a_range_whose_route_is_gone(doubtful: Job, spark: SparkSession, *, restored: bool) -> None:
    table = doubtful.tables[doubtful.topic]
    if not restored:
        insert(doubtful, 0, range(10, 25))
    other = doubtful.make_table(doubtful.topic, suffix="_other")
    before = look(doubtful)
    fix = before.fix("DOUBT_NOT_ROUTED")
    if restored:
        says(fix, "restore the [[route]]")
        doubtful.tables[doubtful.topic] = table
    else:
        done(run(doubtful, *words_of(fix, "resolve", "--landed")[1:], "--yes"))
    leads_on("DOUBT_NOT_ROUTED", before, doubtful)
    goes_on(doubtful, spark)
    if not restored:
        assert len(set(doubtful.landed())) == 30
        doubtful.tables[doubtful.topic] = table
        assert len(doubtful.landed()) == 25 and other != table


@pytest.mark.exit_of("DOUBT_CHANGED")
@pytest.mark.exit_of("DOUBT_COLUMNS")
@pytest.mark.parametrize("undone", [True, False])
def test_a_table_that_was_altered(doubtful: Job, spark: SparkSession, *, undone: bool) -> None:
    [shard], table = doubtful.shards, doubtful.tables[doubtful.topic]
    command(shard, f"ALTER TABLE {table} ADD COLUMN more String DEFAULT 'x' FIRST")
    before = look(doubtful)
    changed, columns = before.fix("DOUBT_CHANGED"), before.fix("DOUBT_COLUMNS")
    if undone:
        says(changed, "undo the change, run the job until the range is settled, then make the change again")
        says(
            columns, "undo the change with ALTER TABLE, run the job until the ranges are settled, then alter the table"
        )
        command(shard, f"ALTER TABLE {table} DROP COLUMN more")
        leads_on("DOUBT_CHANGED", before, doubtful)
        doubtful.drain(spark)
        command(shard, f"ALTER TABLE {table} ADD COLUMN more String DEFAULT 'x' FIRST")
    else:
        Person(doubtful, spark).insist(words_of(changed, "resolve", "--resend")[1:])
    for entry in ("DOUBT_CHANGED", "DOUBT_COLUMNS"):
        leads_on(entry, before, doubtful)
    goes_on(doubtful, spark)


@pytest.mark.exit_of("DOUBT_REPLAY")
def test_a_replay_that_was_interrupted(make_kept: Callable[..., Kept], monkeypatch: pytest.MonkeyPatch) -> None:
    kept = make_kept()
    kept.widen()
    kept.crash(monkeypatch, "driver.before_after", "partition=0")
    kept.job.settings = kept.keeps
    before = look(kept.job)
    words = words_of(before.fix("DOUBT_REPLAY"), "dlq", "replay")
    done(cli(kept.job, *words, "--yes"))
    leads_on("DOUBT_REPLAY", before, kept.job)
    done(cli(kept.job, *words, "--yes"))
    kept.check()


def remembered(job: Job) -> None:
    """Nothing happens."""


def forgotten(job: Job) -> None:
    """The table may have forgotten the tokens."""
    edit(job, seen={"before_at": 1, "marks": ()})


def letters_since(job: Job) -> None:
    """Bad records may become dead letters from now on."""
    _, settings = make_letters(job)
    job.settings = {**job.settings, **settings}


@pytest.mark.exit_of("DOUBT_SENT_AGAIN")
@pytest.mark.exit_of("DOUBT_PROBED")
@pytest.mark.parametrize(
    ("happen", "entry"),
    [(remembered, "DOUBT_SENT_AGAIN"), (letters_since, "DOUBT_SENT_AGAIN"), (forgotten, "DOUBT_PROBED")],
    ids=["sent", "letters", "probed"],
)
def test_what_the_next_start_settles(
    doubtful: Job, spark: SparkSession, happen: Callable[[Job], None], entry: str
) -> None:
    happen(doubtful)
    before = look(doubtful)
    says(before.fix(entry), "no action needed: the next start settles it")
    assert not before.wrong
    doubtful.drain(spark)
    leads_on(entry, before, doubtful)
    goes_on(doubtful, spark)


@pytest.mark.exit_of("DOUBT_NOT_PROBED")
@pytest.mark.parametrize(("there", "verdict"), [(25, "--landed"), (10, "--resend"), (15, "--resend")])
def test_a_table_without_offsets(make_job: MakeJob, spark: SparkSession, there: int, verdict: str) -> None:
    job = make_job(partitions=1, metadata="")
    job.send(0, 25)
    rows = ", ".join(f"({n}, '0:{n}')" for n in range(there))
    command(job.shards[0], f"INSERT INTO {job.tables[job.topic]} VALUES {rows}")
    announce(job, {0: (10, 25)})
    forgotten(job)
    before = look(job)
    fix = before.fix("DOUBT_NOT_PROBED")
    if verdict == "--resend":
        says(fix, "you have to find the rows of the range yourself, and delete them before")
        done_by_hand = f"DELETE FROM {job.tables[job.topic]} WHERE id >= 10 SETTINGS lightweight_deletes_sync = 2"
        command(job.shards[0], done_by_hand)
    Person(job, spark).insist(words_of(fix, "resolve", verdict)[1:])
    leads_on("DOUBT_NOT_PROBED", before, job)
    job.send(0, 5)
    job.drain(spark)
    ids = select(job.shards[0], f"SELECT id FROM {job.tables[job.topic]} ORDER BY id FORMAT TSV").split()
    assert list(map(int, ids)) == list(range(30))


@pytest.mark.exit_of("DOUBT_EXPIRED")
@pytest.mark.parametrize(("there", "verdict"), [(25, "--landed"), (10, "--expired")])
def test_a_range_of_which_kafka_lost_a_part(make_job: MakeJob, spark: SparkSession, there: int, verdict: str) -> None:
    job = make_job(partitions=1)
    job.send(0, 25)
    insert(job, 0, range(there))
    announce(job, {0: (10, 25)})
    delete_records(job.bootstrap, job.topic, 0, 15)
    before = look(job)
    Person(job, spark).insist(words_of(before.fix("DOUBT_EXPIRED"), "resolve", verdict)[1:])
    leads_on("DOUBT_EXPIRED", before, job)
    job.send(0, 5)
    job.drain(spark)
    wanted = range(30) if there == 25 else [*range(10), *range(15, 30)]
    assert sorted(offset for _, offset, *_ in job.landed()) == [*wanted]
    assert not job.in_doubt()


@pytest.mark.exit_of("DOUBT_RECREATED")
@pytest.mark.parametrize(("there", "verdict"), [(25, "--landed"), (10, "--lost")])
def test_a_range_of_an_earlier_topic(
    make_job: MakeJob, spark: SparkSession, services: Stack, there: int, verdict: str
) -> None:
    job = make_job(partitions=1)
    job.send(0, 25)
    insert(job, 0, range(there))
    announce(job, {0: (10, 25)})
    earlier = Counter(job.landed())
    services.kafka.delete_topic(job.topic)
    services.kafka.create_topic(job.topic)
    job.sent.clear()
    job.send(0, 7)
    before = look(job)
    fix = before.fix("DOUBT_RECREATED")
    Person(job, spark).insist(words_of(fix, "resolve", verdict)[1:])
    leads_on("DOUBT_RECREATED", before, job)
    says(fix, "start with a new checkpoint")
    job.drain(spark)
    assert sorted(offset for _, offset, *_ in (Counter(job.landed()) - earlier).elements()) == list(range(7))
    assert not look(job).wrong


@pytest.mark.exit_of("LAYOUT_OLDER")
@pytest.mark.exit_of("LAYOUT_CHANGED")
def test_a_shard_that_was_added(make_job: MakeJob, spark: SparkSession) -> None:
    job = make_job(partitions=1, shards=2, shard_key=["id"])
    both, key = job.shards, job.shard_key
    job.shards, job.weights, job.shard_key = both[:1], [1], []
    job.send(0, 25)
    insert(job, 0, range(10))
    announce(job, {0: (10, 25)})
    job.shards, job.weights, job.shard_key = both, [1, 1], key
    before = look(job)
    says(before.fix("LAYOUT_OLDER"), "the layout needs no action")
    assert not before.wrong
    job.drain(spark)
    leads_on("LAYOUT_OLDER", before, job)
    says(look(job).fix("LAYOUT_CHANGED"), "no action needed if the change is intended")
    goes_on(job, spark)
    leads_on("LAYOUT_CHANGED", before, job)


@pytest.fixture
def landed(make_job: MakeJob, spark: SparkSession) -> Job:
    """Twenty records."""
    job = make_job(partitions=1)
    job.send(0, 20)
    job.drain(spark)
    return job


def lost(job: Job) -> None:
    """The state and the checkpoint."""
    forget_state(job)
    job.lose_checkpoint()


def older(job: Job) -> None:
    """The state is restored from an older backup."""
    edit(job, start=0, end=10)


@pytest.mark.exit_of("STATE_MAY_BE_LOST")
@pytest.mark.exit_of("STATE_IS_STALE")
@pytest.mark.parametrize(
    ("happen", "entry", "more"), [(lost, "STATE_MAY_BE_LOST", ()), (older, "STATE_IS_STALE", ("--replace",))]
)
def test_rows_that_the_state_does_not_know(
    landed: Job, spark: SparkSession, happen: Callable[[Job], None], entry: str, more: tuple[str, ...]
) -> None:
    happen(landed)
    before = look(landed)
    Person(landed, spark).insist(words_of(before.fix(entry), "recover", "--senders-gone", *more)[1:])
    leads_on(entry, before, landed)
    goes_on(landed, spark)


@pytest.mark.exit_of("STATE_MAY_BE_LOST")
def test_a_sink_that_was_renamed(landed: Job, spark: SparkSession) -> None:
    name, landed.name = landed.name, "another"
    before = look(landed)
    says(before.fix("STATE_MAY_BE_LOST"), "if you changed sink.name or [state], change it back")
    landed.name = name
    leads_on("STATE_MAY_BE_LOST", before, landed)
    goes_on(landed, spark)


@pytest.mark.exit_of("STATE_MAY_BE_LOST")
@pytest.mark.parametrize("own", [True, False])
def test_rows_of_another_sink(landed: Job, spark: SparkSession, *, own: bool) -> None:
    """The sink gets a table of its own; or its rows are wanted beside those of the other."""
    landed.name = f"{landed.name}-second"
    landed.lose_checkpoint()
    before = look(landed)
    fix = before.fix("STATE_MAY_BE_LOST")
    if own:
        says(fix, "give this sink its own table")
        landed.make_table(landed.topic, suffix="_own")
        leads_on("STATE_MAY_BE_LOST", before, landed)
        goes_on(landed, spark)
    else:
        landed.drain(spark, setting_of(fix, "errors.on_existing_rows"))
        leads_on("STATE_MAY_BE_LOST", before, landed)
        landed.drain(spark)
        assert set(Counter(landed.landed()).values()) == {2} and len(landed.landed()) == 40
