"""What a start says of the state store, of logins and clocks: what it tells to do leads on."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from string import Template
from typing import Any

import pytest
from pyspark.sql import SparkSession

from chsink.clickhouse.checks import servers
from chsink.embedded.clickhouse import ClickHouseUser, EmbeddedClickHouse
from chsink.embedded.stack import Stack
from chsink.ports import Clock, Queries
from tests.integration.exits.looked import cli, done, leads_on, look, refused
from tests.integration.job.conftest import MakeJob
from tests.support.job import DATABASE, Job, command
from tests.support.told import grant_statements_of, named_in, says, setting_of, statements_of
from tests.support.tour import DEFAULT

pytestmark = [pytest.mark.slow, pytest.mark.soak]
CHECKOUT = Path(__file__).parents[3]
TABLE = f"{DATABASE}.chsink_state"


def text_of(file: str, database: str = DATABASE, **names: str) -> str:
    """What ``envsubst`` makes of a file that a fix names."""
    text = Template((CHECKOUT / file).read_text("utf-8"))
    return text.substitute(database=database, table="chsink_state", **names)


def run_file(url: str, file: str, database: str = DATABASE, **names: str) -> None:
    """What ``clickhouse-client`` does with it."""
    command(url, text_of(file, database, **names))


@pytest.fixture
def job(make_job: MakeJob) -> Job:
    """Five records wait."""
    job = make_job(partitions=1)
    job.send(0, 5)
    return job


@pytest.fixture
def database(services: Stack) -> Iterator[str]:
    """A name on the first server."""
    name = f"state_{uuid.uuid4().hex[:8]}"
    yield name
    command(services.clickhouse[0].url, f"DROP DATABASE IF EXISTS {name} SYNC")


@pytest.mark.exit_of("STATE_DATABASE_MISSING")
@pytest.mark.parametrize("created", [True, False])
def test_a_database_that_is_not_there(job: Job, spark: SparkSession, database: str, *, created: bool) -> None:
    job.settings = {"clickhouse.database": database}
    before = look(job)
    fix = before.fix("STATE_DATABASE_MISSING")
    if created:
        [statement] = statements_of(fix, "CREATE DATABASE")
        command(job.shards[0], statement)
    else:
        says(fix, "or correct clickhouse.database")
        job.settings = {}
    leads_on("STATE_DATABASE_MISSING", before, job)
    job.drain(spark)
    job.check()


@pytest.mark.exit_of("STATE_TABLE_MISSING")
@pytest.mark.parametrize("by_hand", [False, True])
def test_a_state_table_that_nobody_creates(job: Job, spark: SparkSession, database: str, *, by_hand: bool) -> None:
    command(job.shards[0], f"CREATE DATABASE {database}")
    job.settings = {"clickhouse.database": database, "state.create_table": "false"}
    before = look(job)
    fix = before.fix("STATE_TABLE_MISSING")
    if by_hand:
        run_file(job.shards[0], named_in(fix, "or run"), database, path=f"/chsink/{database}")
    else:
        job.settings = {**job.settings, **setting_of(fix, "state.create_table")}
    leads_on("STATE_TABLE_MISSING", before, job)
    job.drain(spark)
    job.check()


@pytest.mark.exit_of("STATE_NOT_DURABLE")
def test_a_store_that_forgets(job: Job, spark: SparkSession, services: Stack) -> None:
    job.settings = {"state.store": "memory"}
    before = look(job)
    fix = before.fix("STATE_NOT_DURABLE")
    job.settings = setting_of(fix, "state.store")
    leads_on("STATE_NOT_DURABLE", before, job)
    says(fix, 'or "zookeeper"')
    place = {"state.zookeeper": services.zookeeper.hosts, "state.path": f"/{job.name}"}
    job.settings = {"state.store": "zookeeper", **place}
    assert not look(job).of("STATE_NOT_DURABLE")
    job.drain(spark)
    job.check()


@pytest.mark.exit_of("CLOCKS_DIFFER")
@pytest.mark.parametrize("synchronized", [True, False])
def test_clocks_of_replicas(
    make_job: MakeJob, services: Stack, monkeypatch: pytest.MonkeyPatch, *, synchronized: bool
) -> None:
    """One clock is a minute ahead, as far as the check can see."""
    measured = servers._ahead
    replica = services.clickhouse[1].url

    def ahead(client: Queries, clock: Clock) -> tuple[int, int]:
        least, most = measured(client, clock)
        wrong = 60_000 if client.url == replica else 0
        return least + wrong, most + wrong

    job = make_job(partitions=1)
    endpoint: dict[str, Any] = {"clickhouse.endpoints": [{"url": job.shards[0], "replicas": [replica]}]}
    job.settings = endpoint
    with monkeypatch.context() as clocks:
        clocks.setattr(servers, "_ahead", ahead)
        before = look(job)
        fix = before.fix("CLOCKS_DIFFER")
        says(fix, "synchronize the clocks of the servers (NTP), or raise in_doubt.margin_s")
        if not synchronized:
            job.settings = {**endpoint, "in_doubt.margin_s": 90}
            leads_on("CLOCKS_DIFFER", before, job)
    if synchronized:
        leads_on("CLOCKS_DIFFER", before, job)


# --- servers of their own --------------------------------------------------------------------------------------------


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[EmbeddedClickHouse]:
    """A server, not started, and without a Keeper."""
    server = EmbeddedClickHouse(tmp_path / "alone", keeper_map_prefix=f"/starts_{uuid.uuid4().hex[:8]}")
    yield server
    server.stop()


def moved(job: Job, server: EmbeddedClickHouse) -> None:
    """The job lands on this server."""
    command(server.url, f"CREATE DATABASE {DATABASE}")
    job.shards = [server.url]
    job.make_table(job.topic)


@pytest.mark.exit_of("STATE_TABLE_UNUSABLE")
def test_a_server_without_a_keeper(job: Job, spark: SparkSession, services: Stack, alone: EmbeddedClickHouse) -> None:
    alone.start()
    moved(job, alone)
    before = look(job)
    fix = before.fix("STATE_TABLE_UNUSABLE")
    says(fix, "the server needs `<keeper_map_path_prefix>` and a Keeper")
    alone.stop()
    alone.zookeeper = services.zookeeper.hosts
    alone.start()
    run_file(alone.url, named_in(fix, "run"), path="/chsink/state")
    leads_on("STATE_TABLE_UNUSABLE", before, job)
    job.drain(spark)
    job.check()


@pytest.mark.exit_of("STATE_TABLE_UNUSABLE")
def test_a_state_table_of_another_definition(job: Job, spark: SparkSession, database: str) -> None:
    """It is at the path that the job's table is to have."""
    path = f"/chsink/{database}"
    command(job.shards[0], f"CREATE DATABASE {database}")
    other = f"{database}.other"
    command(job.shards[0], f"CREATE TABLE {other} (key String, x UInt8) ENGINE = KeeperMap('{path}') PRIMARY KEY key")
    job.settings = {"clickhouse.database": database, "state.path": path}
    before = look(job)
    fix = before.fix("STATE_TABLE_UNUSABLE")
    says(fix, "all tables with one path need the same definition")
    command(job.shards[0], f"DROP TABLE {other} SYNC")
    run_file(job.shards[0], named_in(fix, "run"), database, path=path)
    leads_on("STATE_TABLE_UNUSABLE", before, job)
    job.drain(spark)
    job.check()


