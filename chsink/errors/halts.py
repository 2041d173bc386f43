"""3xx: continuing could lose or duplicate a record; a person decides."""

from __future__ import annotations

from chsink.errors.entry import halt, preflight
from chsink.errors.steps import (
    AGAIN,
    ALL_THERE,
    CHOOSE,
    COPY_ELSEWHERE,
    DELETE_AND_AGAIN,
    FROM_EARLIEST,
    LETTERS,
    NEW_CHECKPOINT,
    OLD_VERSIONS,
    OLDER_BACKUP,
    RECOVER,
    RESUME,
    RESUME_EITHER,
    SAME_RECORDS,
    WITHOUT_DEDUPLICATION,
    WRONG_CLUSTER,
)

# The pure core halts by name (`statemachine.table.Halt`): the entries of these names are its sentences.

LOG_SHRANK = halt(
    "CHS-301",
    "{tp}: Kafka's log ends before offsets that already landed ({detail})",
    "Kafka lost records; find the cause first. To continue with the topic as it is: stop the job, executors included; "
    "copy all rows and dead letters of these partitions to other tables: of records that Kafka has lost, they may be "
    "the only copy; "
    + OLD_VERSIONS
    + "run `chsink state reset {arguments}`. For each partition and table that this command names, delete the rows of "
    "all offsets that Kafka holds now, also from the targets of dependent views, and "
    + LETTERS
    + ": otherwise records land twice. Then "
    + NEW_CHECKPOINT
    + ": chsink lands what Kafka holds now. Once this has landed, look at what you deleted: insert again from the "
    "copies the rows and dead letters (with their replay marks) at whose offset Kafka holds no record, or one with "
    "another timestamp (than _kafka_timestamp, in dead letters timestamp_ms; without it, nothing tells); but insert "
    "no rows into a ReplacingMergeTree of which you moved rows",
    runbook="The cause may be an unclean leader election.",
)
PLAN_SHRANK = halt(
    "CHS-301",
    "{tp}: batch {batch} is planned to end at {end}, before its start {start}: Kafka's log shrank",
    "Kafka lost records, or the topic was created again; "
    + SAME_RECORDS
    + OLD_VERSIONS
    + "to continue with the topic as it is, "
    + RESUME_EITHER,
)
PLAN_BEYOND_LOG = halt(
    "CHS-301",
    "{tp}: the planned offsets {planned} lie beyond the end of Kafka's log, which is now {end}",
    "none of these offsets has landed; Kafka lost records, or the topic was created again; "
    + SAME_RECORDS
    + OLD_VERSIONS
    + "to continue with the topic as it is, "
    + RESUME,
)
STATE_LOST = halt(
    "CHS-302",
    "{tp}: no range is recorded for this partition, but the checkpoint has moved past its earlier records ({detail})",
    "if you changed sink.name, [state] or the route's table by mistake, change it back; if another job has this "
    "sink.name, give this job a sink.name, a sink.checkpoint and tables of its own; if the state was lost, restore it "
    "from a backup that was made after the last batch; if it was lost and there is no such backup, or if you renamed "
    "the table in ClickHouse, "
    + RECOVER
    + "`, and start the job; otherwise, if the table has neither rows nor dead letters of this partition, as under a "
    "new route or after a reset, " + FROM_EARLIEST,
    runbook="See [lost state](#lost-state).",
)
CHECKPOINT_WITHOUT_STATE = halt(
    "CHS-302",
    "the query of checkpoint {checkpoint} has finished batches, but this sink has no recorded state",
    "if you changed sink.name or [state], change it back; if this sink has never landed a record (the checkpoint is of "
    "another query), set sink.checkpoint to a new folder; if the state was lost, restore the state store from a backup "
    "that was made "
    "after the last batch, or "
    + RECOVER
    + "`, and start the job; if no table has rows or dead letters of this sink, "
    + FROM_EARLIEST,
    runbook="See [lost state](#lost-state).",
)
CHECKPOINT_BEFORE_RESET = halt(
    "CHS-302",
    "the state of {tps} was reset, but the query of checkpoint {checkpoint} has already read records from "
    "before the reset",
    "with this checkpoint, these records would not be read again. Of those that Kafka still holds, delete the rows in "
    "the tables named here, but in no other ones, also from the targets of dependent views (keep rows of an earlier "
    "topic of this name: their _kafka_timestamp is not that of Kafka's record at the offset), and "
    + LETTERS
    + ": otherwise they land twice. Then "
    + NEW_CHECKPOINT,
)
TOPIC_RECREATED = halt(
    "CHS-303",
    "{tp}: the topic was deleted and created again, and the plan does not start at its first offset ({detail})",
    WRONG_CLUSTER
    + COPY_ELSEWHERE
    + "if no copy ran: "
    + SAME_RECORDS
    + OLD_VERSIONS
    + "if Kafka holds the topic's first records, "
    + NEW_CHECKPOINT
    + ", which reads the topic from offset 0; if it no longer holds them, stop the job, executors included, and run "
    "`chsink state reset {arguments}`, but delete no rows (they are of the earlier topic), then " + NEW_CHECKPOINT,
)
TOPIC_ID_KNOWN_UNKNOWN = halt(
    "CHS-304",
    "{tp}: the brokers stopped reporting the topic's id, or began to report it while a range is in doubt ({detail})",
    "connect the job to brokers of one version; without the id, chsink cannot notice that a topic was recreated. If "
    "all brokers were upgraded while a range was in doubt, " + CHOOSE,
    runbook="If nothing is in doubt, chsink records the new id and continues.",
)
OUTSIDE_PROCESSED = halt(
    "CHS-305",
    "{tp}: the plan contains older offsets that this sink never landed, or that lie in a recorded gap ({detail})",
    "to continue after the recorded offsets, " + NEW_CHECKPOINT + "; to read older data, use a new sink with its own "
    "table",
)
REWOUND = halt(
    "CHS-306",
    "{tp}: the source was rewound: all planned offsets landed before ({detail})",
    "to continue after the recorded offsets, " + NEW_CHECKPOINT + "; to skip these offsets, set errors.on_rewind = "
    '"skip"',
)
GAP = halt(
    "CHS-307",
    "{tp}: the plan skips offsets after the recorded end ({detail})",
    OLDER_BACKUP
    + "if the state was not restored, "
    + NEW_CHECKPOINT
    + '; if Kafka no longer holds the skipped offsets, also set errors.on_gap = "record" for one start, to accept the '
    "gap",
    runbook="Kafka deleted records before chsink read them (raise the topic's retention.ms), or the checkpoint skipped "
    "offsets.",
)
PASSED_OVER = halt(
    "CHS-307",
    "{tp}: the checkpoint is past offsets that did not land ({detail})",
    OLDER_BACKUP + COPY_ELSEWHERE + "if neither happened, " + NEW_CHECKPOINT + ": chsink then lands these offsets",
)
PLAN_NOT_HELD = halt(
    "CHS-307",
    "{tp}: Kafka deleted {gone} before these offsets landed (planned: {planned}; the log now starts at {start})",
    'to accept the gap, set errors.on_gap = "record" for one start and '
    + RESUME
    + "; chsink then lands what Kafka still holds",
)
IN_DOUBT_LOST = halt(
    "CHS-308",
    "{tp}: a range in doubt can no longer be read from Kafka ({detail})",
    WRONG_CLUSTER
    + "check the table, then run `chsink state resolve {arguments}` with "
    + ALL_THERE
    + "; otherwise with --expired to land what Kafka still holds (refused if the topic was created again), or with "
    "--lost to give up all missing rows; then start again, unless the topic was created again: in this case, "
    + SAME_RECORDS
    + OLD_VERSIONS
    + NEW_CHECKPOINT,
    runbook='With errors.in_doubt = "dead_letter", the job does by itself what --expired does, and '
    "[lists the offsets](dead-letters.md#offsets-that-kafka-deleted).",
)
PIPELINE_CHANGED = halt(
    "CHS-309",
    "{tp}: the pipeline has changed while a range is in doubt ({detail})",
    "undo the change (of an altered table, `chsink doctor` says which column changed, where it can tell), run the job"
    " until the range is settled, then make the change again; or, to keep the change, run `chsink state resolve "
    "{arguments} --resend`; " + DELETE_AND_AGAIN,
)
CHOICE_CHANGED = halt(
    "CHS-309",
    "{tp}: offsets {range} were announced for table {ahead} but not yet for table {behind}, and table_by, or your "
    "program's transform, has changed since: a record whose table changed would land twice or not at all",
    "undo the change, run the job until a batch has landed in all tables, then make the change again. Only if you "
    "renamed a table, interrupted `chsink state recover`, and renamed the table back (no route leads to {behind} now), "
    "run `chsink state reset {topic:shell} --table {behind:shell}` instead: other tables then no longer wait for "
    "{behind}",
)
DEAD_LETTERS_INCOMPLETE = halt(
    "CHS-333",
    "{tp}: chsink cannot rely on the deduplication token of the dead letters at offsets {offsets}, and their table "
    "holds {there} of them instead of {rows}",
    "if Kafka still holds the range, run `chsink state resolve {arguments} --resend`; "
    + DELETE_AND_AGAIN
    + ". If Kafka has deleted records of the range and there are too many dead letters, copy one of each to another "
    f"table, delete all of them, and insert the copies {WITHOUT_DEDUPLICATION}; then start again. If it "
    "has deleted some and there are too few dead letters, run `chsink state resolve {arguments} --lost`, which gives "
    "up the records of the range that have neither a row nor a dead letter, and says how many; of these, produce again "
    "those that Kafka still holds",
)
DEAD_LETTER_REFUSED = halt(
    "CHS-334",
    "{tp}: Kafka refused the dead letters of the offsets {offsets} in topic {topic}: {reason}",
    "as the reason says, create the topic; or raise its max.message.bytes above the largest record plus 10 kB of "
    "headers; or grant the rights (WRITE on the topic and on the transactional ids, READ on the group); then start "
    "again",
)
DEAD_LETTERS_GROUP = halt(
    "CHS-335",
    "{tp}: the consumer group {group} has offsets of a newer run of this sink that delivered dead letters ({note})",
    "stop every process of the job. If its state was restored from an older backup, run `chsink state recover "
    "--senders-gone --replace`: it finds the dead letters in the topic. Otherwise, if some dead letters may be "
    "delivered twice, delete the group: kafka-consumer-groups.sh --bootstrap-server BROKER --delete --group {group}; "
    "then start again",
)
REPLAY_IN_DOUBT = halt(
    "CHS-336",
    "{tp}: an earlier `chsink dlq replay` of {letters:dead letters} at offsets {offsets} into {table} is in doubt, and "
    "chsink cannot settle it: {reason}",
    "stop every other `chsink dlq replay` of the sink, and start none until you are done; run this one again, which "
    "may settle what the others left; then look in the table for rows of the offsets that it still names, and in the "
    "targets of dependent views: if the table has each row once, insert what a view's target lacks, and run `chsink "
    "dlq replay --landed`; if neither the table nor a target has a row of them, run `chsink dlq replay --resend`; in "
    "any other case, delete the rows that are there, also from the targets of dependent views, and run it with "
    "--resend",
    runbook="This stops only replays; the job goes on.",
)
REPLAY_ROWS_THERE = preflight(
    "CHS-337",
    "{tp}: an earlier replay of {letters:dead letters} is in doubt, and {table} already holds {rows} of their rows; "
    "sending these again would duplicate them",
    "if each of the {letters:dead letters} has its row there, once, run `chsink dlq replay --landed`; if not, delete "
    "the rows that are there, on each shard and in the targets of dependent views: {delete}; then run `chsink dlq "
    "replay --resend` again",
)
REPLAY_ROWS_MISSING = preflight(
    "CHS-337",
    "{tp}: an earlier replay of {letters:dead letters} is in doubt, and {table} lacks the rows of {missing} of them: "
    "if these were recorded as landed, they would never land",
    "delete all rows that these dead letters have in {table}, on each shard and in the targets of dependent views: "
    "{delete}; then run `chsink dlq replay --resend`",
)
REPLAY_MARKS_DROPPED = preflight(
    "CHS-337",
    "{tp}: an earlier replay of {letters:dead letters} into {table} is in doubt, and ClickHouse drops the replay marks "
    "that confirm it: it remembers their deduplication token, but not the marks themselves",
    "keep the dead letters, but delete the rows that their records have in {table}, on each shard and in the targets "
    "of dependent views: {delete}; then run `chsink dlq replay --resend`, which replays them again",
)
REPLAY_MARKS_THERE = preflight(
    "CHS-337",
    "{tp}: an earlier replay of {letters:dead letters} into {table} is in doubt, and only some of its replay marks are "
    "there: dead letters with a mark would never be replayed again",
    "delete these marks on the first endpoint, where dead letters are kept: {delete}; then run `chsink dlq replay "
    "--resend` again",
)
REPLAY_UNSETTLED = preflight(
    "CHS-338",
    "{tp}: a `chsink dlq replay` of {letters:dead letters} into {table} is in doubt; if you reset the partition now, "
    "their records may land twice",
    "stop the replay if it still runs, run `chsink dlq replay` to settle it, then run this command again",
)
STATE_UNREADABLE = halt(
    "CHS-311",
    "state row '{row}' cannot be read: {error}",
    "run the chsink version that wrote it; if the row is damaged, restore the state from a backup that was made after"
    " the last batch",
)
LAYOUT_LOST = halt(
    "CHS-312",
    "{tp} is in doubt for {table} under shard layout {layout}, which is not stored",
    "configure the shards, weights and shard key of that layout, and run the job until the range is settled; "
    "or " + CHOOSE,
)
NOT_ROUTED = halt(
    "CHS-313",
    "{tp} is in doubt for table {table}, but no route leads to this table now",
    "restore the [[route]], and run the job until the range is settled; or check the table and run `chsink state "
    "resolve {arguments}` with " + ALL_THERE + ", or --lost to give up the missing rows",
)
PIECE_INCOMPLETE = halt(
    "CHS-314",
    "{tp} {offsets}: shard {shard} of {table} holds {there} of the piece's {rows:rows}, and its deduplication "
    "token may have been forgotten",
    "run `chsink state resolve {arguments} --resend`; "
    + DELETE_AND_AGAIN
    + "; or insert all missing rows and dead letters of the range in doubt yourself, including those of its other "
    "pieces, and run `chsink state resolve {arguments} --landed` instead",
)
PIECE_DROPPED = halt(
    "CHS-314",
    "{tp} {offsets}: shard {shard} of {table} dropped a piece of {rows:rows} as a duplicate, but shows {there} of "
    "them: the others were deleted, the server lost them, or a row policy hides them from this user",
    "if a row policy hides rows (SHOW ROW POLICIES lists them), remove it and start again; otherwise run `chsink state "
    "resolve {arguments} "
    "--resend`; " + DELETE_AND_AGAIN + ": the next start sends the range again under new tokens",
)
PIECE_STORED_AGAIN = halt(
    "CHS-314",
    "{tp} {offsets}: a piece of {rows:rows} was sent again, and shard {shard} of {table} now holds {there:rows} of "
    "these offsets: either ClickHouse has forgotten the piece's deduplication token, as it does when a part is "
    "detached and reattached, or another sink inserted rows",
    "if another sink inserted rows of these offsets, first copy its rows to another table (only you can tell which "
    "they are), and give that sink a table of its own; run `chsink state resolve {arguments} --resend` ("
    + DELETE_AND_AGAIN
    + "), and start again; once the range has landed, insert again those of the copied rows that you deleted",
)
INSERT_REFUSED = halt(
    "CHS-315",
    "{url} refused an insert into {table} with code {code}: {reason}",
    "correct the views, the grants, [clickhouse.settings] or the table (if you have to change a column that chsink "
    "fills, the start halts with CHS-309, whose fix then leads on), then " + AGAIN + ": chsink will settle the range",
)
CHECKPOINT_DAMAGED = halt(
    "CHS-316",
    "the checkpoint is damaged: its file {path} {reason}",
    RESUME_EITHER + ". A start resumes from the recorded state, so nothing is lost or inserted twice",
)
CANNOT_PROBE = halt(
    "CHS-317",
    "{tp} {range} is in doubt, and ClickHouse may have forgotten its deduplication tokens: {reason}; chsink cannot "
    "look for its rows in {table}",
    CHOOSE + "; in future, chsink can look for the rows itself if the table is a MergeTree, ReplicatedMergeTree or "
    "SharedMergeTree without TTL and has the columns _kafka_topic, _kafka_partition and _kafka_offset",
)
VIEWS_DOUBTFUL = halt(
    "CHS-317",
    "the table holds all rows of {tp} {range}, but ClickHouse may have forgotten their deduplication tokens, and "
    "chsink cannot tell whether these dependent views received the rows too: {views}",
    "make sure that the job's executors have stopped, because a running task may still insert into the views; wait for "
    "clickhouse.insert_timeout_s, at least 120 s; compare each view's target with the table for these offsets and "
    "insert into the target what it lacks; then run `chsink state resolve {arguments} --landed`",
)
FOREIGN_ROWS = halt(
    "CHS-318",
    "{tp}: the table may have forgotten the range's tokens, and may hold rows of these offsets that another sink, or "
    "an earlier topic of this name, inserted ({detail})",
    "if all of the range's own rows and dead letters are there, each once, run `chsink state resolve {arguments} "
    "--landed`; if not, copy the rows that are not the range's own to another table, run the command with --resend "
    "instead (if it is refused, do what its fix says); then start again; once the range has landed, insert again "
    "those of the copied rows that you deleted (the targets of dependent views then receive them again, too)",
)
SOURCE_MISSES_OFFSETS = halt(
    "CHS-319",
    "Kafka no longer holds offsets that Spark's checkpoint names: {reason}",
    "Kafka deleted records, or the topic was created again; "
    + SAME_RECORDS
    + OLD_VERSIONS
    + "to continue with the topic as it is, "
    + RESUME_EITHER
    + ". A start continues from the recorded state, and errors.on_gap decides whether a gap halts it",
)
NO_STATE = preflight(
    "CHS-320",
    "sink '{sink}' has no state",
    "check sink.name and [state] in the job file",
)
NO_STATE_OF = preflight(
    "CHS-320",
    "sink '{sink}' has no state for {what}",
    "run `chsink state show` to see what is recorded",
)
NOTHING_IN_DOUBT = preflight(
    "CHS-320",
    "{tp} has no range in doubt",
    "run `chsink state show`: you can only resolve partitions at BEFORE",
)
SEVERAL_IN_DOUBT = preflight(
    "CHS-320",
    "{tp}: several ranges are in doubt ({tables})",
    "choose one with --table TABLE",
)
SENDERS_MAY_LIVE = preflight(
    "CHS-321",
    "a task of an earlier run may still send {ranges} under the old tokens",
    "make sure that no process of the old job is running, executors included; then run the command again "
    "with --senders-gone",
)
RESEND_NOT_ROUTED = preflight(
    "CHS-322",
    "{tp}: no route leads to {table}",
    "restore the [[route]] from this topic to the table, then run the command again",
)
RESEND_OTHER_RECORDS = preflight(
    "CHS-322",
    "{tp} {range}: table_by, or your program's transform, may have changed since the range was announced for {table}: "
    "a record whose table changed could land in two tables, or in none",
    "if your program transforms the stream and nothing has changed, pass `--pipeline FINGERPRINT`, with the text that "
    "follows `now` in the message of CHS-309, or, if the job did not halt with it, with the `pipeline` of this range "
    "in `chsink state show --json`; otherwise undo the change, run the job until the range is settled, then make the "
    "change again; if it cannot be undone, check the table, then instead of --resend pass "
    + ALL_THERE
    + ", or --lost to give up the missing rows",
)
RESEND_NOT_COUNTED = preflight(
    "CHS-322",
    "{tp} {range}: {reason}",
    "make the table and all its shards available so that chsink can count the rows; or check the table yourself and, "
    "instead of --resend, pass " + ALL_THERE + ", or --lost to give up the missing rows",
)
RESEND_LETTERS_UNKNOWN = preflight(
    "CHS-322",
    "{tp} {range}: dead letters of this range may be delivered already, and the job file keeps no dead letters now",
    "set errors.on_bad_value, errors.on_tombstone and [dead_letters] as they were when the range was announced, and "
    "run the job until the range is settled; if that run halts with CHS-309, run this command with these settings, "
    "then the job once more; only then make the change again",
)
RESEND_NOT_READABLE = preflight(
    "CHS-322",
    "{tp} {range} can no longer be read from Kafka (topic id {topic_id}, log [{start}, {end}))",
    "check the table, then instead of --resend pass "
    + ALL_THERE
    + "; otherwise pass --expired to land what Kafka still holds (refused if the topic was created again; if you have "
    "changed the table or the job file since, undo that first), or --lost to give up all missing rows",
)
RESEND_WOULD_DOUBLE = preflight(
    "CHS-322",
    "{table} holds {rows:rows} of {ranges}: if the range is inserted again, they will be there twice",
    "if all rows and dead letters of the range are there, each once, delete nothing and pass --landed instead; "
    "otherwise (in a compacted topic, first copy them: Kafka may no longer hold all of their records) delete the rows "
    "that are there {where}: {delete}; then run this command again before you start the job (and insert the copied "
    "rows that are missing once the range has landed): it gives the range new tokens, and without them ClickHouse "
    "would drop the rows as duplicates",
)
RESEND_LETTERS_DOUBLE = preflight(
    "CHS-322",
    "{table} holds {letters:dead letters} of {ranges}: if the range is inserted again, they will be there twice",
    "first copy the dead letters of records that Kafka no longer holds, with their replay marks, to another table "
    "(those of an earlier topic of this name; in a compacted topic, all of them); then delete all of these dead letters"
    " on {url}, where they are kept: {delete}; then run this command again before you start the job, because "
    "ClickHouse would otherwise drop the new ones as duplicates; once the range has landed, insert the copied ones "
    "that are missing",
)
RESEND_MAY_DOUBLE = preflight(
    "CHS-322",
    "{table} holds {rows:rows} of {ranges}; after a reset, a recovery or a recreated topic, chsink cannot tell "
    "whether they belong to this range",
    "if every row of this range is there once, and so are its dead letters, pass --landed; to insert the range again,"
    " first copy the rows of records that Kafka no longer holds to another table (those of an earlier topic; in a "
    "compacted topic, all rows), then delete all of these rows, older ones too, {where}: {delete}; then run this "
    "command again before you start the job: it gives the range new tokens, and without them ClickHouse would drop the "
    "rows as duplicates; once the range has landed, insert the copied rows that are missing",
)
EXPIRED_NOT_HELD = preflight(
    "CHS-322",
    "the topic was deleted and created again: Kafka holds nothing of {ranges}",
    "check the table, then pass " + ALL_THERE + ", otherwise --lost",
)
CHANGED_MEANWHILE = preflight(
    "CHS-323",
    "{key} changed before the decision was written: it is {state} now",
    "nothing was written; stop the running job, then run the command again",
)
RECORDED_MEANWHILE = preflight(
    "CHS-323",
    "meanwhile, another process has recorded state for {key}",
    "nothing was written; run the command again",
)
ROWS_CHANGED = preflight(
    "CHS-323",
    "{table} held {before} of {tp} {range} when this command first counted them, and now holds {now}",
    "nothing was written; check the table again, then run the command again",
)
TABLE_PROVES_NOTHING = preflight(
    "CHS-330",
    "the state of {topic} cannot be rebuilt from {table} at {url}: {reason}",
    "{fix}",
)
ROWS_PROVE_NOTHING = preflight(
    "CHS-331",
    "cannot rebuild the state of {tp} from {table}: {reason}",
    "{fix}",
)

