"""Target tables that follow the records: created from them, and given columns for their new fields.

What a range in doubt was announced with never changes here: columns are added before a range is announced with them.
"""
