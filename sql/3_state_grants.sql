-- What the job's user needs on the state table, and nothing else.  ALTER DELETE is for `chsink state reset` only: leave
-- that line out where the job's user must not be able to forget state.
--
--   database=default table=chsink_state user=chsink envsubst < sql/3_state_grants.sql | clickhouse-client --multiquery

GRANT SELECT, INSERT, ALTER UPDATE ON ${database}.${table} TO ${user};
GRANT ALTER DELETE ON ${database}.${table} TO ${user};
