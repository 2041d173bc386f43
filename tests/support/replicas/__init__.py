"""Replicated tables on this machine, without Docker, for tests: ClickHouse's own replication in a patched engine."""
