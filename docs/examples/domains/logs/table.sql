CREATE TABLE logs
(
    at DateTime64(9, 'UTC'),
    observed DateTime64(9, 'UTC'),
    service LowCardinality(String),
    severity Enum8('TRACE' = 1, 'DEBUG' = 5, 'INFO' = 9, 'WARN' = 13, 'ERROR' = 17, 'FATAL' = 21),
    severity_text LowCardinality(String),
    body String,
    query Nullable(String),
    attributes Map(LowCardinality(String), String),
    _kafka_topic LowCardinality(String),
    _kafka_partition UInt32,
    _kafka_offset UInt64
)
ENGINE = MergeTree
PARTITION BY toDate(at)
ORDER BY (service, at)
SETTINGS non_replicated_deduplication_window = 10000
