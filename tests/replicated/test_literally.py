"""Whoever does what the messages say has every record once, on each replica."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tests.integration.exits.test_literally import CAUSES, THERE, follow, test_a_table_that_cannot_be_searched
from tests.integration.job.conftest import MakeJob

pytestmark = [pytest.mark.slow, pytest.mark.soak]
__all__ = ["test_a_table_that_cannot_be_searched"]


@pytest.mark.parametrize("cause", CAUSES)
def test_a_person_does_what_the_messages_say(make_job: MakeJob, spark: SparkSession, cause: str) -> None:
    """⚑ Rows that are deleted on one replica, and a look at another one."""
    follow(make_job(partitions=len(THERE)), spark, cause)
