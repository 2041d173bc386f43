"""Exits share the services and the makers of sinks of the job's tests."""

from tests.integration.job.conftest import failpoints, make_job, services, third

__all__ = ["failpoints", "make_job", "services", "third"]
