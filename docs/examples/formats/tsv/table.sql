CREATE TABLE tsv_trips (id UInt32, city String, price Nullable(Float64), ok Bool)
ENGINE = MergeTree ORDER BY id SETTINGS non_replicated_deduplication_window = 10000
