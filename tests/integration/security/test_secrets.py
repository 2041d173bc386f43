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
from kazoo.client import KazooClient
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from chsink.cli.main import app
from chsink.embedded.base.ports import free_port
from chsink.embedded.clickhouse import ClickHouseUser, EmbeddedClickHouse
from chsink.embedded.zookeeper import EmbeddedZooKeeper
from chsink.spark.sink import kafka_stream
from tests.support.acl_lines import allowed
from tests.support.certificates import Authority
from tests.support.child import Child
from tests.support.job import DATABASE, Job, command, select
from tests.support.kafka_logins import ENVIRON, JAAS, config_of, logins, options_toml, trusting
from tests.support.registry import RegistryService
from tests.support.secured_kafka import PASSWORD, SecuredKafka

pytestmark = pytest.mark.slow
DEFAULT = ClickHouseUser("default")
STATE = 'store = "zookeeper"\nuser = "lander"\npassword = { env = "OF_ZOOKEEPER" }\n'
OTHERS = """
[schema_registry]
url = "URL"
user = "lander"
password = { env = "OF_REGISTRY" }
[mirror]
enabled = true
auto_create = true
interval_s = 1
control_topic = "TOPIC-control"
[mirror.catalog]
name = "lake"
type = "sql"
uri = "sqlite:///FOLDER/catalog.db"
warehouse = "file://FOLDER/lake"
credential = { env = "OF_CATALOG" }
"s3.secret-access-key" = { env = "OF_S3" }
[[mirror.route]]
topic = "TOPIC"
table = "shop.landed"
"""
IN_ENVIRONMENT = ("OF_ZOOKEEPER", "OF_REGISTRY", "OF_CATALOG", "OF_S3", "OF_STORE")


class Secretive(Job):
    """A job file with a credential of each kind of reference, and for each service."""

    sections: str

    def file(self) -> Path:
        """The job file, with the logins."""
        path = super().file()
        text = path.read_text().replace(
            "[clickhouse]\n", '[clickhouse]\nuser = "lander"\npassword = { command = ["cat", "secret"] }\n'
        )
        text = text.replace("[observe]\n", '[observe]\nui_token = { file = "token" }\n')
        text = text.replace("[state]\n", f"[state]\n{STATE}")
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
    given = {name: secrets.token_hex(16) for name in IN_ENVIRONMENT}
    for name, secret in given.items():
        monkeypatch.setenv(name, secret)
    (folder := tmp_path / "job").mkdir()
    of_clickhouse, token = secrets.token_hex(16), secrets.token_hex(16)
    (folder / "secret").write_text(of_clickhouse)
    (folder / "token").write_text(token)
    hidden = (PASSWORD, PASSWORD.replace("'", "\\'"), of_clickhouse, token, *given.values())
    users = (DEFAULT, ClickHouseUser("lander", of_clickhouse))
    with (
        EmbeddedClickHouse(tmp_path / "server", users=users) as server,
        RegistryService(login=f"lander:{given['OF_REGISTRY']}") as registry,
    ):
        job = landing(secured, authority, server, folder)
        job.settings = {**job.settings, "state.zookeeper": zookeeper.hosts, "state.path": f"/{job.name}"}
        job.sections += OTHERS.replace("URL", registry.url).replace("TOPIC", job.name).replace("FOLDER", str(folder))
        secured.allow(*allowed(printed("kafka acls", job)))
        with Child(job) as child:
            child.await_that(
                "rows", lambda: select(server.url, f"SELECT count() FROM {job.tables[job.topic]}") == "5\n"
            )
            for shown in (*cmdlines(child.pid), *pages(job, token)):
                assert not any(secret in shown for secret in hidden), shown[:500]
            child.tell(signal.SIGTERM)
            assert child.end() == 0, child.said
        state = nodes(zookeeper.hosts, f"/{job.name}", f"lander:{given['OF_ZOOKEEPER']}")
        assert b"BEFORE" in state or b"AFTER" in state
        assert not any(secret.encode() in state for secret in hidden)
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
    mine = authority.issue("secretive", password=os.environ["OF_STORE"].encode())
    login = {"ssl.keystore.type": "PKCS12", "ssl.keystore.location": str(mine.store)}
    job.sections = options_toml(
        {**logins(authority)["scram-512"], **login, "ssl.keystore.password": {"env": "OF_STORE"}}
    )
    secured.create_topic(topic)
    secured.create_topic(f"{topic}-control")
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
    for words in ("validate --show", "status --json", "doctor --json", "kafka acls", "sql grants", "mirror status"):
        yield printed(words, job)


def printed(words: str, job: Secretive) -> str:
    """What a command prints about the job."""
    sets = [f"--set={name}={value}" for name, value in job.settings.items()]
    result = CliRunner().invoke(app, [*words.split(), "-c", str(job.file()), *sets])
    assert result.exit_code == 0, result.output
    return result.output


def nodes(hosts: str, path: str, login: str) -> bytes:
    """What ZooKeeper holds below a path."""
    client = KazooClient(hosts, auth_data=[("digest", login)])
    client.start()
    try:
        below, held = [path], b""
        while below:
            at = below.pop()
            held += client.get(at)[0]
            below += [f"{at}/{name}" for name in client.get_children(at)]
        return held
    finally:
        client.stop()
        client.close()