# --- CHS-340 to CHS-360: the Iceberg mirror; nothing of it stops the ClickHouse side

_RESOLVE = (
    "run `chsink mirror resolve {tables}` with --reread to land the records that the table lacks and Kafka still holds "
    "(refused if nothing shows which rows the mirror wrote), or with --skip to continue without them; then start again"
)
_BY_TABLE_BY = (
    ". With table_by, do this instead to land everything: run `chsink mirror resolve` with all of these tables and "
    "--skip; start the mirror; stop it; create an empty table and name it in table_by in place of the old one; start "
    "the mirror; run `chsink mirror backfill` with the empty table's name and --apply"
)

MIRROR_ROLLED_BACK = halt(
    "CHS-340",
    "Iceberg table {tables} was rolled back: its history no longer contains the mirror's last snapshot ({detail})",
    "to undo the rollback, if nobody else has committed since (see the metadata table `snapshots`), set the branch "
    "that the mirror writes to (main, unless mirror.branch names another) back to that snapshot, then start again; to "
    "keep the rollback, " + _RESOLVE,
    runbook="Decide before you expire snapshots or delete orphan files.",
)
MIRROR_ROWS_GONE = halt(
    "CHS-340",
    "Iceberg table {tables} lacks rows that it had with the mirror's last snapshot, which has expired ({detail}): the "
    "table was rolled back, or somebody deleted rows",
    "if the rows were deleted on purpose, run `chsink mirror resolve {tables} --skip`, which continues without them; "
    "to land all records that Kafka still holds, create an empty table, name it in [[mirror.route]] instead, and run "
    "`chsink mirror resolve` with its name and --reread; then start again" + _BY_TABLE_BY,
)
MIRROR_CHAIN_DAMAGED = halt(
    "CHS-341",
    "Iceberg table {tables}: the table property '{property}' contradicts the table ({detail})",
    "if a newer chsink wrote it, run that version; otherwise remove the property with ALTER TABLE {tables} UNSET "
    "TBLPROPERTIES ('{property}'); if its name begins with chsink.share, run `chsink mirror resolve` with all tables "
    "of the topic and --reread, and start again; if it begins with chsink.backfill, start again, and ask for the "
    "backfill again; for any other property, start again: chsink continues where the table's snapshots end; if none of "
    'the mirror\'s snapshots may be left, set mirror.added_tables = "halt" first: with "now", records that were '
    "handed over, but are not committed yet, would never land in it",
    runbook="Nobody but chsink may change this property: it says which offsets the table holds.",
)
MIRROR_CHAIN_MISSING = halt(
    "CHS-342",
    "the mirror has read this topic before, but Iceberg table {tables} does not say which records it holds ({detail})",
    "if the table holds rows of others, look first at the plan of --skip: topic-partitions without a row may be read "
    "from their first record; if table_by has changed, first undo the change, run the mirror until `chsink mirror "
    "status` shows no pending offsets, stop it, and change table_by again; then " + _RESOLVE,
)
MIRROR_CHOICE_CHANGED = halt(
    "CHS-352",
    "table_by of [[mirror.route]] has changed while records that were handed over are missing in Iceberg tables: "
    "{detail}",
    "if you changed mirror.branch and not table_by, run `chsink mirror resolve` with all tables of the topic and "
    "--reread, then start again; otherwise chsink cannot tell which of the missing records belonged to which table: "
    "undo the change of table_by, run the mirror until `chsink mirror status` shows no pending offsets for {tables}, "
    "stop it, and change table_by again; if it halts once more, change table_by in two steps, each with a start of "
    "the mirror: in the first, keep a table of the map in force; or, if no offsets were pending when you stopped the "
    "mirror, other tables hold these records: run `chsink mirror resolve` with all tables of the topic and --skip",
    runbook="The mirror commits what was reported on the control topic before it halts. So this halt means that "
    "reports were lost, or that the catalog refused their commit. If the earlier table_by is lost, name the tables "
    "that lack records in table_by, with any values, run `chsink mirror resolve TABLE… --skip` with all tables of the "
    "topic, and start the mirror once: they continue without these records. Then set the table_by that you want.",
)
MIRROR_TOO_MANY_TABLES = halt(
    "CHS-360",
    "records of topic {topic} name more Iceberg tables than the {most} that max_tables of its table_by allows; new "
    "ones: {tables}",
    "if you want these tables, set max_tables higher; otherwise list the values that name them in `tables`, with a "
    "table for their records; then start again",
    runbook="Nothing was handed over of the ranges with these records. If each record names a table of its own, the "
    "field is the wrong one: name another in table_by.",
)
MIRROR_TABLE_GONE = halt(
    "CHS-343",
    "Iceberg table {tables} does not exist in the catalog",
    "if you no longer want this table, remove its [[mirror.route]]; if the mirror never wrote to it, create it and "
    "start again; otherwise restore it and start again, or create it empty and " + _RESOLVE,
)
MIRROR_TABLE_RECREATED = halt(
    "CHS-343",
    "Iceberg table {tables} was dropped and created again while the mirror ran",
    _RESOLVE,
)
MIRROR_TOPIC_RECREATED = halt(
    "CHS-345",
    "{tp}: the topic was deleted and created again; Iceberg table {tables} holds records of the earlier topic",
    WRONG_CLUSTER
    + "if the new topic holds the same records as before, as after a move to another Kafka cluster, create an empty "
    "table, name it in [[mirror.route]] instead, set mirror.checkpoint to a new folder, and run `chsink mirror "
    "resolve` with its name and --reread (in the old table, they would land twice); then start again; otherwise, to "
    "land it in the same table, set mirror.checkpoint to a new folder and " + _RESOLVE,
    runbook="Records of the earlier topic that workers had handed over are committed.",
)
MIRROR_RECORDS_GONE = halt(
    "CHS-346",
    "{tp}: Kafka deleted the offsets {range} before they landed in Iceberg table {tables}",
    "to give up what Kafka no longer holds and land the rest, set mirror.checkpoint to a new folder and run "
    "`chsink mirror resolve {tables} --reread`; then start again",
)
MIRROR_EVENTS_DAMAGED = halt(
    "CHS-347",
    "events of the control topic {topic} for Iceberg table {tables} contradict each other ({detail})",
    "find the other program that writes to the control topic {topic}, and stop it. Stop the mirror, set "
    "mirror.control_topic to a new name, and start again: chsink creates the topic, and reads again from the source "
    "topics what was not committed yet, as far as Kafka still holds it (a record that Kafka no longer holds halts the "
    "mirror with CHS-346)",
)
MIRROR_FILES_GONE = halt(
    "CHS-349",
    "data files for Iceberg table {tables} were deleted before the mirror committed them, and Kafka no longer holds "
    "their records ({detail})",
    "if the storage can restore the deleted files, restore them and start again; to give up these records and land the "
    "rest, run `chsink mirror resolve {tables} --reread`; then start again",
    runbook="Find the program that deletes orphan files: it must keep files that are younger than the longest time "
    "without a commit. While Kafka holds the records, the mirror writes deleted files again by itself.",
)
MIRROR_LOG_SHRANK = halt(
    "CHS-350",
    "Kafka's log ends before offsets that Iceberg table {tables} already holds ({detail})",
    "Kafka lost records; find the cause first. To land everything that Kafka holds, create an empty table, name it in "
    "[[mirror.route]] instead, set mirror.checkpoint to a new folder, and run `chsink mirror resolve` with the table's "
    "name and --reread. To continue this table at the log's end, without the records that Kafka holds below it, set "
    "mirror.checkpoint to a new folder and run `chsink mirror resolve {tables} --skip`. Then start again"
    + _BY_TABLE_BY,
    runbook="The cause may be an unclean leader election. With --skip, the table continues at the log's end at the "
    "time of the command; new records that reuse lost offsets below it do not land.",
)
MIRROR_ROWS_FOUND = halt(
    "CHS-351",
    "Iceberg table {tables} holds rows that are or may be of this topic ({detail}), and does not say how far the "
    "mirror wrote them: records would land again, or not at all",
    "if you changed sink.name, change it back; if another program wrote the rows, name an empty table in "
    "[[mirror.route]]; otherwise the mirror's groups and the tables' chains were lost: run `chsink mirror recover`, "
    "which continues after the last offset in the rows if none is missing; then start again",
)
MIRROR_ROWS_UNKNOWN = preflight(
    "CHS-348",
    "Iceberg table {table} holds rows, and nothing says which of them the mirror wrote: records that are read again "
    "could land twice",
    "to continue without what the table lacks, run the command with --skip; to land everything that Kafka holds, "
    "create an empty table, name it in [[mirror.route]] instead, and run the command for it" + _BY_TABLE_BY,
)
MIRROR_TABLE_MOVED = preflight(
    "CHS-348",
    "since the plan was shown, the mirror or another command changed Iceberg table {table}, which is left as it is",
    "stop the mirror, and start it to see whether it still halts; if so, stop it and run the command again",
)
MIRROR_SHARED_APART = preflight(
    "CHS-348",
    "Iceberg tables {shared} share {tp} by table_by, but not all of them record its current map: if they continued one "
    "by one, a record could land in two tables",
    "a table that you have just added to table_by needs no command: it begins at the next start, and `chsink mirror "
    "backfill` with its name and --apply then lands earlier records; if you have changed table_by otherwise, undo the "
    "change, run the command again, start the mirror once, and repeat the change; if you have not changed it, name all "
    "of them: `chsink mirror resolve {tables} --skip`; they then continue at one offset, after everything that any of "
    "them holds",
)
_FROM_THE_START = (
    "to land everything that Kafka holds, create an empty table, name it in [[mirror.route]] instead, and run `chsink "
    "mirror resolve` with its name and --reread; then start again" + _BY_TABLE_BY
)
MIRROR_ROWS_LACK = preflight(
    "CHS-355",
    "Iceberg table {table} has no row for the record of {tp} at offset {offset}, although it has one for offset {row}",
    "to continue after the table's last row without what it lacks, run `chsink mirror resolve {table} --skip`; "
    + _FROM_THE_START,
)
MIRROR_ROWS_BEYOND_LOG = preflight(
    "CHS-355",
    "Iceberg table {table} has a row for offset {row} of {tp}, and Kafka's log ends at {end}: the topic was created "
    "again, or its log lost records",
    "to continue at the log's end, so that the records that {tp} holds now do not land, run `chsink mirror resolve "
    "{table} --skip`; " + _FROM_THE_START,
)
MIRROR_ROWS_OF_OTHERS = preflight(
    "CHS-355",
    "Iceberg table {table} has a row for offset {offset} of {tp} whose _kafka_timestamp is not that of Kafka's record: "
    "the topic was created again, or its log lost records",
    "to continue after the table's last row, without the records that Kafka holds before it, run `chsink mirror "
    "resolve {table} --skip`; " + _FROM_THE_START,
)
MIRROR_ROWS_BEFORE = preflight(
    "CHS-355",
    "Iceberg table {table} has a row for offset {offset} of {tp}, and its chain begins at offset {origin}: a backfill "
    "would land such records twice",
    _FROM_THE_START,
)
MIRROR_ROWS_UNTOLD = preflight(
    "CHS-355",
    "Iceberg table {table} may hold rows that other programs added or rewrote (also by DELETE, UPDATE or MERGE), and "
    "they do not say which records of topic {topic} they are: a backfill could land some twice",
    _FROM_THE_START,
)
MIRROR_ROWS_TELL_NOTHING = preflight(
    "CHS-356",
    "the rows of Iceberg table {table} do not say which records of topic {topic} they are: it lacks the columns "
    "_kafka_partition and _kafka_offset, or _kafka_topic although several topics feed it, or some rows have no value "
    "in them",
    "to continue with new records only, run `chsink mirror resolve {table} --skip`; " + _FROM_THE_START,
)

