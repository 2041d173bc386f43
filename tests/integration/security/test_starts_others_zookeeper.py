"""What a start says of the state's nodes in ZooKeeper: what it tells to do leads on."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tests.integration.exits.looked import leads_on, look
from tests.integration.job.conftest import MakeJob, make_job, services
from tests.integration.security.conftest import ZOOKEEPER_PASSWORD
from tests.support.job import Job
from tests.support.secured_zookeeper import SecuredZooKeeper
from tests.support.told import says, shell_of

__all__ = ["make_job", "services"]

pytestmark = [pytest.mark.slow, pytest.mark.soak]
LOGIN = {"state.user": "lander"}


@pytest.fixture
def job(make_job: MakeJob, server: SecuredZooKeeper) -> Job:
    """Its state is in nodes that are open to everybody, and five records have come since."""
    job = make_job(partitions=1)
    job.settings = {"state.store": "zookeeper", "state.zookeeper": server.hosts, "state.path": f"/{job.name}"}
    look(job)
    job.send(0, 5)
    return job


@pytest.mark.exit_of("STATE_NODES_WITHOUT_OWNER")
@pytest.mark.exit_of("STATE_NODES_OPEN")
def test_nodes_that_everybody_may_change(
    job: Job, server: SecuredZooKeeper, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job gets a user, and then the user gets the nodes: with state in them, too."""
    before = look(job)
    says(before.fix("STATE_NODES_WITHOUT_OWNER"), "set state.user and state.password, and give the nodes to this user")
    job.drain(spark)
    job.settings = {**job.settings, **LOGIN}
    monkeypatch.setenv("CHSINK__STATE__PASSWORD", "secret")
    command = shell_of(look(job).fix("STATE_NODES_OPEN"), "setAcl")
    server.shell("addauth digest lander:secret", command)
    for entry in ("STATE_NODES_WITHOUT_OWNER", "STATE_NODES_OPEN"):
        leads_on(entry, before, job)
    assert not look(job).wrong
    job.send(0, 5)
    job.drain(spark)
    job.check()


@pytest.mark.exit_of("STATE_NODE_FORBIDDEN")
@pytest.mark.parametrize("corrected", [True, False])
def test_nodes_of_another_user(
    job: Job, server: SecuredZooKeeper, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, *, corrected: bool
) -> None:
    """The user is corrected; or the owner lets the other user in."""
    root = job.settings["state.path"]
    server.shell("addauth digest lander:secret", f"setAcl -R {root} auth::cdrwa")
    monkeypatch.setenv("CHSINK__STATE__PASSWORD", "secret")
    job.settings = {**job.settings, "state.user": "another"}
    before = look(job)
    fix = before.fix("STATE_NODE_FORBIDDEN")
    if corrected:
        says(fix, "correct state.user")
        job.settings = {**job.settings, **LOGIN}
    else:
        says(fix, f"let this user create nodes below {root}, and read and write those that are there")
        logins = (f"addauth digest {user}:secret" for user in ("lander", "another"))
        server.shell(*logins, f"setAcl -R {root} auth::crw")
    leads_on("STATE_NODE_FORBIDDEN", before, job)
    job.drain(spark)
    job.check()


@pytest.mark.exit_of("ZOOKEEPER_LOGIN_REFUSED")
def test_a_login_that_the_servers_do_not_know(job: Job, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHSINK__STATE__PASSWORD", "wrong")
    job.settings = {**job.settings, **LOGIN, "state.mechanism": "sasl"}
    before = look(job)
    says(before.fix("ZOOKEEPER_LOGIN_REFUSED"), "correct state.user, state.password and state.mechanism")
    monkeypatch.setenv("CHSINK__STATE__PASSWORD", ZOOKEEPER_PASSWORD)
    after = look(job)
    assert not after.of("ZOOKEEPER_LOGIN_REFUSED")
    job.drain(spark)
    job.check()
