"""7xx: a service does not answer."""

from __future__ import annotations

from chsink.errors.entry import unavailable
from chsink.errors.steps import AGAIN, REPLICA_GONE

STATE_STORE_UNAVAILABLE = unavailable(
    "CHS-701",
    "the state store ({store}) does not answer: {reason}",
    "check the network and the store's servers (those that [state] names; if it names none, the first of "
    "clickhouse.endpoints), then try again",
)
STATE_NOT_REACHED = unavailable(
    "CHS-701",
    "sink '{sink}' could not {what} in the state store ({store}) within {seconds} s{cause}",
    "bring the state store back and start again; nothing was lost or duplicated",
)
STATE_NOT_READ = unavailable(
    "CHS-701",
    "sink '{sink}' could not read its state from the state store ({store}): {error}",
    "bring the state store back and start again",
)
KAFKA_UNAVAILABLE = unavailable(
    "CHS-702",
    "Kafka at {bootstrap} does not answer: {reason}",
    'check the network; that kafka.bootstrap names a Kafka listener; that "security.protocol" in [kafka.options] '
    "matches it (default PLAINTEXT); and the credentials in [kafka.options]; for the services of `chsink dev up`, use "
    "the address that `chsink dev status` prints; then try again",
)
KAFKA_SILENT = unavailable(
    "CHS-702",
    "Kafka returned no data of {tp} at offset {offset} for {seconds} s",
    "look for the cause in the brokers' logs, then try again",
)
KAFKA_UNREADABLE = unavailable(
    "CHS-702",
    "{tp} cannot be read: {reason}",
    "look for the cause in the brokers' logs, then try again",
)
CLAIM_DISTURBED = unavailable(
    "CHS-703",
    "sink '{sink}': another process kept changing its state rows while this driver claimed the sink",
    "stop the other driver of this sink (`chsink status` names the owner), then start again",
)
ROWS_NOT_CREATED = unavailable(
    "CHS-703",
    "sink '{sink}': the state rows of new partitions could not be created",
    "run `chsink doctor`, which tests the state store, then start again",
)
INSERT_UNANSWERED = unavailable(
    "CHS-704",
    "{url} did not acknowledge an insert into {table} within {seconds} s: {reason}",
    "bring the server back, then " + AGAIN + ": the range is in doubt and chsink will settle it",
)
INSERT_OVERLOADED = unavailable(
    "CHS-704",
    "{url} kept refusing an insert into {table} for {seconds} s with code {code}: {reason}",
    "reduce the load on the server, then " + AGAIN + ": the range is in doubt and chsink will settle it",
)
PIECE_TOO_LATE = unavailable(
    "CHS-705",
    "it is too late to send piece {token}: ClickHouse may no longer remember its deduplication token",
    AGAIN + ": the range is in doubt and chsink will settle it",
)
ANSWERS_MISSING = unavailable(
    "CHS-706",
    "{answers} of {expected:tasks} reported a result",
    "start again: the batch is in doubt, and chsink will settle it",
)
TOKEN_DOUBTFUL = unavailable(
    "CHS-707",
    "{url} may have forgotten the deduplication token of piece {token}, so chsink does not send it: {reason}",
    AGAIN
    + ": the range is in doubt, and chsink looks for its rows in the table before it sends any; if this recurs, raise "
    "the table's deduplication window (an insert makes one block per table partition), but only once the range is "
    "settled: if the window was lowered, raising it brings no forgotten token back",
)
SPARK_STOPPED = unavailable(
    "CHS-708",
    "Spark stopped the query: {reason}",
    'start again; if it stops again, set observe.log_level = "debug" to log Spark\'s whole trace',
)
CHECKPOINT_IN_USE = unavailable(
    "CHS-718",
    "another process uses the same Spark checkpoint: {reason}",
    "run one process per sink: end the other one, then start again; nothing is lost",
)
TARGET_UNANSWERED = unavailable(
    "CHS-709",
    "ClickHouse did not answer a query about a target table: {error}",
    "bring the server back and " + AGAIN + ": chsink will settle the ranges in doubt",
)
QUERY_FAILED = unavailable(
    "CHS-709",
    "{url} answered a query about a target table with an error (code {code}): {reason}",
    AGAIN + ": chsink will settle the ranges in doubt; if the error stays, remove its cause on the server",
)
CLICKHOUSE_UNAVAILABLE = unavailable(
    "CHS-709",
    "{reason}",
    "check clickhouse.endpoints (for the services of `chsink dev up`, use the addresses that `chsink dev status` "
    "prints), the network and [clickhouse.tls], then try again",
)
STILL_INSERTING = unavailable(
    "CHS-710",
    "{url} is still running an insert of {what}",
    "wait until it ends, or find it in system.processes and stop it with KILL QUERY; then start again",
)
STILL_DELETING = unavailable(
    "CHS-710",
    "{url} is still running DELETE statements on {table} (unfinished: {deletes}), so chsink cannot tell which rows "
    "will remain",
    "wait until system.mutations shows is_done = 1 for each of them ({mutations}), then start again",
)
DELETE_FAILS = unavailable(
    "CHS-710",
    "{url} has not finished a DELETE on {table}, because it fails each time (mutation {mutation}: {reason}), so chsink "
    "cannot tell which rows will remain",
    "remove the cause (ClickHouse then finishes the DELETE), or cancel it with `{kill}` at {url} (rows already removed "
    "stay removed); then start again: chsink looks for the rows",
)
DELETE_NOT_TAKEN_OVER = unavailable(
    "CHS-710",
    "{url} has not yet fetched parts of {table} that a cancelled DELETE or UPDATE had rewritten on another replica, so "
    "chsink cannot tell which rows will remain",
    "wait until system.replicas shows part_mutations_in_queue = 0 for the table on this server (if its merges were "
    "stopped, run `SYSTEM START MERGES {table}` there), then start again",
)
SPARK_NOT_STARTED = unavailable(
    "CHS-711",
    "Spark did not start: {reason}",
    "check spark.master, spark.conf, --jars, Java (17 or 21) and the free disk space; if Java crashed, delete the "
    "class archives, spark-*.jsa, in the folder of the jars that `chsink jars --no-archive` prints; Spark's own "
    "message is above",
)
MIRROR_NOT_HANDED_OVER = unavailable(
    "CHS-712",
    "{tp}: the mirror could not hand over {range}: {reason}",
    "start again: the range is then handed over, and lands once",
)
MIRROR_TOPIC_BEGINS = unavailable(
    "CHS-712",
    "topics that had no record, or did not exist, have one now: {topics}",
    "start again (`chsink run` does so by itself): the mirror then creates their tables",
)
MIRROR_TABLES_BEGIN = unavailable(
    "CHS-712",
    "{tp}: records name Iceberg tables that do not exist yet: {tables}",
    "no action needed: the mirror creates the tables and starts again",
)
MIRROR_OFFSET_GONE = unavailable(
    "CHS-713",
    "{tp}: group {group} has no offset; it expired or was deleted while the mirror ran",
    "start again; the mirror then continues from what the Iceberg tables hold",
)
MIRROR_GROUP_UNREAD = unavailable(
    "CHS-713",
    "Kafka does not return the offsets of group {group}: {reason}",
    "run `chsink doctor`, which names missing rights, and look at the brokers' logs; then start again",
)
MIRROR_NOT_COORDINATED = unavailable(
    "CHS-714",
    "the mirror could not commit: {reason}",
    "check Kafka and mirror.catalog, then start again: records that were handed over are then committed",
)
MIRROR_CATALOG_UNAVAILABLE = unavailable(
    "CHS-715",
    "the Iceberg catalog does not answer: {reason}",
    "check mirror.catalog, the catalog's storage, the network and the credentials, then start again",
)
MIRROR_KAFKA_UNANSWERED = unavailable(
    "CHS-716",
    "Kafka does not answer for the mirror's control topic {topic} or its group {group}: {reason}",
    "look for the cause in the brokers' logs, then start again; records that were handed over land once",
)
MIRROR_TRANSACTION_HANGS = unavailable(
    "CHS-719",
    "a transaction on the control topic {topic} has not ended for {minutes} minutes; partition {partition} cannot be "
    "read from offset {offset} on; {producer} opened the transaction",
    "if that producer still runs, end it; if the transaction stays open, abort it: kafka-transactions.sh "
    "--bootstrap-server BROKER abort --topic {topic} --partition {partition} --start-offset {offset}; then start "
    "again: what was handed over lands once",
)
MIRROR_COMMITS_FAIL = unavailable(
    "CHS-717",
    "commits to Iceberg table {table} keep failing (rounds: {rounds}): {reason}",
    "check the catalog, its storage and the right to write the table, then start again; the "
    "files are kept and land once",
)
MIRROR_NO_ANSWER = unavailable(
    "CHS-720",
    "the mirror did not commit within {seconds} seconds: {began}",
    'the mirror commits, or, with mirror.coordinator = "apart", `chsink mirror coordinator` does. If that process '
    "does not run, start it: it commits what was handed over. If it runs, look in its log for a table whose commits "
    "fail; if there is none, stop the mirror and the coordinator, and start them again: nothing is lost",
)
MIRROR_NO_COORDINATOR = unavailable(
    "CHS-721",
    'no coordinator has prepared {waiting} within {seconds} seconds; mirror.coordinator is "apart"',
    "start `chsink mirror coordinator` with the same job file, or read its log, then start again; nothing was handed "
    "over meanwhile",
)
MIRROR_NOT_FENCED = unavailable(
    "CHS-722",
    "the mirror cannot open a Kafka producer for {tps}: {reason}; meanwhile, it commits the other topic-partitions",
    "look for the cause in the brokers' logs; the mirror tries again in each round, and lands the records that wait as "
    "long as Kafka holds them",
)
REGISTRY_UNAVAILABLE = unavailable(
    "CHS-730",
    "the Schema Registry at {urls} does not answer: {reason}",
    "check schema_registry.url, the network and the registry, then start again; no record was skipped because of it",
    ok="the Schema Registry at {urls} answers",
)
REGISTRY_FAILED = unavailable(
    "CHS-730",
    "the Schema Registry at {urls} answered with HTTP status {status} instead of the schema",
    "for status 404, check schema_registry.url (its path, too) and any proxy in front of the registry; for any other, "
    "read the registry's log; then start again: no record was skipped because of it",
)
REGISTRY_REFUSED = unavailable(
    "CHS-730",
    "the Schema Registry at {urls} refuses the login or the right to read schemas: HTTP status {status}",
    "check schema_registry.user and schema_registry.password, or schema_registry.token, then start again",
)
DEAD_LETTERS_UNSENT = unavailable(
    "CHS-735",
    "{tp}: dead letters could not be written to topic {topic} in {tries} tries: {reason}",
    "run `chsink doctor`, which checks the topic, and look at the brokers' logs; then start again: each dead letter is "
    "delivered once",
)
REPLAY_MARKS_UNSENT = unavailable(
    "CHS-735",
    "{tp}: the records of {letters:dead letters} have landed, but their replay marks could not be written to topic "
    "{topic}: {reason}",
    "check the brokers and the WRITE right on the topic, then run `chsink dlq replay` again: no record lands twice",
)
REPLICA_BEHIND = unavailable(
    "CHS-736",
    "the replicas of {table} did not catch up within {seconds} s, so chsink cannot tell which rows the table has: "
    "{states}",
    "look for the cause in system.replicas and system.replication_queue on these servers; "
    + REPLICA_GONE
    + ". Once the others have caught up, start again",
)
