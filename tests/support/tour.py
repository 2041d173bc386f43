"""Every command of one job, run as a ClickHouse user who has exactly the grants that ``chsink sql grants`` prints."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.request import urlopen

from pyspark.sql import SparkSession
from typer.testing import CliRunner

from chsink.cli.main import app
from chsink.clickhouse.grants import RIGHTS, On, Use, all_grants
from chsink.config import load
from chsink.embedded.clickhouse import ClickHouseUser
from tests.integration.job.faults import Failpoints, crash_before_after
from tests.support.job import DATABASE, Job, command

USER = "minimal"
TABLE, DEAD, VIEW, FILLED, MADE = (f"{DATABASE}.{name}" for name in ("t", "dead", "v", "filled", "made"))
SETTINGS = {
    "clickhouse.user": USER,
    "schema.auto_create": True,
    "schema.evolution": "add_columns",
    "errors.on_bad_value": "dead_letter",
    "dead_letters.table": DEAD,
}
DEFAULT = ClickHouseUser("default")


def user_of(job: Job, name: str = USER, without: str = "") -> ClickHouseUser:
    """A user with the printed grants, and with those for the view of the tour and for the table that ``chsink init`` makes;
    not with a statement that has this text.
    """
    found = [sql for grants in all_grants(load(job.file(), overrides=job.settings)) for sql in grants.sql]
    found += [
        f"GRANT {right.privilege} ON {table} TO `{USER}`"
        for right in RIGHTS
        if right.on == On.VIEW
        for table in (VIEW, FILLED)
    ]
    found += [f"GRANT {r.privilege} ON {MADE} TO `{USER}`" for r in RIGHTS if (r.use, r.on) == (Use.CREATE, On.TABLE)]
    bare = (sql.removesuffix(f" TO `{USER}`") for sql in found)
    return ClickHouseUser(name, grants=tuple(sql for sql in bare if not without or without not in sql))


@dataclass(slots=True)
class Tour:
    """``engine`` is that of the tables that an administrator makes."""

    job: Job
    engine: str

    def cli(self, *words: str, code: int = 0) -> str:
        """A command succeeds, and no server refused it anything."""
        result = CliRunner().invoke(app, self.words(*words))
        assert result.exit_code == code, f"{words}: {result.output} {result.exception!r}"
        allowed(words, result.output)
        return result.stdout

    def words(self, *words: str) -> list[str]:
        """Of a command on the job."""
        sets = [word for name, value in self.job.settings.items() for word in ("--set", f"{name}={toml(value)}")]
        return [*words, "-c", str(self.job.file()), *sets]

    @contextmanager
    def going_on(self, *words: str) -> Iterator[str]:
        """A command that goes on until it is interrupted: the first line that it prints."""
        line = [sys.executable, "-m", "chsink.cli.main", *self.words(*words)]
        with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
            assert process.stdout is not None
            first = process.stdout.readline()
            try:
                yield first
            finally:
                process.send_signal(signal.SIGINT)
            said = first + process.stdout.read()
        assert process.returncode == 0, said
        allowed(words, said)

    def go(self, spark: SparkSession, failpoints: Failpoints) -> None:
        """Everything, in the order of a life."""
        self.begin(spark, failpoints)
        self.letters(spark, failpoints)
        self.watched()
        self.decided(spark, failpoints)
        self.recovered(spark)
        if not self.job.replicas:
            self.made_anew()

    def begin(self, spark: SparkSession, failpoints: Failpoints) -> None:
        """Tables, the state and columns are made; a crash is settled; all of it is looked at."""
        job = self.job
        statement = self.cli("sql", "dead-letters").partition("\n")[2].rstrip(";\n")
        self.job.everywhere(statement.replace("ENGINE = MergeTree", f"ENGINE = {self.engine}"))
        job.send_values(0, [{"id": n, "n": n} for n in range(15)])
        assert "CREATE TABLE" in self.cli("sql", "create-table")
        self.cli("doctor")
        job.drain(spark)
        assert len(job.landed(columns=["id"])) == 15
        self.job.everywhere(f"CREATE TABLE {FILLED} (id Int64) ENGINE = {self.engine} ORDER BY id {self.window}")
        self.job.everywhere(f"CREATE MATERIALIZED VIEW {VIEW} TO {FILLED} AS SELECT id FROM {TABLE}")
        job.send_values(0, [{"id": n, "n": n, "more": "x"} for n in range(15, 20)])
        job.drain(spark)
        job.send_values(0, [{"id": n, "n": n, "more": "x"} for n in range(20, 30)])
        crash_before_after(job, spark, failpoints)
        for words in (("doctor",), ("status",), ("state", "show"), ("doctor", "--sample", "5")):
            self.cli(*words)
        job.drain(spark)
        job.check(columns=["id"])
        self.cli("verify")

    def letters(self, spark: SparkSession, failpoints: Failpoints) -> None:
        """Dead letters are kept, listed and replayed; a person decides about those that a replay left in doubt."""
        job = self.job
        job.send_values(0, [{"id": n, "n": f"word {n}"} for n in range(30, 35)])
        job.drain(spark)
        assert json.loads(self.cli("dlq", "list", "--json"))[0]["column"] == "n"
        assert json.loads(self.cli("dlq", "show", job.topic, "0", "30"))
        self.cli("verify")
        self.everywhere_once(f"ALTER TABLE {TABLE} MODIFY COLUMN n Nullable(String)")
        self.cli("dlq", "replay", "--dry-run")
        replay = ("dlq", "replay", "--yes", "--json")
        for point, which, verdict, count in (
            ("driver.after_before", ("--where", "offset=30"), "--resend", 1),
            ("driver.before_after", (), "--landed", 4),
        ):
            failpoints.arm(f"{point}=fail")
            self.cli(*replay, *which, code=1)
            failpoints.assert_fired(point)
            failpoints.disarm()
            assert json.loads(self.cli(*replay, *which, verdict))["landed"] == count
        assert json.loads(self.cli(*replay))["landed"] == 0

    def watched(self) -> None:
        """Who looks on, in a terminal and in a browser."""
        with self.going_on("status", "--watch", "--json") as line:
            assert json.loads(line)["tables"]
        with self.going_on("ui", "--listen", "127.0.0.1:0") as line, urlopen(f"{line.split()[0]}status.json") as answer:
            assert json.load(answer)["problems"] == []

    def decided(self, spark: SparkSession, failpoints: Failpoints) -> None:
        """A person decides about ranges in doubt: in every way, about rows that are all there."""
        job = self.job
        for at, verdict in enumerate(("--landed", "--expired", "--resend", "--lost")):
            first = 35 + 10 * at
            job.send_values(0, [{"id": n, "n": "a"} for n in range(first, first + 10)])
            crash_before_after(job, spark, failpoints)
            words = ["state", "resolve", job.topic, "0", verdict, "--yes"]
            if verdict == "--resend":
                words.append("--senders-gone")
                self.cli(*words, code=2)
                self.everywhere_once(f"DELETE FROM {TABLE} WHERE _kafka_offset >= {first}")
            self.cli(*words)
            assert bool(job.in_doubt()) == (verdict in ("--expired", "--resend"))
            if verdict != "--lost":
                job.drain(spark)
                job.check(columns=["id"])

    def recovered(self, spark: SparkSession) -> None:
        """The state is lost, recovered, and set back."""
        job = self.job
        forget = f"DELETE WHERE startsWith(key, '{job.name}')"
        command(job.shards[0], f"ALTER TABLE {DATABASE}.chsink_state {forget} SETTINGS mutations_sync = 1")
        job.lose_checkpoint()
        self.cli("doctor", code=1)
        self.cli("state", "recover", "--senders-gone", "--yes", "--accept-removed", "--accept-several")
        job.send_values(0, [{"id": n, "n": "a"} for n in range(75, 80)])
        job.drain(spark)
        self.cli("state", "recover", "--senders-gone", "--replace", "--accept-removed", "--accept-several", "--yes")
        self.cli("state", "reset", job.topic, "0", "--yes")
        self.cli("sql", "grants")

    def made_anew(self) -> None:
        """Another job and its table are made from the topic."""
        job, file = self.job, str(self.job.folder / "made.toml")
        words = ["init", file, "--from-topic", job.topic, "--bootstrap", job.bootstrap, "--endpoint", job.shards[0]]
        env = {"CHSINK__CLICKHOUSE__USER": USER}
        made = CliRunner().invoke(app, [*words, "--table", MADE, "--apply"], env=env)
        assert made.exit_code == 0, made.output
        allowed(words, made.output)

    def everywhere_once(self, sql: str) -> None:
        """Replicas take an ALTER from each other."""
        command(self.job.shards[0], sql)

    @property
    def window(self) -> str:
        """What makes a plain table deduplicate."""
        plain = not self.engine.startswith("Replicated")
        return "SETTINGS non_replicated_deduplication_window = 10000" if plain else ""


def allowed(words: Sequence[str], said: str) -> None:
    """No server refused the command anything."""
    for sign in ("CHS-216", "CHS-219", "CHS-709", "privilege"):
        lines = [line for line in said.splitlines() if sign in line and not line.startswith("ok")]
        assert not lines, (words, lines)


def toml(value: Any) -> str:
    """As ``--set`` takes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
