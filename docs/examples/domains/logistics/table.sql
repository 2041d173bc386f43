CREATE TABLE logistics
(
    shipment UInt64,
    origin FixedString(3),
    destination FixedString(3),
    weight_kg Decimal(9, 3),
    state LowCardinality(String),
    updated DateTime64(6, 'UTC'),
    version UInt64,
    is_deleted UInt8,
    _kafka_topic LowCardinality(String),
    _kafka_partition UInt32,
    _kafka_offset UInt64
)
ENGINE = ReplacingMergeTree(version, is_deleted)
ORDER BY shipment
SETTINGS non_replicated_deduplication_window = 10000
