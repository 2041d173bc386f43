"""1xx: the job file."""

from __future__ import annotations

from chsink.errors.entry import config

# A sentence follows the key and the origin of its value: "kafka.bootstrap (job.toml): …".
_REFERENCE = 'write {{ env = "NAME" }}, {{ file = "path" }} or {{ command = ["program", "argument"] }}'

# --- CHS-101: the file itself

NO_JOB_FILE = config(
    "CHS-101",
    "{path} does not exist",
    "pass the job file with -c FILE, or write a first one with `chsink init`",
)
JOB_FILE_UNREADABLE = config("CHS-101", "cannot read {path}: {reason}", "check the path and its permissions")
JOB_FILE_NOT_UTF8 = config("CHS-101", "{path} is not UTF-8 text", "save the file as UTF-8")
JOB_FILE_NOT_TOML = config(
    "CHS-101",
    "{path} is not valid TOML: {reason}",
    "correct that line; quote strings, and keep a value in braces on one line",
)
JOB_FILE_TWICE = config(
    "CHS-101",
    "{path} is not valid TOML: {reason}",
    "write each key and section once; a table in braces cannot be extended elsewhere: write all of its keys between "
    "the braces, on one line (create = {{ partition = […], types = {{ … }} }}), or turn it into a section of its own, "
    "such as [mirror.route.create] below its [[mirror.route]]; if one option name starts with another (a.b and a.b.c), "
    "quote both",
)

# --- CHS-102, CHS-103: keys

UNKNOWN_KEY = config("CHS-102", "there is no such key", "{advice}")
UNKNOWN_SECTION = config("CHS-102", "there is no such section", "{advice}")
KEY_OF_ANOTHER_KIND = config(
    "CHS-102",
    '{chosen} = "{tag}" does not have this key',
    "remove it, or set {union}.{chosen} to {others}",
)
MISSING_KEY = config("CHS-103", "it is missing", "{advice}")
NO_ROUTE = config(
    "CHS-103",
    "it is missing: each topic needs a route",
    'add a section [[route]] with topic = "…" and table = "…" for each topic',
)

NO_CATALOG = config(
    "CHS-103",
    "it has no `name`: an enabled mirror needs a catalog",
    'write catalog = {{ name = "lake", type = "sql", uri = "…", warehouse = "…" }}, or set mirror.enabled = false',
)
NO_MIRROR_ROUTE = config(
    "CHS-103",
    "it is missing: an enabled mirror needs a route",
    'add a section [[mirror.route]] with topic = "…" and table = "namespace.table"',
)
NO_TOPIC = config(
    "CHS-103",
    "it does not say which topics it takes",
    'set one of topic = "…", topics = ["…", "…"] and topic_pattern = "…"',
)

# --- CHS-104: values

