CREATE TABLE earthquakes
(
    id String,
    time DateTime64(3, 'UTC'),
    updated DateTime64(3, 'UTC'),
    tz Int16,
    place String,
    position Tuple(longitude Float64, latitude Float64, depth_km Float64),
    magnitude Float32,
    magType LowCardinality(String),
    kind LowCardinality(String),
    status Enum8('automatic' = 1, 'reviewed' = 2, 'deleted' = 3),
    tsunami Bool,
    alert LowCardinality(Nullable(String)),
    felt Nullable(UInt32),
    cdi Nullable(Float32),
    nst Nullable(UInt16),
    dmin Nullable(Float32),
    rms Nullable(Float32),
    gap Nullable(Float32),
    types String,
    products Array(String) MATERIALIZED splitByChar(',', trim(BOTH ',' FROM types)),
    _kafka_topic LowCardinality(String),
    _kafka_partition UInt32,
    _kafka_offset UInt64
)
ENGINE = MergeTree
PARTITION BY toYYYYMM(time)
ORDER BY (time, id)
SETTINGS non_replicated_deduplication_window = 10000
