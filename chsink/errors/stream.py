"""6xx: the stream between Kafka and the sink."""

from __future__ import annotations

from chsink.errors.entry import Entry
from chsink.errors.families import ConfigError, HaltError, PreflightError

NO_KAFKA_SOURCE = Entry(
    "NO_KAFKA_SOURCE",
    "CHS-601",
    PreflightError,
    "the query reads {count} streaming sources ({names})",
    "read one Kafka source per query",
)
OFFSET_LOG_FORMAT = Entry(
    "OFFSET_LOG_FORMAT",
    "CHS-601",
    PreflightError,
    "the offset log has version {version} and {count} sources",
    "read one Kafka source per query (several topics are fine), and remove "
    "spark.sql.streaming.offsetLog.formatVersion from the session",
)
OFFSET_LOG_CONTENT = Entry(
    "OFFSET_LOG_CONTENT",
    "CHS-601",
    PreflightError,
    "the offset log does not hold Kafka offsets",
    "use Spark's kafka source for this query",
)
SOURCE_SPLITS = Entry(
    "SOURCE_SPLITS",
    "CHS-602",
    PreflightError,
    "the Kafka source sets {option}, which splits one topic-partition over several tasks",
    "remove {option}: exactly once needs one task per topic-partition",
)
TASK_COUNT = Entry(
    "TASK_COUNT",
    "CHS-602",
    PreflightError,
    "{tasks} tasks for {expected} topic-partitions with new records: one task must own each",
    "remove minPartitions and maxRecordsPerPartition from the source, and repartition, coalesce, joins with a "
    "shuffle, aggregations, sorts and unions from the stream; do such work in ClickHouse (materialized views)",
)
SHUFFLED = Entry(
    "SHUFFLED",
    "CHS-602",
    PreflightError,
    "the stream is shuffled between Kafka and the sink",
    "remove minPartitions and maxRecordsPerPartition from the source, and repartition, coalesce, joins with a "
    "shuffle, aggregations, sorts and unions from the stream; do such work in ClickHouse (materialized views)",
)
TASK_MIXES = Entry(
    "TASK_MIXES",
    "CHS-602",
    PreflightError,
    "a task holds records of {tp} and of other topic-partitions",
    "keep one topic-partition per task, in offset order: remove minPartitions, maxRecordsPerPartition, "
    "repartition, coalesce, joins and sorts, and pass topic, partition and offset through unchanged",
)
OFFSET_MISSING = Entry(
    "OFFSET_MISSING",
    "CHS-602",
    PreflightError,
    "records of {tp} have no offset",
    "keep one topic-partition per task, in offset order: remove minPartitions, maxRecordsPerPartition, "
    "repartition, coalesce, joins and sorts, and pass topic, partition and offset through unchanged",
)
OFFSETS_DESCEND = Entry(
    "OFFSETS_DESCEND",
    "CHS-602",
    PreflightError,
    "the offsets of {tp} are not in ascending order",
    "keep one topic-partition per task, in offset order: remove minPartitions, maxRecordsPerPartition, "
    "repartition, coalesce, joins and sorts, and pass topic, partition and offset through unchanged",
)
OUTSIDE_PLAN = Entry(
    "OUTSIDE_PLAN",
    "CHS-602",
    PreflightError,
    "records of {tp} lie outside the planned range {planned}",
    "keep one topic-partition per task, in offset order: remove minPartitions, maxRecordsPerPartition, "
    "repartition, coalesce, joins and sorts, and pass topic, partition and offset through unchanged",
)
TWO_TASKS = Entry(
    "TWO_TASKS",
    "CHS-602",
    PreflightError,
    "two tasks hold records of {tp}: one task must own each topic-partition and read all of it",
    "keep one topic-partition per task, in offset order: remove minPartitions, maxRecordsPerPartition, "
    "repartition, coalesce, joins and sorts, and pass topic, partition and offset through unchanged",
)
NO_TASK = Entry(
    "NO_TASK",
    "CHS-602",
    PreflightError,
    "no task answered for {tps}: one task must own each topic-partition and read all of it",
    "keep one topic-partition per task, in offset order: remove minPartitions, maxRecordsPerPartition, "
    "repartition, coalesce, joins and sorts, and pass topic, partition and offset through unchanged",
)
NOT_TILED = Entry(
    "NOT_TILED",
    "CHS-602",
    PreflightError,
    "the acknowledgements of {tp} do not cover {range} exactly: one task must own each topic-partition and read all "
    "of it",
    "keep one topic-partition per task, in offset order: remove minPartitions, maxRecordsPerPartition, "
    "repartition, coalesce, joins and sorts, and pass topic, partition and offset through unchanged",
)
CHUNK_TOO_LARGE = Entry(
    "CHUNK_TOO_LARGE",
    "CHS-603",
    HaltError,
    "{tp}: chunk {offsets} holds more than {limit} bytes",
    "lower clickhouse.chunk_offsets and run `chsink state resolve {arguments} --resend`, which cuts the range into "
    "smaller chunks and names the rows to delete first; or raise clickhouse.max_chunk_bytes until the range is settled",
)
NOT_DETERMINISTIC = Entry(
    "NOT_DETERMINISTIC",
    "CHS-604",
    PreflightError,
    "the transform is not deterministic (rand, uuid, the current time, a UDF marked nondeterministic): a retry would "
    "produce other rows",
    "derive values from the record, or compute them in ClickHouse by a DEFAULT expression",
)
NOT_A_STREAM = Entry(
    "NOT_A_STREAM",
    "CHS-605",
    ConfigError,
    "the DataFrame is not a stream",
    "create it with spark.readStream.format('kafka')",
)
LOSS_IGNORED = Entry(
    "LOSS_IGNORED",
    "CHS-606",
    PreflightError,
    "the Kafka source sets failOnDataLoss=false, which silently skips lost records",
    "remove the option",
)
STREAM_COLUMN_MISSING = Entry(
    "STREAM_COLUMN_MISSING",
    "CHS-607",
    ConfigError,
    "the stream has no column {columns}",
    "keep topic, partition and offset in the transform, and add every column that the table needs (for "
    "headers, set includeHeaders on the source)",
)
RANGES_UNKNOWN = Entry(
    "RANGES_UNKNOWN",
    "CHS-608",
    ConfigError,
    "the planned offset ranges of this DataFrame are not known: it is not a batch of a running streaming query",
    "use Sink.start(stream), or stream.writeStream.foreachBatch(sink), or pass ranges= to Sink.process",
)
RANGES_DIFFER = Entry(
    "RANGES_DIFFER",
    "CHS-608",
    ConfigError,
    "{tp}: Sink.process was given the range {said}, but the DataFrame reads {reads} from Kafka",
    "pass the query's micro-batch and, in ranges=, exactly the ranges that it reads",
)
CHECKPOINT_NOT_SET = Entry(
    "CHECKPOINT_NOT_SET",
    "CHS-609",
    ConfigError,
    "sink.checkpoint is not set",
    "set sink.checkpoint to a folder or URI for Spark's checkpoint",
)
TOPIC_NOT_ROUTED = Entry(
    "TOPIC_NOT_ROUTED",
    "CHS-610",
    ConfigError,
    "no route leads from topic {topics}",
    "add a [[route]] for it, or remove it from the stream's subscription",
)
MIXING_STEP = Entry(
    "MIXING_STEP",
    "CHS-611",
    PreflightError,
    "the stream has a step whose result depends on more than one record: {step}",
    "use only steps that turn one record into 0..N rows, with the same result at every retry; aggregate and look up "
    "in ClickHouse (materialized views, dictionaries)",
)
ISOLATION_DIFFERS = Entry(
    "ISOLATION_DIFFERS",
    "CHS-612",
    ConfigError,
    "the stream reads at Kafka's isolation level {stream}, the job at {job}",
    "create the stream with Sink.stream(spark); or give it the option kafka.isolation.level, or set "
    "kafka.isolation_level in the job file",
)
BATCH_TRANSFORMED = Entry(
    "BATCH_TRANSFORMED",
    "CHS-613",
    ConfigError,
    "the DataFrame is not the batch as Spark passed it: it was transformed inside the function of foreachBatch",
    "transform the stream before writeStream, and pass the batch on unchanged: foreachBatch(sink)",
)
