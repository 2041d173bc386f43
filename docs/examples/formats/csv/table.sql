CREATE TABLE csv_trips (id UInt32, city String, day Date, price Nullable(Decimal(9, 2)), note String DEFAULT 'none')
ENGINE = MergeTree ORDER BY id SETTINGS non_replicated_deduplication_window = 10000
