"""Kafka's metadata, and the checks of topics.  Records are read by Spark's source, never by this client."""
