CREATE TABLE flight_changes
(
    flight UInt32,
    at DateTime64(6, 'UTC'),
    origin FixedString(3),
    destination FixedString(3),
    distance Decimal(6, 1),
    delay Nullable(Int16),
    version UInt64,
    is_deleted UInt8,
    _kafka_topic LowCardinality(String),
    _kafka_partition UInt32,
    _kafka_offset UInt64
)
ENGINE = ReplacingMergeTree(version, is_deleted)
ORDER BY flight
SETTINGS non_replicated_deduplication_window = 10000
