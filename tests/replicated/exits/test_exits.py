"""Each halt of a job that fills Replicated tables, and the way out that its fix names."""

from __future__ import annotations

from tests.integration.exits.test_exits import *  # noqa: F403 - all its tests and their fixtures
