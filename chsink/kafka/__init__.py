"""Kafka's metadata, the checks of topics, transactions, and reads that leave no trace.

The records that land are read by Spark's source, never by a client of this package.
"""
