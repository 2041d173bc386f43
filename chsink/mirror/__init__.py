"""The Iceberg mirror: the same records in Iceberg tables, each once, committed by one coordinator.

- :mod:`schemas`: the Avro schemas of the control topic's events, with their field ids.
- :mod:`events`: the five kinds of events, and how they are framed.

What may be committed is decided in ``chsink.statemachine.commit``.
"""