WRONG_VALUE = config("CHS-104", "{reason}", "{advice}")
NOT_ALLOWED = config("CHS-104", "{value} is not allowed", "{advice}")
BLANK = config("CHS-104", "it is empty", "set a value, or remove the key")
SET_WITHOUT_VALUE = config(
    "CHS-104",
    "--set needs a value",
    "write --set KEY=VALUE, for example --set trigger.mode=available_now",
)
NOT_ADDRESSES = config("CHS-104", "it is not a list of addresses", 'write "host:port,host:port"')
NOT_HOST_PORT = config(
    "CHS-104",
    "{value} is not host:port",
    'write "host:port"; separate several with commas, and put an IPv6 host in brackets',
)
NOT_AN_ADDRESS = config("CHS-104", "{value} is not host:port", 'write "host:port", and put an IPv6 host in brackets')
NOT_A_TABLE = config(
    "CHS-104",
    "{value} is not a table name",
    'write "table" or "database.table", with backticks around a name that has other characters: "`my-db`.events"',
)
NOT_AN_ICEBERG_TABLE = config(
    "CHS-104",
    "{value} is not the name of an Iceberg table",
    'write "namespace.table"; {{topic}} stands for the topic\'s name',
)
NOT_A_VALUE_PATTERN = config(
    "CHS-104",
    "{value} is not a pattern of values: {reason}",
    "write a regular expression that matches the whole value, with the syntax of topic_pattern, but without (?=…) and "
    "(?!…)",
)
NOT_AN_ICEBERG_TERM = config(
    "CHS-104",
    "{value} is not a partition field or sort field of an Iceberg table: {reason}",
    'write a column or a transform of a column: "id", "day(at)", "bucket(16, id)"; in sort, a direction may follow: '
    '"at desc nulls last"',
)
NOT_AN_ICEBERG_TYPE = config(
    "CHS-104",
    "{value} cannot be used in create.types: {reason}",
    "write a column without a dot in its name, and one of Iceberg's types: "
    '"long", "decimal(9, 2)", "list<string>", "map<string, double>", "struct<x: double, y: double>"',
)
NOT_A_TOPIC = config(
    "CHS-104",
    "{value} is not a topic name",
    "use 1 to 249 letters, digits, dots, dashes and underscores; to match several topics, set topic_pattern in a "
    "[[route]]",
)
NOT_A_TOPIC_PATTERN = config(
    "CHS-104",
    "{value} is not a pattern of topic names: {reason}",
    "write a regular expression that matches the whole topic name, such as 'events\\..*'; it may contain letters, "
    "digits, `_ - .`, `\\. \\d \\w`, classes, groups, `|`, `* + ?` and `{{n,m}}`",
)
NOT_A_SINK_NAME = config(
    "CHS-104",
    "{value} is not a sink name",
    "use 1 to 100 letters, digits, dots, dashes and underscores",
)
NOT_A_NODE_PATH = config(
    "CHS-104",
    "{value} is not a Keeper path",
    'write an absolute path such as "/chsink/state", with letters, digits, dots, dashes and underscores',
)
NOT_A_URL = config(
    "CHS-104",
    "it is not the URL of an HTTP endpoint",
    'write "http://host:8123" or "https://host:8443": the URL of ClickHouse\'s HTTP interface, without a path',
)
NOT_A_JSON_PATH = config(
    "CHS-104",
    "{value} is not a path to a field",
    'write the names of the fields, the outermost first: "$.address.city" or "$[\'my field\'].city"; array elements '
    "have no path",
)
NOT_A_REGISTRY_URL = config(
    "CHS-104",
    "it is not the URL of a Schema Registry",
    'write "http://host:8081" or "https://host/path", without a query',
)
NOT_A_CHARACTER = config(
    "CHS-104",
    "{value} is not one character",
    'write one ASCII character that is not a line break, for example ";"',
)
NO_FIELDS = config("CHS-104", "it names no column", "name the column of each field, in their order")
FIELD_TWICE = config("CHS-104", "it names a column twice", 'name each column once; "" leaves a field out')
DELIMITER_IS_QUOTE = config(
    "CHS-104",
    "the delimiter and the quote are the same character",
    "set delimiter or quote to another one",
)
NOT_AN_INTERVAL = config(
    "CHS-104",
    "{value} is not an interval",
    'write a number and a unit: "500 milliseconds", "10 seconds", "1 minute"',
)
NOT_A_REFERENCE = config(
    "CHS-104",
    "it is not a reference to one environment variable, one file or one command",
    _REFERENCE,
)
NOT_A_COMMAND = config(
    "CHS-104",
    "a command is a list of strings: a program and its arguments",
    'write {{ command = ["vault", "kv", "get", "-field=password", "secret/chsink"] }}, for example; no shell reads it',
)
NOT_AN_OPTION_VALUE = config("CHS-104", "it must be a string, a number or a boolean", "write a single value")
TRIGGER_REFUSED = config(
    "CHS-104",
    "{value} is not supported: {reason}",
    'use "processing_time", or "available_now" to stop at the current end of the topics',
)
NO_ENDPOINT = config(
    "CHS-104",
    "the list is empty",
    'write endpoints = ["http://host:8123"], with one endpoint for each shard',
)
NOT_A_TOLERANCE = config(
    "CHS-104",
    "{value} is not a tolerance",
    'write "all", "none", or "N per M", for example "10 per 1000"',
)

