-- What the job's user needs on the state table, and nothing else.
--
--   database=default table=chsink_state user=chsink envsubst < sql/3_state_grants.sql | clickhouse-client --multiquery

GRANT SELECT, INSERT, ALTER UPDATE ON ${database}.${table} TO ${user};
