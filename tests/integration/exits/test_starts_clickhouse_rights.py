"""What a user may not do, and what a server's configuration refuses: its administrator does what the fix says.

The engine here takes users from its configuration only, so the administrator writes there what a GRANT would do.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from chsink.clickhouse.grants import SYSTEM_TABLES
from chsink.embedded.clickhouse import ClickHouseUser, EmbeddedClickHouse
from chsink.embedded.stack import Stack
from tests.integration.exits.starts import chsink, findings, found, gone, is_of, lands, refused, run_named, run_printed
from tests.integration.job.conftest import MakeJob, maker
from tests.integration.job.test_evolution import SETTINGS, values
from tests.support.job import DATABASE, METADATA, WINDOW, Job, command, select
from tests.support.profiles import users_of
from tests.support.told import Said, grants_of, says, statements_of, words_of
from tests.support.tour import DEFAULT

pytestmark = [pytest.mark.slow, pytest.mark.soak]

FINAL = {"final": 1, "constraints": "<final><readonly/></final>"}
"""Nobody may change it back."""
STATE = (
    f"SELECT, INSERT, CREATE TABLE, ALTER UPDATE, ALTER DELETE ON {DATABASE}.chsink_state",
    "TABLE ENGINE ON KeeperMap",
)
SYSTEM = tuple(f"SELECT ON {name}" for name in (*SYSTEM_TABLES, "system.clusters"))
LANDS = (*STATE, *SYSTEM, f"SELECT, INSERT ON {DATABASE}.*")


@dataclass
class Admin:
    """A server's administrator.  Each change restarts it: 0.3 s."""

    server: EmbeddedClickHouse
    rights: dict[str, list[str]] = field(default_factory=dict)
    profiles: dict[str, dict[str, object]] = field(default_factory=dict)

    def user(self, name: str, rights: Sequence[str]) -> str:
        """A new user."""
        self.rights[name] = [f"GRANT {right}" for right in rights]
        self._restart()
        return name

    def limited(self, name: str, **profile: object) -> str:
        """A new user with all rights, and a settings profile of his own."""
        self.profiles[name] = profile
        self._restart()
        return name

    def grant(self, given: Iterable[tuple[str, str]]) -> None:
        """(what, to whom)."""
        for what, user in given:
            self.rights[user].append(f"GRANT {what}")
        self._restart()

    def lift(self, profile: str) -> None:
        """Remove the limits, and constraints, of a settings profile."""
        self.profiles[profile] = {}
        self._restart()

    def _restart(self) -> None:
        named = (ClickHouseUser(name, grants=tuple(rights)) for name, rights in self.rights.items())
        self.server.kill()
        self.server.users, self.server.users_xml = (DEFAULT, *named), users_of(self.profiles)
        self.server.start()


@pytest.fixture(scope="module")
def admin(services: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Admin]:
    """Of a server that knows the cluster ``chsink``: itself, and another server."""
    server = EmbeddedClickHouse(
        tmp_path_factory.mktemp("rights"), zookeeper=services.zookeeper.hosts, keeper_map_prefix="/rights"
    )
    shards = "".join(
        f"<shard><replica><host>127.0.0.1</host><port>{each.native_port}</port></replica></shard>"
        for each in (server, services.clickhouse[0])
    )
    server.extra_xml = f"<remote_servers><chsink>{shards}</chsink></remote_servers>"
    with server:
        command(server.url, f"CREATE DATABASE {DATABASE}")
        yield Admin(server)


@pytest.fixture
def make_job(services: Stack, admin: Admin, tmp_path: Path, request: pytest.FixtureRequest) -> MakeJob:
    """Its first shard is the administrator's server."""
    both = [admin.server.url, services.clickhouse[0].url]
    return maker(services, tmp_path, request, lambda shards: {"shards": both[:shards]})


def runs_as(job: Job, user: str) -> None:
    job.settings = {**job.settings, "clickhouse.user": user}


# --- rights ----------------------------------------------------------------------------------------------------------


def fixes(entry: str, job: Job) -> str:
    """All of them; "" if it is not found."""
    return "; ".join(one["fix"] for one in findings(job) if is_of(entry, one))


@pytest.mark.exit_of("GRANT_MISSING")
@pytest.mark.exit_of("QUESTION_FORBIDDEN")
def test_rights_that_a_start_needs(make_job: MakeJob, spark: SparkSession, admin: Admin) -> None:
    """Each grant removes its own finding, and all of them together are enough."""
    job = make_job(partitions=1, engine=f"ENGINE = MergeTree PARTITION BY id % 2 ORDER BY id SETTINGS {WINDOW}")
    job.send(0, 25)
    system = [right for right in SYSTEM if "system.parts" not in right]
    runs_as(job, admin.user("asks", [*STATE, *system, f"SELECT ON {DATABASE}.*"]))
    admin.grant(grants_of(found("QUESTION_FORBIDDEN", job)))
    assert not fixes("QUESTION_FORBIDDEN", job)
    admin.grant(grants_of(found("GRANT_MISSING", job)))
    gone("GRANT_MISSING", job)
    lands(job, spark)