# --- CHS-105: options that chsink sets itself

RESERVED = config("CHS-105", "it cannot be set here: {reason}", "remove it")
SET_ELSEWHERE = config("CHS-105", "it cannot be set here", "{advice}")

# --- CHS-106: contradictions

MIRROR_ROUTE_TWICE = config(
    "CHS-106",
    "the route from {topic} to {table} is written {count} times",
    "write it once",
)
CHECKPOINT_SHARED = config(
    "CHS-106",
    "the mirror and the sink cannot share a checkpoint",
    "remove it, or set a directory that only the mirror uses",
)
CONTROL_TOPIC_IS_SOURCE = config(
    "CHS-106",
    "a route reads records from {topic}, so it cannot be the control topic",
    "set a topic that no route reads",
)

OPTION_TWICE = config(
    "CHS-106",
    "{option} is set twice",
    "keep one of the two spellings and remove the other",
)
TWO_KINDS_OF_TOPICS = config(
    "CHS-106",
    "it sets {keys}, but a route takes only one of these keys",
    "keep only one of them, and write another [[route]] for the other topics",
)
UNKNOWN_PLACEHOLDER = config(
    "CHS-106",
    "nothing defines the placeholder {{{name}}}",
    "use {{topic}}, or name a group of the route's topic_pattern: (?<{name}>…)",
)
NO_TABLE_NAME = config(
    "CHS-106",
    "no table can be named after topic {topic}: {reason}",
    "change the table's name, or what the groups of topic_pattern match, or give the topic a route of its own",
)
TWO_PATTERNS = config(
    "CHS-106",
    "topic {topic} matches the topic_pattern of {routes}",
    "narrow one of the patterns, for example with (?!…), or name the topic in a [[{section}]] of its own, which "
    "has priority over patterns",
)
TOPIC_TWICE = config(
    "CHS-106",
    "topic {topic} lands in table {table} more than once: {routes}",
    "keep one of these routes; to land the topic in several tables, name a different table in each",
)
TOPIC_LISTED_TWICE = config(
    "CHS-106",
    "it lists topic {topic} {count} times",
    "list the topic once",
)
TABLE_OR_TABLE_BY = config(
    "CHS-106",
    "it must set either table or table_by",
    'set table = "…" to land all records in one table, or table_by to let each record name its table',
)
TABLE_BY_WHAT = config(
    "CHS-106",
    "it must set exactly one of field, header and column, but sets {keys}",
    'set one of field = "$.…", header = "…" and column = "…"',
)
TABLE_BY_NO_JSON = config(
    "CHS-106",
    "only a JSON record can name its table by a field, and the format is {format}",
    'let a Kafka header name the table: set header = "…" instead of field',
)
TABLE_BY_NO_TABLE = config(
    "CHS-106",
    "it names no table",
    'set tables = {{ value = "table" }}, or patterns',
)
TABLE_BY_NO_VALUE = config(
    "CHS-106",
    "{value} must contain {{value}} once: it stands for a record's value",
    'name the tables by it: others = "shop.{{value}}"',
)
TABLE_BY_NOT_CREATED = config(
    "CHS-106",
    "tables that records name may not exist yet, and auto_create is off",
    "set auto_create = true in the section, or in [mirror]; or list all values in `tables`, and remove `others`",
)
TABLE_BY_APART = config(
    "CHS-106",
    'with mirror.coordinator = "apart", the coordinator does not learn of tables that records name',
    'set mirror.coordinator = "driver"; or list all values in `tables`, and remove `others`',
)
TABLE_BY_NO_COLUMN = config(
    "CHS-106",
    "the mirror does not read your program's stream, so it has no column {column}",
    'set column = "key" for the record\'s key, or set field or header instead',
)
KEY_WITHOUT_COLUMNS = config(
    "CHS-106",
    "the record's key has no columns to fill",
    "name them in `key_columns`, or remove key_format",
)
KEY_IS_NO_EVENT = config(
    "CHS-106",
    "change events are in the record's value, not in its key",
    'set format = {{ type = "debezium", primary_key = […] }} and remove key_format, or set key_format = "json"',
)
KEY_WITHOUT_FORMAT = config(
    "CHS-106",
    "nothing says how to read the record's key",
    'set `key_format`, for example key_format = "json", or remove key_columns',
)
KEY_COLUMN_TWICE = config("CHS-106", "it names a column twice", "name each column once")
PROTOCOL_UNUSED = config(
    "CHS-106",
    "the protocol {protocol} does not use it",
    'set "security.protocol" to {protocols}, or remove the {family}.* options',
)
SERVER_TWICE = config(
    "CHS-106",
    "{url} is listed {count} times",
    "list each server once, and list replicas of one shard in its `replicas`",
)
SHARD_NAME_TWICE = config("CHS-106", "{count} shards are named {name}", "give each shard its own name")
WEIGHTS_TOO_LARGE = config(
    "CHS-106",
    "the weights add up to more than 1,000,000",
    "use smaller weights in the same proportion",
)
NO_SHARD_KEY = config(
    "CHS-106",
    "the rows of {table} need a shard key, because there are several endpoints",
    "set clickhouse.shard_key, or shard_key of the route, to the columns that choose the shard",
)
SHARD_COLUMN_TWICE = config("CHS-106", "it names a column twice", "name each column once")
SHARD_KEY_TOO_WIDE = config(
    "CHS-106",
    'hash_function = "{function}" {takes}, but the shard key has {count}',
    'change the shard key, or set clickhouse.hash_function = "xxHash64", which takes several columns',
)
SHARD_KEYS_DIFFER = config(
    "CHS-106",
    "two routes to {table} have different shard keys",
    "use one shard key for all routes to a table: a Distributed table finds its rows by one key",
)
TLS_UNUSED = config("CHS-106", "{url} does not use TLS", "write https://, or remove the tls keys")
KEY_WITHOUT_CERTIFICATE = config(
    "CHS-106",
    "a key needs its certificate",
    "set clickhouse.tls.cert_file as well",
)
ZOOKEEPER_KEY_ALONE = config(
    "CHS-106",
    "a key needs its certificate",
    "set state.tls.cert_file as well",
)
ZOOKEEPER_NO_TLS = config(
    "CHS-106",
    "the connection to ZooKeeper does not use TLS",
    "set state.tls.enabled = true, and name the secure port in state.zookeeper; or remove this key",
)
ZOOKEEPER_NO_USER = config(
    "CHS-106",
    "it needs a user, and state.user is not set",
    "set state.user, or remove this key",
)
NO_REGISTRY = config(
    "CHS-106",
    "it is missing, and a route with format {format} needs it",
    "set it to the registry's URL; or set the route's format.schema_file, if the records carry no schema id",
)
PROTOBUF_FILE_AND_MESSAGE = config(
    "CHS-106",
    "schema_file and message go together",
    "set both for records without a schema id, or neither for those of a Schema Registry",
)
TWO_REGISTRY_LOGINS = config(
    "CHS-106",
    "the registry takes a user or a token, not both",
    "remove schema_registry.user or schema_registry.token",
)
REGISTRY_KEY_ALONE = config(
    "CHS-106",
    "a key needs its certificate",
    "set schema_registry.cert_file as well",
)
CA_UNUSED = config(
    "CHS-106",
    "verify = false makes ca_file useless",
    "remove `verify = false`: ca_file verifies the server",
)
CONNECT_TIMEOUT_TOO_LONG = config(
    "CHS-106",
    "it is longer than clickhouse.insert_timeout_s, which includes connecting",
    "lower it, or raise clickhouse.insert_timeout_s",
)
STATE_TABLE_IS_TARGET = config(
    "CHS-106",
    "it is also the table of a route",
    "use another table for the state",
)
INTERVAL_UNUSED = config(
    "CHS-106",
    'mode = "available_now" has no interval',
    'remove it, or set mode = "processing_time"',
)
PAGE_WITHOUT_TOKEN = config(
    "CHS-106",
    "other machines can reach {address}, and the status page has no token",
    'set observe.ui_token = {{ env = "NAME" }} or {{ file = "path" }}; or serve the page on 127.0.0.1, '
    "which other machines reach only through a tunnel (ssh -L)",
)

