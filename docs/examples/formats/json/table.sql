CREATE TABLE json_orders (id UInt32, city String, sent DateTime64(6, 'UTC'), total Decimal(9, 2), source String)
ENGINE = MergeTree ORDER BY id SETTINGS non_replicated_deduplication_window = 10000
