"""What can be known to be wrong with the servers, the target tables and what is recorded of them, before a start.

:mod:`examine` asks, in an order in which each check may rely on the ones before; what was answered is judged, where
that can be, by functions that need no service (:mod:`columns`, :mod:`rules`, :mod:`chsink.clickhouse.checks.tables`).
"""