def give(server: EmbeddedClickHouse, user: str, grants: Sequence[str]) -> None:
    """Rights of users who are in the server's file come with a restart."""
    [known] = [one for one in server.users if one.name == user]
    more = tuple(sql.rpartition(" TO ")[0] for sql in grants)
    server.stop()
    server.users = (DEFAULT, replace(known, grants=(*known.grants, *more)))
    server.start()


@pytest.mark.exit_of("STATE_TABLE_FORBIDDEN")
@pytest.mark.parametrize("by_file", [False, True])
def test_rights_on_the_state_table(job: Job, services: Stack, alone: EmbeddedClickHouse, *, by_file: bool) -> None:
    """Each right by the statement of its message; or all of them by the files."""
    alone.zookeeper = services.zookeeper.hosts
    alone.users = (DEFAULT, ClickHouseUser("few", grants=("GRANT SHOW DATABASES ON *.*",)))
    alone.start()
    moved(job, alone)
    job.settings = {"clickhouse.user": "few"}
    status = cli(job, "status")
    if by_file:
        said = refused("STATE_TABLE_FORBIDDEN", status)
        run_file(alone.url, named_in(said, "and"), path="/chsink/state")
        give(alone, "few", [text_of(named_in(said, "or run"), user="few").rpartition("\n\n")[2]])
        done(cli(job, "status"))
        return
    given = list[str]()
    while status.exit_code:
        grants = grant_statements_of(refused("STATE_TABLE_FORBIDDEN", status))
        assert not set(given) & set(grants), given
        given += grants
        give(alone, "few", grants)
        status = cli(job, "status")


@pytest.mark.exit_of("LOGIN_REFUSED")
@pytest.mark.exit_of("STATE_LOGIN_REFUSED")
def test_a_password_that_is_wrong(
    job: Job, spark: SparkSession, services: Stack, alone: EmbeddedClickHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone.zookeeper, alone.users = services.zookeeper.hosts, (DEFAULT, ClickHouseUser("lander", "right"))
    alone.start()
    moved(job, alone)
    job.settings = {"clickhouse.user": "lander"}
    monkeypatch.setenv("CHSINK__CLICKHOUSE__PASSWORD", "wrong")
    before = look(job)
    says(before.fix("LOGIN_REFUSED"), "correct clickhouse.user and its password")
    says(refused("STATE_LOGIN_REFUSED", cli(job, "status")), "correct clickhouse.user and clickhouse.password")
    monkeypatch.setenv("CHSINK__CLICKHOUSE__PASSWORD", "right")
    leads_on("LOGIN_REFUSED", before, job)
    job.drain(spark)
    done(cli(job, "status"))
    job.check()
