"""Which rights a user lacks, and the statement that grants them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from chsink.clickhouse.checks.rights import system_grant_findings
from chsink.clickhouse.grants import RIGHTS, SYSTEM_TABLES, On, Use, all_grants
from chsink.config import Config
from chsink.findings import Severity
from chsink.state import sql_files

CHECKOUT = Path(__file__).parents[3]


def config(**sections: Any) -> Config:
    whole = {
        "sink": {"name": "s"},
        "kafka": {"bootstrap": "b:1"},
        "route": [{"topic": "t", "table": "t"}],
        "clickhouse": {"endpoints": ["http://a"], "user": "job"},
    }
    return Config.from_mapping({**whole, **sections})


class Server:
    """Answers CHECK GRANT."""

    url = "http://a"

    def __init__(self, *refused: str) -> None:
        self.refused = refused

    def query(self, sql: str, parameters: Mapping[str, Any] | None = None) -> list[tuple[Any, ...]]:
        assert sql.startswith("CHECK GRANT SELECT ON system.")
        return [(int(not any(sql.endswith(f".{name}") or f".{name}," in sql for name in self.refused)),)]


def test_system_tables_that_a_user_may_not_read() -> None:
    """They would be missed in the middle of a recovery only."""
    [finding] = system_grant_findings(Server("mutations", "processes"), config())
    assert finding.severity is Severity.ERROR
    assert finding.sentence == "at http://a this user may not SELECT on system.mutations, system.processes"
    grants = "GRANT SELECT ON system.mutations TO `job`; GRANT SELECT ON system.processes TO `job`"
    assert finding.fix == f"run {grants}"


def test_a_user_that_may_read_all_of_them() -> None:
    [finding] = system_grant_findings(Server(), config())
    assert finding.severity is Severity.OK and "system.mutations" in finding.sentence


def statements(made: Config) -> dict[tuple[tuple[str, ...], Use], tuple[str, ...]]:
    return {(grants.urls, grants.use): grants.sql for grants in all_grants(made)}


def test_the_grants_of_the_smallest_job() -> None:
    found = statements(config())
    assert {urls for urls, _ in found} == {("http://a:8123",)}
    of = {use: sql for (_, use), sql in found.items()}
    assert set(of) == {Use.RUN, Use.PLAIN, Use.REPLICATED, Use.STATE, Use.STATE_TABLE, Use.VERIFY}
    looked_at = "`_kafka_topic`, `_kafka_partition`, `_kafka_offset`, `_part`"
    assert of[Use.RUN][0] == f"GRANT INSERT, SELECT({looked_at}) ON `default`.`t` TO `job`"
    assert of[Use.STATE] == ("GRANT SELECT, INSERT, ALTER UPDATE ON `default`.`chsink_state` TO `job`",)
    assert of[Use.STATE_TABLE][1] == "GRANT TABLE ENGINE ON KeeperMap TO `job`"
    assert of[Use.VERIFY] == ("GRANT SELECT ON `default`.`t` TO `job`",)


def test_each_shard_has_its_database_and_its_part() -> None:
    two = [{"url": "http://a", "replicas": ["http://a2"], "database": "one"}, {"url": "http://b", "database": "two"}]
    found = statements(
        config(
            clickhouse={"endpoints": two, "user": "job", "shard_key": ["id"]},
            errors={"on_bad_value": "dead_letter"},
            dead_letters={"table": "bad"},
            state={"url": "http://c"},
            schema={"auto_create": True},
        )
    )
    first, second, third = ("http://a:8123", "http://a2:8123"), ("http://b:8123",), ("http://c:8123",)
    assert "ON `one`.`t` TO" in found[first, Use.RUN][0] and "ON `two`.`t` TO" in found[second, Use.RUN][0]
    assert found[first, Use.DLQ] == ("GRANT SELECT ON `one`.`bad` TO `job`",)
    assert {use for urls, use in found if urls == third} == {Use.STATE, Use.STATE_TABLE}
    assert found[second, Use.CREATE][1] == "GRANT TABLE ENGINE ON ReplicatedMergeTree TO `job`"
    assert found[second, Use.SHARDS] == ("GRANT SELECT ON system.clusters TO `job`",)
    assert not {(second, Use.LETTERS), (second, Use.DLQ), (second, Use.STATE)} & found.keys()


def test_on_cluster() -> None:
    found = statements(config(schema={"cluster": "c", "evolution": "add_columns"}))
    assert {urls for urls, _ in found} == {()}
    assert all(each.startswith("GRANT ON CLUSTER `c` ") for sql in found.values() for each in sql)
    added = ("ALTER ADD COLUMN ON `default`.`t`", "CLUSTER ON *.*")
    assert found[(), Use.ADD] == tuple(f"GRANT ON CLUSTER `c` {each} TO `job`" for each in added)


def test_the_file_of_an_administrator_is_the_list() -> None:
    names = {"database": "`d`", "table": "`t`", "path": "/p", "user": "u"}
    listed = ", ".join(right.privilege for right in RIGHTS if (right.use, right.on) == (Use.STATE, On.STATE))
    assert sql_files.statements(sql_files.GRANTS, names) == [f"GRANT {listed} ON `d`.`t` TO u"]


def test_each_system_table_that_is_read_is_in_the_list() -> None:
    """Or shown to everybody: seen on a server by a user without any right to it.  A hint is for an administrator."""
    named = re.compile(r"\b(?:FROM|JOIN|source=\"|_PARTS = \") ?(system\.\w+)")
    sources = [file for file in (CHECKOUT / "chsink").rglob("*.py") if file.parent.name != "errors"]
    files = [*sources, *(CHECKOUT / "sql").glob("*.sql")]
    found = {table for file in files for table in named.findall(file.read_text(encoding="utf-8"))}
    found |= {f"system.{kind}merge_tree_settings" for kind in ("", "replicated_")}
    assert found - {"system.tables", "system.columns", "system.settings"} == {*SYSTEM_TABLES, "system.clusters"}
