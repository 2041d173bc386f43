"""Credentials are nowhere that others look: logs, checkpoint, plans, state, process lists, the page, metrics, answers."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from chsink.cli.main import app
from chsink.embedded.base.ports import free_port
from chsink.embedded.clickhouse import ClickHouseUser, EmbeddedClickHouse
from chsink.embedded.zookeeper import EmbeddedZooKeeper
from chsink.spark.sink import kafka_stream
from tests.support.acl_lines import Allowed
from tests.support.certificates import Authority
from tests.support.child import Child
from tests.support.job import DATABASE, Job, command, select
from tests.support.kafka_logins import ENVIRON, JAAS, config_of, logins, options_toml, trusting
from tests.support.secured_kafka import PASSWORD, USER, SecuredKafka

pytestmark = pytest.mark.slow
DEFAULT = ClickHouseUser("default")


class Secretive(Job):
    """A job file with a credential of each kind of reference."""

    sections: str

    def file(self) -> Path:
        """The job file, with the logins."""
        path = super().file()
        text = path.read_text().replace(
            "[clickhouse]\n", '[clickhouse]\nuser = "lander"\npassword = { command = ["cat", "secret"] }\n'
        )
        text = text.replace("[observe]\n", '[observe]\nui_token = { file = "token" }\n')
        path.write_text(text + self.sections)
        return path


@pytest.mark.parametrize("way", ["scram-512", "pem"])
def test_a_plan_of_spark_shows_no_credential(
    way: str, secured: SecuredKafka, authority: Authority, spark: SparkSession, tmp_path: Path
) -> None:
    """⚑ Spark's page and its event log show the options of a source.  It hides those that it knows, not a PEM key."""
    mine, ways = authority.issue("planner"), logins(authority)
    ways["pem"] = {
        **trusting(authority.ca, "SSL"),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": mine.cert.read_text(),
        "ssl.keystore.key": {"env": "KEY"},
    }
    environ = {**ENVIRON, "KEY": mine.key.read_text()}
    config = config_of(tmp_path, secured.sasl, ways[way], environ=environ)
    stream = kafka_stream(spark, config, "earliest", headers=False)
    spark.createDataFrame([(1,)], "a int")  # makes the session the thread's own, by whose settings a plan is shown
    plan = str(stream._jdf.queryExecution().toString())
    assert "kafka.bootstrap.servers" in plan
    assert PASSWORD not in plan and "PRIVATE KEY" not in plan


@pytest.mark.soak
def test_nobody_sees_a_credential(
    secured: SecuredKafka,
    authority: Authority,
    zookeeper: EmbeddedZooKeeper,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A job as a process of its own, seen from outside while it runs, and all that it leaves behind."""
    monkeypatch.setenv("JAAS", JAAS)
    (folder := tmp_path / "job").mkdir()
    of_clickhouse, token = secrets.token_hex(16), secrets.token_hex(16)
    (folder / "secret").write_text(of_clickhouse)
    (folder / "token").write_text(token)
    hidden = (PASSWORD, PASSWORD.replace("'", "\\'"), of_clickhouse, token)
    prefix, users = f"/secrets_{uuid.uuid4().hex}", (DEFAULT, ClickHouseUser("lander", of_clickhouse))
    with EmbeddedClickHouse(
        tmp_path / "server", zookeeper=zookeeper.hosts, keeper_map_prefix=prefix, users=users
    ) as server:
        job = landing(secured, authority, server, folder)
        with Child(job) as child:
            child.await_that(
                "rows", lambda: select(server.url, f"SELECT count() FROM {job.tables[job.topic]}") == "5\n"
            )
            for shown in (*cmdlines(child.pid), *pages(job, token)):
                assert not any(secret in shown for secret in hidden), shown[:500]
            child.tell(signal.SIGTERM)
            assert child.end() == 0, child.said
        state = select(server.url, f"SELECT * FROM {DATABASE}.chsink_state FORMAT JSONEachRow")
        assert job.name in state and not any(secret in state for secret in hidden)
    left = [file for file in folder.rglob("*") if file.is_file() and file.name not in ("secret", "token")]
    assert {"checkpoint", "events"} <= {file.relative_to(folder).parts[0] for file in left}
    for file in left:
        content = file.read_bytes()
        assert not any(secret.encode() in content for secret in hidden), file


def landing(secured: SecuredKafka, authority: Authority, server: EmbeddedClickHouse, folder: Path) -> Secretive:
    """A job that runs until it is stopped, with debug logs, metrics, the page, and Spark's log of all its plans."""
    (folder / "events").mkdir()
    topic = f"secrets-{uuid.uuid4().hex[:8]}"
    settings = {
        "kafka.bootstrap": secured.sasl,
        "trigger.mode": "processing_time",
        "trigger.interval": "500 milliseconds",
        "observe.log_level": "debug",
        "observe.metrics_port": free_port(),
        "observe.ui": f"127.0.0.1:{free_port()}",
        "spark.conf.spark.eventLog.enabled": "true",
        "spark.conf.spark.eventLog.dir": f"file://{folder}/events",
        "spark.conf.spark.local.dir": f"{folder}/scratch",
    }
    job = Secretive(topic, folder, secured.bootstrap, [server.url], settings=settings)
    job.sections = options_toml(logins(authority)["scram-512"])
    secured.create_topic(topic)
    secured.allow(
        Allowed(USER, "Read", "topic", topic, prefixed=False),
        Allowed(USER, "Read", "group", f"chsink-{topic}/", prefixed=True),
    )
    command(server.url, f"CREATE DATABASE IF NOT EXISTS {DATABASE}")
    job.make_table(topic)
    job.send(0, 5)
    return job


def cmdlines(session: int) -> Iterator[str]:
    """The command lines of the job's processes, as everybody on the machine sees them."""
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if os.getsid(int(folder.name)) == session:
                yield (folder / "cmdline").read_text(errors="replace")


def pages(job: Secretive, token: str) -> Iterator[str]:
    """What the job serves, and what commands print about it."""
    page, metrics = job.settings["observe.ui"], job.settings["observe.metrics_port"]
    for url in (f"http://{page}/", f"http://{page}/status.json", f"http://127.0.0.1:{metrics}/metrics"):
        asked = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
        with urllib.request.urlopen(asked, timeout=60) as answer:
            yield answer.read().decode()
    sets = [f"--set={name}={value}" for name, value in job.settings.items()]
    for words in ("validate --show", "status --json", "doctor --json", "kafka acls", "sql grants"):
        result = CliRunner().invoke(app, [*words.split(), "-c", str(job.file()), *sets])
        assert result.exit_code == 0, result.output
        yield result.output
