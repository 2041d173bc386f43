"""3xx: going on would lose or double a record; a person decides."""

from __future__ import annotations

from chsink.errors.entry import Entry
from chsink.errors.families import HaltError, PreflightError

# The pure core halts by name (`statemachine.table.Halt`): the entries of these names are its sentences.

LOG_SHRANK = Entry(
    "LOG_SHRANK",
    "CHS-301",
    HaltError,
    "{tp}: Kafka's log ends before offsets that already landed ({detail})",
    "Kafka lost records; if the topic is right as it is now, stop the sink and run `chsink state reset`",
    runbook="Find out why first (unclean leader election?). Before the reset, remove the rows that would land again; "
    "after it, start with a new checkpoint.",
)
PLAN_SHRANK = Entry(
    "PLAN_SHRANK",
    "CHS-301",
    HaltError,
    "{tp}: batch {batch} is planned to end at {end}, before its start {start}: Kafka's log shrank",
    "the topic lost records or was recreated; if the topic is right as it is now, start with a new checkpoint",
)
STATE_LOST = Entry(
    "STATE_LOST",
    "CHS-302",
    HaltError,
    "{tp}: the recorded state is gone, but the checkpoint shows that records landed ({detail})",
    "restore the state table, or rebuild it with `chsink state recover`; if that finds no rows of this partition, "
    "start with a new checkpoint",
    runbook="Restore from a backup of the Keeper, or see [lost state](#lost-state).",
)
CHECKPOINT_WITHOUT_STATE = Entry(
    "CHECKPOINT_WITHOUT_STATE",
    "CHS-302",
    HaltError,
    "the query of checkpoint {checkpoint} has finished batches, but this sink has no recorded state",
    "if the checkpoint belongs to another query, set sink.checkpoint to a new folder; if the state was lost, restore "
    "it or run `chsink state recover`; if that finds no rows, start with a new checkpoint",
    runbook="state lost: restore it from a backup of the Keeper, or [recover](#lost-state)",
)
TOPIC_RECREATED = Entry(
    "TOPIC_RECREATED",
    "CHS-303",
    HaltError,
    "{tp}: the topic was deleted and created again, and the plan does not start at its first offset ({detail})",
    "start with a new checkpoint to read the topic from offset 0; if its first records are gone, run "
    "`chsink state reset`",
)
TOPIC_ID_KNOWN_UNKNOWN = Entry(
    "TOPIC_ID_KNOWN_UNKNOWN",
    "CHS-304",
    HaltError,
    "{tp}: the topic's id was known before and is not known now, or the reverse while a range is in doubt ({detail})",
    "connect the job to brokers of one version; without the id chsink cannot notice that a topic was recreated",
    runbook="Brokers gained topic ids while a range was in doubt: check the table, then decide with "
    "`chsink state resolve`. With nothing in doubt the sink takes the id up without a halt.",
)
OUTSIDE_PROCESSED = Entry(
    "OUTSIDE_PROCESSED",
    "CHS-305",
    HaltError,
    "{tp}: the plan contains older offsets that this sink never landed, or that lie in a recorded gap ({detail})",
    "start from the recorded offsets with a new checkpoint, or use a new sink with its own table to read older data",
)
REWOUND = Entry(
    "REWOUND",
    "CHS-306",
    HaltError,
    "{tp}: the source was rewound: all planned offsets landed before ({detail})",
    'start from the recorded offsets with a new checkpoint, or set errors.on_rewind = "skip" to pass over them',
)
GAP = Entry(
    "GAP",
    "CHS-307",
    HaltError,
    "{tp}: the plan passes over offsets behind the recorded ones ({detail})",
    'if Kafka still holds them, start with a new checkpoint; if not, set errors.on_gap = "record" to accept the gap',
    runbook="Retention was faster than the sink, or a checkpoint skipped offsets. Lengthen the retention.",
)
PLAN_NOT_HELD = Entry(
    "PLAN_NOT_HELD",
    "CHS-307",
    HaltError,
    "{tp}: the plan is {planned}, and Kafka's log starts at {start}: it no longer holds {gone}, which never landed",
    'to accept the gap, set errors.on_gap = "record" and start with a new checkpoint: what Kafka still holds lands',
)
IN_DOUBT_LOST = Entry(
    "IN_DOUBT_LOST",
    "CHS-308",
    HaltError,
    "{tp}: an in-doubt range can no longer be read from Kafka ({detail})",
    "check in the table whether its rows are there, then say so: `chsink state resolve --help`",
    runbook="All rows of the range are there: `resolve --landed`. Kafka still holds a part of it: `resolve --expired` "
    "lands that part. Otherwise: `resolve --lost`.",
)
PIPELINE_CHANGED = Entry(
    "PIPELINE_CHANGED",
    "CHS-309",
    HaltError,
    "{tp}: a range is in doubt, and something that decides its rows changed since it was announced ({detail})",
    "undo the change, let the range settle, then change it again; or decide with `chsink state resolve --help`",
    runbook="To keep the change: remove the range's rows from the table, then `resolve --resend`.",
)
STATE_UNREADABLE = Entry(
    "STATE_UNREADABLE",
    "CHS-311",
    HaltError,
    "state row '{row}' cannot be read: {error}",
    "run the chsink version that wrote it, or see `chsink state --help`",
)
LAYOUT_LOST = Entry(
    "LAYOUT_LOST",
    "CHS-312",
    HaltError,
    "{key} is in doubt under shard layout {layout}, which is not stored",
    "start once with the shards of that layout, or check the table and decide with `chsink state resolve --help`",
)
NOT_ROUTED = Entry(
    "NOT_ROUTED",
    "CHS-313",
    HaltError,
    "{tp} is in doubt for table {table}, to which no route leads any more",
    "restore the route until the range is settled; or decide with `chsink state resolve --help`",
)
PIECE_INCOMPLETE = Entry(
    "PIECE_INCOMPLETE",
    "CHS-314",
    HaltError,
    "{tp} {offsets}: shard {shard} of {table} holds {there} of the piece's {rows} rows, and its deduplication "
    "token may be forgotten",
    "remove or complete these rows manually, then say so with `chsink state resolve`",
)
INSERT_REFUSED = Entry(
    "INSERT_REFUSED",
    "CHS-315",
    HaltError,
    "{url} refused an insert into {table} with code {code}: {reason}",
    "correct the table, its views, the grants or the settings, then start again: chsink will settle the range",
)
CHECKPOINT_DAMAGED = Entry(
    "CHECKPOINT_DAMAGED",
    "CHS-316",
    HaltError,
    "the checkpoint is damaged: its file {path} {reason}",
    "set sink.checkpoint to a new folder, or move this one away, and start again; the sink resumes from its recorded "
    "state, so nothing is lost or inserted twice",
)
CANNOT_PROBE = Entry(
    "CANNOT_PROBE",
    "CHS-317",
    HaltError,
    "{tp} {range} is in doubt and {reason}; chsink cannot look for its rows in {table}",
    "check whether the table holds the rows, then run `chsink state resolve --help`; chsink can look for rows by "
    "itself in a plain MergeTree table with the columns _kafka_topic, _kafka_partition and _kafka_offset and no TTL",
)
VIEWS_DOUBTFUL = Entry(
    "VIEWS_DOUBTFUL",
    "CHS-317",
    HaltError,
    "the table holds all rows of {ranges}, but ClickHouse may have forgotten their deduplication tokens, and chsink "
    "cannot tell whether these dependent views received the rows too: {views}",
    "compare each view with the table for these offsets and add what the view lacks; then run `chsink state resolve "
    "TOPIC PARTITION --landed` for each range",
)
FOREIGN_ROWS = Entry(
    "FOREIGN_ROWS",
    "CHS-318",
    HaltError,
    "{tp}: the table may have forgotten the range's tokens, and may hold rows of these offsets that another sink, or "
    "an earlier topic of this name, inserted ({detail})",
    "if all of the range's own rows are there, run `chsink state resolve TOPIC PARTITION --landed`; if not, run it "
    "with --resend, which names the rows to remove first",
)
SOURCE_MISSES_OFFSETS = Entry(
    "SOURCE_MISSES_OFFSETS",
    "CHS-319",
    HaltError,
    "Spark's Kafka source misses offsets that its checkpoint names: {reason}",
    "the topic was shortened or recreated; start with a new checkpoint: the sink goes on from its recorded "
    "state, and errors.on_gap decides about a gap",
)
NO_STATE = Entry(
    "NO_STATE",
    "CHS-320",
    PreflightError,
    "sink '{sink}' has no state",
    "check sink.name and [state] in the job file",
)
NO_STATE_OF = Entry(
    "NO_STATE_OF",
    "CHS-320",
    PreflightError,
    "sink '{sink}' has no state of {what}",
    "see `chsink state show`",
)
NOTHING_IN_DOUBT = Entry(
    "NOTHING_IN_DOUBT",
    "CHS-320",
    PreflightError,
    "{tp}: nothing is in doubt",
    "see `chsink state show`",
)
SEVERAL_IN_DOUBT = Entry(
    "SEVERAL_IN_DOUBT",
    "CHS-320",
    PreflightError,
    "{tp}: several ranges are in doubt ({tables})",
    "name one with --table",
)
SENDERS_MAY_LIVE = Entry(
    "SENDERS_MAY_LIVE",
    "CHS-321",
    PreflightError,
    "a task of an older job may still send {tp} {range} under the old tokens",
    "make sure that no process of the old job is running, executors included; then add --senders-gone",
)
RESEND_NOT_ROUTED = Entry(
    "RESEND_NOT_ROUTED",
    "CHS-322",
    PreflightError,
    "{tp}: no route leads to {table}",
    "restore the route first",
)
RESEND_NOT_COUNTED = Entry(
    "RESEND_NOT_COUNTED",
    "CHS-322",
    PreflightError,
    "{tp} {range}: {reason}",
    "correct that so that the rows can be counted; or check the table yourself and pass --landed or --lost",
)
RESEND_NOT_READABLE = Entry(
    "RESEND_NOT_READABLE",
    "CHS-322",
    PreflightError,
    "{tp} {range} can no longer be read from Kafka (topic id {topic_id}, log [{start}, {end}))",
    "pass --landed or --lost",
)
RESEND_WOULD_DOUBLE = Entry(
    "RESEND_WOULD_DOUBLE",
    "CHS-322",
    PreflightError,
    "{table} holds {rows} rows of {tp} {range}: inserted again, they would be there twice",
    "on each shard: {delete}; or pass --landed",
)
RESEND_MAY_DOUBLE = Entry(
    "RESEND_MAY_DOUBLE",
    "CHS-322",
    PreflightError,
    "{table} holds {rows} rows of {tp} {range}, and chsink cannot tell whether this sink inserted them since its last "
    "reset, recovery or recreated topic: if so, they would be there twice",
    "if all of them are this range's, pass --landed; to insert it again, remove these rows first, older ones too; on "
    "each shard: {delete}",
)
CHANGED_MEANWHILE = Entry(
    "CHANGED_MEANWHILE",
    "CHS-323",
    PreflightError,
    "{key} changed before the decision was written: it is {state} now",
    "nothing was written; stop the running job, then run the command again",
)
RECORDED_MEANWHILE = Entry(
    "RECORDED_MEANWHILE",
    "CHS-323",
    PreflightError,
    "{key} has state now",
    "nothing was written; run the command again",
)
TABLE_PROVES_NOTHING = Entry(
    "TABLE_PROVES_NOTHING",
    "CHS-330",
    PreflightError,
    "the state of {topic} cannot be rebuilt from {table} at {url}: {reason}",
    "{fix}",
)
ROWS_PROVE_NOTHING = Entry(
    "ROWS_PROVE_NOTHING",
    "CHS-331",
    PreflightError,
    "{tp} in {table}: {reason}",
    "{fix}",
)
