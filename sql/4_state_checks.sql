-- Whether this server and this user can keep state.  Run as the job's user; every row must say 1 in `ok`.
--
--   database=default table=chsink_state envsubst < sql/4_state_checks.sql | clickhouse-client --multiquery

SELECT 'the table is a KeeperMap of three columns' AS check,
       (SELECT count() FROM system.columns
        WHERE database = '${database}' AND table = '${table}'
          AND name IN ('key', 'attempt', 'body') AND type = 'String') = 3
       AND (SELECT count() FROM system.tables
            WHERE database = '${database}' AND name = '${table}' AND engine = 'KeeperMap') = 1 AS ok;

SELECT concat('this user may change ', name) AS check, readonly = 0 AS ok
FROM system.settings
WHERE name IN ('keeper_map_strict_mode', 'insert_keeper_max_retries', 'keeper_max_retries', 'max_query_size',
               'max_ast_elements', 'max_expanded_ast_elements', 'max_execution_time', 'async_insert',
               'max_insert_threads', 'mutations_sync', 'short_circuit_function_evaluation')
ORDER BY name;

SELECT 'the Keeper answers' AS check, count() >= 0 AS ok FROM ${database}.${table};

SELECT 'every row is readable' AS check,
       countIf(NOT isValidJSON(body) OR attempt = '' OR key = '') = 0 AS ok
FROM ${database}.${table};
