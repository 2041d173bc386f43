"""Which rights a user lacks, and the statement that grants them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chsink.clickhouse.checks.servers import system_grant_findings
from chsink.findings import Severity


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
    [finding] = system_grant_findings(Server("mutations", "processes"), "job")
    assert finding.severity is Severity.ERROR
    assert finding.sentence == "at http://a this user may not SELECT on system.mutations, system.processes"
    grants = "GRANT SELECT ON system.mutations TO `job`; GRANT SELECT ON system.processes TO `job`"
    assert finding.fix == f"run {grants}"


def test_a_user_that_may_read_all_of_them() -> None:
    [finding] = system_grant_findings(Server(), "job")
    assert finding.severity is Severity.OK and "system.mutations" in finding.sentence
