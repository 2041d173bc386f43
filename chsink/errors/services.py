"""7xx: a service does not answer."""

from __future__ import annotations

from chsink.errors.entry import Entry
from chsink.errors.families import UnavailableError

STATE_STORE_UNAVAILABLE = Entry(
    "STATE_STORE_UNAVAILABLE",
    "CHS-701",
    UnavailableError,
    "the state store ({store}) does not respond: {reason}",
    "check the network and the store's servers (those that [state] names; if it names none, the first of "
    "clickhouse.endpoints), then start again",
)
STATE_NOT_REACHED = Entry(
    "STATE_NOT_REACHED",
    "CHS-701",
    UnavailableError,
    "sink '{sink}' could not {what} in the state store ({store}) within {seconds} s{cause}",
    "bring the state store back and start again; nothing was lost or duplicated",
)
STATE_NOT_READ = Entry(
    "STATE_NOT_READ",
    "CHS-701",
    UnavailableError,
    "sink '{sink}' could not read its state from the state store ({store}): {error}",
    "bring the state store back and start again",
)
KAFKA_UNAVAILABLE = Entry(
    "KAFKA_UNAVAILABLE",
    "CHS-702",
    UnavailableError,
    "Kafka at {bootstrap} does not answer: {reason}",
    'check the network, that kafka.bootstrap names a port of Kafka, that "security.protocol" in [kafka.options] is the '
    "one that this port speaks (PLAINTEXT if it is not set), and the credentials there; then try again",
)
KAFKA_SILENT = Entry(
    "KAFKA_SILENT",
    "CHS-702",
    UnavailableError,
    "Kafka returned no data of {tp} at offset {offset} for {seconds} s",
    "check the brokers, then try again",
)
KAFKA_UNREADABLE = Entry(
    "KAFKA_UNREADABLE",
    "CHS-702",
    UnavailableError,
    "{tp} cannot be read: {reason}",
    "check the brokers, then try again",
)
CLAIM_DISTURBED = Entry(
    "CLAIM_DISTURBED",
    "CHS-703",
    UnavailableError,
    "sink '{sink}': another process kept changing its state rows while this driver claimed the sink",
    "stop the other driver of this sink (`chsink status` names the owner), then start again",
)
ROWS_NOT_CREATED = Entry(
    "ROWS_NOT_CREATED",
    "CHS-703",
    UnavailableError,
    "sink '{sink}': the state rows of new partitions could not be created",
    "check the state store, then start again",
)
INSERT_UNANSWERED = Entry(
    "INSERT_UNANSWERED",
    "CHS-704",
    UnavailableError,
    "{url} did not acknowledge an insert into {table} within {seconds} s: {reason}",
    "bring the server back, then start again: the range is in doubt and chsink will settle it",
)
INSERT_OVERLOADED = Entry(
    "INSERT_OVERLOADED",
    "CHS-704",
    UnavailableError,
    "{url} kept refusing an insert into {table} for {seconds} s with code {code}: {reason}",
    "reduce the load on the server, then start again: the range is in doubt and chsink will settle it",
)
PIECE_TOO_LATE = Entry(
    "PIECE_TOO_LATE",
    "CHS-705",
    UnavailableError,
    "it is too late to send piece {token}: ClickHouse may no longer remember its deduplication token",
    "start again: the range is in doubt and chsink will settle it",
)
ANSWERS_MISSING = Entry(
    "ANSWERS_MISSING",
    "CHS-706",
    UnavailableError,
    "{answers} of {expected} tasks reported a result",
    "start again: the batch is in doubt, and chsink will settle it",
)
TOKEN_DOUBTFUL = Entry(
    "TOKEN_DOUBTFUL",
    "CHS-707",
    UnavailableError,
    "{url} may have forgotten the deduplication token of piece {token}, so chsink does not send it: {reason}",
    "start again: the range is in doubt, and chsink looks for its rows in the table before it sends any; if this "
    "recurs, raise the table's deduplication window (an insert makes one block per table partition)",
)
SPARK_STOPPED = Entry(
    "SPARK_STOPPED",
    "CHS-708",
    UnavailableError,
    "Spark stopped the query: {reason}",
    'start again; if it stops again, set observe.log_level = "debug" to log Spark\'s whole trace',
)
CHECKPOINT_IN_USE = Entry(
    "CHECKPOINT_IN_USE",
    "CHS-718",
    UnavailableError,
    "another process uses the same Spark checkpoint: {reason}",
    "run one process per sink: end the other one, then start again; nothing is lost",
)
TARGET_UNANSWERED = Entry(
    "TARGET_UNANSWERED",
    "CHS-709",
    UnavailableError,
    "ClickHouse did not answer a query about a target table: {error}",
    "bring the server back and start again: chsink will settle the ranges in doubt",
)
QUERY_FAILED = Entry(
    "QUERY_FAILED",
    "CHS-709",
    UnavailableError,
    "{url} answered a query about a target table with an error (code {code}): {reason}",
    "start again: chsink will settle the ranges in doubt; if the error stays, remove its cause on the server",
)
CLICKHOUSE_UNAVAILABLE = Entry(
    "CLICKHOUSE_UNAVAILABLE",
    "CHS-709",
    UnavailableError,
    "{reason}",
    "check clickhouse.endpoints, the network and [clickhouse.tls], then try again",
)
STILL_INSERTING = Entry(
    "STILL_INSERTING",
    "CHS-710",
    UnavailableError,
    "{url} is still running an insert of {what}",
    "wait until it ends, or find it in system.processes and stop it with KILL QUERY; then start again",
)
STILL_DELETING = Entry(
    "STILL_DELETING",
    "CHS-710",
    UnavailableError,
    "{url} is still running DELETE statements on {table} (unfinished: {deletes}), so chsink cannot tell which rows "
    "will remain",
    "wait until system.mutations shows is_done = 1 for each of them ({mutations}), then start again",
)
DELETE_FAILS = Entry(
    "DELETE_FAILS",
    "CHS-710",
    UnavailableError,
    "{url} has not finished a DELETE on {table}, because it fails each time (mutation {mutation}: {reason}), so chsink "
    "cannot tell which rows will remain",
    "remove the cause, and ClickHouse will finish it, or run `{kill}` at {url} to stop it (rows that it has removed "
    "stay removed); then start again, and chsink will look for the rows",
)
DELETE_NOT_TAKEN_OVER = Entry(
    "DELETE_NOT_TAKEN_OVER",
    "CHS-710",
    UnavailableError,
    "{url} has yet to take over the parts of {table} that a stopped DELETE or UPDATE rewrote on another replica, so "
    "chsink cannot tell which rows will remain",
    "wait until system.replicas shows part_mutations_in_queue = 0 for the table on this server (if its merges were "
    "stopped, run `SYSTEM START MERGES {table}` there), then start again",
)
SPARK_NOT_STARTED = Entry(
    "SPARK_NOT_STARTED",
    "CHS-711",
    UnavailableError,
    "Spark did not start: {reason}",
    "check spark.master, spark.conf, --jars, Java (17 or 21) and the free disk space; Spark's own message is above",
)
MIRROR_NOT_HANDED_OVER = Entry(
    "MIRROR_NOT_HANDED_OVER",
    "CHS-712",
    UnavailableError,
    "{tp}: the mirror could not hand over {range}: {reason}",
    "start again; the range is handed over then, and lands once",
)
MIRROR_OFFSET_GONE = Entry(
    "MIRROR_OFFSET_GONE",
    "CHS-713",
    UnavailableError,
    "{tp}: group {group} has no offset; it expired or was deleted while the mirror ran",
    "start again; the mirror then continues from what the Iceberg tables hold",
)
MIRROR_NOT_COORDINATED = Entry(
    "MIRROR_NOT_COORDINATED",
    "CHS-714",
    UnavailableError,
    "the mirror could not commit: {reason}",
    "check Kafka and mirror.catalog, then start again: records that were handed over are committed then",
)
MIRROR_GROUP_UNREAD = Entry(
    "MIRROR_GROUP_UNREAD",
    "CHS-713",
    UnavailableError,
    "Kafka does not return the offsets of group {group}: {reason}",
    "check the brokers and the right to read the group, then start again",
)
MIRROR_CATALOG_UNAVAILABLE = Entry(
    "MIRROR_CATALOG_UNAVAILABLE",
    "CHS-715",
    UnavailableError,
    "the Iceberg catalog does not answer: {reason}",
    "check mirror.catalog, the catalog's storage, the network and the credentials, then start again",
)
MIRROR_KAFKA_UNANSWERED = Entry(
    "MIRROR_KAFKA_UNANSWERED",
    "CHS-716",
    UnavailableError,
    "Kafka does not answer for the mirror's control topic {topic} or its group {group}: {reason}",
    "check the brokers, then start again; records that were handed over land once",
)
MIRROR_TRANSACTION_HANGS = Entry(
    "MIRROR_TRANSACTION_HANGS",
    "CHS-719",
    UnavailableError,
    "a transaction on the control topic {topic} has not ended for {minutes} minutes; partition {partition} cannot be "
    "read from offset {offset} on; {producer} opened it",
    "if that producer still runs, end it; if the transaction stays open, abort it: kafka-transactions.sh "
    "--bootstrap-server BROKER abort --topic {topic} --partition {partition} --start-offset {offset}; then start "
    "again: what was handed over lands once",
)
MIRROR_COMMITS_FAIL = Entry(
    "MIRROR_COMMITS_FAIL",
    "CHS-717",
    UnavailableError,
    "commits to Iceberg table {table} keep failing (rounds: {rounds}): {reason}",
    "check the catalog, its storage and the right to write the table, then start again; the "
    "files are kept and land once",
)
REGISTRY_UNAVAILABLE = Entry(
    "REGISTRY_UNAVAILABLE",
    "CHS-730",
    UnavailableError,
    "the Schema Registry at {urls} does not answer: {reason}",
    "check schema_registry.url, the network and the registry, then start again; no record was skipped because of it",
    ok="the Schema Registry at {urls} answers",
)
REGISTRY_FAILED = Entry(
    "REGISTRY_FAILED",
    "CHS-730",
    UnavailableError,
    "the Schema Registry at {urls} answers with HTTP status {status}, and not with what was asked of it",
    "with status 404, correct schema_registry.url, its path included, or a proxy before the registry; with another "
    "status, read the registry's log; then start again: no record was skipped because of it",
)
REGISTRY_REFUSED = Entry(
    "REGISTRY_REFUSED",
    "CHS-730",
    UnavailableError,
    "the Schema Registry at {urls} refuses the login or the right to read schemas: HTTP status {status}",
    "check schema_registry.user and schema_registry.password, or schema_registry.token, then start again",
)
DEAD_LETTERS_UNSENT = Entry(
    "DEAD_LETTERS_UNSENT",
    "CHS-735",
    UnavailableError,
    "{tp}: dead letters could not be written to topic {topic} in {tries} tries: {reason}",
    "check the brokers, and that the topic exists; then start again: each dead letter is delivered once",
)
REPLAY_MARKS_UNSENT = Entry(
    "REPLAY_MARKS_UNSENT",
    "CHS-735",
    UnavailableError,
    "{tp}: the records of {letters} dead letters have landed, but their replay marks could not be written to topic "
    "{topic}: {reason}",
    "check the brokers and the WRITE right on the topic, then run `chsink dlq replay` again: no record lands twice",
)
REPLICA_BEHIND = Entry(
    "REPLICA_BEHIND",
    "CHS-736",
    UnavailableError,
    "the replicas of {table} did not catch up within {seconds} s, so chsink cannot tell which rows the table has: "
    "{states}",
    "see system.replicas and system.replication_queue on these servers; once they have caught up, start again",
)
