"""2xx: what a start checks first, and what ``chsink doctor`` reports."""

from __future__ import annotations

from chsink.errors.entry import altered, preflight
from chsink.errors.steps import (
    ALL_THERE,
    COPY_ELSEWHERE,
    DELETE_AND_AGAIN,
    FED_AGAIN,
    FROM_EARLIEST,
    LETTERS,
    NEW_CHECKPOINT,
    OLD_VERSIONS,
    RECOVER,
    REPLAY_AGAIN,
    REPLICA_GONE,
    RESOLVE_BEFORE_START,
    RESUME_EITHER,
    SAME_RECORDS,
    SETTLED,
    WRONG_CLUSTER,
    choose,
)

_NEW = (
    "if no record has landed in it yet: create it on every shard (`chsink sql create-table` prints a statement for it) "
    "and grant SELECT and INSERT on it; or "
)
_DROPPED = (
    ". If records have landed in it, stop the job, and do one of three things. If other replicas still have it: create "
    "it here again, and it fetches its rows (if this replica is still registered, first run on another replica SYSTEM "
    "DROP REPLICA 'NAME' FROM TABLE {table};); then start the job. Or restore it from a backup"
    + FED_AGAIN
    + ", and start the job; then run `chsink verify`: it names the offsets that the backup lacks "
    "(docs/how-to/repair.md lands them). Or land again what Kafka still holds: create the table, and run `chsink state "
    "reset --table {named:shell}`; of these records, delete the rows that are in the table on any shard, the rows in "
    "the targets of its views, and " + LETTERS + "; " + REPLAY_AGAIN + "; then " + NEW_CHECKPOINT
)
_SETTLED_FIRST = SETTLED + "; then "
_KEEP_LETTERS = "set cleanup.policy=delete and retention.ms=-1 for the topic; allow the user DESCRIBE_CONFIGS on it"
_ACCEPT_ROWS = 'to land the records a second time on purpose, set errors.on_existing_rows = "accept" for one start'

