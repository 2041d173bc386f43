"""Each refusal of ``chsink state`` on Replicated tables, and what its fix names."""

from __future__ import annotations

import pytest

from tests.integration.exits.test_refusals import *  # noqa: F403 - all its tests and their fixtures

pytestmark = [pytest.mark.slow, pytest.mark.soak]
