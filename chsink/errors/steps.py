"""Steps that the fixes of several errors share."""

from __future__ import annotations

from typing import Final

NEW_CHECKPOINT: Final = "start with a new checkpoint (set sink.checkpoint to a new folder)"
RESUME: Final = (
    "start with a new checkpoint (set sink.checkpoint to a new folder; if the sink has landed nothing at all yet, also "
    'set kafka.starting_offsets to "earliest")'
)
RESUME_EITHER: Final = RESUME + "; for the mirror, set mirror.checkpoint to a new folder"
FROM_EARLIEST: Final = (
    'set kafka.starting_offsets = "earliest" ("latest" would skip the records that Kafka holds now), and '
    + NEW_CHECKPOINT
)
RECOVER: Final = (
    "make sure that no process of the job is running, executors included, and no `chsink dlq replay` of the sink; if "
    "you removed a replica that does not answer, first wait for clickhouse.insert_timeout_s, at least 120 s, because "
    "it may still run an insert; then run `chsink state recover --senders-gone"
)
NEWER_STATE: Final = (
    "restore a backup of the state that was made after the last batch (docs/state-store.md), or name a new table in "
    'the [[route]], set kafka.starting_offsets = "earliest", and start with a new checkpoint'
)
OLDER_BACKUP: Final = (
    "if the state was restored from an older backup, these offsets may have landed, and would land twice: "
    + RECOVER
    + " --replace`, and start the job; for a table without the columns _kafka_topic, _kafka_partition and "
    "_kafka_offset, instead " + NEWER_STATE + "; "
)
WRONG_CLUSTER: Final = "if kafka.bootstrap names another cluster by mistake, correct it; otherwise, "
COPY_ELSEWHERE: Final = (
    "if a copy of this job ran on another Kafka cluster with the same [state], stop both, executors included, and give "
    "the copy a sink.name, a sink.checkpoint and tables of its own. If you have a backup of the state that is older "
    "than the copy, the copy inserted nothing into this job's tables, and these have the columns _kafka_topic, "
    "_kafka_partition and _kafka_offset: restore the backup, run `chsink state recover --senders-gone --replace`, "
    "because this job has landed records since, and start this job (a new checkpoint alone would land all records "
    "again). Otherwise, name new tables in the [[route]] of this job's topics, set kafka.starting_offsets = "
    '"earliest", and start this job with a new checkpoint; '
)
SAME_RECORDS: Final = (
    "if the topic was created again with the same records, as after a move to another cluster, first name a new table "
    'in its [[route]], and set kafka.starting_offsets = "earliest": otherwise they would land twice; '
)
AGAIN: Final = "start again (or, if a replay of dead letters failed, run the replay again)"
SETTLED: Final = (
    "stop the job; if `chsink status` then shows a partition at BEFORE or a replay in doubt, start the job (or run "
    "`chsink dlq replay`) until it is settled, and stop the job again"
)
WITHOUT_DEDUPLICATION: Final = (
    "with the setting insert_deduplicate = 0 (from ClickHouse 26.2 on, deduplicate_insert = 'disable', "
    "deduplicate_insert_select = 'disable')"
)
DELETE_AND_AGAIN: Final = "if it is refused, do what its fix says"
ALL_THERE: Final = "--landed if all rows and dead letters of the range are there, each once"
LETTERS: Final = (
    "the dead letters that this sink wrote of these records for these tables, with their replay marks (in column sink, "
    "this sink's name, and the same with ~replay; if dead letters are in a Kafka topic, you cannot delete them: before "
    "the start, run `chsink state resolve TOPIC PARTITION` for each range that `chsink status` still shows at BEFORE, "
    "with "
    + ALL_THERE
    + ", otherwise with --resend ("
    + DELETE_AND_AGAIN
    + "); then set dead_letters.topic to a new topic)"
)
OLD_VERSIONS: Final = (
    "if the table, or one that its views fill, is a ReplacingMergeTree whose version is _kafka_offset, first move from "
    "each such table, on every shard, the topic's rows at or beyond the end of Kafka's log, or, if the topic was "
    "created again, all of its rows, to another table: they would hide new rows; "
)
REPLAY_AGAIN: Final = (
    "if dead letters are in a table: of those whose record Kafka no longer holds and whose row is gone, delete the "
    "replay mark, and what the targets of the table's views hold of them; `chsink dlq replay` lands them again after "
    "the start"
)
FED_AGAIN: Final = (
    " (an INSERT feeds the table's views again: if their targets still have these rows, drop the views first, and "
    "create them again afterwards)"
)
RESOLVE_BEFORE_START: Final = (
    "run `chsink status`; if it shows a topic-partition at BEFORE whose rows or dead letters go to {table}, directly "
    "or through a view, run `chsink state resolve TOPIC PARTITION` before the next start, with "
    + ALL_THERE
    + "; otherwise with --resend ("
    + DELETE_AND_AGAIN
    + "). If it shows a replay in doubt into {table}, run `chsink dlq replay --landed` if every dead letter of these "
    "replays has one row; otherwise `chsink dlq replay --resend` (" + DELETE_AND_AGAIN + ")"
)

REPLICA_GONE: Final = (
    "if one is gone for good, remove it from clickhouse.endpoints, and on another replica run SYSTEM DROP REPLICA "
    "'NAME' FROM TABLE {table}; if that leaves one replica, set insert_quorum = 1 in [clickhouse.settings], because "
    "ClickHouse otherwise confirms no insert into it"
)


def choose(resolve: str) -> str:
    """What a person decides about a range in doubt, by this command."""
    return (
        f"check the table, then run `{resolve}` with {ALL_THERE}; with --resend to send the whole range again "
        f"({DELETE_AND_AGAIN}; if the table has no column _kafka_offset, you have to find the rows of the range "
        f"yourself, and delete them before); or with --lost to keep what is there and give up the missing rows"
    )


CHOOSE: Final = choose("chsink state resolve {arguments}")