TOPIC_MISSING = preflight(
    "CHS-201",
    "Kafka at {bootstrap} has no {what}",
    "create the topic, or correct or remove its [[route]] or [[mirror.route]]; but if a mirrored topic was deleted, "
    "first create it again and start the mirror once: records that wait for a commit land only then",
    ok="{topic} exists, with id {id}; partitions: {partitions}",
)
PARTITION_MISSING = preflight(
    "CHS-201",
    "topic {topic} at {bootstrap} has no partition {partition}",
    "if the topic was created again with fewer partitions, add the missing ones; if the partition is gone for good, "
    "stop the job, run `chsink state reset {topic:shell} {partition}` to forget its state, and keep its rows. Then: "
    + SAME_RECORDS
    + OLD_VERSIONS
    + NEW_CHECKPOINT,
)
NO_TABLE = preflight(
    "CHS-202",
    "the table {table} does not exist at {url}, or this user cannot see it",
    _NEW + "correct the name in the job file" + _DROPPED,
)
NO_TABLE_OF_LETTERS = preflight(
    "CHS-202",
    "the table of dead letters, {table}, does not exist at {url}, or this user cannot see it",
    "if no dead letter is in it yet: create it there (`chsink sql dead-letters` prints the statement) and grant SELECT "
    "and INSERT on it; or correct dead_letters.table. If it held dead letters and is gone: restore it from a backup, "
    "or create it again; then run `chsink verify`, which names the records whose dead letters are missing (once their "
    "table fits them, land them as docs/how-to/repair.md shows). A backup lacks newer replay marks: do not replay its "
    "dead letters again into a table without the columns _kafka_topic, _kafka_partition and _kafka_offset",
)
NO_TABLE_OF_TOPIC = preflight(
    "CHS-202",
    "topic {topic} has no table: {table} does not exist at {url}, or this user cannot see it",
    _NEW + "give the topic another table in a [[route]] of its own; or exclude the topic from topic_pattern with "
    "(?!…)" + _DROPPED,
)
NO_TABLE_OF_VALUE = preflight(
    "CHS-202",
    "the table {table}, which {key} gives to topic {topic}, does not exist at {url}, or this user cannot see it",
    _NEW + "correct the name in the job file" + _DROPPED,
)
NO_TABLE_YET = preflight(
    "CHS-202",
    "the table {table} does not exist at {url}; auto_create is set, so the next start creates it from the records of "
    "its topic, unless records landed in it before",
    "to see the statement, run `chsink sql create-table`",
)
PATTERN_MATCHES_NOTHING = preflight(
    "CHS-281",
    "no topic matches topic_pattern {pattern} of {route}",
    "correct the pattern, or grant the Kafka user DESCRIBE on the topics; if the topics do not exist yet, ignore this: "
    "the job finds them without a restart",
    ok="topics match topic_pattern {pattern} of {route}",
)
PATTERN_LEFT_NOTHING = preflight(
    "CHS-281",
    "topic_pattern {pattern} of {route} matches only topics that other routes name, which have priority: {topics}",
    "if the pattern is for later topics, ignore this. To land one of these topics in the pattern's table as well, "
    "name the topic in a further [[route]] with that table; this warning stays. To land the topic only in the "
    "pattern's table, remove it from the route that names it now",
)
NOT_MERGE_TREE = preflight(
    "CHS-203",
    "{table} at {url} has the engine {engine}, which does not deduplicate inserts",
    "write to the MergeTree tables themselves, with one endpoint per shard, not to a Distributed table or a view",
    ok="{table} can store the records of {topic} and deduplicates inserts: {windows}",
)
COLUMNS_DIFFER = preflight(
    "CHS-204",
    "the columns of {table} differ between {first} and {url}: {columns}",
    "give the table the same columns on every shard",
)
KEY_NOT_INSERTABLE = preflight(
    "CHS-205",
    "the shard key column {column} is not an insertable column of {table}",
    "correct clickhouse.shard_key or the route's shard_key",
)
KEY_NOT_IN_STREAM = preflight(
    "CHS-205",
    "the shard key column {column} is neither a column of {table} nor in the stream, which lacks Kafka's {field}",
    "let the transform keep the column {field}, or correct clickhouse.shard_key or the route's shard_key",
)
VOLATILE_PARTITION = preflight(
    "CHS-206",
    "{table} at {url} is partitioned by {columns}, which changes from insert to insert: ClickHouse would not recognize "
    "a repeated insert",
    "partition by a column that comes from the record, such as its timestamp or _kafka_timestamp",
)
NOT_REPLICATED = preflight(
    "CHS-207",
    "{table} on {urls} is not a replicated table: the replicas would hold different rows",
    "make it a ReplicatedMergeTree, or list each server as a separate shard in clickhouse.endpoints",
    ok="{table} has {total:replicas}, insert_quorum is {quorum}",
)
REPLICAS_DIFFER = preflight(
    "CHS-207",
    "{table} is not one table on its replicas: they use different Keeper paths ({places})",
    "list only replicas of one shard under one endpoint",
)
REPLICA_ZONES = preflight(
    "CHS-207",
    "{table} is on servers with different time zones ({zones}): they may put the same time into different table "
    "partitions, and a piece that is sent again to another replica lands twice",
    "stop the job, set the same `<timezone>` in the configuration of these servers, and restart them; "
    + RESOLVE_BEFORE_START
    + ". Then start the job",
)
NO_QUORUM = preflight(
    "CHS-207",
    "{table} has {total:replicas} and insert_quorum is {quorum}: if a replica fails for good right after "
    "it acknowledged an insert, the rows are lost",
    'set insert_quorum = "auto" in [clickhouse.settings]',
)
QUORUM_TOO_LARGE = preflight(
    "CHS-207",
    "{table} has {total:replicas} and insert_quorum is {quorum}: ClickHouse confirms no insert into it",
    "set insert_quorum = {possible} in [clickhouse.settings], or add replicas to the table",
)
VIEW_MAY_DOUBLE = preflight(
    "CHS-208",
    "the materialized view {view} of {table} fills {fills}, a {engine}, which may receive the same rows twice",
    "let the view fill a MergeTree table with non_replicated_deduplication_window = {blocks}, or a replicated table",
    ok="the {count} materialized views of {table} deduplicate too",
)
VIEW_DOUBLES = preflight(
    "CHS-208",
    "the materialized view {view} of {table} fills {fills}, which does not deduplicate: a piece that is sent "
    "again is counted twice there",
    _SETTLED_FIRST
    + "on every shard and replica, run ALTER TABLE {fills} MODIFY SETTING {settings}; then start the job",
)
VIEW_FORGETS = preflight(
    "CHS-208",
    "the materialized view {view} of {table} fills {fills}, which remembers {theirs}, less than {table} ({ours}): a "
    "piece that is sent again after {fills} has forgotten its token is counted twice there",
    _SETTLED_FIRST
    + "on every shard and replica, run ALTER TABLE {fills} MODIFY SETTING {settings}; then start the job",
)
VIEW_PARTITION = preflight(
    "CHS-208",
    "the materialized view {view} of {table} fills {fills}, which is partitioned by {columns}: that changes from "
    "insert to insert, so a piece that is sent again may be counted twice there",
    "partition {fills} by a column that comes from the record, such as its timestamp or _kafka_timestamp",
)
VIEWS_DIFFER = preflight(
    "CHS-208",
    "not every replica of {table} has the materialized views {views} (compared with {urls}): rows that are inserted "
    "through a replica without a view do not reach the table that it fills",
    "create the missing views (replicas do not share them), then compare the tables that they fill with {table}",
)
VIEW_UNSEEN = preflight(
    "CHS-208",
    "at {url} this user cannot see {unseen}, so chsink cannot check whether a view of {table} receives rows twice",
    "run {grant}, or let an administrator run `chsink doctor`",
)
VOLATILE_DEFAULT = preflight(
    "CHS-209",
    "the DEFAULT of {columns} in {table} depends on when or where a row is inserted; after a repeated insert, the "
    "table keeps the values of the copy that arrived first",
    "no action needed if that is intended; _kafka_timestamp holds the time at which the record was written",
)
NO_DEDUPLICATION = preflight(
    "CHS-210",
    "{table} at {url} does not deduplicate inserts: {setting} is 0",
    "if no record has landed in the table yet, run ALTER TABLE {table} MODIFY SETTING {setting} = 10000; otherwise "
    "ClickHouse has forgotten its tokens: stop the job, and resolve what is in doubt before you run this statement: "
    + RESOLVE_BEFORE_START
    + ". The replay command may end with CHS-210 once it has settled them. Then run ALTER TABLE {table} MODIFY SETTING "
    "{setting} = 10000; and start",
)
QUERY_LIMITED = preflight(
    "CHS-243",
    "{url} refused a query because of a limit (code {code}): {reason}",
    "raise the limit in this user's settings profile; then start again: nothing was lost or duplicated",
)
QUERY_REFUSED = preflight(
    "CHS-243",
    "{url} refused a query (code {code}): {reason}",
    "correct what the message names; then start again: nothing was lost or duplicated",
)
BATCH_MAY_BE_PROBED = preflight(
    "CHS-211",
    "{table} at {url} remembers {window} blocks, of which chsink relies on {usable}, but a round of {chunks:chunks}, "
    "each in {spread:table partitions}, may need {blocks}: after a crash, chsink would have to look for the rows before"
    " it sends them again",
    "raise the table's deduplication window or clickhouse.chunk_offsets, or lower kafka.max_offsets_per_trigger",
    ok="{table} at {url} remembers {window} blocks; chsink relies on {usable}, and one round needs at most {blocks}",
)
BATCH_TOO_LARGE = preflight(
    "CHS-211",
    "a batch may have {chunks} chunks, more than {table} at {url} allows at a time: chsink lands it in rounds of up to "
    "{room} chunks",
    "no action needed; for fewer rounds, raise the table's deduplication window or clickhouse.chunk_offsets",
)
COLUMN_UNKNOWN = preflight(
    "CHS-212",
    "table {table} has no column {columns}, which the stream has",
    "rename or drop the column in the transform, or add it to the table",
)
FORMAT_COLUMN_UNKNOWN = preflight(
    "CHS-212",
    "table {table} has no column {columns}, which {options} of its route names",
    "correct the name in the route, or add the column to the table; do not name columns of key_columns in format",
)
COLUMN_REQUIRED = preflight(
    "CHS-213",
    "the stream has no column {columns}, which table {table} requires",
    "add it in the transform, or give the table's column a DEFAULT",
)
STREAM_WITHOUT_KEY = preflight(
    "CHS-213",
    "the stream has no column key, which the route to table {table} reads",
    "keep Kafka's column key in the transform, or remove what reads it: key_format, primary_key or _kafka_key",
)
STREAM_WITHOUT_CHOICE = preflight(
    "CHS-213",
    "the stream has no column {column}: table_by of the route to table {table} reads the {choice} from it",
    "keep the column {column} in the transform, or let table_by read a column or a header that the transform keeps; "
    "if the transform keeps the column `value`, chsink parses that column and ignores the columns that the transform "
    "made",
)
FORMAT_COLUMN_REQUIRED = preflight(
    "CHS-213",
    "the format {format} does not fill column {columns}, which table {table} requires",
    "name the column in the route's format, make it Nullable, or give it a DEFAULT",
)
FORMAT_COLUMN_OPEN = preflight(
    "CHS-213",
    "the format {format} fills one column, and table {table} has {count} besides those for Kafka's metadata",
    'name the column: format = {{ type = "{format}", column = "…" }}',
)
FORMAT_EPOCH = preflight(
    "CHS-280",
    "column {column} of type {type} cannot be filled from a number of {unit} since 1970",
    "in `epoch` of the route's format, use days for a date, and seconds, millis, micros or nanos for a time",
)
FORMAT_DECIMALS = preflight(
    "CHS-280",
    "column {column} of type {type} holds no numbers, so `decimals` of the route's format cannot name it",
    "remove the column from `decimals`",
)
FORMAT_CONSTANT = preflight(
    "CHS-280",
    "the constant for column {column} does not fit: {reason}",
    "correct the value in `constants` of the route's format",
)
FORMAT_NESTED = preflight(
    "CHS-280",
    "column {column} is part of a Nested column, which only the record's own names can fill",
    "remove the column from the options of the route's format",
)
TYPED_JSON = preflight(
    "CHS-214",
    "{column} has the type {type}; at a typed path, ClickHouse converts values, and refuses the whole insert if it "
    "cannot convert one",
    "declare it as JSON without typed paths (max_dynamic_paths and SKIP may stay): ALTER TABLE … MODIFY COLUMN keeps "
    "the stored data; store a value that needs a type in a separate column",
)
FEW_JSON_TYPES = preflight(
    "CHS-214",
    "{column} has the type {type}; with fewer than 32 max_dynamic_types, ClickHouse rounds large whole numbers next to "
    "fractions",
    "declare it as JSON without max_dynamic_types: ALTER TABLE … MODIFY COLUMN keeps the stored data",
)
UNFILLABLE_TYPE = preflight(
    "CHS-214",
    "{column} has the type {type}, which chsink cannot fill from a record",
    "fill it with a materialized view from a plain column",
)
NESTED_METADATA = preflight(
    "CHS-214",
    "{column} is part of a Nested column; chsink cannot write Kafka's metadata to it",
    "replace it with the column {declare}",
)
SETTING_PINNED = preflight(
    "CHS-215",
    "{url} refuses the setting {name} = {value}, which every insert carries: {refusal}",
    "ask an administrator to remove readonly, and the constraint on the setting, from the user's settings profile",
    ok="at {url} this user may set what every insert sets",
)
SETTING_INVALID = preflight(
    "CHS-215",
    "{url} refuses the setting {name} = {value}, which every insert carries: {refusal}",
    "correct the setting in [clickhouse.settings]; max_execution_time is set by clickhouse.insert_timeout_s",
)
GRANT_MISSING = preflight(
    "CHS-216",
    "at {url} this user may not {privilege} on {table}",
    "run {grant}",
    ok="at {url} this user may {privileges} on {table}",
)
GRANT_UNUSED = preflight(
    "CHS-216",
    "at {url} this user may not {privilege} on {table}: {use}",
    "if you need it, run {grant}",
)
QUERY_FORBIDDEN = preflight(
    "CHS-216",
    "{url} refused a query: {reason}",
    "run {grant}; then start again: nothing was lost or duplicated. `chsink sql grants` prints all statements that the "
    "job and the commands need",
)
GRANTS_WIDE = preflight(
    "CHS-217",
    "at {url} this user may also drop and truncate {table}, which the job never does",
    "give the job a user of its own, with SELECT and INSERT on its tables",
)
SERVER_OLD = preflight(
    "CHS-218",
    "{url} runs ClickHouse {version}; chsink supports {oldest} and later",
    "upgrade the server",
    ok="ClickHouse {version} runs at {url}",
)
QUESTION_REFUSED = preflight(
    "CHS-219",
    "{what} could not be checked: {message}",
    "correct what the message names, for example a limit in this user's settings profile; or check it yourself",
)
QUESTION_FORBIDDEN = preflight(
    "CHS-219",
    "{what} could not be checked: {message}",
    "run {grant}, or check it yourself",
)
# --- CHS-220 to CHS-222: the state store

