"""State and checkpoint are lost: the state is recovered from Replicated tables."""

from __future__ import annotations

from tests.integration.exits.test_recover import *  # noqa: F403 - all its tests and their fixtures

del test_rows_on_a_shard_that_was_removed  # noqa: F821 - here, all replicas are one shard
