"""Whoever does what the messages say has every record once, on each replica."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tests.integration.exits.test_literally import THERE, follow
from tests.integration.job.conftest import MakeJob

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("cause", [pytest.param("rows of an earlier life", marks=pytest.mark.soak), "no state"])
def test_a_person_does_what_the_messages_say(make_job: MakeJob, spark: SparkSession, cause: str) -> None:
    """⚑ Rows that are deleted on one replica, and a look at another one."""
    follow(make_job(partitions=len(THERE)), spark, cause)
