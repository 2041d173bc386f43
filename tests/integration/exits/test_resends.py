"""⚑ What CHS-322 says, and what CHS-331 says of rows to delete, done to the end: Kafka and the tables are compared.

In a compacted topic, the tables may hold the only copy of a record.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence

import pytest
from pyspark.sql import SparkSession
from typer.testing import Result

from chsink.embedded.stack import Stack
from chsink.errors import ChsinkError, HaltError, PreflightError, UnavailableError
from tests.integration.exits.commands import command_of, halted, settings_of
from tests.integration.exits.looked import configure
from tests.integration.exits.test_last_copies import made_anew, refused
from tests.integration.job.conftest import MakeJob
from tests.integration.job.faults import Failpoints, crash_before_after
from tests.integration.job.test_dead_letters import BAD, check, expected, fits, letters, make_letters
from tests.integration.job.test_verify import run as verify
from tests.support.doubt import edit, forget_state, insert, run
from tests.support.job import Job, Row, command, eventually
from tests.support.kafka import read_all
from tests.support.told import fix_of, option_of, says, statements_of

pytestmark = [pytest.mark.slow, pytest.mark.soak]

SMALL_SEGMENTS = {"segment.ms": "100", "min.cleanable.dirty.ratio": "0.001"}
SENT: Sequence[tuple[bytes, int | Sequence[bytes | None]]] = (
    (b"a", 8), (b"b", 4), (b"c", BAD[:2]), (b"d", 6), (b"e", BAD[:1]), (b"f", 4),
)  # fmt: skip
"""By key: how many good records, or which bad ones."""
KEPT = {7, 11, 13, 19, 20, 24}
"""What compaction leaves of them: the last record of each key."""
REMOVED = 11
"""Somebody deletes the row of this record, so that the job halts and not all rows are there."""

Situation = tuple[ChsinkError, Counter[Row], list[Row]]
"""What the start says, and the rows and dead letters that there should be."""


def ask(job: Job, words: Sequence[str]) -> Result:
    """A command that a message names, answered with yes."""
    return run(job, *words, "--yes", *settings_of(job))


def done(result: Result) -> None:
    assert result.exit_code == 0, result.output


def told(result: Result, *entries: str) -> Result:
    """A refusal, with these ids."""
    assert result.exit_code == 2, result.output
    assert re.findall(r"error (CHS-\d+)", result.stderr) == [*entries], result.output
    return result


def delete(job: Job, said: Result) -> None:
    """Run the statements that a refusal names."""
    for statement in statements_of(said, "DELETE FROM"):
        command(job.shards[0], f"{statement} SETTINGS lightweight_deletes_sync = 2")


# --- a compacted topic -----------------------------------------------------------------------------------------------


@pytest.fixture
def filled(make_job: MakeJob) -> Job:
    """Good and bad records that nobody has read yet."""
    job = make_job(partitions=1, topic_config=SMALL_SEGMENTS)
    _, job.settings = make_letters(job)
    for key, records in SENT:
        if isinstance(records, int):
            job.send(0, records, key=key)
        else:
            job.send_values(0, records, key=key)
    return job


def place_of(job: Job) -> str:
    return str(job.settings["dead_letters.table"])


def compacted(job: Job) -> tuple[Counter[Row], list[Row]]:
    """Kafka keeps the last record of each key.  Returns the rows and dead letters of all records that it was sent."""
    before = {(r.partition, r.offset): r for r in read_all(job.bootstrap, job.topic)}
    bad = expected(job)
    configure(job.bootstrap, job.topic, {"cleanup.policy": "compact"})
    job.send(0, 1, key=b"next segment")
    eventually("compaction", lambda: {r.offset for r in read_all(job.bootstrap, job.topic) if r.offset < 25} == KEPT)
    every = {**before, **{(r.partition, r.offset): r for r in read_all(job.bootstrap, job.topic)}}
    assert len(every) == 26
    return Counter((*at, *row) for at, record in every.items() for row in fits(record)), bad


def remove(job: Job, place: str, which: str) -> None:
    command(job.shards[0], f"DELETE FROM {place} WHERE {which} SETTINGS lightweight_deletes_sync = 2")


def crashed(job: Job, spark: SparkSession, failpoints: Failpoints) -> Situation:
    """All has landed and nothing is recorded, then Kafka compacts the topic."""
    crash_before_after(job, spark, failpoints)
    rows, bad = compacted(job)
    remove(job, job.tables[job.topic], f"_kafka_offset = {REMOVED}")
    return refused(job, spark, HaltError, "CHS-3"), rows, bad


def reset(job: Job, spark: SparkSession, failpoints: Failpoints) -> Situation:
    """The same after a reset, of which the rows and dead letters of compacted records were kept, as it says."""
    job.drain(spark)
    rows, bad = compacted(job)
    plan = ask(job, ("reset", job.topic))
    done(plan)
    says(plan.stdout, "delete their rows", "keep those of records that Kafka no longer holds (in a compacted topic,")
    [which] = re.findall(r"have (sink IN \(.*?\) AND `table` = '[^']+')", " ".join(plan.output.split()))
    held = f"_kafka_offset IN ({', '.join(map(str, sorted(KEPT)))})"
    remove(job, job.tables[job.topic], held)
    remove(job, place_of(job), f"{which} AND {held}")
    job.lose_checkpoint()
    crash_before_after(job, spark, failpoints)
    remove(job, job.tables[job.topic], f"_kafka_offset = {REMOVED}")
    return refused(job, spark, HaltError, "CHS-3"), rows, bad


def lost_state(job: Job, spark: SparkSession, failpoints: Failpoints) -> Situation:
    """The state is gone, and the table has a hole and remembers too few blocks for one record in each."""
    job.drain(spark)
    rows, bad = compacted(job)
    remove(job, job.tables[job.topic], f"_kafka_offset = {REMOVED}")
    command(job.shards[0], f"ALTER TABLE {job.tables[job.topic]} MODIFY SETTING {job.window} = 8")
    forget_state(job)
    job.lose_checkpoint()
    return refused(job, spark, PreflightError, "CHS-229"), rows, bad


COPIED_ROWS = "insert the copied rows that are missing"
COPIED_LETTERS = (
    "first copy the dead letters of records that Kafka no longer holds, with their replay marks, to another table",
    "in a compacted topic, all of them",
    "once the range has landed, insert the copied ones that are missing",
)


@pytest.mark.exit_of("RESEND_WOULD_DOUBLE")
@pytest.mark.exit_of("RESEND_LETTERS_DOUBLE")
@pytest.mark.exit_of("RESEND_MAY_DOUBLE")
@pytest.mark.exit_of("ROWS_PROVE_NOTHING")
@pytest.mark.parametrize(
    ("happen", "more", "steps"),
    [
        (
            crashed,
            ("--resend", "--senders-gone"),
            ("in a compacted topic, first copy them", COPIED_ROWS, *COPIED_LETTERS),
        ),
        (
            reset,
            ("--resend", "--senders-gone"),
            ("first copy the rows of records that Kafka no longer holds", COPIED_ROWS, *COPIED_LETTERS),
        ),
        (
            lost_state,
            (),
            ("in a compacted topic, first copy these rows and dead letters", "insert the copied ones that are missing"),
        ),
    ],
    ids=["own", "older", "recovery"],
)
def test_records_that_only_the_tables_hold(
    filled: Job,
    spark: SparkSession,
    failpoints: Failpoints,
    happen: Callable[[Job, SparkSession, Failpoints], Situation],
    more: tuple[str, ...],
    steps: tuple[str, ...],
) -> None:
    """⚑ Copy, delete, run again, start, insert what is missing of the copies."""
    [url], place = filled.shards, place_of(filled)
    error, rows, bad = happen(filled, spark, failpoints)
    words, which, fixes = [*command_of(error, *more[:1]), *more[1:]], dict[str, str](), ""
    while (said := ask(filled, words)).exit_code == 2 and len(fixes) < 10_000:
        fixes += fix_of(said).replace("fix: ", "")
        for statement in statements_of(said, "DELETE FROM"):
            [(quoted, held)] = re.findall(r"DELETE FROM (\S+) WHERE (.+)", statement)
            name = quoted.replace("`", "")
            if name not in which:
                copied = f"SELECT * FROM {name} WHERE {held}"
                command(url, f"CREATE TABLE {name}_copy ENGINE = MergeTree ORDER BY tuple() AS {copied}")
            which[name] = held
        delete(filled, said)
        words += [option for option in re.findall(r"add `(--accept-removed)`", fix_of(said)) if option not in words]
    done(said)
    says(fixes, *steps)
    assert which.keys() == {filled.tables[filled.topic], place}
    filled.drain(spark)

    assert not filled.verdict(rows_of=fits).lost and not filled.in_doubt()
    assert Counter(filled.landed()) < rows and Counter(letters(filled, place)) < Counter(bad)
    for name, held in which.items():
        there = f"SELECT _kafka_offset FROM {name} WHERE {held}"
        command(url, f"INSERT INTO {name} SELECT * FROM {name}_copy WHERE _kafka_offset NOT IN ({there})")
    assert Counter(filled.landed()) == rows
    assert letters(filled, place) == bad
    assert verify(filled)[0] == 0


# --- all is there ----------------------------------------------------------------------------------------------------


@pytest.mark.exit_of("RESEND_WOULD_DOUBLE")
@pytest.mark.exit_of("RESEND_MAY_DOUBLE")
@pytest.mark.parametrize("older_end", [0, 25])
def test_nothing_is_deleted_where_all_rows_are_there(doubtful: Job, spark: SparkSession, older_end: int) -> None:
    edit(doubtful, life={"incarnation": 1, "older_end": older_end})
    insert(doubtful, 0, range(10, 25))
    words = ["resolve", doubtful.topic, "0", "--senders-gone"]
    said = told(ask(doubtful, [*words, "--resend"]), "CHS-322")
    done(ask(doubtful, [*words, option_of(said, "--landed")]))
    doubtful.send(0, 5)
    doubtful.drain(spark)
    doubtful.check()


# --- dead letters that are no longer wanted, a topic that was made anew ----------------------------------------------


@pytest.mark.exit_of("RESEND_LETTERS_UNKNOWN")
@pytest.mark.exit_of("RESEND_LETTERS_DOUBLE")
@pytest.mark.parametrize("altered", [False, True])
def test_dead_letters_are_no_longer_kept(
    make_job: MakeJob, spark: SparkSession, failpoints: Failpoints, *, altered: bool
) -> None:
    """The job dies between dead letters and rows, then is set to skip bad records.  ``altered``: its table changes."""
    job = make_job(partitions=1)
    place, keeps = make_letters(job)
    job.settings = keeps
    job.send(0, 3)
    job.send_values(0, BAD[:2])
    job.send(0, 12)
    failpoints.arm("task.after_dead_letters=kill")
    with pytest.raises(UnavailableError, match="CHS-708"):
        job.drain(spark)
    failpoints.disarm()
    assert letters(job, place) and not job.landed()
    if altered:
        command(job.shards[0], f"ALTER TABLE {job.tables[job.topic]} ADD COLUMN more Nullable(UInt8) FIRST")
    job.settings = {"errors.on_bad_value": "skip"}
    words = [*command_of(halted("PIPELINE_CHANGED", job, spark), "--resend"), "--senders-gone"]
    said = told(ask(job, words), "CHS-322")

    says(said, "as they were when the range was announced, and run the job until the range is settled")
    job.settings = keeps
    if altered:
        halted("PIPELINE_CHANGED", job, spark)
        says(said, "if that run halts with CHS-309, run this command with these settings, then the job once more")
        delete(job, told(ask(job, words), "CHS-322"))
        done(ask(job, words))
    job.drain(spark)
    check(job, place)
    kept = letters(job, place)

    says(said, "only then make the change again")
    job.settings = {"errors.on_bad_value": "skip"}
    job.send_values(0, BAD[:1])
    job.send(0, 3)
    job.drain(spark)
    job.check(rows_of=fits)
    assert letters(job, place) == kept


@pytest.mark.exit_of("EXPIRED_NOT_HELD")
@pytest.mark.parametrize("verdict", ["--landed", "--lost"])
def test_the_topic_of_a_range_was_made_anew(
    make_job: MakeJob, spark: SparkSession, failpoints: Failpoints, services: Stack, verdict: str
) -> None:
    """The checkpoint has batches of the earlier topic; with --lost, a row of the range is missing, and stays so."""
    job = make_job(partitions=1)
    place, job.settings = make_letters(job)
    job.send(0, 10)
    job.drain(spark)
    job.send(0, 12)
    job.send_values(0, BAD[:1])
    crash_before_after(job, spark, failpoints)
    if verdict == "--lost":
        remove(job, job.tables[job.topic], "_kafka_offset = 12")
    earlier, kept = Counter(job.landed()), letters(job, place)
    made_anew(job, services)
    error = refused(job, spark, HaltError, "CHS-308")
    words = command_of(error, "resolve", "--expired")
    said = told(ask(job, words), "CHS-322")

    done(ask(job, [*words[:-1], option_of(said, verdict)]))
    says(error, "unless the topic was created again: in this case,", "start with a new checkpoint")
    job.lose_checkpoint()
    job.drain(spark)
    found = job.verdict()
    assert (found.sent, found.lost, found.surplus) == (20, Counter(), earlier)
    assert letters(job, place) == kept and len(kept) == 1
    assert not job.in_doubt()