@pytest.mark.exit_of("GRANT_UNUSED")
@pytest.mark.exit_of("QUERY_FORBIDDEN")
@pytest.mark.parametrize("entry", ["GRANT_UNUSED", "QUERY_FORBIDDEN"])
def test_a_right_that_only_verify_needs(make_job: MakeJob, spark: SparkSession, admin: Admin, entry: str) -> None:
    job = make_job(partitions=1)
    job.send(0, 25)
    columns = ", ".join(name.split()[0] for name in METADATA.split(", "))
    few = f"SELECT({columns}), INSERT ON {job.tables[job.topic]}"
    runs_as(job, admin.user(f"few_{entry.lower()}", [*STATE, *SYSTEM, few]))
    lands(job, spark)
    said: Said = fixes("GRANT_UNUSED", job)
    if entry == "QUERY_FORBIDDEN":
        said = chsink(job, "verify", code=2)
        says(said, "then start again: nothing was lost or duplicated")
        assert "GRANT" in run_named(job, said, "sql", "grants").output
    admin.grant(grants_of(said))
    chsink(job, "verify")
    if more := fixes("GRANT_UNUSED", job):
        admin.grant(grants_of(more))
    gone("GRANT_UNUSED", job)


@pytest.mark.exit_of("GRANTS_WIDE")
def test_a_user_of_the_jobs_own(make_job: MakeJob, spark: SparkSession, admin: Admin) -> None:
    job = make_job(partitions=1)
    job.send(0, 25)
    says(found("GRANTS_WIDE", job), "give the job a user of its own, with SELECT and INSERT on its tables")
    printed = grants_of(chsink(job, "sql", "grants", "--set", "clickhouse.user=own").stdout)
    runs_as(job, admin.user("own", [what for what, _ in printed]))
    gone("GRANTS_WIDE", job)
    lands(job, spark)


@pytest.mark.exit_of("VIEW_UNSEEN")
@pytest.mark.parametrize("way", ["grant", "administrator"])
def test_a_view_that_the_user_cannot_see(make_job: MakeJob, admin: Admin, way: str) -> None:
    job = make_job(partitions=1)
    table = job.tables[job.topic]
    command(job.shards[0], f"CREATE TABLE {table}_sums (id UInt64) ENGINE = MergeTree ORDER BY id")
    command(job.shards[0], f"CREATE MATERIALIZED VIEW {table}_view TO {table}_sums AS SELECT id FROM {table}")
    runs_as(job, admin.user(f"blind_{way}", [*STATE, *SYSTEM, f"SELECT, INSERT ON {table}"]))
    said = found("VIEW_UNSEEN", job)
    if way == "grant":
        for _ in range(3):  # the view; then what it fills is known
            if more := fixes("VIEW_UNSEEN", job):
                admin.grant(grants_of(more))
        seen = findings(job)
    else:
        assert words_of(said, "doctor")
        runs_as(job, "default")
        seen = findings(job)
    assert not [one for one in seen if is_of("VIEW_UNSEEN", one)]
    assert [one for one in seen if is_of("VIEW_DOUBLES", one)], "now it is seen that the view's table doubles"


@pytest.mark.exit_of("CREATE_NOT_GRANTED")
@pytest.mark.parametrize("way", ["grant", "administrator"])
def test_a_table_that_the_user_may_not_create(make_job: MakeJob, spark: SparkSession, admin: Admin, way: str) -> None:
    job = make_job(partitions=1, table=False, settings=SETTINGS)
    job.tables[job.name] = f"{DATABASE}.t_{job.name}".replace("-", "_")
    job.send_values(0, values(0))
    runs_as(job, admin.user(f"writer_{way}", LANDS))
    said = refused("CREATE_NOT_GRANTED", lambda: job.drain(spark))
    if way == "grant":
        admin.grant(grants_of(said))
    else:
        run_printed(job, said, "sql", "create-table")
    job.drain(spark)
    job.check(columns=["id", "text"])


@pytest.mark.exit_of("ADD_NOT_GRANTED")
@pytest.mark.parametrize("way", ["grant", "administrator"])
def test_columns_that_the_user_may_not_add(make_job: MakeJob, spark: SparkSession, admin: Admin, way: str) -> None:
    job = make_job(partitions=1, settings={"schema.evolution": "add_columns"})
    job.send_values(0, values(0, more=1))
    runs_as(job, admin.user(f"adds_{way}", LANDS))
    said = refused("ADD_NOT_GRANTED", lambda: job.drain(spark))
    if way == "grant":
        admin.grant(grants_of(said))
    else:
        command(job.shards[0], statements_of(said, "ALTER TABLE")[0])
    job.drain(spark)
    job.check(columns=["id", "text", "more"])


# --- settings profiles -----------------------------------------------------------------------------------------------


PINNED = {"constraints": "<input_format_parallel_parsing><readonly/></input_format_parallel_parsing>"}


