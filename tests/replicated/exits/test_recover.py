"""State and checkpoint are lost: the state is recovered from Replicated tables."""

from __future__ import annotations

from tests.integration.exits.test_recover import *  # noqa: F403 - all its tests and their fixtures
