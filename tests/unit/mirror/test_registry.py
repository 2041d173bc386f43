"""What doctor and a start of the mirror ask the Schema Registry: for each topic that only the mirror reads with ids."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from chsink.checks import mirror_registry
from chsink.config import load
from chsink.findings import Severity
from chsink.mirror.opening import open_mirror
from tests.support.registry import RegistryService
from tests.unit.config.conftest import LEAST

ROUTES = """
[mirror]
enabled = true
catalog = { name = "lake", type = "sql", uri = "sqlite://", warehouse = "file:///none" }

[[mirror.route]]
topic = "order"
table = "shop.orders"
format = "avro"
key_format = "avro"
key_columns = ["id"]

[[mirror.route]]
topic = "order"
table = "shop.all"
format = "avro"

[[mirror.route]]
topic = "plain"
table = "shop.plain"
"""


def test_a_topic_that_only_the_mirror_reads_is_looked_up(tmp_path: Path) -> None:
    """⚑ Its start would find nothing wrong, and each batch would fail."""
    job = tmp_path / "job.toml"
    with RegistryService() as service:
        client = SchemaRegistryClient({"url": service.url})
        client.register_schema("order-value", Schema('"string"', "AVRO"))
        client.close()
        job.write_text(f'{LEAST}\n[schema_registry]\nurl = "{service.url}"\nretry_for_s = 0\n{ROUTES}', "utf-8")
        mirror = open_mirror(load(job, environ={}), cast("Any", SimpleNamespace(topics=list)))

        found = list(mirror_registry(mirror.config))
        assert [finding.severity for finding in found] == [Severity.OK, Severity.OK, Severity.WARNING]
        assert "no subject order-key" in found[-1].sentence
        known = [("order", "order-value"), ("order", "order-key")]
        assert list(mirror_registry(mirror.config, known)) == []  # doctor has already looked them up
        service.broken = 503
        [finding] = mirror_registry(mirror.config)
        assert finding.severity is Severity.ERROR