_NO_STATE_TABLE = "cannot {action} the state table {table} at {url}: {reason}"
STATE_DATABASE_MISSING = preflight(
    "CHS-220",
    _NO_STATE_TABLE,
    "run CREATE DATABASE {database}; or correct clickhouse.database or the database in state.table",
)
STATE_TABLE_MISSING = preflight(
    "CHS-220",
    _NO_STATE_TABLE,
    "set state.create_table = true, or run sql/1_state_table.sql as an administrator",
)
STATE_TABLE_FORBIDDEN = preflight(
    "CHS-220",
    _NO_STATE_TABLE,
    "run {grant} as an administrator; or run sql/3_state_grants.sql, and sql/1_state_table.sql first if the table does "
    "not exist (docs/state-store.md)",
)
STATE_TABLE_UNUSABLE = preflight(
    "CHS-220",
    _NO_STATE_TABLE,
    "run sql/1_state_table.sql as an administrator (docs/state-store.md); the server needs "
    "`<keeper_map_path_prefix>` and a Keeper, and all tables with one path need the same definition",
)
STATE_NODE_FORBIDDEN = preflight(
    "CHS-220",
    "ZooKeeper at {hosts} does not let {who} {action} {path} or a node below it",
    "correct {keys}; or, as the owner of the nodes, let this user create nodes below {path}, and read and write those "
    "that are there (docs/least-privilege.md#zookeeper has the commands)",
)
STATE_NODES_OPEN = preflight(
    "CHS-220",
    "anyone who reaches ZooKeeper at {hosts} may change nodes of the state ({count}): {nodes}",
    "if other sinks with a login of their own keep state below {root}, this would lock them out: let the owner of "
    "each node restrict it; otherwise log in with zkCli.sh as the user of [state], and run `setAcl "
    "-R {root} auth::cdrwa` (docs/least-privilege.md#zookeeper)",
    ok="nodes of the state below {root} in ZooKeeper at {hosts} have an owner",
)
STATE_NODES_WITHOUT_OWNER = preflight(
    "CHS-220",
    "anyone who reaches ZooKeeper at {hosts} may change nodes of the state ({count}): {nodes}",
    "set state.user and state.password, and give the nodes to this user; or let only the driver reach the servers "
    "(docs/least-privilege.md#zookeeper)",
)
STATE_STORE_OVERWRITES = preflight(
    "CHS-221",
    "the state store ({store}) does not honor compare-and-set: it replaced a row that another write had changed",
    "do not run the job on this store; for KeeperMap, see docs/state-store.md",
    ok="the state store ({store}) honors compare-and-set",
)
STATE_STORE_LIES = preflight(
    "CHS-221",
    "the state store ({store}) does not honor compare-and-set: it reported a write as refused, but applied it",
    "do not run the job on this store; for KeeperMap, see docs/state-store.md",
)
STATE_NOT_DURABLE = preflight(
    "CHS-222",
    "the state is kept in {store}: after a crash or restart, rows may be lost or duplicated",
    'set state.store = "keepermap" or "zookeeper"',
)
COLUMN_TAKES_NOTHING = preflight(
    "CHS-223",
    "almost no record fits column {column} of type {type}: {reason}",
    "use {declare}",
    ok="{table}: {count:columns} can be filled from {topic}",
)
COLUMN_TAKES_NOT_ALL = preflight(
    "CHS-223",
    "record {record} does not fit column {column} of type {type}: {reason}",
    "use {declare}",
)
CLOCKS_DIFFER = preflight(
    "CHS-224",
    "the clock of {url} is {seconds} s ahead of that of {other}, but in_doubt.margin_s allows only {margin} s: when "
    "one stands in for the other, chsink cannot tell how long a table has kept a token",
    "synchronize the clocks of the servers (NTP), or raise in_doubt.margin_s",
    ok="the clocks of {urls} agree within {seconds} s",
)
RECORDS_EXPIRED = preflight(
    "CHS-225",
    "Kafka deleted {expired:offsets} of {topic} before chsink read them",
    "raise the topic's retention.ms, so that Kafka deletes no more records; the job will halt with CHS-307; to accept "
    'the loss, set errors.on_gap = "record" for one start and ' + NEW_CHECKPOINT,
    ok="{topic}: Kafka keeps records {kept}; no unread record is close to expiring",
)
RECORDS_EXPIRE = preflight(
    "CHS-225",
    "{topic} has unread records older than half of its retention of {hours} h (partitions: {old})",
    "raise retention.ms until the sink has caught up",
)
TOPIC_WITHOUT_ID = preflight(
    "CHS-226",
    "the brokers report no id for {topic}: chsink cannot tell a recreated topic from a log that shrank",
    "use brokers of version 3.0 or later",
)
TOPIC_IS_ANOTHER = preflight(
    "CHS-226",
    "{topic} is not the topic that the state was recorded for (partitions {partitions})",
    WRONG_CLUSTER
    + COPY_ELSEWHERE
    + "if no copy ran: "
    + SAME_RECORDS
    + OLD_VERSIONS
    + NEW_CHECKPOINT
    + ": chsink then reads the topic from its beginning",
)
PARTITIONS_GONE = preflight(
    "CHS-226",
    "state is recorded for {topic} partitions {partitions}, which no longer exist: the topic was recreated with fewer",
    "if that is intended, forget their state: stop the job and run `{reset}`; keep their rows: Kafka no longer has "
    "these records. Then: " + SAME_RECORDS + OLD_VERSIONS + NEW_CHECKPOINT,
)
DOUBT_NOT_ROUTED = preflight(
    "CHS-227",
    "{what}, for table {table}, but no route leads to this table: the start will halt with CHS-313",
    "restore the [[route]]; or check the table and run `{resolve}` with "
    + ALL_THERE
    + ", or --lost to give up the missing rows",
    ok="no range is in doubt",
)
DOUBT_CHANGED = preflight(
    "CHS-227",
    "{what}, and this has changed since: {changed}; the start will halt with CHS-309",
    "undo the change, run the job until the range is settled, then make the change again; or keep it, and run "
    "`{resolve}` with --resend; " + DELETE_AND_AGAIN,
)
DOUBT_REPLAY = preflight(
    "CHS-227",
    "{tp}: a `chsink dlq replay` of {letters:dead letters} into {table} is in doubt",
    "if no replay is running, run `chsink dlq replay` before you change the table, its replicas or its views: it first "
    "settles what is in doubt, then replays what its options choose",
)
DOUBT_COLUMNS = preflight(
    "CHS-227",
    "{topic}: ranges in doubt were announced before {table} was altered: {change}",
    "undo the change with ALTER TABLE, run the job until the ranges are settled, then alter the table again; or do "
    "what the message about each range says",
)
DOUBT_SENT_AGAIN = preflight(
    "CHS-227",
    "{what}; ClickHouse remembers its tokens: chsink can send it again without duplicates",
    "no action needed: the next start settles it, if Kafka still holds it",
)
DOUBT_PROBED = preflight(
    "CHS-227",
    "{what}, and {why}: chsink will look for its rows by offset",
    "no action needed: the next start settles it, if Kafka still holds it",
)
DOUBT_EXPIRED = preflight(
    "CHS-227",
    "{tp} {range} is in doubt, and Kafka no longer holds all of it: its log starts at {start}. The start will halt "
    'with CHS-308, unless errors.in_doubt = "dead_letter"',
    "check the table, then run `chsink state resolve {arguments}` with "
    + ALL_THERE
    + "; otherwise with --expired to land the part that Kafka still holds, or with --lost to give up all missing rows",
)
DOUBT_RECREATED = preflight(
    "CHS-227",
    "{tp} {range} is in doubt, and the topic was deleted and created again since: the start will halt",
    WRONG_CLUSTER
    + "check the table, then run `chsink state resolve {arguments}` with "
    + ALL_THERE
    + ", or --lost to give up the missing rows. Then: "
    + SAME_RECORDS
    + OLD_VERSIONS
    + NEW_CHECKPOINT,
)
DOUBT_NOT_PROBED = preflight(
    "CHS-227",
    "{what}, and {why}; chsink cannot look for its rows in {table}: the start will halt with CHS-317",
    choose("{resolve}"),
)
LAYOUT_OLDER = preflight(
    "CHS-228",
    "{key} is in doubt under an older shard layout and will be settled under that layout",
    "the layout needs no action: chsink knows the older one",
    ok="the shard layout is the recorded one",
)
LAYOUT_CHANGED = preflight(
    "CHS-228",
    "the shard layout of {topics} has changed; the new one applies to new records only",
    "no action needed if the change is intended",
)
STATE_MAY_BE_LOST = preflight(
    "CHS-229",
    "{table} holds rows of {topic} for which this sink has no state ({where}): these records would be inserted again",
    "if you changed sink.name or [state], change it back; if the topic was deleted and created again, name a new table "
    "in its [[route]], "
    + FROM_EARLIEST
    + "; do not run recover then: rows do not show which of the two topics they came from, and recover would skip "
    "records of the new one; if another sink inserted the rows, give this sink its own table; if the state "
    "was lost, or you renamed the table, " + RECOVER + "`, and start the job; " + _ACCEPT_ROWS,
)
STATE_IS_STALE = preflight(
    "CHS-229",
    "{table} holds rows of {topic} beyond what is recorded ({where}): these records would be inserted again",
    "if you changed sink.name or [state], change it back; if the state was restored from an older backup, "
    + RECOVER
    + " --replace`, and start the job; if another sink inserted the rows, give this sink its own table; "
    + _ACCEPT_ROWS,
)
TABLE_IS_EMPTY = preflight(
    "CHS-266",
    "{table} has no row of {topic}, but offsets of {topic} landed in it: {offsets}; chsink does not read them again by "
    "itself",
    "if the rows were removed on purpose, or these records have no rows, no action is needed; if they were "
    "removed by mistake, or the table was dropped and created again, stop the job, then do one of two things. Restore "
    "the rows from a backup"
    + FED_AGAIN
    + ", and run `chsink verify`: it names the offsets that the backup lacks (docs/how-to/repair.md lands them); then "
    "start the job. Or land again what Kafka still holds: run `chsink state reset {topic} --table {table:shell}`; of "
    "each record that Kafka still holds, delete the rows in {table} and in the targets of its views, however old, and "
    + LETTERS
    + "; keep all rows and dead letters of other records: they may be the only copy; "
    + REPLAY_AGAIN
    + "; then "
    + NEW_CHECKPOINT,
    ok="{table} holds rows of {topic}, as recorded",
)
TABLE_IS_ANOTHER = preflight(
    "CHS-266",
    "the newest range of {tps} landed in another table named {table}: this one was created again since, or is on "
    "another server",
    "stop the job. If clickhouse.endpoints was changed by mistake, change it back; if a copy of this job runs with the "
    "same [state], stop the copy, executors included, and give it a sink.name, a sink.checkpoint and tables of its "
    "own. In each case, also if the table was created again, run `chsink verify`: it names the offsets whose rows are "
    "missing here. Copy these rows to {table} from the table in "
    "which they landed, or restore them from a backup" + FED_AGAIN + ". Then start the job",
)
SHARD_IS_EMPTY = preflight(
    "CHS-266",
    "{table} has no row at {url}, although it had some when the newest range of the state was announced",
    "if the rows were removed on purpose, no action is needed; otherwise stop the job; if other replicas of the table "
    "have the rows, wait until this one has fetched them; if not, restore them from a backup"
    + FED_AGAIN
    + "; start the job; then run `chsink verify`: it names the offsets whose rows are missing "
    "(docs/how-to/repair.md lands them)",
)
INSERTS_QUEUED = preflight(
    "CHS-267",
    "{table} at {url} has the setting async_insert = 1: ClickHouse batches chsink's inserts with other inserts, even "
    "though they set async_insert = 0, and would not deduplicate them",
    "on every shard and replica, run ALTER TABLE {table} MODIFY SETTING async_insert = 0; other clients can set "
    "async_insert = 1 for their own inserts into this table; from ClickHouse 26.2 on, they also have to set "
    "deduplicate_insert = 'disable': otherwise their deduplication tokens push out chsink's",
)
TOO_MANY_PARTITIONS = preflight(
    "CHS-230",
    "{table} at {url} has {touched:table partitions}, but the server refuses an insert into more than {limit} of them "
    "(code 252)",
    "lower clickhouse.chunk_offsets, or set max_partitions_per_insert_block in [clickhouse.settings]",
)

