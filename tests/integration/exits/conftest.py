"""Exits share the services and the makers of sinks of the job's tests."""

from __future__ import annotations

import pytest

from tests.integration.job.conftest import MakeJob, failpoints, make_job, services, third
from tests.integration.job.test_exit_codes import run
from tests.integration.job.test_replay import make_kept
from tests.support.doubt import announce, insert
from tests.support.job import Job

__all__ = ["failpoints", "make_job", "make_kept", "run", "services", "third"]


@pytest.fixture
def doubtful(make_job: MakeJob) -> Job:
    """[0, 10) landed; [10, 25) was announced, and nothing of it is in the table."""
    job = make_job(partitions=1)
    job.send(0, 25)
    insert(job, 0, range(10))
    announce(job, {0: (10, 25)})
    return job
