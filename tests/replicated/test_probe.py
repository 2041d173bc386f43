"""Rows of Replicated tables are looked for as those of plain ones are: the same scenarios, on both."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from chsink.dlq.letters import create_table
from chsink.errors import HaltError
from tests.chaos.letters import Letters, fits, send_bad
from tests.integration.client.test_probe import (
    target,
    test_a_piece_of_which_a_part_is_there_halts,
    test_a_table_that_is_complete_does_not_prove_its_view,
    test_dropped_parts_take_their_tokens_along,
    test_records_that_compaction_removed_since_stop_nothing,
    test_rows_that_a_patch_deleted_are_missed,
    test_rows_that_a_person_deleted_are_missed,
    test_rows_that_were_detached_and_attached_are_not_landed_twice_unnoticed,
    test_what_the_table_has_is_sent_again_to_feed_its_view,
    test_without_a_view_a_complete_piece_is_done,
)
from tests.integration.exits.test_exits import (
    test_a_piece_is_there_in_part,
)
from tests.integration.job.conftest import MakeJob
from tests.integration.job.faults import Failpoints, crash_before_after
from tests.support.job import command
from tests.support.replicas.tables import replicated

pytestmark = pytest.mark.slow
__all__ = [
    "target",
    "test_a_piece_is_there_in_part",
    "test_a_piece_of_which_a_part_is_there_halts",
    "test_a_table_that_is_complete_does_not_prove_its_view",
    "test_dropped_parts_take_their_tokens_along",
    "test_records_that_compaction_removed_since_stop_nothing",
    "test_rows_that_a_patch_deleted_are_missed",
    "test_rows_that_a_person_deleted_are_missed",
    "test_rows_that_were_detached_and_attached_are_not_landed_twice_unnoticed",
    "test_what_the_table_has_is_sent_again_to_feed_its_view",
    "test_without_a_view_a_complete_piece_is_done",
]


def test_dead_letters_of_a_range_in_doubt_are_deleted(
    make_job: MakeJob, spark: SparkSession, failpoints: Failpoints
) -> None:
    """⚑ Their table remembers their token, and drops them when they are sent again."""
    job = make_job(partitions=1)
    letters = Letters(table=f"{job.tables[job.topic]}_dead")
    command(job.shards[0], replicated(create_table(letters.table)))
    job.settings = letters.settings
    job.send(0, 5)
    send_bad(job, 0, 2)
    crash_before_after(job, spark, failpoints)
    command(job.shards[0], f"DELETE FROM {letters.table} WHERE _kafka_offset = 6")
    with pytest.raises(HaltError, match=r"CHS-333.* 1 .*instead of"):
        job.drain(spark)
    assert job.in_doubt() == {0}
    command(job.shards[0], f"INSERT INTO {letters.table} SELECT * REPLACE (6 AS _kafka_offset) FROM {letters.table}")
    job.drain(spark)
    job.check(rows_of=fits)
    assert letters.held(job) == letters.expected(job)
