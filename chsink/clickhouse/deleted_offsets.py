"""Lists offsets that Kafka deleted while they were in doubt: each run is a dead letter of its own, sent by the driver.

What keeps a chunk's dead letters from being there twice keeps these: a token, the check before each send and the probe
in a table; a transaction that moves the offset of a group, of their own, in a topic.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import structlog

from chsink.clickhouse.cluster import Cluster
from chsink.clickhouse.dead_letters import TableLetters
from chsink.clickhouse.probe import only_of
from chsink.clickhouse.shards import InsertShard
from chsink.clickhouse.writer import ShardWriter
from chsink.decode import INSERT_SETTINGS
from chsink.dlq.letters import DELETED_ID, Delivery, deleted_letter
from chsink.dlq.place import LettersTopic
from chsink.dlq.topic import open_letters
from chsink.driver.deleted_offsets import ListDeleted
from chsink.driver.roles import Assignment
from chsink.notation.sql import quote_string


def deleted_lists(
    cluster: Cluster, place: LettersTopic | None, log: structlog.typing.FilteringBoundLogger
) -> ListDeleted:
    """``place`` is the topic of dead letters, None where they go to the table."""

    def list_deleted(assignment: Assignment) -> None:
        tp, table = assignment.topic_partition, assignment.key.table
        with _open(cluster, place, assignment) as letters:
            for number, run in enumerate(assignment.record.deleted_runs, 1):
                letters.deliver(assignment, -number, run, deleted_letter(assignment.key, run))
                log.warning(
                    "offsets in doubt given up: Kafka deleted them, and their records may be missing",
                    topic_partition=str(tp),
                    offsets=str(run),
                    table=table,
                    id=DELETED_ID,
                )

    return list_deleted


@contextmanager
def _open(cluster: Cluster, place: LettersTopic | None, assignment: Assignment) -> Iterator[Delivery]:
    if place is not None:
        with open_letters(replace(place, lists_deleted=True), cluster.clock) as in_topic:
            yield in_topic
        return
    kept, ch = cluster.letters, cluster.config.clickhouse
    assert kept is not None, "the job file names a place for dead letters"
    only = f"{only_of(assignment.key)} AND error_id = {quote_string(DELETED_ID)}"
    shard = InsertShard(cluster.clients[0], kept.table, assignment.record.seen.marks[-1], only)
    settings = {**cluster.insert_settings(), **INSERT_SETTINGS}
    margin_s = cluster.config.in_doubt.margin_s
    writer = ShardWriter((shard,), settings, cluster.clock, ch.retry_for_s, ch.insert_timeout_s, margin_s)
    yield TableLetters(writer, 0)
