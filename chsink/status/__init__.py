"""How a job does: one reader of the state store, Kafka and the catalog for commands, programs and the status page.

Rule: it only reads.  It works whether the job runs or not, and says what it could not find out.
"""
