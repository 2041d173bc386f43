"""``table_by`` changes in the middle of a batch that fills Replicated tables."""

from __future__ import annotations

import pytest

from tests.integration.exits.test_choices import *  # noqa: F403 - all its tests and their fixtures

pytestmark = [pytest.mark.slow, pytest.mark.soak]
