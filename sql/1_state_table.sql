-- The state of all sinks: one row for each (sink, topic, partition, table), and one for each sink that names its owner.
-- Tables with the same path on servers of one Keeper are one table: run this on each server that may serve the state.
-- The server's configuration must contain <keeper_map_path_prefix>, and a Keeper or ZooKeeper.
--
--   database=default table=chsink_state path=/chsink/state \
--     envsubst < sql/1_state_table.sql | clickhouse-client --multiquery

CREATE TABLE IF NOT EXISTS ${database}.${table}
(
    key String,
    attempt String,
    body String
)
ENGINE = KeeperMap('${path}', 1000000)
PRIMARY KEY key;
