"""3xx: going on would lose or double a record; a person decides."""

from __future__ import annotations

from chsink.errors.entry import Entry
from chsink.errors.families import HaltError

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
STATE_LOST = Entry(
    "STATE_LOST",
    "CHS-302",
    HaltError,
    "{tp}: the recorded state is gone, but the checkpoint shows that records landed ({detail})",
    "restore the state table, or rebuild it with `chsink state recover`; only a new sink name starts from nothing",
    runbook="Restore from a backup of the Keeper, or see [lost state](#lost-state).",
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
    "{tp}: the topic's id was known before and is not known now, or the reverse ({detail})",
    "connect the job to brokers of one version; without the id chsink cannot notice that a topic was recreated",
)
OUTSIDE_PROCESSED = Entry(
    "OUTSIDE_PROCESSED",
    "CHS-305",
    HaltError,
    "{tp}: the plan contains older offsets that this sink never landed, or that lie in a recorded gap ({detail})",
    "start from the recorded offsets with a new checkpoint, or use a new sink name to read older data",
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
IN_DOUBT_LOST = Entry(
    "IN_DOUBT_LOST",
    "CHS-308",
    HaltError,
    "{tp}: an in-doubt range can no longer be read from Kafka ({detail})",
    "check in the table whether its rows are there, then say so: `chsink state resolve --help`",
    runbook="All rows of the range are there: `resolve --landed`. Otherwise: `resolve --lost`.",
)
PIPELINE_CHANGED = Entry(
    "PIPELINE_CHANGED",
    "CHS-309",
    HaltError,
    "{tp}: a range is in doubt, and something that decides its rows changed since it was announced ({detail})",
    "undo the change, let the range settle, then change it again; or decide with `chsink state resolve --help`",
    runbook="To keep the change: remove the range's rows from the table, then `resolve --resend`.",
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
INSERT_REFUSED = Entry(
    "INSERT_REFUSED",
    "CHS-315",
    HaltError,
    "{url} refused an insert into {table} with code {code}: {reason}",
    "correct the table, its views, the grants or the settings, then start again: chsink will settle the range",
)
CANNOT_PROBE = Entry(
    "CANNOT_PROBE",
    "CHS-317",
    HaltError,
    "{tp} {range} is in doubt and {reason}; chsink cannot look for its rows in {table}",
    "check whether the table holds the rows, then run `chsink state resolve --help`; chsink can look for rows by "
    "itself in a plain MergeTree table with the columns _kafka_topic, _kafka_partition and _kafka_offset and no TTL",
)
FOREIGN_ROWS = Entry(
    "FOREIGN_ROWS",
    "CHS-318",
    HaltError,
    "{tp}: the table may have forgotten the range's tokens, and may hold rows of these offsets that another sink, or "
    "an earlier topic of this name, inserted ({detail})",
    "check in the table whether the range's own rows are there, then say so: `chsink state resolve --help`",
)
