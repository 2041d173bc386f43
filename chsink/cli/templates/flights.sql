CREATE TABLE flights
(
    carrier LowCardinality(String),
    flight UInt32,
    tailnum Nullable(String),
    origin LowCardinality(String),
    dest LowCardinality(String),
    dep_delay Nullable(Int32),
    time_hour DateTime('UTC'),
    _kafka_topic LowCardinality(String),
    _kafka_partition UInt32,
    _kafka_offset UInt64
)
ENGINE = MergeTree
ORDER BY (carrier, time_hour)
SETTINGS non_replicated_deduplication_window = 10000
