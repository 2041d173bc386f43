"""Every command of one job, run as a ClickHouse user who has exactly the grants that ``chsink sql grants`` prints."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession
from typer.testing import CliRunner

from chsink.cli.main import app
from chsink.clickhouse.grants import RIGHTS, On, all_grants
from chsink.config import load
from chsink.embedded.clickhouse import ClickHouseUser
from tests.integration.job.faults import Failpoints, crash_before_after
from tests.support.job import DATABASE, Job, command

USER = "minimal"
TABLE, DEAD, VIEW, FILLED = (f"{DATABASE}.{name}" for name in ("t", "dead", "v", "filled"))
SETTINGS = {
    "clickhouse.user": USER,
    "schema.auto_create": True,
    "schema.evolution": "add_columns",
    "errors.on_bad_value": "dead_letter",
    "dead_letters.table": DEAD,
}
DEFAULT = ClickHouseUser("default")


def user_of(job: Job, name: str = USER, without: str = "") -> ClickHouseUser:
    """A user with the printed grants, and with those for the view of the tour; not with a statement that has this text."""
    found = [sql for grants in all_grants(load(job.file(), overrides=job.settings)) for sql in grants.sql]
    found += [
        f"GRANT {right.privilege} ON {table} TO `{USER}`"
        for right in RIGHTS
        if right.on == On.VIEW
        for table in (VIEW, FILLED)
    ]
    bare = (sql.removesuffix(f" TO `{USER}`") for sql in found)
    return ClickHouseUser(name, grants=tuple(sql for sql in bare if not without or without not in sql))


@dataclass(slots=True)
class Tour:
    """``engine`` of the tables that an administrator makes; ``admins`` are the URLs on which he does."""

    job: Job
    engine: str

    def cli(self, *words: str, code: int = 0) -> str:
        """A command succeeds, and no server refused it anything."""
        sets = [word for name, value in self.job.settings.items() for word in ("--set", f"{name}={toml(value)}")]
        result = CliRunner().invoke(app, [*words, "-c", str(self.job.file()), *sets])
        assert result.exit_code == code, f"{words}: {result.output} {result.exception!r}"
        for sign in ("CHS-216", "CHS-219", "CHS-709", "privilege"):
            lines = [line for line in result.output.splitlines() if sign in line and not line.startswith("ok")]
            assert not lines, (words, lines)
        return result.stdout

    def everywhere(self, sql: str) -> None:
        """An administrator's statement on each replica."""
        for url in (*self.job.shards, *self.job.replicas):
            command(url, sql)

    def go(self, spark: SparkSession, failpoints: Failpoints) -> None:
        """Everything, in the order of a life."""
        self.begin(spark, failpoints)
        self.letters(spark)
        self.by_hand(spark, failpoints)

    def begin(self, spark: SparkSession, failpoints: Failpoints) -> None:
        """Tables, the state and columns are made; a crash is settled; all of it is looked at."""
        job = self.job
        statement = self.cli("sql", "dead-letters").partition("\n")[2].rstrip(";\n")
        self.everywhere(statement.replace("ENGINE = MergeTree", f"ENGINE = {self.engine}"))
        job.send_values(0, [{"id": n, "n": n} for n in range(15)])
        assert "CREATE TABLE" in self.cli("sql", "create-table")
        self.cli("doctor")
        job.drain(spark)
        assert len(job.landed(columns=["id"])) == 15
        self.everywhere(f"CREATE TABLE {FILLED} (id Int64) ENGINE = {self.engine} ORDER BY id {self.window}")
        self.everywhere(f"CREATE MATERIALIZED VIEW {VIEW} TO {FILLED} AS SELECT id FROM {TABLE}")
        job.send_values(0, [{"id": n, "n": n, "more": "x"} for n in range(15, 20)])
        job.drain(spark)
        job.send_values(0, [{"id": n, "n": n, "more": "x"} for n in range(20, 30)])
        crash_before_after(job, spark, failpoints)
        for words in (("doctor",), ("status",), ("state", "show"), ("doctor", "--sample", "5")):
            self.cli(*words)
        job.drain(spark)
        job.check(columns=["id"])
        self.cli("verify")

    def letters(self, spark: SparkSession) -> None:
        """Dead letters are kept, listed and replayed."""
        job = self.job
        job.send_values(0, [{"id": n, "n": f"word {n}"} for n in range(30, 35)])
        job.drain(spark)
        assert json.loads(self.cli("dlq", "list", "--json"))[0]["column"] == "n"
        assert json.loads(self.cli("dlq", "show", job.topic, "0", "30"))
        self.cli("verify")
        self.everywhere_once(f"ALTER TABLE {TABLE} MODIFY COLUMN n Nullable(String)")
        self.cli("dlq", "replay", "--dry-run")
        assert json.loads(self.cli("dlq", "replay", "--yes", "--json"))["landed"] == 5

    def by_hand(self, spark: SparkSession, failpoints: Failpoints) -> None:
        """What a person does to the state."""
        job = self.job
        job.send_values(0, [{"id": n, "n": "a"} for n in range(35, 45)])
        crash_before_after(job, spark, failpoints)
        self.cli("state", "resolve", job.topic, "0", "--landed", "--yes")
        assert not job.in_doubt()
        forget = f"DELETE WHERE startsWith(key, '{job.name}')"
        command(job.shards[0], f"ALTER TABLE {DATABASE}.chsink_state {forget} SETTINGS mutations_sync = 1")
        job.lose_checkpoint()
        self.cli("doctor", code=1)
        self.cli("state", "recover", "--senders-gone", "--yes", "--accept-removed", "--accept-several")
        job.send_values(0, [{"id": n, "n": "a"} for n in range(45, 50)])
        job.drain(spark)
        self.cli("state", "recover", "--senders-gone", "--replace", "--accept-removed", "--accept-several", "--yes")
        self.cli("state", "reset", job.topic, "0", "--yes")
        self.cli("sql", "grants")

    def everywhere_once(self, sql: str) -> None:
        """Replicas take an ALTER from each other."""
        command(self.job.shards[0], sql)

    @property
    def window(self) -> str:
        """What makes a plain table deduplicate."""
        plain = not self.engine.startswith("Replicated")
        return "SETTINGS non_replicated_deduplication_window = 10000" if plain else ""


def toml(value: Any) -> str:
    """As ``--set`` takes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
