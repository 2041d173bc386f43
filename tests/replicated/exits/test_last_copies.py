"""What messages ask for destroys no last copy of a record, in Replicated tables."""

from __future__ import annotations

from tests.integration.exits.test_last_copies import *  # noqa: F403 - all its tests and their fixtures