# --- CHS-231 to CHS-240: this machine, logins, tables that change, the checkpoint, engines

PACKAGE_VERSIONS = preflight(
    "CHS-231",
    "installed packages are outside the supported ranges: {differing}",
    "run {python} -m pip install {supported}",
    ok="packages: {versions}",
)
STATE_LOGIN_REFUSED = preflight(
    "CHS-232",
    "ClickHouse at {url} refused the login: {reason}",
    "correct clickhouse.user and clickhouse.password",
)
LOGIN_REFUSED = preflight(
    "CHS-232",
    "{what}: {message}",
    "correct clickhouse.user and its password",
)
ZOOKEEPER_LOGIN_REFUSED = preflight(
    "CHS-232",
    "ZooKeeper at {hosts} does not accept the login of {who}",
    "correct {keys}; for SASL, the servers must know the user; for a certificate, they must not have turned off "
    "authentication by certificates",
)
TABLE_CHANGED = altered(
    "CHS-233",
    "{table} at {url} was altered, dropped or recreated, or its server has another time zone, since the job started",
    "start again: chsink settles what was in doubt for the earlier table, or halts and names the command to run",
)
COLUMNS_ALTERED = altered(
    "CHS-233",
    "columns of {table} at {url} were altered or dropped while the job ran: {columns}",
    "start again: chsink settles the ranges in doubt with the earlier columns, or halts and names the command to run",
)
NO_COLUMNS = preflight(
    "CHS-285",
    "the table {table} does not exist, and chsink found no record in {topics} from which to derive its columns",
    "send a record, then start again; or create the table yourself",
)
TABLE_NOT_CREATED = preflight(
    "CHS-286",
    "{url} refused to create the table {table}: {reason}",
    "correct [schema] or the route, or run what `chsink sql create-table` prints, corrected; then start again",
)
CREATE_NOT_GRANTED = preflight(
    "CHS-286",
    "at {url} this user may not create the table {table}: {reason}",
    "run {grant}; or, as an administrator, run what `chsink sql create-table` prints; then start again",
)
COLUMNS_MISSING = altered(
    "CHS-287",
    "{tp}: records have fields for which {table} has no column: {columns}",
    'start again: chsink adds the columns, as schema.evolution is "add_columns", and then lands the records',
)
TOO_MANY_COLUMNS = preflight(
    "CHS-289",
    "{tp}: records have fields for which {table} has no column, and schema.max_columns allows no more columns: "
    "{columns}",
    "raise schema.max_columns, then start again; or add columns for these fields yourself",
)
COLUMNS_NOT_ADDED = preflight(
    "CHS-288",
    "{url} refused to add columns to {table}: {reason}",
    "run {sql}; other types are fine, too; then start again: chsink settles the range",
)
ADD_NOT_GRANTED = preflight(
    "CHS-288",
    "at {url} this user may not add columns to {table}: {reason}",
    "run {grant}; or, as an administrator, run {sql}; then start again: chsink settles the range",
)
WINDOW_TOO_SHORT = preflight(
    "CHS-234",
    "{table} at {url} remembers a deduplication token for {window} s, but an insert and the margin take {needed} s",
    "stop the job. Either lower clickhouse.insert_timeout_s (if the job has run with the present value, first wait "
    "that long), and start the job. Or run on each replica ALTER TABLE {table} MODIFY SETTING "
    "replicated_deduplication_window_seconds = {enough}; then " + RESOLVE_BEFORE_START + ". Then start the job",
    ok="{table} at {url} remembers {blocks} blocks, for {window} s; an insert with all its retries takes up to "
    "{longest} s, and no insert of a range starts later than {latest} s after its announcement",
)
WINDOW_SHORT = preflight(
    "CHS-234",
    "{table} at {url} remembers {blocks} blocks, for {window} s, but an insert with all its retries may take {longest} "
    "s (retry_for_s, insert_timeout_s, margin_s)",
    _SETTLED_FIRST
    + "run on each replica ALTER TABLE {table} MODIFY SETTING replicated_deduplication_window_seconds = {longest}; "
    "and start the job; or lower clickhouse.retry_for_s",
)
REPLICA_FORGETS = preflight(
    "CHS-234",
    "{table} at {url} remembers {theirs}, less than another replica; each replica also removes the tokens of the "
    "others, so chsink relies on the shortest memory only: {least}",
    "if the job runs, "
    + SETTLED
    + ". If it does not start because of this, "
    + RESOLVE_BEFORE_START
    + ". Then run on this server ALTER TABLE {table} MODIFY SETTING replicated_deduplication_window = {blocks}, "
    "replicated_deduplication_window_seconds = {window}; and start the job (ClickHouse does not copy settings to "
    "replicas)",
)
# --- CHS-244 to CHS-249: replicas

