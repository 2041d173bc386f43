"""The exactly-once protocol as pure functions: no I/O, no clock, no randomness, standard library only.

Everything that decides what happens to a record is here; everything that talks to a service is in
``chsink``.

Import it as ``chsink.statemachine``: ``chsink/statemachine`` links to this folder, and a wheel holds the files there,
because ``statemachine`` is the name of another distribution's module.

Read in this order: :mod:`ranges` (half-open offset ranges), :mod:`records` and its :mod:`parts` (what is remembered per
topic-partition), :mod:`table` (the decision table, and what interprets it), :mod:`writes` (how a record changes),
:mod:`chunks` and :mod:`tokens` (how a range becomes inserts that any process would send identically).
"""