# --- CHS-107, CHS-108: credentials

PASSWORD_IN_FILE = config(
    "CHS-107",
    "the job file must not contain a password",
    _REFERENCE + ", or set the environment variable CHSINK__CLICKHOUSE__PASSWORD",
)
CREDENTIAL_IN_FILE = config("CHS-107", "the job file must not contain a credential", _REFERENCE)
TOKEN_TOO_SHORT = config(
    "CHS-107",
    "the token has fewer than {least} characters",
    "use a longer one, for example what `openssl rand -hex 32` prints",
)
CREDENTIAL_IN_URL = config(
    "CHS-107",
    "the URL must not contain a credential",
    "set clickhouse.user and clickhouse.password, which apply to all endpoints",
)
CREDENTIAL_IN_REGISTRY_URL = config(
    "CHS-107",
    "the URL must not contain a credential",
    "set schema_registry.user and schema_registry.password, or schema_registry.token",
)
VARIABLE_NOT_SET = config(
    "CHS-108",
    "the environment variable {variable} is not set",
    "export {variable} where the driver starts",
)
REFERENCED_FILE_UNREADABLE = config(
    "CHS-108",
    "cannot read {path}: {reason}",
    "make the file readable where the driver starts; a relative path starts at the job file's folder",
)
COMMAND_FAILED = config(
    "CHS-108",
    "the command {program} gave no credential: {reason}",
    "run the command where the driver starts, as its user, in the job file's folder: it must print the credential, and "
    "nothing else, on its standard output, and exit with status 0 within a minute",
)

