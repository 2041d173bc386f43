CREATE TABLE debezium_orders (id UInt32, city String, created DateTime64(6, 'UTC'), version UInt64, is_deleted UInt8)
ENGINE = ReplacingMergeTree(version, is_deleted) ORDER BY id SETTINGS non_replicated_deduplication_window = 10000
