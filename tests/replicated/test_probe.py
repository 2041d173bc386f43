"""Rows of Replicated tables are looked for as those of plain ones are: the same scenarios, on both."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import pytest
from pyspark.sql import SparkSession

from chsink.clickhouse.client import ClickHouseClient, Connection
from chsink.dlq.letters import create_table
from chsink.errors import HaltError, UnavailableError
from tests.chaos.letters import Letters, fits, send_bad
from tests.integration.client.test_json_inserts import test_sent_again_it_is_kept_once_also_in_views
from tests.integration.client.test_probe import (
    held,
    land,
    mark_of,
    target,
    test_a_delete_that_fails_each_time_can_be_stopped_as_its_error_says,
    test_a_piece_of_which_a_part_is_there_halts,
    test_a_table_that_is_complete_does_not_prove_its_view,
    test_a_view_that_forgets_sooner_than_its_table,
    test_dropped_parts_take_their_tokens_along,
    test_records_that_compaction_removed_since_stop_nothing,
    test_rows_that_a_patch_deleted_are_missed,
    test_rows_that_a_person_deleted_are_missed,
    test_rows_that_a_stopped_delete_removed_are_missed,
    test_rows_that_were_detached_and_attached_are_not_landed_twice_unnoticed,
    test_what_the_table_has_is_sent_again_to_feed_its_view,
    test_without_a_view_a_complete_piece_is_done,
)
from tests.integration.job.conftest import MakeJob
from tests.integration.job.faults import Failpoints, crash_before_after
from tests.support.job import command, eventually, select
from tests.support.replicas.service import ReplicaClickHouse
from tests.support.replicas.tables import replicated

pytestmark = pytest.mark.slow
__all__ = [
    "target",
    "test_a_delete_that_fails_each_time_can_be_stopped_as_its_error_says",
    "test_a_piece_of_which_a_part_is_there_halts",
    "test_a_table_that_is_complete_does_not_prove_its_view",
    "test_a_view_that_forgets_sooner_than_its_table",
    "test_dropped_parts_take_their_tokens_along",
    "test_records_that_compaction_removed_since_stop_nothing",
    "test_rows_that_a_patch_deleted_are_missed",
    "test_rows_that_a_person_deleted_are_missed",
    "test_rows_that_a_stopped_delete_removed_are_missed",
    "test_rows_that_were_detached_and_attached_are_not_landed_twice_unnoticed",
    "test_sent_again_it_is_kept_once_also_in_views",
    "test_what_the_table_has_is_sent_again_to_feed_its_view",
    "test_without_a_view_a_complete_piece_is_done",
]


def test_a_replica_has_not_taken_over_what_a_stopped_delete_removed(
    client: ClickHouseClient, target: str, pair: Sequence[ReplicaClickHouse]
) -> None:
    """⚑ It showed the rows, was taken for current, and lost them once the range was confirmed: the DELETE is not listed
    any more, and the rewritten part waits in the replica's queue.
    """
    first, second = (ClickHouseClient(Connection((server.url,))) for server in pair)
    announced = mark_of(client, target)
    land(client, target, *range(10, 20), probe=False)
    eventually("rows on both", lambda: len(held(second, target, "_kafka_offset")) == 10)
    second.command(f"SYSTEM STOP MERGES {target}")
    first.command(
        f"ALTER TABLE {target} DELETE WHERE _kafka_offset = 12 OR throwIf(_kafka_offset >= 15) SETTINGS mutations_sync = 0"
    )
    eventually("the part is rewritten on the first", lambda: 12 not in held(first, target, "_kafka_offset"))
    queue = f"SELECT sum(part_mutations_in_queue) FROM system.replicas WHERE table = '{target.split('.')[1]}'"
    eventually("the second knows it", lambda: second.query(queue) != [(0,)])
    first.command(f"KILL MUTATION WHERE table = '{target.split('.')[1]}'")
    with pytest.raises(UnavailableError, match=r"CHS-710.*cancelled DELETE") as waits:
        land(second, target, *range(10, 20), probe=False, since=announced, patience=1)
    assert 12 in held(second, target, "_kafka_offset")

    [statement] = re.findall(r"run `([^`]+)` there", waits.value.hint)
    second.command(statement)
    with pytest.raises(HaltError, match=r"CHS-314.* \[10, 15\): .* piece of 5 rows as a duplicate, but shows 4"):
        land(second, target, *range(10, 20), probe=False, since=announced)
    first.close()
    second.close()


def test_a_settle_that_outlasts_the_window_sends_nothing_more(client: ClickHouseClient, target: str) -> None:
    """⚑ As CHS-234 says, however many pieces and retries the range has: an insert may take 30 s, the margin is 30 s."""
    announced = mark_of(client, target)
    land(client, target, *range(10, 15), probe=False, since=announced)
    earlier = replace(announced, at_s=announced.at_s - 3540)
    with pytest.raises(
        UnavailableError, match=r"CHS-707.* announced 35\d\d s ago, and tokens are remembered for 3600 s only"
    ):
        land(client, target, *range(10, 20), probe=False, since=earlier)
    assert held(client, target, "_kafka_offset") == [*range(10, 15)]
    land(client, target, *range(10, 20), probe=True)
    assert held(client, target, "_kafka_offset") == [*range(10, 20)]


@pytest.mark.soak
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


@pytest.mark.soak
def test_a_table_that_was_restored_under_its_path_remembers_no_token(
    make_job: MakeJob, spark: SparkSession, failpoints: Failpoints
) -> None:
    """⚑ A table that is dropped on all replicas and restored from a backup has the path of the one before, and as many
    blocks or more: the range in doubt, whose rows the backup has, would be stored twice.
    """
    job = make_job(partitions=1)
    job.send(0, 30)
    crash_before_after(job, spark, failpoints)
    table, servers = job.tables[job.topic], [*job.shards, *job.replicas]
    create = {url: select(url, f"SHOW CREATE TABLE {table} FORMAT TSVRaw") for url in servers}
    command(servers[0], f"CREATE TABLE {table}_kept ENGINE = MergeTree ORDER BY tuple() AS SELECT * FROM {table}")
    for url in servers:
        command(url, f"DROP TABLE {table} SYNC")
    for url in servers:
        command(url, create[url])
    for n in range(3):
        command(servers[0], f"INSERT INTO {table} SELECT * FROM {table}_kept WHERE _kafka_offset % 3 = {n}")
    job.drain(spark)
    job.check()
