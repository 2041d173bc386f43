"""``table_by`` changes in the middle of a batch that fills Replicated tables."""

from __future__ import annotations

from tests.integration.exits.test_choices import *  # noqa: F403 - all its tests and their fixtures
