"""Creates target tables from their topics' records, and adds columns for new fields of the records.

The columns of a range in doubt never change: a column is added before any range is announced with it.
"""
