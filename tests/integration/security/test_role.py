"""A ClickHouse user whose rights are those of a role: the statements of ``chsink sql grants``, granted to the role."""

from __future__ import annotations

import uuid
from pathlib import Path
from xml.sax.saxutils import escape

import pytest
from typer.testing import CliRunner

from chsink.cli.main import app
from chsink.clickhouse.grants import all_grants
from chsink.config import load
from chsink.embedded.clickhouse import ClickHouseUser, EmbeddedClickHouse
from chsink.embedded.kafka import EmbeddedKafka
from chsink.embedded.zookeeper import EmbeddedZooKeeper
from tests.support.job import DATABASE, METADATA, WINDOW, Job, command
from tests.support.tour import DEFAULT

pytestmark = [pytest.mark.slow, pytest.mark.soak]
ROLE, USER = "landing", "lander"


def test_doctor_finds_what_the_role_grants(kafka: EmbeddedKafka, zookeeper: EmbeddedZooKeeper, tmp_path: Path) -> None:
    name, prefix = f"role-{uuid.uuid4().hex[:8]}", f"/role_{uuid.uuid4().hex}"
    server = EmbeddedClickHouse(tmp_path / "server", zookeeper=zookeeper.hosts, keeper_map_prefix=prefix)
    table = f"{DATABASE}.t"
    job = Job(name, tmp_path, kafka.bootstrap, [server.url], tables={name: table})
    kafka.create_topic(name, 1)
    statements = [sql for one in all_grants(load(job.file(), overrides={"clickhouse.user": ROLE})) for sql in one.sql]
    queries = "".join(f"<query>{escape(sql.removesuffix(f' TO `{ROLE}`'))}</query>" for sql in statements)
    server.users_xml = f"<roles><{ROLE}><grants>{queries}</grants></{ROLE}></roles>"
    server.users = (
        DEFAULT,
        ClickHouseUser(USER, grants=(f"GRANT {ROLE}",)),
        ClickHouseUser("nobody", grants=("GRANT SHOW DATABASES ON x.*",)),
    )
    with server:
        command(server.url, f"CREATE DATABASE {DATABASE}")
        command(
            server.url, f"CREATE TABLE {table} (id UInt64, {METADATA}) ENGINE = MergeTree ORDER BY id SETTINGS {WINDOW}"
        )
        for user, code in ((USER, 0), ("nobody", 1)):
            result = CliRunner().invoke(app, ["doctor", "-c", str(job.file()), "--set", f"clickhouse.user={user}"])
            assert result.exit_code == code, result.output
            assert ("GRANT" in result.output) == bool(code)
