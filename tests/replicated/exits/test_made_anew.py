"""Rows and dead letters of an earlier topic, in Replicated tables."""

from __future__ import annotations

from tests.integration.exits.test_made_anew import *  # noqa: F403 - all its tests and their fixtures
