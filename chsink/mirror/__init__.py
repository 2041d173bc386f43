"""The Iceberg mirror: the same records in Iceberg tables, each once, committed by one coordinator.

- :mod:`schemas`: the Avro schemas of the control topic's events, with their field ids.
- :mod:`events`: the five kinds of events, and how they are framed.
- :mod:`types`: records of Kafka to rows of an Iceberg table.  :mod:`files`: rows to Parquet files.
- :mod:`tables`: one table's chain, and commits that require what was read.
- :mod:`control`: the control topic and the sink's groups.  :mod:`worker`: hands over a range of records.
- :mod:`task`: what a task of a Spark query does.  :mod:`lander`: has the tasks hand over.
- :mod:`opening`: opens the mirror of a configuration.
- :mod:`coordinator`: commits handed-over units in rounds.  :mod:`buffer`: the units that it has read.
  :mod:`beginnings`: where topic-partitions start.  :mod:`known_tables`: the tables and their chains.
  :mod:`table_commits`: the commits of one table.  :mod:`stop_reasons`: why a coordinator stops.
- :mod:`trail`: what the control topic says.  :mod:`history`: what became of each file.  :mod:`manifests`: what a table
  says of its files.
- :mod:`clean`: removes what nobody needs.  :mod:`orphans`: such files.  :mod:`expiry`: such snapshots.

``chsink.statemachine.commit`` decides what may be committed.
"""
