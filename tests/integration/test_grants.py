"""Rights that are missing, one at a time: ``chsink doctor`` names each, and so does the error of a command that needs it.

That the list is enough is seen in ``job/test_grants.py`` and ``tests/replicated/test_grants.py``.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from typer.testing import CliRunner

from chsink.cli.main import app
from chsink.clickhouse.grants import RIGHTS, On, Right, Use, needed
from chsink.config import load
from chsink.dlq.letters import create_table
from chsink.embedded.clickhouse import ClickHouseUser, EmbeddedClickHouse
from chsink.embedded.kafka import EmbeddedKafka
from chsink.embedded.zookeeper import EmbeddedZooKeeper
from tests.support.doubt import announce
from tests.support.job import DATABASE, METADATA, WINDOW, Job, command
from tests.support.tour import DEAD, DEFAULT, FILLED, TABLE, VIEW

pytestmark = pytest.mark.slow

FULL = "full"
SETTINGS = {"clickhouse.user": FULL, "errors.on_bad_value": "dead_letter", "dead_letters.table": DEAD}
USES = (Use.RUN, Use.PLAIN, Use.STATE, Use.LETTERS, Use.DLQ, Use.VERIFY, Use.VIEWS)
ASKED = [right for right in RIGHTS if right.use in USES]
COVER = {Use.RUN: Use.VERIFY, Use.LETTERS: Use.DLQ}
"""Uses that need SELECT on single columns, and those that need it on all of them."""
INFO = (Use.VERIFY, Use.DLQ)


@dataclass
class Bench:
    job: Job

    def cli(self, user: str, *words: str) -> tuple[int, str]:
        sets = [f"--set={name}={value}" for name, value in {**SETTINGS, "clickhouse.user": user}.items()]
        result = CliRunner().invoke(app, [*words, "-c", str(self.job.file()), *sets])
        return result.exit_code, result.output

    def doctor(self, user: str) -> tuple[int, Sequence[dict[str, Any]]]:
        """Exit code, and what is not ``ok``."""
        code, output = self.cli(user, "doctor", "--json")
        findings = json.loads(output)["findings"]
        return code, [one for one in findings if one["severity"] != "ok" and one["id"] != "CHS-235"]


def grants(job: Job, without: Right | None = None) -> list[tuple[str, str]]:
    """(privilege, what it is on) of all rights, one by one, except this one and what covers it."""
    found = [(one.right, one.privilege, one.on) for one in needed(load(job.file(), overrides=SETTINGS), *USES)]
    views = [right for right in ASKED if right.on == On.VIEW]
    found += [(right, right.privilege, table) for right in views for table in (VIEW, FILLED)]
    if without is None:
        return [(privilege, on) for _, privilege, on in found]
    covered = COVER.get(without.use) if without.privilege == "SELECT" and without.columns else None
    return [(privilege, on) for right, privilege, on in found if right != without and right.use != covered]


def user(name: str, granted: Sequence[tuple[str, str]]) -> ClickHouseUser:
    return ClickHouseUser(name, grants=tuple(f"GRANT {privilege} ON {on}" for privilege, on in granted))


@pytest.fixture(scope="module")
def bench(
    tmp_path_factory: pytest.TempPathFactory, kafka: EmbeddedKafka, zookeeper: EmbeddedZooKeeper
) -> Iterator[Bench]:
    """A server with one user who has all rights of the list, and for each right one who lacks it."""
    folder, name = tmp_path_factory.mktemp("grants"), f"lacks-{uuid.uuid4().hex[:8]}"
    prefix = f"/lacks_{uuid.uuid4().hex}"
    server = EmbeddedClickHouse(folder / "server", zookeeper=zookeeper.hosts, keeper_map_prefix=prefix)
    job = Job(name, folder, kafka.bootstrap, [server.url], settings=SETTINGS, tables={name: TABLE})
    kafka.create_topic(name, 1)
    lacking = [user(f"lacks_{number}", grants(job, right)) for number, right in enumerate(ASKED)]
    server.users = (DEFAULT, user(FULL, grants(job)), *lacking)
    with server:
        dead = create_table(DEAD)
        for sql in (
            f"CREATE DATABASE {DATABASE}",
            f"CREATE TABLE {TABLE} (id UInt64, {METADATA}) ENGINE = MergeTree ORDER BY id SETTINGS {WINDOW}",
            f"CREATE TABLE {FILLED} (id UInt64) ENGINE = MergeTree ORDER BY id SETTINGS {WINDOW}",
            f"CREATE MATERIALIZED VIEW {VIEW} TO {FILLED} AS SELECT id FROM {TABLE}",
            dead,
        ):
            command(server.url, sql)
        sets = [f"--set={name}={value}" for name, value in {**SETTINGS, "clickhouse.user": "default"}.items()]
        made = CliRunner().invoke(app, ["doctor", "-c", str(job.file()), *sets])
        assert made.exit_code == 0, made.output
        job.send_values(0, [{"id": n} for n in range(5)])
        command(server.url, f"INSERT INTO {TABLE} SELECT number, '{name}', 0, number FROM numbers(5)")
        announce(job, {0: (5, 5)})
        yield Bench(job)


def test_with_all_of_them_nothing_is_missing(bench: Bench) -> None:
    code, findings = bench.doctor(FULL)
    assert (code, findings) == (0, [])


SOME = [
    pytest.param(n, marks=[pytest.mark.soak] if n % 3 else [], id=f"{one.use.name}-{one.privilege}-{one.on}")
    for n, one in enumerate(ASKED)
]
"""One in three for ``make test``."""


@pytest.mark.parametrize("number", SOME)
def test_doctor_names_the_missing_right_and_its_grant(bench: Bench, number: int) -> None:
    """The statements are exactly what this user lacks: with them he has all rights of the test above."""
    right, job = ASKED[number], bench.job
    code, findings = bench.doctor(f"lacks_{number}")
    fixes = [one["fix"] for one in findings if f"TO `lacks_{number}`" in one["fix"]]
    named = {each for fix in fixes for each in re.findall(r"GRANT (.+? ON \S+) TO", fix)}
    missing = {_plain(" ON ".join(each)) for each in set(grants(job)) - set(grants(job, right))}
    if right.use == Use.VIEWS:  # what an unseen view fills is not known
        missing = {f"SHOW COLUMNS ON {VIEW}"}
    assert {_plain(each) for each in named} == missing
    optional = right.optional or right.use in INFO or right.use == Use.VIEWS
    assert code == (0 if optional else 1), findings
    assert {one["severity"] for one in findings} <= ({"info", "warning"} if optional else {"error", "info", "warning"})
    assert not [one for one in findings if one["id"] in {"CHS-701", "CHS-709"}], "a refusal is no silence"


def _plain(grant: str) -> str:
    return re.sub(r"\(.*?\)", "", grant.replace("`", ""))


@pytest.mark.parametrize(
    ("use", "privilege", "on", "words"),
    [
        (Use.VERIFY, "SELECT", On.TABLE, ("verify",)),
        (Use.RUN, "SELECT", "system.replicas", ("verify",)),
        (Use.PLAIN, "SELECT", "system.merge_tree_settings", ("verify",)),
        (Use.DLQ, "SELECT", On.LETTERS, ("dlq", "list")),
        (Use.STATE, "SELECT", On.STATE, ("status",)),
        (Use.STATE, "INSERT", On.STATE, ("dlq", "replay", "--yes")),
        (Use.STATE, "ALTER UPDATE", On.STATE, ("state", "reset", "{topic}", "--yes")),
        (Use.RUN, "SELECT", "system.processes", ("state", "recover", "--senders-gone", "--replace", "--yes")),
    ],
)
def test_a_command_names_the_right_that_it_lacks(
    bench: Bench, use: Use, privilege: str, on: str, words: Sequence[str]
) -> None:
    """⚑ Exit code 2, not 5: to start again helps nobody."""
    number = next(n for n, r in enumerate(ASKED) if (r.use, r.privilege, r.on) == (use, privilege, on))
    code, output = bench.cli(f"lacks_{number}", *(word.format(topic=bench.job.topic) for word in words))
    assert code == 2, output
    assert re.search(rf"run GRANT {privilege}\b.* TO `lacks_{number}`", output), output
    assert "did not answer" not in output and "does not respond" not in output
