"""Options that pass through to Kafka, ClickHouse and Spark, except those the promise rests on.

Each table gives the reason for a refusal, which is also what a user reads.  The reference page prints them.
"""

from __future__ import annotations

_SPLITS = "it splits one topic-partition over several tasks, which breaks exactly once"
_GROUP = "offsets live in the checkpoint and the state store, never in a consumer group"
_STARTS = "set `kafka.starting_offsets`"
_ENDS = 'a stream has no end; `trigger.mode = "available_now"` stops at the end the log has at start'
_BYTES = "records arrive as bytes, and chsink decodes them"
_TOPICS = "the topics are those of the routes"
_METADATA = "chsink chooses the source's columns by the columns of the table"

KAFKA_OPTIONS = {
    "bootstrap.servers": "set `kafka.bootstrap`",
    "isolation.level": "set `kafka.isolation_level`",
    "group.id": _GROUP,
    "group.instance.id": _GROUP,
    "groupIdPrefix": _GROUP,
    "enable.auto.commit": _GROUP,
    "auto.offset.reset": _STARTS,
    "key.deserializer": _BYTES,
    "value.deserializer": _BYTES,
    "key.serializer": _BYTES,
    "value.serializer": _BYTES,
    "interceptor.classes": "an interceptor may change or drop records unseen",
    "minPartitions": _SPLITS,
    "maxRecordsPerPartition": _SPLITS,
    "startingOffsets": _STARTS,
    "startingOffsetsByTimestamp": _STARTS,
    "startingOffsetsByTimestampStrategy": _STARTS,
    "startingTimestamp": _STARTS,
    "endingOffsets": _ENDS,
    "endingOffsetsByTimestamp": _ENDS,
    "endingTimestamp": _ENDS,
    "subscribe": _TOPICS,
    "subscribePattern": _TOPICS,
    "assign": _TOPICS,
    "failOnDataLoss": "it is always true: with false, records that Kafka lost are skipped in silence",
    "fail_on_data_loss": "it is always true: with false, records that Kafka lost are skipped in silence",
    "includeHeaders": _METADATA,
    "maxOffsetsPerTrigger": "set `kafka.max_offsets_per_trigger`",
    "minOffsetsPerTrigger": "set `trigger.interval` to get larger batches",
    "maxTriggerDelay": "set `trigger.interval`",
}

_DEDUPLICATION = "chsink makes the token from the recorded offset range"
_BLOCKS = "one piece must be one block on every attempt, or its token does not deduplicate"
_SYNC = "an insert is acknowledged when it is durable, not when it is queued"
_QUORUM = "chsink sets the quorum by the table's engine"
_FIT = "it decides which values land; chsink checks each value before it is sent"
_DROPS = "rows would be dropped in silence"

CLICKHOUSE_SETTINGS = {
    "insert_deduplication_token": _DEDUPLICATION,
    "insert_deduplicate": _DEDUPLICATION,
    "deduplicate_insert": _DEDUPLICATION,
    "deduplicate_blocks_in_dependent_materialized_views": "views must deduplicate with their source",
    "update_insert_deduplication_token_in_dependent_materialized_views": "views must deduplicate with their source",
    "materialized_views_ignore_errors": _DROPS,
    "input_format_allow_errors_num": _DROPS,
    "input_format_allow_errors_ratio": _DROPS,
    "wait_for_async_insert": _SYNC,
    "wait_for_async_insert_timeout": _SYNC,
    "max_insert_threads": _BLOCKS,
    "max_block_size": _BLOCKS,
    "use_strict_insert_block_limits": _BLOCKS,
    "input_format_parallel_parsing": _BLOCKS,
    "input_format_null_as_default": _FIT,
    "input_format_defaults_for_omitted_fields": _FIT,
    "input_format_force_null_for_omitted_fields": _FIT,
    "input_format_skip_unknown_fields": _FIT,
    "input_format_ipv4_default_on_conversion_error": _FIT,
    "input_format_ipv6_default_on_conversion_error": _FIT,
    "date_time_input_format": _FIT,
    "timeout_overflow_mode": _DROPS,
    "max_execution_time": "set `clickhouse.insert_timeout_s`",
    "insert_allow_materialized_columns": "chsink names the columns it inserts",
    "implicit_transaction": "deduplication does not work in a transaction",
    "readonly": "the job inserts",
}

CLICKHOUSE_PREFIXES = {
    "async_insert": _SYNC,
    "min_insert_block_size": _BLOCKS,
    "max_insert_block_size": _BLOCKS,
    "insert_quorum_": _QUORUM,
    "input_format_arrow_": _FIT,
}

_ARROW = "chsink sets how Spark hands records to the executor step"

SPARK_CONF = {
    "spark.master": "set `master` in the section [spark], not in its conf",
    "spark.app.name": "set `spark.app_name`",
    "spark.sql.streaming.checkpointLocation": "set `sink.checkpoint`",
    "spark.sql.streaming.offsetLog.formatVersion": "chsink reads the planned ranges from the offset log",
    "spark.sql.execution.arrow.maxRecordsPerBatch": _ARROW,
    "spark.sql.execution.arrow.maxBytesPerBatch": _ARROW,
    "spark.sql.execution.arrow.useLargeVarTypes": _ARROW,
}

REFUSED_TRIGGERS = {
    "continuous": "continuous processing has no micro-batches, so no planned offset range could be recorded first",
    "real_time": "real-time mode logs a batch's offsets after it ran, so no range could be recorded before the insert",
}

# Keys people try, which are called something else here or are settled.
KEYS_ELSEWHERE = {
    "kafka.fail_on_data_loss": "remove it: it is always true",
    "kafka.group_id": f"remove it: {_GROUP}",
    "kafka.min_partitions": f"remove it: {_SPLITS}",
    "clickhouse.url": "list the shards in `clickhouse.endpoints`",
    "clickhouse.host": "list the shards in `clickhouse.endpoints`",
    "clickhouse.port": "it is part of each URL in `clickhouse.endpoints`",
    "clickhouse.table": "each [[route]] names its table",
    "kafka.topic": "each [[route]] names its topic",
}


def kafka_reason(option: str) -> str | None:
    """Why a Kafka option is refused, None when it passes through."""
    if option in KAFKA_OPTIONS:
        return KAFKA_OPTIONS[option]
    if option.startswith("kafka."):
        return f"set `{option.removeprefix('kafka.')}`: properties are named without the prefix"
    if option != option.lower():
        return "it is an option of Spark's source, not a property of the Kafka client"
    return None


def setting_reason(setting: str) -> str | None:
    """Why a ClickHouse setting is refused, None when it passes through."""
    prefixes = (reason for prefix, reason in CLICKHOUSE_PREFIXES.items() if setting.startswith(prefix))
    return CLICKHOUSE_SETTINGS.get(setting) or next(prefixes, None)


def spark_reason(name: str) -> str | None:
    """Why a Spark configuration is refused, None when it passes through."""
    if not name.startswith("spark."):
        return "Spark ignores names that do not start with `spark.`"
    return SPARK_CONF.get(name)
