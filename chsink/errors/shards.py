"""4xx: shards and shard keys."""

from __future__ import annotations

from chsink.errors.entry import Entry
from chsink.errors.families import ConfigError, HaltError

SHARD_REPLICAS = Entry(
    "SHARD_REPLICAS",
    "CHS-401",
    ConfigError,
    "shard {shard} has no replica, or lists the same replica twice",
    "give each shard in clickhouse.endpoints one or more different URLs",
)
SHARD_URL = Entry(
    "SHARD_URL",
    "CHS-401",
    ConfigError,
    "the URL of a replica does not have the form http[s]://host[:port], or it contains credentials",
    "correct clickhouse.endpoints; set the credentials with clickhouse.user and clickhouse.password",
)
SHARD_WEIGHT = Entry(
    "SHARD_WEIGHT",
    "CHS-401",
    ConfigError,
    "shard {shard} has the weight {weight}",
    "set a whole number from 1 to {highest}; to retire a shard, remove it from clickhouse.endpoints",
)
SHARD_LIST = Entry(
    "SHARD_LIST",
    "CHS-401",
    ConfigError,
    "the layout has {count} shards with a total weight of {weight}; listed twice: {twice}",
    "list one or more different shards in clickhouse.endpoints, with a total weight of at most {highest}",
)
UNKNOWN_HASH_FUNCTION = Entry(
    "UNKNOWN_HASH_FUNCTION",
    "CHS-402",
    ConfigError,
    "clickhouse.hash_function does not support {name}",
    "use one of {supported}; names are case-sensitive, as in ClickHouse",
)
KEY_COLUMN_COUNT = Entry(
    "KEY_COLUMN_COUNT",
    "CHS-403",
    ConfigError,
    "{function} takes {takes}, but the shard key has {count}: {columns}",
    "change clickhouse.shard_key, or use xxHash64, which takes any number of columns",
)
KEY_TYPE = Entry(
    "KEY_TYPE",
    "CHS-404",
    ConfigError,
    "the shard key column {column} has the type {type}, which {function} does not support",
    "{remedy}; {function} supports {families}",
)
LAYOUT_WITHOUT_KEY = Entry(
    "LAYOUT_WITHOUT_KEY",
    "CHS-405",
    ConfigError,
    "{count} shards need both clickhouse.hash_function and clickhouse.shard_key",
    'set hash_function = "xxHash64" and shard_key = ["column"], the same as in the Distributed table',
)
KEY_VALUE = Entry(
    "KEY_VALUE",
    "CHS-406",
    HaltError,
    "the shard key column {column} ({type}) arrived as Arrow {wire}: {reason}",
    "report this as a bug of chsink: its decoder should have refused the record",
)
UNREADABLE_LAYOUT = Entry(
    "UNREADABLE_LAYOUT",
    "CHS-407",
    HaltError,
    "the recorded shard layout cannot be read ({reason})",
    "run the version of chsink that wrote it until no range is in doubt, then upgrade",
)
NULL_KEY_POLICY = Entry(
    "NULL_KEY_POLICY",
    "CHS-408",
    ConfigError,
    "errors.null_shard_key does not support {value}",
    'set errors.null_shard_key to "halt" or "first_shard"',
)
