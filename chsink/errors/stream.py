"""6xx: the stream between Kafka and the sink."""

from __future__ import annotations

from chsink.errors.entry import config, halt, preflight
from chsink.errors.steps import DELETE_AND_AGAIN

NO_KAFKA_SOURCE = preflight(
    "CHS-601",
    "the query reads {count} streaming sources ({names})",
    "read one Kafka source per query",
)
OFFSET_LOG_FORMAT = preflight(
    "CHS-601",
    "the offset log has version {version} and {count} sources",
    "read one Kafka source per query (several topics are fine), and remove "
    "spark.sql.streaming.offsetLog.formatVersion from the session",
)
OFFSET_LOG_CONTENT = preflight(
    "CHS-601",
    "the offset log does not hold Kafka offsets",
    "use Spark's kafka source for this query",
)
SOURCE_SPLITS = preflight(
    "CHS-602",
    "the Kafka source sets {option}, which splits one topic-partition over several tasks",
    "remove {option}: exactly once needs one task per topic-partition",
)
TASK_COUNT = preflight(
    "CHS-602",
    "Spark runs {tasks:tasks} for {expected:topic-partitions} with new records: one task must own each",
    "remove minPartitions and maxRecordsPerPartition from the source, and repartition, coalesce, joins with a "
    "shuffle, aggregations, sorts and unions from the stream; do such work in ClickHouse (materialized views)",
)
SHUFFLED = preflight(
    "CHS-602",
    "the stream is shuffled between Kafka and the sink",
    "remove minPartitions and maxRecordsPerPartition from the source, and repartition, coalesce, joins with a "
    "shuffle, aggregations, sorts and unions from the stream; do such work in ClickHouse (materialized views)",
)
TASK_MIXES = preflight(
    "CHS-602",
    "a task holds records of {tp} and of other topic-partitions",
    "keep one topic-partition per task, in offset order: remove minPartitions, maxRecordsPerPartition, "
    "repartition, coalesce, joins and sorts, and pass topic, partition and offset through unchanged",
)
OFFSET_MISSING = preflight(
    "CHS-602",
    "records of {tp} have no offset",
    "keep one topic-partition per task, in offset order: remove minPartitions, maxRecordsPerPartition, "
    "repartition, coalesce, joins and sorts, and pass topic, partition and offset through unchanged",
)
OFFSETS_DESCEND = preflight(
    "CHS-602",
    "the offsets of {tp} are not in ascending order",
    "keep one topic-partition per task, in offset order: remove minPartitions, maxRecordsPerPartition, "
    "repartition, coalesce, joins and sorts, and pass topic, partition and offset through unchanged",
)
OUTSIDE_PLAN = preflight(
    "CHS-602",
    "records of {tp} lie outside the planned range {planned}",
    "keep one topic-partition per task, in offset order: remove minPartitions, maxRecordsPerPartition, "
    "repartition, coalesce, joins and sorts, and pass topic, partition and offset through unchanged",
)
TWO_TASKS = preflight(
    "CHS-602",
    "two tasks hold records of {tp}: one task must own each topic-partition and read all of it",
    "keep one topic-partition per task, in offset order: remove minPartitions, maxRecordsPerPartition, "
    "repartition, coalesce, joins and sorts, and pass topic, partition and offset through unchanged",
)
NO_TASK = preflight(
    "CHS-602",
    "no task answered for {tps}: one task must own each topic-partition and read all of it",
    "keep one topic-partition per task, in offset order: remove minPartitions, maxRecordsPerPartition, "
    "repartition, coalesce, joins and sorts, and pass topic, partition and offset through unchanged",
)
NOT_TILED = preflight(
    "CHS-602",
    "the acknowledgements of {tp} do not cover {range} exactly: one task must own each topic-partition and read all "
    "of it",
    "keep one topic-partition per task, in offset order: remove minPartitions, maxRecordsPerPartition, "
    "repartition, coalesce, joins and sorts, and pass topic, partition and offset through unchanged",
)
CHUNK_TOO_LARGE = halt(
    "CHS-603",
    "{tp}: chunk {offsets} holds more than {limit} bytes",
    "lower clickhouse.chunk_offsets and run `chsink state resolve {arguments} --resend`, which cuts the range into "
    "smaller chunks ("
    + DELETE_AND_AGAIN
    + "), then start; or raise clickhouse.max_chunk_bytes, start, and lower it once the range is settled",
)
NOT_DETERMINISTIC = preflight(
    "CHS-604",
    "the transform is not deterministic (rand, uuid, the current time, a UDF marked nondeterministic): a retry would "
    "produce other rows",
    "derive values from the record, or compute them in ClickHouse with a DEFAULT expression",
)
NOT_A_STREAM = config(
    "CHS-605",
    "the DataFrame is not a stream",
    "create it with spark.readStream.format('kafka')",
)
LOSS_IGNORED = preflight(
    "CHS-606",
    "the Kafka source sets failOnDataLoss=false, which silently skips lost records",
    "remove the option",
)
STREAM_COLUMN_MISSING = config(
    "CHS-607",
    "the stream has no column {columns}",
    "keep topic, partition and offset in the transform, and add every column that the table needs (for "
    "headers, set includeHeaders on the source)",
)
RANGES_UNKNOWN = config(
    "CHS-608",
    "the planned offset ranges of this DataFrame are not known: it is not a batch of a running streaming query",
    "use Sink.start(stream), or stream.writeStream.foreachBatch(sink), or pass ranges= to Sink.process",
)
RANGES_DIFFER = config(
    "CHS-608",
    "{tp}: Sink.process was given the range {said}, but the DataFrame reads {reads} from Kafka",
    "pass the query's micro-batch and, in ranges=, exactly the ranges that it reads",
)
CHECKPOINT_NOT_SET = config(
    "CHS-609",
    "sink.checkpoint is not set",
    "set sink.checkpoint to a folder or URI for Spark's checkpoint",
)
TOPIC_NOT_ROUTED = config(
    "CHS-610",
    "no route leads from topic {topics}",
    "add a [[route]] for it, or remove it from the stream's subscription",
)
MIXING_STEP = preflight(
    "CHS-611",
    "the stream has a step whose result depends on more than one record: {step}",
    "use only steps that turn one record into 0..N rows, with the same result at every retry; aggregate and look up "
    "in ClickHouse (materialized views, dictionaries)",
)
ISOLATION_DIFFERS = config(
    "CHS-612",
    "the stream reads at Kafka's isolation level {stream}, the job at {job}",
    "create the stream with Sink.stream(spark); or give it the option kafka.isolation.level, or set "
    "kafka.isolation_level in the job file",
)
BATCH_TRANSFORMED = config(
    "CHS-613",
    "the DataFrame is not the batch as Spark passed it: it was transformed inside the function of foreachBatch",
    "transform the stream before writeStream, and pass the batch on unchanged: foreachBatch(sink)",
)
