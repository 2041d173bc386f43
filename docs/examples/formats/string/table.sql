CREATE TABLE string_readings (reading Decimal(9, 3), _kafka_partition UInt32, _kafka_offset UInt64)
ENGINE = MergeTree ORDER BY reading SETTINGS non_replicated_deduplication_window = 10000
