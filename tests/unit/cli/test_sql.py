"""``chsink sql distributed`` and ``grants``, of a job file.  The engine tests run what they print."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from typer.testing import CliRunner, Result

from chsink.cli.main import app

JOB = """
sink = { name = "s" }
kafka = { bootstrap = "localhost:9092" }
route = [{ topic = "o", table = "shop.orders" }, { topic = "p", table = "shop.orders" }, { topic = "c", table = "c" }]
[clickhouse]
endpoints = [{ url = "http://one:8123", weight = 2, replicas = ["http://one-b:8123"] }, "https://two:8443"]
shard_key = ["_kafka_key"]
hash_function = "cityHash64"
"""
ONE = JOB.replace(', "https://two:8443"', "").replace('shard_key = ["_kafka_key"]', "")


@pytest.fixture
def job(tmp_path: Path) -> Path:
    path = tmp_path / "job.toml"
    path.write_text(JOB, encoding="utf-8")
    return path


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["sql", "distributed", *map(str, arguments)])


def test_one_statement_for_each_table(job: Path) -> None:
    printed = run("-c", job, "--cluster", "shop", "--suffix", "_everywhere").stdout
    assert printed.count("CREATE TABLE") == 2
    assert "CREATE TABLE `shop`.`orders_everywhere` AS `shop`.`orders`\n" in printed
    assert "ENGINE = Distributed('shop', 'default', 'c', cityHash64(`_kafka_key`));" in printed
    assert "-- If default.c has no column _kafka_key, write rand() instead of the expression.\n" in printed


def test_the_cluster_has_the_jobs_shards(job: Path) -> None:
    root = ET.fromstring(run("-c", job, "--xml", "--port", "9001").stdout)
    shards = root.findall("remote_servers/chsink/shard")
    assert [shard.findtext("weight") for shard in shards] == ["2", "1"]
    replicas = [[{f.tag: f.text for f in replica} for replica in shard.findall("replica")] for shard in shards]
    assert replicas == [
        [{"host": "one", "port": "9001"}, {"host": "one-b", "port": "9001"}],
        [{"host": "two", "port": "9440", "secure": "1"}],
    ]


def test_one_shard_needs_no_expression(job: Path) -> None:
    job.write_text(ONE, encoding="utf-8")
    answer = json.loads(run("-c", job, "--json").stdout)
    assert "ENGINE = Distributed('chsink', 'shop', 'orders');" in answer["sql"]
    assert answer["cluster"].startswith("<clickhouse>")


def test_a_cluster_name_that_xml_cannot_hold(job: Path) -> None:
    assert run("-c", job, "--cluster", "a b").exit_code == 2


def test_databases_of_shards(job: Path) -> None:
    """An empty database in the table stands for each shard's own; a table named with its database is there everywhere."""
    job.write_text(JOB.replace("weight = 2", 'weight = 2, database = "first"'), encoding="utf-8")
    answer = json.loads(run("-c", job, "--json").stdout)
    assert "CREATE TABLE `default`.`c_all` AS `first`.`c`\nENGINE = Distributed('chsink', '', 'c', " in answer["sql"]
    assert "-- On a server without `first`.`c`, name its own shard's table after AS.\n" in answer["sql"]
    assert "CREATE TABLE `shop`.`orders_all` AS `shop`.`orders`\n" in answer["sql"]
    assert "Distributed('chsink', 'shop', 'orders', " in answer["sql"]
    databases = [e.text for e in ET.fromstring(answer["cluster"]).iter("default_database")]
    assert databases == ["first", "first", "default"]


def test_grants_are_grouped_by_server_and_by_what_needs_them(job: Path) -> None:
    result = CliRunner().invoke(app, ["sql", "grants", "-c", str(job)])
    assert result.exit_code == 0, result.output
    first, second = result.stdout.split("-- Run these on ")[1:]
    assert first.startswith("http://one:8123 and on http://one-b:8123\n") and second.startswith("https://two:8443\n")
    for part in (first, second):
        assert "\n-- For every job\nGRANT INSERT, SELECT(" in part
        assert part.count("ON `shop`.`orders` TO `default`;") == 2, "two topics share it: to run, and to verify"
    assert "chsink_state" in first and "chsink_state" not in second
    made = json.loads(CliRunner().invoke(app, ["sql", "grants", "-c", str(job), "--json"]).stdout)["grants"]
    statements = {f"{sql};" for one in made for sql in one["sql"]}
    assert statements == {line for line in result.stdout.splitlines() if line.startswith("GRANT")}
