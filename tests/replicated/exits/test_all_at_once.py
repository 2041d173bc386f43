"""Several partitions that need a person, of Replicated tables."""

from __future__ import annotations

from tests.integration.exits.test_all_at_once import *  # noqa: F403 - all its tests and their fixtures
