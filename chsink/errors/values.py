"""5xx: values and column types."""

from __future__ import annotations

from chsink.errors.entry import bad_value, config, preflight
from chsink.errors.steps import DELETE_AND_AGAIN

_SEND_AGAIN = (
    "make sure that no process of the job is running, executors included, then change the column and run `chsink "
    "state resolve {arguments} "
    f"--resend --senders-gone`; {DELETE_AND_AGAIN}; then start again"
)

BAD_VALUE = bad_value(
    "CHS-501",
    "a record does not fit its table: {first}",
    'set errors.on_bad_value = "dead_letter" (and dead_letters.topic or dead_letters.table) to keep such records, '
    'or "skip" to skip them (for null values '
    "alone, set errors.on_tombstone instead); or, unless Kafka has deleted records of this range, " + _SEND_AGAIN,
)
TOO_MANY_BAD = bad_value(
    "CHS-513",
    "{tp}: {bad} of the {records} records at offsets {offsets} do not fit their table, and errors.tolerance is "
    '"{tolerance}"; the first one: {first}',
    "to accept these records, raise errors.tolerance and start again; or, unless Kafka has deleted records of this "
    "range, " + _SEND_AGAIN + ". Correct the producer, so that no more such records come",
)
UNSUPPORTED_COLUMN = config(
    "CHS-502",
    "chsink cannot write Kafka values to a column of type {type}",
    "give the column a MATERIALIZED expression, or choose another type",
)
UNKNOWN_TIME_ZONE = config(
    "CHS-503",
    "this machine does not know the time zone {zone}",
    "install the time zone database (package tzdata) on the driver and every executor, or use UTC",
)
VARIANT_ALTERNATIVE = config(
    "CHS-504",
    "chsink cannot write the alternatives {alternatives} of a Variant",
    "use integers up to 64 bits, Float32, Float64, Bool, Decimal and String in a Variant; or use a JSON column",
)
TABLE_COLUMNS = config(
    "CHS-505",
    "the table has no column that an INSERT can fill, or two columns with the same name",
    "name each column once, and add at least one that is neither MATERIALIZED nor ALIAS",
)
UNREADABLE_TYPE = config(
    "CHS-506",
    "chsink cannot read the ClickHouse type {type}",
    "write the type as system.columns shows it; if it is already written like that, report a bug in chsink",
)
SAMPLE_BAD = preflight(
    "CHS-507",
    "{topic}: {count} of {records} sampled records do not fit {table}, {column}: {reason}; the first is at {first}",
    "change the column, the records, or the option of the format that the reason names; or set "
    'errors.on_bad_value = "skip" (for null values alone, errors.on_tombstone) or, if the job has ClickHouse tables, '
    '"dead_letter" (and dead_letters.topic or dead_letters.table, to say where they go)',
    ok="{topic}: all {count} sampled records fit {table}",
)
SAMPLE_KEPT_OUT = preflight(
    "CHS-507",
    SAMPLE_BAD.sentence,
    'errors.on_bad_value = "{policy}" keeps them out of the table; to land them, change the column or the records',
)
TEXT_FOR_A_FEW = preflight(
    "CHS-512",
    "{topic}: column {column} of {table} is text, because {count} of the {records} sampled values do not "
    "fit {type}; the first is at {first}",
    "if these values are mistakes, declare the column as {type} in the CREATE TABLE statement, and choose in "
    "errors.on_bad_value what becomes of such records{exact}; if --apply has created the table, drop it first; if the "
    "values are right, keep the text",
)
TEXT_FOR_QUOTES = preflight(
    "CHS-512",
    "{topic}: column {column} of {table} is text, because {count} of the {records} sampled values are numbers in "
    "quotes; all of them fit {type}; the first is at {first}",
    "if they are numbers, declare the column as {type} in the CREATE TABLE statement{exact}; if --apply has created "
    "the table, drop it first; otherwise keep the text",
)
SAMPLE_MISSPELT = preflight(
    "CHS-508",
    "{topic}: {count} of {records} sampled records have a field {field}, and {table} has a column {column}, but no "
    "column {field}; the first is at {first}",
    "if both mean the same, correct the name in the records or in the table; otherwise ignore this: chsink ignores "
    "fields without a column",
)
SAMPLE_UNKNOWN = preflight(
    "CHS-508",
    "{topic}: {count} of {records} sampled records have a field {field}, and {table} has no such column; "
    "the first is at {first}",
    "add the column if you need the field; chsink ignores fields without a column",
)
SAMPLE_ROWS = preflight(
    "CHS-509",
    "{topic}: the sample would become {rows:rows} of {table}, by shard: {shares}",
    "if the shares surprise you, check clickhouse.shard_key and the weights",
)
SAMPLE_EMPTY = preflight(
    "CHS-509",
    "{topic} holds no record to sample",
    "send some records first",
)
SAMPLE_UNDECODED = preflight(
    "CHS-509",
    "Iceberg table {table} does not exist, or cannot be written: the sample of {topic} was not decoded for it",
    "do what the other findings about this table say, then run this command again",
)
SAMPLE_TOO_LARGE = preflight(
    "CHS-510",
    "{topic}: the sampled records have {size} bytes on average, so a chunk of {chunk} offsets would have about "
    "{expected} bytes, more than half of clickhouse.max_chunk_bytes ({limit}): the job may halt with CHS-603",
    "set clickhouse.chunk_offsets to {fitting} or less",
    ok="a chunk of {topic} would have about {expected} bytes",
)
SAMPLE_TOO_FEW = preflight(
    "CHS-510",
    "{topic}: its {records} records have {size} bytes on average; a chunk of {chunk} such offsets would exceed half of "
    "clickhouse.max_chunk_bytes ({limit}), but so few records do not show how large the next ones will be",
    "no action needed for these records; if many of this size will come, set clickhouse.chunk_offsets to {fitting} or "
    "less",
)
MIRROR_BAD_VALUE = bad_value(
    "CHS-511",
    "{tp}: {count} of the records do not fit the Iceberg table {table}; the first one: {first}",
    'change the column; or set errors.on_bad_value to "skip" (the ClickHouse side then skips its own, too) or, if the '
    'job has ClickHouse tables, "dead_letter" (the mirror skips such records, and ClickHouse keeps its own bad records '
    'as dead letters); for null values alone, set errors.on_tombstone = "skip" instead; then start again',
)