REPLICA_READONLY = preflight(
    "CHS-244",
    "{table} at {url} takes no inserts: {why}",
    "check this server's connection to its Keeper. If the Keeper has lost the data of all replicas of {table}: stop "
    "the job, run SELECT count() FROM {table} on each of them, and, beginning with the replica that has the most rows"
    " (the others then detach rows that it does not have), run SYSTEM RESTART REPLICA {table} and SYSTEM RESTORE "
    "REPLICA {table} on each. The deduplication tokens are lost, too: "
    + RESOLVE_BEFORE_START
    + " (if the Keeper also held this job's state, and `chsink status` shows none, see CHS-302). Then run `chsink "
    "verify`: rows that it calls missing may be in detached parts (system.detached_parts): attach these to another "
    "table, and insert the missing rows from there. If the Keeper has lost the data of this replica only: run SYSTEM "
    "RESTART REPLICA {table} and SYSTEM RESTORE REPLICA {table} on this server. If it has lost nothing: run SYSTEM "
    "RESTART REPLICA {table} on this server. Then start the job",
)
REPLICA_LAGS = preflight(
    "CHS-245",
    "{table} at {url} is {seconds} s behind the other replicas (entries in its queue: {queue})",
    "read last_exception and postpone_reason in system.replication_queue on this server",
)
REPLICA_STANDS = preflight(
    "CHS-245",
    "{table} at {url} does not follow the other replicas (entries of the replication log not yet fetched: {entries})",
    "on this server, run SELECT last_queue_update_exception FROM system.replicas, and check its connection to the "
    "Keeper",
)
REPLICA_LOST_PARTS = preflight(
    "CHS-246",
    "{table} at {url} has lost {parts} parts since it was created: no replica had them any more",
    "run `chsink verify`, which names records without a row; the count never falls, so ignore it once you have checked",
)
REPLICAS_INACTIVE = preflight(
    "CHS-247",
    "{active} of {total} replicas of {table} are active; an insert needs {needed}",
    "start the others; " + REPLICA_GONE,
)
REPLICAS_UNLISTED = preflight(
    "CHS-248",
    "{table} has replicas that the job file does not list: {names}",
    "add their URLs to `replicas` of the endpoint: chsink can then use them if the others are away, and sees how long "
    "they remember tokens; each replica also removes the tokens of the others, so if one remembers less, rows "
    "may land twice",
)
REPLICA_AWAY = preflight(
    "CHS-249",
    "{url}, a replica in the job file, does not answer: {reason}",
    "start it; remove it from clickhouse.endpoints only if it is gone for good",
)
METRICS_PORT = preflight(
    "CHS-235",
    "the metrics cannot be served on {host} port {port}: {reason}",
    "set observe.metrics_port to a port that is free on the driver, or to 0 to take any free port; "
    "observe.metrics_host must be an address of the driver's machine",
)
PACKAGES_MISSING = preflight(
    "CHS-236",
    "packages that chsink needs are not installed for {python}: {missing}",
    "run {python} -m pip install {needed}",
)
NO_MIRROR_PACKAGES = preflight(
    "CHS-236",
    "the mirror needs packages that are not installed for {python}: {missing}",
    "run {python} -m pip install 'chsink[mirror]', also for the executors' Python; or set mirror.enabled = false",
)
WORKER_LACKS_PACKAGE = preflight(
    "CHS-236",
    "a Python worker of Spark lacks a package: {reason}",
    "install chsink with its dependencies for the executors' Python: see docs/deployment.md",
)
NO_REGISTRY_PACKAGES = preflight(
    "CHS-236",
    "a format with schemas needs packages that are not installed for {python}: {missing}",
    "run {python} -m pip install 'chsink[avro]' (for Protobuf 'chsink[protobuf]', for JSON Schema "
    "'chsink[json-schema]'), also for the executors' Python",
)
NO_FILE_SYSTEM = preflight(
    "CHS-237",
    "Spark has no file system for sink.checkpoint {checkpoint}: {reason}",
    "add its jars, for instance --set spark.conf.spark.jars.packages=org.apache.hadoop:hadoop-aws:VERSION for s3a, "
    "with the version of the hadoop-client jars in pyspark/jars",
)
SPARK_JARS = preflight(
    "CHS-237",
    "Spark lacks a class: {reason}",
    'pass the jars of the Kafka source: spark-submit --jars "$(chsink jars)", or spark.jars in your session',
)
CHECKPOINT_NOT_WRITABLE = preflight(
    "CHS-238",
    "cannot write to checkpoint {checkpoint}: {reason}",
    "free space on its disk if the disk is full; otherwise change its owner, or set sink.checkpoint (for the mirror, "
    "mirror.checkpoint) to a folder that the job can write to",
)
CHECKPOINT_FOREIGN = preflight(
    "CHS-239",
    "checkpoint {checkpoint} does not belong to this job: {reason}",
    RESUME_EITHER + ". A start resumes from the recorded state, not from the checkpoint",
    ok="checkpoint {checkpoint} is writable and belongs to this job",
)
CHECKPOINT_NOT_CHECKED = preflight(
    "CHS-239",
    "only Spark can read checkpoint {checkpoint}",
    "no action needed: chsink run checks it at start",
)
HASH_DIFFERS = preflight(
    "CHS-242",
    "{function} at {url} computes other hashes than chsink: queries would look for rows on the wrong shards",
    "set clickhouse.hash_function to another function, as in the Distributed table, and report the server's version",
)
DISTRIBUTED_DIFFERS = preflight(
    "CHS-241",
    "{distributed} at {url} shards rows by {theirs}, but chsink shards them by {ours}",
    "create it as `chsink sql distributed` prints it; until then, do not query it with optimize_skip_unused_shards, "
    "and do not insert through it",
)
ENGINE_COMBINES = preflight(
    "CHS-240",
    "{table} has the engine {engine}, which replaces, combines or deletes rows after they have landed: the table may "
    "hold fewer rows than the topic has records, and chsink cannot find rows there by their offsets",
    "no action needed if you chose the engine for this; otherwise use MergeTree or ReplicatedMergeTree, and let a "
    "materialized view fill the other table",
)