# --- CHS-357 to CHS-359: tables that Iceberg's Kafka Connect sink filled

MIRROR_CONNECTOR_TABLE = preflight(
    "CHS-359",
    "Iceberg table {table} was filled by the Kafka Connect sink of group {group}, and nothing says where the mirror "
    "should continue: records would land twice",
    "stop the connector and run `chsink mirror takeover`, which continues where it stopped; or name another table in "
    "[[mirror.route]]",
)
MIRROR_CONNECTOR_AGAIN = preflight(
    "CHS-359",
    "the Kafka Connect sink of group {group} committed to Iceberg table {table} after the mirror's newest snapshot "
    "{snapshot}: records would land twice",
    "delete the connector, and stop the mirror; if the connector landed records that the mirror had landed before, "
    "Kafka still holds those that only the connector landed, and nobody else has committed since (see the metadata "
    "table `snapshots`), roll the table back to snapshot {snapshot}; "
    "if it continued where the mirror stopped, move the mirror to a job file of its own with a new sink.name, remove "
    "the table property {property}, and run `chsink mirror takeover`; then start the mirror",
)
MIRROR_CONNECTOR_BETWEEN = preflight(
    "CHS-359",
    "the Kafka Connect sink of group {group} committed to Iceberg table {table} after the mirror's snapshot "
    "{snapshot}, and the mirror has committed since: the table may have records twice",
    "delete the connector, and stop the mirror; if Kafka still holds what the mirror has landed since, and nobody else "
    "has committed since (see the metadata table `snapshots`), roll the table back to snapshot {snapshot}, and run "
    "`chsink mirror resolve {table} --reread`; or delete one of each two rows, and the connector's group; then start "
    "the mirror",
)
MIRROR_CONNECTOR_UNKNOWN = preflight(
    "CHS-357",
    "the Iceberg tables do not name one Kafka Connect sink that filled them (found: {found})",
    "if the connector's control topic was deleted, files that waited for a commit are lost: set the offsets of its "
    "group to the offset after the last record that the tables have (if they differ, or no column shows it, name an "
    "empty table in [[mirror.route]] instead), and create the topic again with the same name. Pass both, with the "
    "tables: `chsink mirror takeover TABLE… --group connect-NAME --control-topic control-iceberg`",
)
MIRROR_CONNECTOR_RUNS = preflight(
    "CHS-357",
    "the Kafka Connect sink still runs: its groups ({group}, {group}-coord) have members: {members}",
    "stop the connector (Connect's REST API: PUT /connectors/NAME/stop; a paused one is still a member), and run the "
    "command again once its groups have no members",
)
MIRROR_CONNECTOR_MOVED = preflight(
    "CHS-357",
    "the tables, or the offsets of the Kafka Connect sink of group {group}, changed after they were shown",
    "make sure that the connector is stopped, then run the command again",
)
MIRROR_CONNECTOR_UNREAD = preflight(
    "CHS-357",
    "group {group} has no offset of {topics}, so it does not say how far the Kafka Connect sink has read",
    "correct --group (connect-NAME, unless iceberg.connect.group-id or consumer.override.group.id names another); if "
    "its offsets expired, set each of them to the offset after the last record that the tables, or files that wait for "
    "a commit, have (if no column shows it, name an empty table in [[mirror.route]] instead): kafka-consumer-groups.sh "
    "--bootstrap-server BROKER --group {group} --topic TOPIC:PARTITION --reset-offsets --to-offset OFFSET --execute; "
    "then run the command again",
)
MIRROR_CONNECTOR_SET_BACK = preflight(
    "CHS-357",
    "{tp}: group {group} is at offset {offset}, but the control topic says that the Kafka Connect sink has read up to "
    "{to}",
    "if the group was set back or has expired, set it to where the sink stopped: kafka-consumer-groups.sh "
    "--bootstrap-server BROKER --group {group} --topic {topic} --reset-offsets --to-offset {to} --execute; if the "
    "topic was created again, or if records are to land a second time, run the command with --trust-group",
)
MIRROR_CONNECTOR_BEYOND_LOG = preflight(
    "CHS-357",
    "{tp}: group {group} is at offset {offset}, and Kafka's log ends at {end}: the topic was created again, or its log "
    "lost records",
    "if the topic was created again, set the group to its first record: kafka-consumer-groups.sh --bootstrap-server "
    "BROKER --group {group} --topic {topic} --reset-offsets --to-earliest --execute; if its log lost records, set the "
    "group, with --to-offset, to the first offset whose record is neither in the table nor in a file that waits for a "
    "commit. Then run the command with --trust-group",
)
MIRROR_CONNECTOR_EVENTS_GONE = preflight(
    "CHS-357",
    "Kafka holds events of control topic {topic}-{partition} only from offset {first} on: the events that are gone may "
    "report files of the Kafka Connect sink that wait for a commit to Iceberg table {table}",
    "if each table named here has the row of each record below the offsets of group {reads}, and no row of a later "
    "one, no file waits for a commit: mark all earlier events as committed: kafka-consumer-groups.sh "
    "--bootstrap-server BROKER --group {group} --topic {topic}:{partition} --reset-offsets --to-offset {first} "
    "--execute; then run the command again. Otherwise, for each table where this is not so: " + _FROM_THE_START,
)
MIRROR_CONNECTOR_FILE = preflight(
    "CHS-357",
    "a file that waits for a commit to Iceberg table {table} cannot be committed: {reason} ({file})",
    "run the connector until it has committed its files, then stop it; or restore the file; then run the command "
    "again. Or " + _FROM_THE_START,
)
MIRROR_CONNECTOR_UNSURE = preflight(
    "CHS-357",
    "files of the Kafka Connect sink may wait for a commit to Iceberg table {table}, but the sink's snapshots have "
    "expired, or the table is a copy: nothing says whether they were committed already ({file})",
    "look whether {table} has the rows of the files listed here, and run the command again: if it has none of these "
    "rows, with --files-wait {table}, which commits the files; if it has all, with --files-landed {table}, which does"
    " not commit them (pass an option for each table that is named). If it has only some: " + _FROM_THE_START,
)
MIRROR_CONNECTOR_OTHER_TABLE = preflight(
    "CHS-357",
    "the Kafka Connect sink of group {group} has written files for Iceberg table {table} that wait for a commit, and "
    "no [[mirror.route]] names that table ({file})",
    "name it in a [[mirror.route]], or run the connector until it has committed its files, then stop it; then run "
    "the command again",
)
MIRROR_CONNECTOR_LEFT = preflight(
    "CHS-357",
    "cannot read {what}: {reason}",
    "if a newer version of the Kafka Connect sink wrote it, a newer chsink may read it; " + _FROM_THE_START,
)
MIRROR_MAIN_MOVED = preflight(
    "CHS-353",
    "snapshot {snapshot} of branch {branch} cannot be published in {table}: main is at snapshot {main}, which is not "
    "an ancestor of it, as far as its ancestors have not expired",
    "others committed to main; stop the mirror; cherry-pick those snapshots of the branch that main does not contain,"
    " oldest first, with Spark's procedure cherrypick_snapshot; if some of them have expired, if the branch was "
    "compacted or rolled back (`resolve --reread` then lands rows that main may have), or if you cannot use Spark, "
    "insert into main the rows that only the branch has instead, without those that others deleted from main (compare "
    "_kafka_topic, _kafka_partition and _kafka_offset); then create the branch anew from main: ALTER TABLE {table} "
    "CREATE OR REPLACE BRANCH `{branch}`; then run `chsink mirror resolve {table} --skip`, and start the mirror again",
)
MIRROR_MAIN_UNSEEN = preflight(
    "CHS-353",
    "snapshot {snapshot} of branch {branch} cannot be published in {table}: snapshots between it and main's snapshot "
    "{main} have expired, so chsink cannot tell whether it contains main",
    "if nobody else has committed to main, move main to {snapshot} with Spark's procedure set_current_snapshot; "
    "otherwise stop the mirror, insert into main the rows that only the branch has, without those that others deleted "
    "from main (compare _kafka_topic, _kafka_partition and _kafka_offset), create the branch anew from main: ALTER "
    "TABLE {table} CREATE OR REPLACE BRANCH `{branch}`; run `chsink mirror resolve {table} --skip`, and start the "
    "mirror again; in future, expire snapshots with `chsink mirror clean --expire-snapshots`, which keeps those that "
    "were not published",
)
MIRROR_SNAPSHOT_NOT_THERE = preflight(
    "CHS-353",
    "branch {branch} of {table} has no snapshot {snapshot}",
    "name a snapshot of the branch: the table's metadata table `refs` has its newest one, `snapshots` has all",
)
MIRROR_OLD_BROKER = preflight(
    "CHS-354",
    "broker {broker} is older than Kafka 2.5 ({api} up to version {found}, the mirror needs {needed})",
    "upgrade all brokers to Kafka 2.5 or later: an older broker reports the mirror's offsets even while a transaction "
    "is still moving them",
    ok="the brokers have what the mirror needs since Kafka 2.5",
)
MIRROR_GIVEN_UP = preflight(
    "CHS-358",
    "Iceberg table {table} was dropped, and table_by no longer names it: its records of {ranges} were handed over, but "
    "land in no table",
    "no action needed if you no longer want this table; otherwise create it, name it in table_by again, start the "
    "mirror, and run `chsink mirror backfill {table} --apply` to land those that Kafka still holds",
)
