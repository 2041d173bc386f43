CREATE TABLE raw_lines (line String, received DateTime DEFAULT now())
ENGINE = MergeTree ORDER BY line SETTINGS non_replicated_deduplication_window = 10000
