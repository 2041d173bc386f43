CREATE TABLE keys_stock (shop String, item UInt32, pieces Int32)
ENGINE = MergeTree ORDER BY item SETTINGS non_replicated_deduplication_window = 10000
