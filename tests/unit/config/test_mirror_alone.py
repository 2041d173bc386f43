"""A job file of an Iceberg mirror alone needs neither ``[clickhouse]`` nor a ``[[route]]`` to it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from chsink.cli.main import app
from chsink.config import Config, InvalidConfigError, load, settings
from chsink.connect import connected

ALONE = """
[sink]
name = "lake"
[kafka]
bootstrap = "localhost:9092"
[mirror]
enabled = true
catalog = { name = "lake", type = "sql", uri = "sqlite:////tmp/catalog.db", warehouse = "file:///tmp/lake" }
[[mirror.route]]
topic = "orders"
table = "shop.orders"
"""
ROUTE = '[[route]]\ntopic = "orders"\ntable = "orders"\nformat = "raw"\n'
CLICKHOUSE = '[clickhouse]\nendpoints = ["http://localhost:8123"]\n'


def read(folder: Path, text: str) -> Config:
    job = folder / "job.toml"
    job.write_text(text, "utf-8")
    return load(job, environ={})


def test_a_mirror_alone_is_valid(tmp_path: Path) -> None:
    config = read(tmp_path, ALONE)
    assert config.required_mirror().topics == ("orders",)
    assert not [each for each in settings(config) if each.key.startswith("clickhouse")]
    shown = CliRunner().invoke(app, ["validate", "-c", str(tmp_path / "job.toml"), "--show"])
    assert shown.exit_code == 0, shown.output
    assert "sink lake, 1 topic mirrored to 1 Iceberg table, without ClickHouse" in shown.output


def test_a_route_without_clickhouse_says_how_the_mirror_reads_its_topic(tmp_path: Path) -> None:
    config = read(tmp_path, ALONE + ROUTE)
    assert config.mirror_format_of(config.mirror.routes[0]).type == "raw"


def test_what_needs_clickhouse_says_so(tmp_path: Path) -> None:
    config = read(tmp_path, ALONE)
    with pytest.raises(InvalidConfigError, match="CHS-112") as caught, connected(config):
        pass
    assert "`chsink mirror`" in caught.value.hint
    for command in (["run"], ["status"], ["state", "show"], ["verify"], ["sql", "grants"], ["sql", "distributed"]):
        at = ["-c", str(tmp_path / "job.toml")]
        sets = ["--set", f"sink.checkpoint={tmp_path}/checkpoint"] if command == ["run"] else []
        refused = CliRunner().invoke(app, [*command, *at, *sets])
        assert refused.exit_code == 2 and "CHS-112" in refused.output, (command, refused.output, refused.exception)


@pytest.mark.parametrize("text", [ALONE.replace("enabled = true", "enabled = false"), ALONE.split("[mirror]", 1)[0]])
def test_without_an_enabled_mirror_both_are_missing(tmp_path: Path, text: str) -> None:
    with pytest.raises(InvalidConfigError) as caught:
        read(tmp_path, text)
    assert [problem.key for problem in caught.value.problems] == ["clickhouse", "route"]
    assert {problem.id for problem in caught.value.problems} == {"CHS-103"}


def test_clickhouse_needs_a_route_beside_the_mirror_too(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfigError) as caught:
        read(tmp_path, ALONE + CLICKHOUSE)
    assert [problem.key for problem in caught.value.problems] == ["route"]


def test_dead_letters_need_clickhouse_even_where_a_route_names_the_topic(tmp_path: Path) -> None:
    """⚑ The mirror passes over records that become dead letters on the other side: without one, they would be lost."""
    dead = '[errors]\non_bad_value = "dead_letter"\n[dead_letters]\ntopic = "dead"\n'
    with pytest.raises(InvalidConfigError, match="CHS-115"):
        read(tmp_path, ALONE + ROUTE + dead)
    assert read(tmp_path, ALONE + ROUTE + dead + CLICKHOUSE)


def test_doctor_looks_at_the_mirror_only(tmp_path: Path) -> None:
    """Nothing answers here: what it could not ask says what it looked at."""
    job = tmp_path / "job.toml"
    job.write_text(ALONE.replace("localhost:9092", "127.0.0.1:1").replace("/tmp", str(tmp_path)), "utf-8")
    done = CliRunner().invoke(app, ["doctor", "-c", str(job), "--json", "--set", "kafka.timeout_s=1"])
    found = json.loads(done.stdout)
    assert found["error"] >= 1
    assert not [each for each in found["findings"] if "ClickHouse" in each["sentence"]]
