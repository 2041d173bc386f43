"""Each refusal of ``chsink state`` on Replicated tables, and what its fix names."""

from __future__ import annotations

from tests.integration.exits.test_refusals import *  # noqa: F403 - all its tests and their fixtures
