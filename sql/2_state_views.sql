-- The same rows in readable form.  The job does not need these views.
--
--   database=default table=chsink_state envsubst < sql/2_state_views.sql | clickhouse-client --multiquery

CREATE VIEW IF NOT EXISTS ${database}.${table}_ranges AS
SELECT
    parts[1] AS sink,
    parts[2] AS topic,
    toInt32(parts[3]) AS partition,
    parts[4] AS target,
    JSONExtractString(body, 'phase') AS phase,
    JSONExtractInt(body, 'start') AS range_start,
    JSONExtractInt(body, 'end') AS range_end,
    JSONExtractInt(body, 'life', 'first') AS first_offset,
    JSONExtract(body, 'gaps', 'Array(Tuple(Int64, Int64))') AS gaps,
    JSONExtractInt(body, 'tally', 'skipped') AS skipped,
    fromUnixTimestamp64Milli(JSONExtractInt(body, 'seen', 'before_at'), 'UTC') AS before_at_utc,
    JSONExtractInt(body, 'epoch') AS epoch,
    JSONExtract(body, 'life', 'topic_id', 'Nullable(String)') AS topic_id,
    JSONExtractInt(body, 'life', 'incarnation') AS incarnation,
    JSONExtractInt(body, 'sent', 'chunk_offsets') AS chunk_offsets,
    JSONExtractString(body, 'sent', 'layout') AS layout,
    JSONExtractString(body, 'sent', 'pipeline') AS pipeline,
    JSONExtract(body, 'seen', 'marks', 'Array(Tuple(Int64, Int64))') AS marks,
    attempt
FROM
(
    SELECT splitByChar('/', key) AS parts, attempt, body
    FROM ${database}.${table}
    WHERE position(key, '/') > 0
);

CREATE VIEW IF NOT EXISTS ${database}.${table}_owners AS
SELECT
    key AS sink,
    JSONExtractInt(body, 'epoch') AS epoch,
    JSONExtractString(body, 'driver') AS driver,
    fromUnixTimestamp64Milli(JSONExtractInt(body, 'claimed_at'), 'UTC') AS claimed_at_utc,
    JSONExtractRaw(body, 'layouts') AS layouts,
    attempt
FROM ${database}.${table}
WHERE position(key, '/') = 0 AND NOT endsWith(key, '!self-test');
