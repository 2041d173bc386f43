"""The preflight: everything that can be known to be wrong before the first record is read.

``chsink doctor`` prints all findings; a start runs the same checks, logs warnings and stops at the first error.  Some
modules ask a service (:mod:`servers`, :mod:`store`, :mod:`topics`, :mod:`records`); what it answered is judged,
where that can be, by functions that need none (:mod:`chsink.clickhouse.preflight`, :mod:`columns`, :mod:`rules`).
"""
