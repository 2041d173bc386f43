CREATE TABLE campaign_finance
(
    candidate FixedString(9),
    name String,
    standing Enum8('' = 0, 'I' = 1, 'C' = 2, 'O' = 3),
    party LowCardinality(String),
    state FixedString(2),
    district UInt8,
    receipts Decimal(18, 2),
    disbursements Decimal(18, 2),
    transfers_in Decimal(18, 2),
    transfers_out Decimal(18, 2),
    beginning_cash Decimal(18, 2),
    ending_cash Decimal(18, 2),
    own_loans Decimal(18, 2),
    other_loans Decimal(18, 2),
    debts Decimal(18, 2),
    covers_until String,
    day Date MATERIALIZED toDate(parseDateTime(covers_until, '%m/%d/%Y', 'UTC')),
    _kafka_topic LowCardinality(String),
    _kafka_partition UInt32,
    _kafka_offset UInt64
)
ENGINE = MergeTree
PARTITION BY toYear(day)
ORDER BY (state, candidate)
SETTINGS non_replicated_deduplication_window = 10000
