"""The mirror's workers, lander, coordinator and tables in large random worlds: ``python -m tests.mirror_sim``.

Production code runs over a simulated broker (transactions, groups, a control topic), catalog and Spark.  The scheduler,
the source topics, seeds, shrinking and replay are those of :mod:`tests.sim`.
"""
