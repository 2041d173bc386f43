CREATE TABLE payments
(
    payment UUID,
    merchant UInt32,
    amount Decimal(18, 2),
    currency FixedString(3),
    status Enum8('authorized' = 1, 'captured' = 2, 'refunded' = 3, 'declined' = 4),
    card_country LowCardinality(Nullable(String)),
    at DateTime64(3, 'UTC'),
    _kafka_topic LowCardinality(String),
    _kafka_partition UInt32,
    _kafka_offset UInt64
)
ENGINE = MergeTree
PARTITION BY toYYYYMM(at)
ORDER BY (merchant, at)
SETTINGS non_replicated_deduplication_window = 10000