@pytest.mark.exit_of("SETTING_PINNED")
@pytest.mark.exit_of("QUERY_REFUSED")
@pytest.mark.parametrize(
    ("entry", "profile", "words"),
    [
        (
            "SETTING_PINNED",
            PINNED,
            "remove readonly, and the constraint on the setting, from the user's settings profile",
        ),
        ("QUERY_REFUSED", FINAL, "correct what the message names; then start again: nothing was lost or duplicated"),
        ("QUERY_REFUSED", {"readonly": 1}, "correct what the message names; then start again"),
    ],
)
def test_a_setting_that_may_not_be_changed(
    make_job: MakeJob, spark: SparkSession, admin: Admin, entry: str, profile: dict[str, object], words: str
) -> None:
    job = make_job(partitions=1)
    job.send(0, 25)
    chsink(job, "doctor")  # makes the table of the state
    runs_as(job, user := admin.limited("fixed", **profile))
    says(found(entry, job), words)
    admin.lift(user)
    gone(entry, job)
    lands(job, spark)


@pytest.mark.exit_of("SETTING_INVALID")
def test_a_setting_that_the_server_does_not_know(make_job: MakeJob, spark: SparkSession) -> None:
    job = make_job(partitions=1, settings={"clickhouse.settings.max_partitions_per_block": 50})
    job.send(0, 25)
    says(found("SETTING_INVALID", job), "correct the setting in [clickhouse.settings]")
    job.settings = {"clickhouse.settings.max_partitions_per_insert_block": 50}
    gone("SETTING_INVALID", job)
    lands(job, spark)


@pytest.mark.exit_of("QUERY_LIMITED")
@pytest.mark.exit_of("QUESTION_REFUSED")
def test_a_limit_of_the_users_profile(make_job: MakeJob, spark: SparkSession, admin: Admin) -> None:
    job = make_job(partitions=1)
    job.send(0, 25)
    lands(job, spark)
    rows = "SELECT number, 'x', 'another', 0, number FROM numbers(50000)"
    command(job.shards[0], f"INSERT INTO {job.tables[job.topic]} {rows}")
    runs_as(job, admin.limited("limited", max_rows_to_read=20_000))
    says(found("QUESTION_REFUSED", job), "correct what the message names, for example a limit in this user's settings")
    says(chsink(job, "verify", code=2), "raise the limit in this user's settings profile; then start again")
    admin.lift("limited")
    gone("QUESTION_REFUSED", job)
    chsink(job, "verify")
    job.send(0, 5)
    lands(job, spark)


@pytest.mark.exit_of("QUERY_REFUSED")
def test_a_constraint_that_refuses_each_query(
    make_job: MakeJob, spark: SparkSession, admin: Admin, services: Stack
) -> None:
    job = make_job(partitions=1, settings={"state.store": "zookeeper", "state.zookeeper": services.zookeeper.hosts})
    job.send(0, 25)
    lands(job, spark)
    runs_as(job, admin.limited("held", **FINAL))
    said = chsink(job, "verify", code=2)
    assert re.search(r"CHS-243.*refused a query \(code 452\).*final", " ".join(said.output.split())), said.output
    says(said, "correct what the message names; then start again: nothing was lost or duplicated")
    admin.lift("held")
    chsink(job, "verify")
    job.send(0, 5)
    lands(job, spark)


@pytest.mark.exit_of("COLUMNS_NOT_ADDED")
def test_columns_that_the_server_refuses(make_job: MakeJob, spark: SparkSession, admin: Admin) -> None:
    job = make_job(partitions=1, settings={"schema.evolution": "add_columns"})
    chsink(job, "doctor")  # makes the table of the state
    job.send_values(0, values(0, more=1))
    runs_as(job, admin.limited("held_back", constraints="<alter_sync><readonly/></alter_sync>"))
    said = refused("COLUMNS_NOT_ADDED", lambda: job.drain(spark))
    command(job.shards[0], statements_of(said, "ALTER TABLE")[0])
    job.drain(spark)
    job.check(columns=["id", "text", "more"])


# --- Distributed tables ----------------------------------------------------------------------------------------------


@pytest.mark.exit_of("DISTRIBUTED_DIFFERS")
def test_a_distributed_table_that_cuts_otherwise(make_job: MakeJob, spark: SparkSession, admin: Admin) -> None:
    job = make_job(partitions=1, shards=2, shard_key=["id"])
    job.send(0, 25)
    table = job.tables[job.topic]
    where = f"Distributed('chsink', '{DATABASE}', '{table.partition('.')[2]}', intHash64(id))"
    command(job.shards[0], f"CREATE TABLE {table}_all AS {table} ENGINE = {where}")
    said = found("DISTRIBUTED_DIFFERS", job)
    printed = run_named(job, said, "sql", "distributed").stdout
    command(job.shards[0], f"DROP TABLE {table}_all SYNC")
    command(job.shards[0], re.findall(r"CREATE TABLE [^;]+", printed)[0])
    gone("DISTRIBUTED_DIFFERS", job)
    lands(job, spark)
    once = f"SELECT id FROM {table}_all WHERE id = {{n}} SETTINGS optimize_skip_unused_shards = 1 FORMAT TSV"
    for n in range(25):
        assert select(job.shards[0], once.replace("{n}", str(n))).split() == [str(n)]