# --- CHS-109: Kafka options that librdkafka does not have

NO_COUNTERPART = config(
    "CHS-109",
    "chsink's own Kafka client has no such option",
    "set the {family}.* options of that client in [kafka.client_options]",
)
MISSPELT_OPTION = config(
    "CHS-109",
    "chsink's own Kafka client has no such option",
    "if you meant `{meant}`, correct the name; otherwise, set the {family}.* options of that client in "
    "[kafka.client_options]",
)
TRUST_STORE_NOT_PEM = config(
    "CHS-109",
    "chsink's own Kafka client reads PEM files, not Java key stores",
    "export the certificates to a PEM file, name it in `ssl.truststore.location` and set "
    '`ssl.truststore.type = "PEM"`; '
    "or set `ssl.ca.location` in [kafka.client_options]",
)
KEY_STORE_NOT_PEM = config(
    "CHS-109",
    "chsink's own Kafka client reads PEM and PKCS12 files, not Java key stores",
    'export the certificate chain and the key to one PEM file and set `ssl.keystore.type = "PEM"`; '
    "or set `ssl.certificate.location` and `ssl.key.location` in [kafka.client_options]",
)
_MECHANISM = (
    "use PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER; "
    "or choose another login for chsink's own client with `sasl.mechanism` in [kafka.client_options]"
)
NO_KAFKA_USER = config(
    "CHS-109",
    "the job file does not say which Kafka user this job is",
    "name the user with --principal, for example --principal User:CN=lander (a client certificate's subject, unless "
    "ssl.principal.mapping.rules of the brokers shorten it); or set sasl.jaas.config in [kafka.options]",
)
NO_MECHANISM = config(
    "CHS-109",
    "it is missing, and chsink's own Kafka client does not support Java's default, GSSAPI",
    _MECHANISM,
)
MECHANISM_UNSUPPORTED = config(
    "CHS-109",
    "chsink's own Kafka client does not support {mechanism}",
    _MECHANISM,
)
LOGIN_INCOMPLETE = config(
    "CHS-109",
    "it does not contain {missing}",
    'write the login module as Java\'s client expects it: `…LoginModule required username="…" password="…";`',
)
BEARER_LOGIN_INCOMPLETE = config(
    "CHS-109",
    "it does not contain {missing}",
    'write `…OAuthBearerLoginModule required clientId="…" clientSecret="…";`',
)

