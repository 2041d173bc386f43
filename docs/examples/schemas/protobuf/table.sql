CREATE TABLE protobuf_orders (id Int64, customer String, price Decimal(9, 2), sent Nullable(DateTime64(3, 'UTC')), tags Array(String))
ENGINE = MergeTree ORDER BY id SETTINGS non_replicated_deduplication_window = 10000
