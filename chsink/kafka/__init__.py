"""Kafka's metadata, the checks of topics, and samples of records for a dry run.

The records that land are read by Spark's source, never by a client of this room.
"""
