-- What the job's user needs on the state table, and nothing else.  ALTER DELETE serves only the self-test of each start,
-- which removes its own test row.  Without that grant the test row stays, which does no harm.
--
--   database=default table=chsink_state user=chsink envsubst < sql/3_state_grants.sql | clickhouse-client --multiquery

GRANT SELECT, INSERT, ALTER UPDATE ON ${database}.${table} TO ${user};
GRANT ALTER DELETE ON ${database}.${table} TO ${user};
