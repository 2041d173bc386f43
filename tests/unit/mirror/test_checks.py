"""What the mirror does not write is refused by name; the control topic keeps what it needs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import parse_transform
from pyiceberg.types import ListType, LongType, MapType, NestedField, StringType, StructType

from chsink.errors import PreflightError, UnavailableError, preflight
from chsink.errors.entry import Entry
from chsink.findings import Severity
from chsink.mirror.checks import other_sinks, table_findings
from chsink.mirror.control import Names
from chsink.mirror.failures import in_words
from chsink.mirror.tables import MirrorTable, PropertyKeys
from chsink.mirror.topic import KEPT_MS, Settings, _admin, _settings, settings_findings
from chsink.statemachine.commit.chain import Chain, Link, encode
from chsink.statemachine.ranges import TopicPartition

Open = Callable[[], Catalog]
FLAT = Schema(NestedField(1, "id", LongType(), required=True), NestedField(2, "name", StringType()))
KEYS = StructType(NestedField(4, "a", LongType()))
KEYED = Schema(NestedField(1, "tags", ListType(2, StringType())), NestedField(3, "m", MapType(5, KEYS, 6, LongType())))
UNKNOWN = PartitionSpec(PartitionField(2, 1000, parse_transform("zorder[2]"), "by_name"))
SETTINGS = Settings(4, 3, 3, "delete", KEPT_MS, -1, 1_048_588)


def test_a_table_that_the_mirror_can_write(open_catalog: Open) -> None:
    table = open_catalog().create_table("shop.orders", FLAT, properties={"write.format.default": "PARQUET"})
    [finding] = table_findings("shop.orders", table)
    assert (finding.severity, finding.sentence) == (
        Severity.OK,
        "Iceberg table shop.orders: 2 columns, format version 2, Parquet, unpartitioned",
    )


@pytest.mark.parametrize(
    ("made", "entry", "words"),
    [
        ({"partition_spec": UNKNOWN}, preflight.MIRROR_TABLE_PARTITIONED, "by_name: unknown transform"),
        ({"properties": {"format-version": "1"}}, preflight.MIRROR_TABLE_VERSION, "version 1"),
        ({"properties": {"write.format.default": "orc"}}, preflight.MIRROR_TABLE_FORMAT, "orc"),
        ({"properties": {"write.format.default": "avro"}}, preflight.MIRROR_TABLE_FORMAT, "avro"),
        ({"schema": KEYED}, preflight.MIRROR_TABLE_COLUMNS, "m: a map whose keys are not single values"),
    ],
)
def test_a_table_that_is_beyond_the_mirror(open_catalog: Open, made: dict[str, Any], entry: Entry, words: str) -> None:
    """W-2 and the limits."""
    table = open_catalog().create_table("shop.orders", **{"schema": FLAT, **made})
    [finding] = table_findings("shop.orders", table)
    assert (finding.severity, finding.id) == (Severity.ERROR, entry.id)
    assert words in finding.sentence


def test_a_column_with_a_default_is_refused(open_catalog: Open) -> None:
    """⚑ W-5: a record without the field would get null, not the default.  pyiceberg makes such columns."""
    table = open_catalog().create_table("shop.orders", FLAT)
    with table.update_schema() as update:
        update.add_column("n", LongType(), default_value=7)
    [finding] = table_findings("shop.orders", table.refresh())
    assert (finding.id, "n: a write-default" in finding.sentence) == (preflight.MIRROR_TABLE_COLUMNS.id, True)


@pytest.mark.parametrize("kind", ["variant", "geometry(srid:4326)"])
def test_a_type_that_pyiceberg_does_not_know_is_named(open_catalog: Open, kind: str) -> None:
    """⚑ W-5: it is no outage, after which the mirror would try again for ever."""
    table = open_catalog().create_table("shop.orders", FLAT)
    path = Path(table.metadata_location.removeprefix("file://"))
    metadata = json.loads(path.read_text())
    metadata["schemas"][0]["fields"].append({"id": 3, "name": "v", "type": kind, "required": False})
    path.write_text(json.dumps({**metadata, "format-version": 3, "next-row-id": 0, "last-column-id": 3}))
    names = Names({}, "control", "chsink-sink", 0.1)
    said = f"[CHS-261] Iceberg table shop.orders has columns that the mirror cannot fill: {kind}\n"
    with pytest.raises(PreflightError, match=re.escape(said)), in_words(names):
        MirrorTable(open_catalog(), "shop.orders", PropertyKeys("chsink-orders", "control")).load()


def test_a_renamed_sink_does_not_land_its_records_twice(open_catalog: Open) -> None:
    """⚑ Nothing in the table speaks of the new name; the topic is still the one whose records it holds."""
    old, new = PropertyKeys("chsink-old", "control"), PropertyKeys("chsink-new", "control")
    begun = Link("id-1", 0, 5)
    chain = Chain({TopicPartition("orders", 0): begun, TopicPartition("other", 0): Link("id-2", 0, 0)})
    table = open_catalog().create_table("shop.orders", FLAT, properties={old.chain: encode(chain)})
    [finding] = other_sinks("shop.orders", table, new, {"id-1", "id-2"})
    assert (finding.severity, finding.id) == (Severity.ERROR, preflight.MIRROR_OTHER_SINK.id)
    assert "records of orders, other from sink old" in finding.sentence
    assert not [*other_sinks("shop.orders", table, old, {"id-1"})], "its own"
    assert not [*other_sinks("shop.orders", table, new, {"id-3"})], "nothing of these topics"


@pytest.mark.parametrize(
    ("settings", "severity", "entry", "words"),
    [
        (SETTINGS, Severity.OK, preflight.MIRROR_CONTROL_COMPACTED, "4 partitions, events are kept for 720 h"),
        (replace(SETTINGS, retention_ms=-1), Severity.OK, preflight.MIRROR_CONTROL_COMPACTED, "for ever"),
        (
            replace(SETTINGS, cleanup_policy="compact,delete"),
            Severity.ERROR,
            preflight.MIRROR_CONTROL_COMPACTED,
            "cleanup.policy=compact,delete",
        ),
        (
            replace(SETTINGS, retention_ms=7 * 86_400_000),
            Severity.WARNING,
            preflight.MIRROR_CONTROL_SHORT,
            "for 168 h",
        ),
        (
            replace(SETTINGS, retention_bytes=10**9),
            Severity.WARNING,
            preflight.MIRROR_CONTROL_SHORT,
            "1000000000 bytes",
        ),
    ],
)
def test_what_the_control_topic_keeps(settings: Settings, severity: Severity, entry: Entry, words: str) -> None:
    """E-1."""
    [finding] = settings_findings("control", settings)
    assert (finding.severity, finding.id) == (severity, entry.id)
    assert words in finding.sentence


@pytest.mark.parametrize(
    ("settings", "severity", "entry"),
    [
        (replace(SETTINGS, max_message_bytes=500_000), Severity.ERROR, preflight.MIRROR_CONTROL_SMALL),
        (replace(SETTINGS, replicas=1), Severity.WARNING, preflight.MIRROR_CONTROL_ONE_COPY),
    ],
)
def test_what_the_control_topic_lacks(settings: Settings, severity: Severity, entry: Entry) -> None:
    """E-1: beside what it keeps."""
    first, second = settings_findings("control", settings)
    assert (first.severity, first.id, second.severity) == (severity, entry.id, Severity.OK)


def test_one_replica_is_all_that_one_broker_has() -> None:
    [finding] = settings_findings("control", replace(SETTINGS, replicas=1, brokers=1))
    assert finding.severity is Severity.OK


def test_a_broker_that_is_away_is_not_a_missing_right() -> None:
    names = Names({"bootstrap.servers": "127.0.0.1:1", "log_level": "0"}, "control", "chsink-sink", 0.1)
    with pytest.raises(UnavailableError, match="CHS-716"):
        _settings(names, _admin(names))