# --- CHS-250 to CHS-264: the Iceberg mirror

MIRROR_RIGHT_MISSING = preflight(
    "CHS-250",
    "Kafka does not allow this user to {what}",
    "grant it: kafka-acls.sh --bootstrap-server BROKER --add --allow-principal User:NAME {acl}",
    ok="this user may use the control topic {topic} and the group {group}",
)
MIRROR_EVENT_TOO_LARGE = preflight(
    "CHS-251",
    "an event of the mirror is larger than the control topic {topic} allows",
    'set max.message.bytes of {topic} to 1048588 or more, and remove "message.max.bytes" from [kafka.client_options] '
    "and max.request.size from [kafka.options] if they are smaller; then start again",
)
MIRROR_CONTROL_COMPACTED = preflight(
    "CHS-252",
    "the control topic {topic} has cleanup.policy={policy}: compaction removes events that are still needed",
    "set its cleanup.policy to delete, or name another topic in mirror.control_topic",
    ok="control topic {topic}: {partitions:partitions}, events are kept {kept}",
)
MIRROR_CONTROL_SHORT = preflight(
    "CHS-253",
    "the control topic {topic} keeps events {kept}; if Kafka deletes events while the mirror is down, the mirror has "
    "to read their records from the source topics again, and it halts if these no longer hold them",
    "set its retention.ms to {advised} or more and its retention.bytes to -1",
)
MIRROR_CONTROL_SMALL = preflight(
    "CHS-254",
    "the control topic {topic} has max.message.bytes={limit}, which is too small for an event",
    "set its max.message.bytes to 1048588 or more",
)
MIRROR_CONTROL_ONE_COPY = preflight(
    "CHS-255",
    "the control topic {topic} has one replica on a cluster of {brokers:brokers}: the mirror stops if that one fails",
    "raise its replication factor with kafka-reassign-partitions.sh",
)
MIRROR_CONTROL_NOT_MADE = preflight(
    "CHS-256",
    "Kafka refused to create the control topic {topic}: {reason}",
    "create it with what this reason asks for, such as --replication-factor: kafka-topics.sh --bootstrap-server BROKER "
    "--create --topic {topic} --partitions 4 --config cleanup.policy=delete --config retention.ms=2592000000 "
    "--config retention.bytes=-1",
    ok="control topic {topic} does not exist yet: the first start creates it",
)
MIRROR_GROUP_TAKEN = preflight(
    "CHS-257",
    "another program consumes as group {group}, which belongs to the mirror: {members}",
    "give that program another group.id; do not rename this sink",
    ok="nobody else uses the mirror's groups ({group}, {group}/control, {group}/owner, {group}/driver)",
)
MIRROR_TABLE_PARTITIONED = preflight(
    "CHS-258",
    "Iceberg table {table} is partitioned in a way that the mirror cannot write: {fields}",
    "partition it by columns of the table or fields of their structs, with identity, bucket, truncate, year, month, "
    "day, hour or void",
)
MIRROR_TABLE_VERSION = preflight(
    "CHS-259",
    "Iceberg table {table} has format version {version}, and the mirror writes version 2 only",
    "if it has version 1, upgrade it, for example in Spark: ALTER TABLE {table} SET TBLPROPERTIES ('format-version' = "
    "'2'); otherwise name another table in [[mirror.route]]",
)
MIRROR_TABLE_FORMAT = preflight(
    "CHS-260",
    "Iceberg table {table} has write.format.default={format}",
    "set write.format.default to parquet: the mirror writes no other format",
)
MIRROR_TABLE_COLUMNS = preflight(
    "CHS-261",
    "Iceberg table {table} has columns that the mirror cannot fill: {columns}",
    "drop or change these columns (docs/types.md lists the supported types), or name another table in [[mirror.route]]",
)
MIRROR_TABLE_NAMES = preflight(
    "CHS-269",
    "Iceberg table {table} has a name mapping that the mirror cannot follow: {names}",
    "correct the table property schema.name-mapping.default: a column that the format's options or key_columns name "
    "may have only its own name there; or remove the column from these keys",
)
MIRROR_NO_TABLE = preflight(
    "CHS-262",
    "Iceberg table {table} does not exist in catalog {catalog}",
    "correct [[mirror.route]] or mirror.catalog; if the mirror never wrote to the table, create the table (`chsink "
    "sql create-table --iceberg` prints the statements for Spark); if the mirror never read the table's topics "
    "either, you can set auto_create = true in its [[mirror.route]] instead; if the mirror wrote to it and it is "
    "gone, restore it, or create it empty and run `chsink mirror resolve {table:shell}` with --reread to land what "
    "Kafka still holds, or with --skip to begin with the next records; then start again",
    ok="Iceberg table {table}: {columns:columns}, format version 2, Parquet{partitions}",
)
MIRROR_TABLE_DROPPED = preflight(
    "CHS-262",
    "Iceberg table {table} does not exist in catalog {catalog}; auto_create does not create it, because the mirror has "
    "read its topics before",
    "if you have just added it to a table_by, create it empty, and start: it begins with the next records, and "
    "`chsink mirror backfill {table:shell} --apply` lands earlier ones, also those that other tables have; if you no "
    "longer want this table, remove it from [[mirror.route]] or from its table_by (if only records name it, remove "
    "the property whose name begins with chsink.named and ends with the table's name from the first table of its "
    "route, with ALTER TABLE … UNSET TBLPROPERTIES); otherwise restore it and start again, or create it empty "
    "(`chsink sql create-table --iceberg` prints the statements for tables that the job file names) and run `chsink "
    "mirror resolve {table:shell}` with --reread to land what Kafka still holds, or with --skip to begin with the "
    "next records; then start again",
)
MIRROR_NO_BRANCH = preflight(
    "CHS-262",
    "Iceberg table {table} has snapshots, but no branch {branch}, which mirror.branch names",
    "create the branch from main, for example in Spark: ALTER TABLE {table} CREATE BRANCH `{branch}`; or correct "
    "mirror.branch (the name of a tag cannot be used)",
)
MIRROR_TABLE_NOT_CREATED = preflight(
    "CHS-284",
    "the Iceberg table {table} cannot be created: {reason}",
    "correct mirror.create or the create of its [[mirror.route]], or allow the catalog's user to create tables; or "
    "create the table yourself: `chsink sql create-table --iceberg` prints the statements for Spark",
    ok="Iceberg table {table} does not exist yet: the mirror creates it when it starts",
)
MIRROR_TABLE_NOT_AS_WANTED = preflight(
    "CHS-284",
    "the Iceberg table {table} cannot be created as the job file wants it: {reason}",
    "correct mirror.create or the create of its [[mirror.route]]; if a column is text only because of a few values, "
    'add its type to create, for example types = {{ ordered_at = "timestamptz" }}: records that do not fit it are then '
    "bad values",
)
MIRROR_NO_CLICKHOUSE_TABLE = preflight(
    "CHS-284",
    "the Iceberg table {table} cannot get the columns of a ClickHouse table: {reason}",
    'correct the [[route]] of these topics, or create the ClickHouse table; or set create.columns = "records" for '
    "{table}",
)
MIRROR_NO_ICEBERG_TYPES = preflight(
    "CHS-284",
    "the Iceberg table {table} is not created, because no Iceberg type holds these columns of {source}: {columns}",
    "name their types in create.types for {table}, except for names with a dot; or create {table} yourself; or set "
    'create.columns = "records" for it',
)
MIRROR_COLUMNS_NOT_ADDED = preflight(
    "CHS-282",
    "the catalog refused changes of the Iceberg table {table} that its records need ({columns}): {reason}",
    "allow the catalog's user to alter the table, or change these columns yourself; then start again",
)
MIRROR_COLUMNS_MISSING = altered(
    "CHS-283",
    "{tp}: records need columns that Iceberg tables lack: {columns}",
    'start again: the mirror changes the tables, as mirror.evolution is "add_columns", and then lands the records',
)
MIRROR_NO_CATALOG = preflight(
    "CHS-264",
    "the Iceberg catalog {catalog} cannot be opened: {reason}",
    "correct mirror.catalog (its properties are pyiceberg's), or install the package that it names",
)
MIRROR_NO_CATALOG_FILE = preflight(
    "CHS-265",
    "mirror.catalog.uri names a SQLite file that does not exist: {file}",
    "correct mirror.catalog.uri; if the file was lost, restore it: it alone knows the tables; if there never was one, "
    "create the catalog with its tables, as docs/mirror.md shows",
)
MIRROR_OTHER_SINK = preflight(
    "CHS-263",
    "Iceberg table {table} takes records of {topics} from sink {sink}, and none from this one: they would land twice",
    "to continue what sink {sink} began, set sink.name back to it; to continue it under this sink's name: stop sink "
    "{sink} for good, run `chsink mirror recover` (the mirror will continue after the last offset in the rows), and "
    "only then remove the table property {property}; to land the records a second time, name another table in "
    "[[mirror.route]]",
)
MIRROR_SINK_BESIDE = preflight(
    "CHS-263",
    "sink {sink} has committed records of {topics} to Iceberg table {table} after this one: they land twice",
    "let only one of the two sinks write to this table. If this one leaves it: note what `chsink mirror status "
    "--json` shows as `until` for this table, name another table in [[mirror.route]], and run sink {sink} until its "
    "own status shows at least these offsets. If sink {sink} leaves it for good: stop that sink, remove the table "
    "property {property}, and run this one until `chsink mirror status --json` shows at least these offsets as "
    "`until`: {until}. Then stop the sink that stays, and only then delete one of each two rows: it first lands again "
    "what only the other one has landed",
)
MIRROR_NOT_CLEANED = preflight(
    "CHS-268",
    "`chsink mirror clean` cannot tell which files belong to Iceberg table {table}: {reason}",
    "clean this table with the engine that maintains it, for example with Spark's remove_orphan_files; set its "
    "older_than further back than the mirror's longest time without a commit",
)
VERIFY_ENGINE = preflight(
    "CHS-290",
    "{table}: `chsink verify` cannot compare this table with Kafka, because its engine {engine} combines rows",
    "verify the other topics with --topic, or land the topic in a MergeTree table as well, and verify with a copy of "
    "the job file in which the route to that table is the topic's only [[route]]",
)
VERIFY_TRANSFORM = preflight(
    "CHS-291",
    "the job transforms the records of topic {topic} before they land in {table}; `chsink verify` cannot repeat that",
    "verify topics that land without a transform: `chsink verify --topic TOPIC`",
)
VERIFY_NOT_ROUTED = preflight(
    "CHS-292",
    "no route of the job file has topic {topic}",
    "give --topic a topic of the job file; without --topic, all of them are verified",
)
VERIFY_NO_SINK = preflight(
    "CHS-292",
    "the state store holds nothing of a sink named {sink}: there is nothing to verify",
    "correct sink.name and [state] in the job file; a job that has never started has nothing to verify yet",
)
VERIFY_NO_PARTITION = preflight(
    "CHS-292",
    "topic {topic} has no partition {partition}; it has {count}, numbered from 0",
    "give --partition a partition of the topic",
)
VERIFY_WHOLE_TABLE = preflight(
    "CHS-293",
    "{table} lacks the column _kafka_topic, _kafka_partition or _kafka_offset, so a part of it cannot be verified",
    "leave out --partition, --from and --to",
)
VERIFY_NOT_ADDED = preflight(
    "CHS-293",
    "no table that is verified by offset has a column {column} that records fill",
    "give --added a column of the table, without the table's name; tables without _kafka_topic, _kafka_partition or "
    "_kafka_offset are compared as a whole, without --added",
)
VERIFY_DEFAULT_VARIES = preflight(
    "CHS-293",
    "the DEFAULT of column {column} depends on other columns, so rows that are older than the column cannot be "
    "recognized",
    "leave out --added {column}",
)
VERIFY_BUSY = preflight(
    "CHS-294",
    "{table} lacks the column _kafka_topic, _kafka_partition or _kafka_offset, so it can be verified only while "
    "nothing is in doubt; in {seconds} s there was no such moment",
    "run `chsink verify` while the job is stopped, or when fewer records arrive; if it is stopped and `chsink status` "
    "shows BEFORE, run the job until the range is settled, stop it, and run `chsink verify` again",
)
VERIFY_INCOMPLETE = preflight(
    "CHS-295",
    "{table} lacks the column _kafka_topic, _kafka_partition or _kafka_offset, so it can be verified only as a whole, "
    "which is not possible: {reason}",
    "verify the other topics with --topic; a new table with these columns can always be verified",
)
NO_RECORD_TO_GUESS_FROM = preflight(
    "CHS-296",
    "Kafka holds no record of topic {topic} now, so the format of its records cannot be guessed",
    "produce records, then run the command again; if there were some, their transactions were aborted, or Kafka has "
    "deleted them: see retention.ms of the topic, which counts from the timestamps of the records",
)
NOTHING_TO_GUESS_FROM = preflight(
    "CHS-296",
    "no sampled record of topic {topic} has a value, so the format of its records cannot be guessed",
    "produce a record with a value, then run the command again; or run `chsink init` without --from-topic and set the "
    "format yourself",
)
REGISTRY_NOT_NAMED = preflight(
    "CHS-297",
    "values of topic {topic} begin with ids of registered schemas ({schema}, for instance), but no registry is named",
    "name the Schema Registry with --registry URL; if there is none, run `chsink init` without --from-topic and set "
    "the format yourself",
)
SCHEMA_NOT_REGISTERED = preflight(
    "CHS-297",
    "values of topic {topic} begin with the schema id {schema}, which the Schema Registry at {urls} does not have",
    "name the registry that the producers use with --registry URL",
)
TABLE_THERE = preflight(
    "CHS-298",
    "table {table} already exists at {url}",
    "name another table with --table; or leave out --apply, and compare the table's columns with the statement",
)
DEAD_LETTERS_COLUMNS = preflight(
    "CHS-270",
    "table {table} at {url} cannot take dead letters: {problem}",
    "change it to match the statement that `chsink sql dead-letters` prints; or name another table in "
    "dead_letters.table, and create that one: the command then prints the statement for it",
    ok="{table} takes dead letters",
)
DEAD_LETTERS_FIELDS = preflight(
    "CHS-271",
    "a dead letter contains the whole Kafka record, but the stream has no column {columns}",
    "keep Kafka's columns in the transform (and read the topic with includeHeaders); or set errors.on_bad_value to "
    '"skip" or "halt", and errors.on_tombstone to "skip" or "bad"',
)

