"""``chsink kafka acls``: what it prints for a job file.  ``tests/integration/security`` runs a job with exactly that."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from chsink.cli.main import app
from tests.support.acl_lines import allowed

JOB = """
sink = { name = "s" }
route = [{ topic = "a", table = "t" }, { topic = "b", table = "u" }]
clickhouse = { endpoints = ["http://one:8123"] }
[kafka]
bootstrap = "k:9093"
[kafka.options]
"security.protocol" = "SASL_SSL"
"sasl.mechanism" = "SCRAM-SHA-512"
"sasl.jaas.config" = { env = "JAAS" }
"""
LETTERS = """
[dead_letters]
topic = "dead"
"""
MIRROR = """
[mirror]
enabled = true
catalog = { name = "lake" }
control_topic = "control"
route = [{ topic = "b", table = "x.y" }, { topic = "c", table = "x.z" }]
"""


@pytest.fixture(autouse=True)
def login(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAAS", 'a.ScramLoginModule required username="land er" password="hush";')


def run(folder: Path, text: str, *more: str) -> Result:
    file = folder / "job.toml"
    file.write_text(text, encoding="utf-8")
    return CliRunner().invoke(app, ["kafka", "acls", "-c", str(file), *more])


def printed(folder: Path, text: str, *more: str) -> set[tuple[str, str, str, bool]]:
    """(operation, kind, name, prefixed) of each ACL."""
    result = run(folder, text, *more)
    assert result.exit_code == 0, result.output
    return {(one.operation, one.kind, one.name, one.prefixed) for one in allowed(result.stdout)}


PLAIN = {
    *((operation, "topic", topic, False) for operation in ("Read", "DescribeConfigs") for topic in ("a", "b")),
    ("Read", "group", "chsink-s/", True),
}
OF_LETTERS = {
    *((operation, "topic", "dead", False) for operation in ("Read", "Write", "DescribeConfigs")),
    ("Write", "transactional-id", "chsink-s/dead-letters/", True),
}
OF_MIRROR = {
    *((operation, "topic", "c", False) for operation in ("Read", "DescribeConfigs")),
    *((operation, "topic", "control", False) for operation in ("Read", "Write", "DescribeConfigs", "Create")),
    ("Read", "group", "chsink-s", False),
    ("Write", "transactional-id", "chsink-s/", True),
}


def test_exactly_what_the_job_file_asks_for(tmp_path: Path) -> None:
    assert printed(tmp_path, JOB) == PLAIN
    assert printed(tmp_path, JOB + LETTERS) == PLAIN | OF_LETTERS
    assert printed(tmp_path, JOB + LETTERS + MIRROR) == PLAIN | OF_LETTERS | OF_MIRROR
    assert printed(tmp_path, JOB + MIRROR.replace("true", "false")) == PLAIN


def test_the_lines_are_for_a_shell_and_hold_no_secret(tmp_path: Path) -> None:
    result = run(tmp_path, JOB, "--tool", "/opt/kafka/bin/kafka-acls.sh --command-config root.properties")
    assert (
        "/opt/kafka/bin/kafka-acls.sh --command-config root.properties --bootstrap-server k:9093 --add "
        "--allow-principal 'User:land er' --operation Read --operation DescribeConfigs --topic a --topic b\n"
    ) in result.stdout
    assert "hush" not in result.output


def test_as_json(tmp_path: Path) -> None:
    found = json.loads(run(tmp_path, JOB, "--json", "--principal", "CN=x").stdout)
    assert found["principal"] == "User:CN=x"
    assert [(acl["resource"], acl["names"], acl["pattern"]) for acl in found["acls"]] == [
        ("topic", ["a", "b"], "literal"),
        ("group", ["chsink-s/"], "prefixed"),
    ]


def test_topics_of_a_pattern_are_named_by_hand(tmp_path: Path) -> None:
    pattern = JOB.replace('topic = "a", table = "t"', 'topic_pattern = "x.*", table = "{topic}"')
    assert ("Read", "topic", "xy", False) in printed(tmp_path, pattern, "--topic", "xy")


def test_a_user_that_the_job_file_does_not_name(tmp_path: Path) -> None:
    result = run(tmp_path, JOB.partition("[kafka.options]")[0])
    assert result.exit_code == 2
    assert "--principal User:CN=" in result.output
