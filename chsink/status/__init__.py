"""How a job does: one reader of the state store and Kafka, for ``chsink status`` in all of its forms.

Rule: it only reads.  It works whether the job runs or not, and says what it could not find out.
"""