# --- CHS-276: formats with schemas

SUBJECT_MISSING = preflight(
    "CHS-276",
    "{topic}: the Schema Registry at {urls} has no subject {subject}",
    "ignore this if the producers name their subjects differently; otherwise check the topic and schema_registry.url",
    ok="the Schema Registry has {versions:versions} of the subject {subject}",
)
SCHEMA_FILE_WRONG = preflight(
    "CHS-277",
    "the schema file {path} cannot be used: {reason}",
    "correct the file, or the route's format.schema_file",
)
NO_DEAD_LETTERS_TOPIC = preflight(
    "CHS-273",
    "Kafka has no topic {topic}, which dead_letters.topic names",
    "create it: kafka-topics.sh --bootstrap-server BROKER --create --topic {topic} --partitions 4 --config "
    "cleanup.policy=delete --config retention.ms=-1; or correct dead_letters.topic",
)
DEAD_LETTERS_EXPIRE = preflight(
    "CHS-274",
    "topic {topic} keeps dead letters for {hours} h after the timestamp of their record: Kafka deletes dead letters "
    "of older records at once",
    "set retention.ms=-1 for the topic, or read dead letters before they expire",
)
DEAD_LETTERS_TOPIC = preflight(
    "CHS-272",
    "topic {topic} takes dead letters, and Kafka may compact it: it would keep only the last dead letter of each key",
    _KEEP_LETTERS,
    ok="topic {topic} takes dead letters",
)
REPLAY_FROM_COMPACTED = preflight(
    "CHS-275",
    "`chsink dlq replay` cannot keep replay marks in topic {topic}, because Kafka may compact it: the marks would "
    "vanish, and the next replay would land the same records again",
    _KEEP_LETTERS,
)
PAGE_NOT_SERVED = preflight(
    "CHS-279",
    "the status page cannot be served on {address}: {reason}",
    "set observe.ui (or --listen of `chsink ui`) to an address of this machine and a free port; port 0 takes any free "
    "port",
)
NO_PAGE_PACKAGES = preflight(
    "CHS-279",
    "the status page needs packages that are not installed for {python}: {missing}",
    "run {python} -m pip install 'chsink[ui]'; `chsink run` also starts without them if you remove observe.ui",
)
DELETES_UNKNOWN = preflight(
    "CHS-278",
    'errors.on_tombstone = "delete" cannot work for table {table}: {problem}',
    "use a table with ENGINE = ReplacingMergeTree(_kafka_offset, is_deleted) for this topic alone, whose ORDER BY, "
    "PARTITION BY and shard key use only the columns of key_columns; or give this topic a job of its own, with a "
    'new table (it lands the topic again from kafka.starting_offsets on) and errors.on_tombstone = "skip" or '
    '"dead_letter"',
)
KAFKA_LOGIN_REFUSED = preflight(
    "CHS-299",
    "Kafka refused the login: {reason}",
    "check the user name and the password in sasl.jaas.config, and sasl.mechanism, in [kafka.options]; the user must "
    "exist on the brokers for this mechanism",
)
KAFKA_TOKEN_REFUSED = preflight(
    "CHS-299",
    "no token for the Kafka login was issued: {reason}",
    "check clientId, clientSecret and scope in sasl.jaas.config, and sasl.oauthbearer.token.endpoint.url, in "
    "[kafka.options]",
)
KAFKA_SERVER_NOT_TRUSTED = preflight(
    "CHS-299",
    "the certificate of a Kafka broker was not accepted: {reason}",
    "name the PEM file of the authority that signed it in ssl.truststore.location, in [kafka.options], and make "
    "kafka.bootstrap and the brokers' advertised.listeners use a host name that the certificate contains; if the "
    "certificate has expired, renew it on the broker (`openssl s_client -connect HOST:PORT` shows it)",
)
KAFKA_CLIENT_NOT_TRUSTED = preflight(
    "CHS-299",
    "a Kafka broker did not accept this job's certificate, or got none: {reason}",
    "name a certificate that has not expired, signed by an authority that the brokers trust, in ssl.keystore.location, "
    "in [kafka.options]; without such a certificate, use another listener in kafka.bootstrap",
)
KAFKA_TLS_REFUSED = preflight(
    "CHS-299",
    "Spark's Kafka client and a broker did not accept each other's certificates: {reason}",
    "check ssl.truststore.location and ssl.keystore.location in [kafka.options] (they count for Spark, whatever "
    "[kafka.client_options] says), and that the files are on the driver and on every executor",
)
KAFKA_OPTIONS_UNUSABLE = preflight(
    "CHS-299",
    "no Kafka client can be made with [kafka.options]: {reason}",
    "check that the files in ssl.truststore.location and ssl.keystore.location exist, that this user can read them, "
    "that ssl.truststore.type and ssl.keystore.type name their types, and that ssl.keystore.password and "
    "ssl.key.password are correct",
)
KAFKA_RIGHT_MISSING = preflight(
    "CHS-200",
    "Kafka does not allow this user to use {what}: {reason}",
    "have an administrator run what `chsink kafka acls` prints for this job file",
)
KAFKA_READ_FORBIDDEN = preflight(
    "CHS-200",
    "Kafka does not allow Spark to read as this user: {reason}",
    "have an administrator run what `chsink kafka acls` prints for this job file",
)
