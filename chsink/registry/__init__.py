"""The Schema Registry, which knows the schema of each id that records of Confluent's serializers begin with.

- :mod:`settings`: the section ``[schema_registry]``.
- :mod:`client`: asks it, remembers what it said, and tells "not there" from "no answer".
- :mod:`checks`: what ``chsink doctor`` and every start make sure of.
"""
