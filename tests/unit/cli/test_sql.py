"""``chsink sql``: what it prints for a job file, and where that is to be run.  Other tests run what it prints."""

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


def dead_letters(job: Path, *more: str) -> str:
    arguments = ["sql", "dead-letters", "-c", str(job), "--set", "dead_letters.table=dead", *more]
    return CliRunner().invoke(app, arguments).stdout


def test_dead_letters_are_on_all_replicas_of_the_first_endpoint(job: Path) -> None:
    printed = dead_letters(job)
    assert printed.startswith(
        "-- Run this on http://one:8123 and on http://one-b:8123:\nCREATE TABLE `default`.`dead`\n"
    )
    engine = "ReplicatedMergeTree('/clickhouse/tables/{shard}/{database}/{table}', '{replica}')"
    assert printed.endswith(f"ENGINE = {engine}\nORDER BY (sink, _kafka_topic, _kafka_partition, _kafka_offset);\n\n")
    printed = dead_letters(job, "--set", "schema.cluster=shop")
    head = "-- Run this on http://one:8123:\nCREATE TABLE `default`.`dead` ON CLUSTER `shop`\n"
    assert printed.startswith(head) and "\nENGINE = ReplicatedMergeTree\nORDER BY" in printed
    [statement] = json.loads(dead_letters(job, "--json"))["statements"]
    assert statement["run_on"] == ["http://one:8123", "http://one-b:8123"]


def test_dead_letters_on_a_first_endpoint_without_replicas(job: Path) -> None:
    """Whatever the others have."""
    replica = ', replicas = ["http://one-b:8123"]'
    text = JOB.replace(replica, "").replace('"https://two:8443"', f'{{ url = "https://two:8443"{replica} }}')
    job.write_text(text, encoding="utf-8")
    for printed in (dead_letters(job), dead_letters(job, "--set", "schema.cluster=shop")):
        assert printed.startswith("-- Run this on http://one:8123:\nCREATE TABLE `default`.`dead`\n")
        assert "\nENGINE = MergeTree\n" in printed
        assert printed.endswith("\nSETTINGS non_replicated_deduplication_window = 10000;\n\n")


def test_target_tables_in_databases_of_shards(job: Path) -> None:
    """One statement for each database; text has the same column whatever the topic holds, so Kafka is not asked."""
    text = JOB.replace("weight = 2", 'weight = 2, database = "first"')
    job.write_text(text.replace('table = "c"', 'table = "c", format = "string"'), encoding="utf-8")
    arguments = ["sql", "create-table", "-c", str(job), "--topic", "c", "--json"]
    made = json.loads(CliRunner().invoke(app, arguments).stdout)["statements"]
    assert [each["run_on"] for each in made] == [["http://one:8123", "http://one-b:8123"], ["https://two:8443"]]
    heads = [each["sql"].splitlines()[0] for each in made]
    assert heads == [f"CREATE TABLE IF NOT EXISTS `{database}`.`c`" for database in ("first", "default")]
    assert all("ENGINE = ReplicatedMergeTree('" in each["sql"] for each in made)


def test_distributed_tables_on_a_cluster(job: Path) -> None:
    """Once for all servers, unless their statements differ."""
    printed = run("-c", job, "--set", "schema.cluster=shop").stdout
    assert printed.startswith("-- Run this on http://one:8123:\n")
    assert "CREATE TABLE `shop`.`orders_all` ON CLUSTER `shop` AS `shop`.`orders`\n" in printed
    job.write_text(JOB.replace("weight = 2", 'weight = 2, database = "first"'), encoding="utf-8")
    printed = run("-c", job, "--set", "schema.cluster=shop").stdout
    assert printed.startswith("-- Run this on each server that you query:\n") and "ON CLUSTER" not in printed


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
