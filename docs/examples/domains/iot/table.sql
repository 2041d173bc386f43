CREATE TABLE iot
(
    device String,
    firmware LowCardinality(String),
    measured DateTime64(3, 'UTC'),
    celsius Float32,
    humidity Nullable(Float32),
    battery Nullable(UInt8),
    tags Map(LowCardinality(String), String),
    _kafka_topic LowCardinality(String),
    _kafka_partition UInt32,
    _kafka_offset UInt64
)
ENGINE = MergeTree
PARTITION BY toDate(measured)
ORDER BY (device, measured)
SETTINGS non_replicated_deduplication_window = 10000