# --- CHS-110

NO_CHECKPOINT = config(
    "CHS-110",
    "it is missing",
    "set it to a directory or URI that outlives the driver, for example "
    'checkpoint = "s3a://bucket/checkpoints/flights"',
)

# --- CHS-111

NO_MIRROR = config(
    "CHS-111",
    "the mirror is off, and this command needs it",
    "set mirror.enabled = true, with mirror.catalog and [[mirror.route]]: see docs/mirror.md",
)

COORDINATES_ITSELF = config(
    "CHS-111",
    "the driver commits by itself, so no separate coordinator can run",
    'set mirror.coordinator = "apart", restart the driver, then start the coordinator',
)

# --- CHS-112

NO_CLICKHOUSE = config(
    "CHS-112",
    "it is missing: this job file describes only an Iceberg mirror, and this command needs ClickHouse",
    "use a command of `chsink mirror`, `chsink doctor`, `chsink ui` or `chsink sql create-table --iceberg`, which "
    "work without ClickHouse; to land the records in ClickHouse too, add [clickhouse] with its endpoints, and a "
    "[[route]] for each topic",
)

# --- CHS-115

NO_DEAD_LETTERS = config(
    "CHS-115",
    "the job file does not say where dead letters go",
    'set dead_letters.topic = "…"; or set dead_letters.table = "…", then run `chsink sql dead-letters`, which prints '
    'the statement that creates it; every "dead_letter" in [errors] needs one of them, and so does `chsink dlq`',
)
DELETES_NEED_KEYS = config(
    "CHS-115",
    'errors.on_tombstone = "delete" reads the key of each record, but the route of topic {topic} {problem}',
    'set key_format and key_columns for the route; with format = "debezium", which has deletes of its own, set '
    'errors.on_tombstone = "skip"; it is set for all routes, so if another one needs "delete", give this topic a job '
    "of its own, with a new table: it lands the topic again from kafka.starting_offsets on",
)
DEAD_LETTERS_TABLE_TAKEN = config(
    "CHS-115",
    "this table is also a route's table, or holds the state",
    "name a table that only dead letters use",
)
MIRROR_WITHOUT_DEAD_LETTERS = config(
    "CHS-115",
    "topic {topic} lands in Iceberg only, and the Iceberg mirror keeps no dead letters",
    'add a [[route]] for the topic, and [clickhouse] if it is missing; or set errors.on_bad_value to "skip" or "halt", '
    'and errors.on_tombstone to "skip" or "bad"',
)
TWO_DEAD_LETTERS = config(
    "CHS-115",
    "both a topic and a table are set",
    "set dead_letters.topic or dead_letters.table, not both",
)
DEAD_LETTERS_TOPIC_READ = config(
    "CHS-115",
    "this topic is also a topic of a route, or the mirror's control topic",
    "name a topic that only dead letters use",
)
NO_DEAD_LETTERS_TABLE = config(
    "CHS-115",
    "the job file names no table of dead letters",
    'set dead_letters.table = "…"',
)
NEW_TABLES_DIFFER = config(
    "CHS-115",
    "the routes to the Iceberg table {table} have different values of auto_create or create",
    "set these keys in only one route to the table, or to the same values in all",
)
