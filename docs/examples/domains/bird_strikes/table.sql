CREATE TABLE bird_strikes
(
    day Date,
    airport LowCardinality(String),
    state LowCardinality(String),
    operator LowCardinality(String),
    aircraft LowCardinality(String),
    phase LowCardinality(String),
    size Enum8('Small' = 1, 'Medium' = 2, 'Large' = 3),
    species String,
    damage LowCardinality(String),
    time_of_day Enum8('Dawn' = 1, 'Day' = 2, 'Dusk' = 3, 'Night' = 4),
    speed_knots Nullable(UInt16),
    costs JSON DEFAULT '{}',
    _kafka_topic LowCardinality(String),
    _kafka_partition UInt32,
    _kafka_offset UInt64
)
ENGINE = MergeTree
PARTITION BY toYear(day)
ORDER BY (airport, day)
SETTINGS non_replicated_deduplication_window = 10000
