"""4xx: shards and shard keys."""

from __future__ import annotations

from chsink.errors.entry import config, halt
from chsink.errors.steps import SETTLED

SHARD_REPLICAS = config(
    "CHS-401",
    "shard {shard} has no replica, or lists the same replica twice",
    "give each shard in clickhouse.endpoints one or more different URLs",
)
SHARD_URL = config(
    "CHS-401",
    "the URL of a replica does not have the form http[s]://host[:port], or it contains credentials",
    "correct clickhouse.endpoints; set the credentials with clickhouse.user and clickhouse.password",
)
SHARD_WEIGHT = config(
    "CHS-401",
    "shard {shard} has the weight {weight}",
    "set a whole number from 1 to {highest}; to retire a shard, remove it from clickhouse.endpoints",
)
SHARD_LIST = config(
    "CHS-401",
    "the layout has {count} shards with a total weight of {weight}; listed twice: {twice}",
    "list one or more different shards in clickhouse.endpoints, with a total weight of at most {highest}",
)
UNKNOWN_HASH_FUNCTION = config(
    "CHS-402",
    "clickhouse.hash_function does not support {name}",
    "use one of {supported}; names are case-sensitive, as in ClickHouse",
)
KEY_COLUMN_COUNT = config(
    "CHS-403",
    "{function} takes {takes}, but the shard key has {count}: {columns}",
    "change clickhouse.shard_key, or use xxHash64, which takes any number of columns",
)
KEY_TYPE = config(
    "CHS-404",
    "the shard key column {column} has the type {type}, which {function} does not support",
    "{remedy}; {function} supports {families}",
)
LAYOUT_WITHOUT_KEY = config(
    "CHS-405",
    "{count} shards need both clickhouse.hash_function and clickhouse.shard_key",
    'set hash_function = "xxHash64" and shard_key = ["column"], the same as in the Distributed table',
)
KEY_VALUE = halt(
    "CHS-406",
    "the shard key column {column} ({type}) arrived as Arrow {wire}: {reason}",
    "report this as a bug of chsink: its decoder should have refused the record",
)
UNREADABLE_LAYOUT = halt(
    "CHS-407",
    "the recorded shard layout cannot be read ({reason})",
    "run the version of chsink that wrote it until no range is in doubt, then upgrade",
)
SHARD_NAMES_CHANGED = halt(
    "CHS-409",
    "shard {shard} was at {then} when a range in doubt was announced, and is at {now} now: chsink cannot tell whether "
    "it has moved, or the shards have only other names",
    "in clickhouse.endpoints, give the shards the names and URLs that they had ({every}). If no rows of a range were "
    "moved, start the job. If some were, run `chsink state resolve TOPIC PARTITION` instead: with --landed if all rows "
    "and dead letters of the range are there, each once, on whichever server; otherwise with --resend, once you have "
    "deleted those that are there, on every server, and then start the job; or with --lost to give up the missing "
    "rows. If a server is gone, --landed and --lost remain (if it is the first one and [state] names no server, list "
    "another one of the same Keeper first). For a replay in doubt, move its rows and dead letters back if they were "
    "moved, and run `chsink dlq replay`. Then "
    + SETTLED
    + ". Then move what landed meanwhile, change the endpoints again, and start the job",
)
NULL_KEY_POLICY = config(
    "CHS-408",
    "errors.null_shard_key does not support {value}",
    'set errors.null_shard_key to "halt" or "first_shard"',
)
