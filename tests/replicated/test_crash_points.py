"""The job crashes at each step of a batch that fills a Replicated table: the scenarios of a plain one."""

from __future__ import annotations

import pytest

from tests.integration.job.test_crash_points import (
    job,
    test_a_function_of_foreach_batch_settles_too,
    test_crash_then_restart_with_the_same_checkpoint,
)

pytestmark = pytest.mark.slow
__all__ = [
    "job",
    "test_a_function_of_foreach_batch_settles_too",
    "test_crash_then_restart_with_the_same_checkpoint",
]
