"""The Schema Registry: it has the schema for the id with which records of Confluent's serializers begin.

- :mod:`settings`: the section ``[schema_registry]``.
- :mod:`client`: fetches and caches schemas, and distinguishes "does not exist" from "no answer".
- :mod:`checks`: the checks of ``chsink doctor`` and of every start.
"""
