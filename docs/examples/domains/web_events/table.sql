CREATE TABLE web_events
(
    event LowCardinality(String),
    visitor UUID,
    ip IPv6,
    at DateTime64(6, 'UTC'),
    url String,
    referrer Nullable(String),
    experiments Array(LowCardinality(String)),
    properties JSON,
    _kafka_topic LowCardinality(String),
    _kafka_partition UInt32,
    _kafka_offset UInt64
)
ENGINE = MergeTree
PARTITION BY toYYYYMM(at)
ORDER BY (event, visitor, at)
SETTINGS non_replicated_deduplication_window = 10000
