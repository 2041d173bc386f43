"""Ranges in doubt of Replicated tables: a few of the tests of plain ones, for ``make test``.  The others run in ``make soak``
(``exits``, ``test_more_in_doubt.py``).
"""

from __future__ import annotations

import pytest

from tests.integration.client.test_altered_tables import name, test_a_window_that_was_lowered
from tests.integration.exits.conftest import doubtful
from tests.integration.exits.test_exits import half, test_the_pipeline_changed
from tests.integration.exits.test_refusals import test_a_table_that_forgot_all_tokens

pytestmark = pytest.mark.slow
__all__ = [
    "doubtful",
    "half",
    "name",
    "test_a_table_that_forgot_all_tokens",
    "test_a_window_that_was_lowered",
    "test_the_pipeline_changed",
]
