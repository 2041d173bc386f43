"""⚑ Whoever does what the messages say, word by word, has every record once: those before the doubt, in it and behind it.

The four partitions differ in what the table has of the range in doubt: nothing, all of it, its first chunk, a part of
a chunk.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession

from tests.integration.exits.person import Person
from tests.integration.job.conftest import MakeJob
from tests.support.doubt import announce, edit, forget_state, insert
from tests.support.job import Job, command

pytestmark = pytest.mark.slow

BEFORE, END, SENT = 10, 25, 30
THERE = (0, 15, 10, 4)
"""Rows of the range in doubt, by partition.  Chunks have 10 offsets."""
WHOLE = frozenset({1})


def doubtful(job: Job) -> Job:
    """[0, 10) landed, [10, 25) is in doubt, and more records have come since."""
    for partition, there in enumerate(THERE):
        job.send(partition, END)
        insert(job, partition, range(BEFORE + there))
    announce(job, dict.fromkeys(range(len(THERE)), (BEFORE, END)))
    for partition in range(len(THERE)):
        job.send(partition, SENT - END)
    return job


def forgotten(job: Job) -> None:
    edit(job, seen={"before_at": 1, "marks": ()})


def older_rows(job: Job) -> None:
    edit(job, seen={"before_at": 1, "marks": ()}, life={"incarnation": 1, "older_end": END})


def another_pipeline(job: Job) -> None:
    edit(job, sent={"pipeline": "columns=another"})


def upgraded_brokers(job: Job) -> None:
    edit(job, life={"topic_id": None})


def no_window(job: Job) -> None:
    for shard in job.shards:
        command(shard, f"ALTER TABLE {job.tables[job.topic]} MODIFY SETTING {job.window} = 0")


def no_state(job: Job) -> None:
    """Of one partition a chunk is missing, of another one a part of a chunk."""
    insert(job, 0, range(20, END))
    insert(job, 3, [15, 17, 19, *range(21, END)])
    forget_state(job)


CAUSES: dict[str, tuple[Callable[[Job], None], set[str]]] = {
    "forgotten tokens": (forgotten, {"CHS-314", "CHS-322", "CHS-321"}),
    "rows of an earlier life": (older_rows, {"CHS-318", "CHS-322", "CHS-321"}),
    "another pipeline": (another_pipeline, {"CHS-309", "CHS-322", "CHS-321"}),
    "upgraded brokers": (upgraded_brokers, {"CHS-304", "CHS-322", "CHS-321"}),
    "no window": (no_window, {"CHS-210", "CHS-322", "CHS-321"}),
    "no state": (no_state, {"CHS-229"}),
}


def follow(job: Job, spark: SparkSession, cause: str) -> None:
    """All of it, on plain and on Replicated tables."""
    happen, said = CAUSES[cause]
    happen(doubtful(job))
    person = Person(job, spark, WHOLE)
    person.start_until_it_ends()
    assert said <= set(person.met), person.met
    job.check()


@pytest.mark.soak
@pytest.mark.parametrize("cause", [*CAUSES])
def test_a_person_does_what_the_messages_say(make_job: MakeJob, spark: SparkSession, cause: str) -> None:
    follow(make_job(partitions=len(THERE)), spark, cause)


@pytest.mark.soak
@pytest.mark.parametrize(
    ("happen", "said"),
    [(forgotten, {"CHS-317", "CHS-322", "CHS-321"}), (no_state, {"CHS-229", "CHS-330", "CHS-331"})],
)
def test_a_table_that_cannot_be_searched(
    make_job: MakeJob, spark: SparkSession, happen: Callable[[Job], None], said: set[str]
) -> None:
    engine = "ENGINE = ReplacingMergeTree ORDER BY (_kafka_partition, _kafka_offset)"
    job = make_job(partitions=len(THERE), engine=f"{engine} SETTINGS non_replicated_deduplication_window = 1000")
    happen(doubtful(job))
    person = Person(job, spark, WHOLE)
    person.start_until_it_ends()
    assert said <= set(person.met), person.met
    job.check()
