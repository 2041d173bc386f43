"""The control topic is made or refused, and who may not use it is told which ACL is missing: on real brokers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ConfigResource,
    ResourcePatternType,
    ResourceType,
)
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from chsink.cli.doctor import _samples_of_mirror
from chsink.config import load
from chsink.embedded.kafka import EmbeddedKafka
from chsink.errors import PreflightError, UnavailableError, preflight
from chsink.findings import Finding, Severity
from chsink.kafka.admin import open_admin
from chsink.mirror.checks import mirror_findings
from chsink.mirror.control import Names
from chsink.mirror.failures import as_error
from chsink.mirror.opening import open_mirror
from chsink.mirror.task import Share
from chsink.mirror.topic import KEPT_MS, PARTITIONS, ensure_control_topic, kafka_findings
from chsink.statemachine.commit.resolve import TableVerdict
from chsink.statemachine.ranges import OffsetRange, TopicPartition
from tests.integration.mirror.bench import SCHEMA, Bench
from tests.support.kafka import produce

pytestmark = pytest.mark.slow
MakeBench = Callable[..., Bench]


def findings(bench: Bench) -> list[Finding]:
    """What ``chsink doctor`` says of the mirror."""
    config = load(bench.job_file())
    return list(mirror_findings(config, open_admin(config)))


def problems(bench: Bench) -> list[Finding]:
    return [f for f in findings(bench) if f.severity is not Severity.OK]


def settings(names: Names) -> dict[str, str]:
    client = AdminClient(dict(names.options))
    [found] = client.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, names.topic)]).values()
    return {name: entry.value for name, entry in found.result().items()}


def test_a_control_topic_that_is_missing_is_created(make_bench: MakeBench) -> None:
    """E-1: a second start leaves it alone."""
    bench = make_bench()
    bench.kafka.delete_topic(bench.control_topic)
    assert not problems(bench)
    for _ in range(2):
        ensure_control_topic(bench.names)
    found = settings(bench.names)
    assert (found["cleanup.policy"], found["retention.ms"]) == ("delete", str(KEPT_MS))
    assert len(bench.admin.partitions([bench.control_topic])) == PARTITIONS
    assert not problems(bench)


def test_what_stands_in_the_way_is_named(make_bench: MakeBench) -> None:
    """E-1, F-5, W-2: all of it at once."""
    bench = make_bench(tables=("orders", "archive"))
    bench.catalog().drop_table("shop.archive")
    with bench.catalog().load_table("shop.orders").transaction() as change:
        change.set_properties({"write.format.default": "orc"})
    bench.kafka.delete_topic(bench.control_topic)
    bench.kafka.create_topic(bench.control_topic, 1, {"cleanup.policy": "compact"})
    foreign = joined(bench, bench.group)
    assert [(f.severity, f.id) for f in problems(bench)] == [
        (Severity.ERROR, preflight.MIRROR_CONTROL_COMPACTED.id),
        (Severity.ERROR, preflight.MIRROR_GROUP_TAKEN.id),
        (Severity.ERROR, preflight.MIRROR_TABLE_FORMAT.id),
        (Severity.ERROR, preflight.MIRROR_NO_TABLE.id),
    ]
    foreign.close()


def joined(bench: Bench, group: str) -> Consumer:
    """A program that consumes the bench's topic as a member of this group."""
    foreign = Consumer({"bootstrap.servers": bench.kafka.bootstrap, "group.id": group, "client.id": "somebody"})
    foreign.subscribe([bench.topic])
    for _ in range(100):
        foreign.poll(0.1)
        if foreign.assignment():
            break
    return foreign


def test_none_of_the_groups_has_members(make_bench: MakeBench) -> None:
    """T-4.  ⚑ That of a driver whose coordinator runs apart was not asked for."""
    bench = make_bench()
    names = bench.names
    assert {names.group, names.control_group, names.owner_group, names.driver_group} == set(names.groups)
    foreign = joined(bench, names.driver_group)
    [taken] = [f for f in problems(bench) if f.severity is Severity.ERROR]
    assert taken.id == preflight.MIRROR_GROUP_TAKEN.id and f"group {names.driver_group}," in taken.sentence
    foreign.close()


def test_a_catalog_that_is_away(make_bench: MakeBench) -> None:
    bench = make_bench(tables=("orders", "archive"))
    job = bench.job_file()
    (bench.folder / "unreadable.db").mkdir()
    job.write_text(job.read_text().replace("catalog.db", "unreadable.db"))
    config = load(job)
    with pytest.raises(UnavailableError, match="CHS-715"):
        open_mirror(config, open_admin(config))
    [finding] = mirror_findings(config, open_admin(config))
    assert (finding.severity, finding.id) == (Severity.ERROR, "CHS-715")
    job.write_text(job.read_text().replace("unreadable.db", "nowhere/catalog.db"))
    [finding] = mirror_findings(load(job), open_admin(config))
    assert (finding.severity, finding.id) == (Severity.ERROR, "CHS-265")


def test_a_catalog_file_that_was_lost_is_not_replaced_by_an_empty_one(make_bench: MakeBench) -> None:
    """⚑ CHS-262 said "create it": a table created in the empty catalog would have got every record again."""
    bench = make_bench()
    job = bench.job_file()
    lost = bench.folder / "catalog.db"
    lost.rename(bench.folder / "kept.db")
    config = load(job)
    [finding] = mirror_findings(config, open_admin(config))
    assert finding.id == "CHS-265" and str(lost) in finding.sentence and not lost.exists()
    (bench.folder / "kept.db").rename(lost)
    assert all(found.severity is not Severity.ERROR for found in mirror_findings(config, open_admin(config)))


def test_a_dry_run_decodes_for_the_tables_of_the_mirror(make_bench: MakeBench) -> None:
    """What one table takes, another may refuse."""
    strict = Schema(NestedField(1, "id", LongType(), required=True), NestedField(2, "name", LongType()))
    bench = make_bench(tables=("orders", "archive"), schemas={"archive": strict})
    bench.produce([1, 2])
    fits, refuses = sampled(bench.job_file())
    assert (fits.severity, fits.id) == (Severity.OK, "CHS-507") and "Iceberg table shop.orders" in fits.sentence
    assert (refuses.severity, refuses.id) == (Severity.ERROR, "CHS-507")
    assert ": 2 of 2 sampled records do not fit Iceberg table shop.archive, column name: " in refuses.sentence
    assert refuses.sentence.endswith("the first is at partition 0 offset 0")


def sampled(job: Path) -> list[Finding]:
    """What a dry run says of the mirror."""
    return list(_samples_of_mirror(config := load(job), open_admin(config), 10))


def test_a_dry_run_decodes_for_tables_that_do_not_exist_yet(make_bench: MakeBench) -> None:
    """⚑ It said nothing of them.  And a required column of the key was missing in each record."""
    bench = make_bench(tables=("orders", "archive"))
    produce(bench.kafka.bootstrap, bench.topic, 0, [{"name": "1"}, {"name": "x"}], key=b"a")
    for name in bench.tables:
        bench.catalog().drop_table(f"shop.{name}")
    job = bench.job_file()
    new = 'table = "shop.orders"\nauto_create = true\nkey_format = "string"\nkey_columns = ["key"]\n'
    new += 'create = { types = { name = "long" }, identifier = ["key"] }\n'
    job.write_text(job.read_text().replace('table = "shop.orders"\n', new))
    refused, undecoded = sampled(job)
    planned = "1 of 2 sampled records do not fit Iceberg table shop.orders, which the next start creates, column name: "
    assert (refused.severity, refused.id) == (Severity.ERROR, "CHS-507") and planned in refused.sentence
    assert (undecoded.severity, undecoded.id) == (Severity.INFO, "CHS-509")
    assert "Iceberg table shop.archive does not exist, or cannot be written: the sample" in undecoded.sentence
    [missing] = [f for f in mirror_findings(load(job), open_admin(load(job))) if f.severity is Severity.ERROR]
    assert missing.id == "CHS-262" and "shop.archive" in missing.sentence
    job.write_text(job.read_text().replace('table = "shop.archive"\n', 'table = "shop.archive"\nauto_create = true\n'))
    assert [(f.severity, f.id) for f in sampled(job)] == [(Severity.ERROR, "CHS-507"), (Severity.OK, "CHS-507")]
    assert not any(f.severity is Severity.ERROR for f in mirror_findings(load(job), open_admin(load(job)))), (
        "as it says"
    )


@pytest.mark.parametrize("others", [[0], []], ids=["beside others", "alone"])
def test_only_a_missing_partition_concerns_the_state_of_clickhouse(make_bench: MakeBench, others: list[int]) -> None:
    """⚑ A missing topic of a job that has a mirror alone was told to reset ClickHouse's state; and Kafka "does not answer"
    (CHS-702) who asked about one missing partition alone.
    """
    bench = make_bench()
    with pytest.raises(PreflightError) as no_topic:
        bench.admin.log_starts([TopicPartition(f"{bench.topic}-x", 0)])
    with pytest.raises(PreflightError) as no_partition:
        bench.admin.log_ends([TopicPartition(bench.topic, number) for number in (*others, 99)])
    assert {no_topic.value.id, no_partition.value.id} == {"CHS-201"}
    assert "state reset" not in no_topic.value.hint
    assert f"`chsink state reset {bench.topic} 99`" in no_partition.value.hint


@pytest.mark.soak
def test_a_dropped_table_is_not_one_to_be_created(make_bench: MakeBench) -> None:
    """⚑ The fix said to set auto_create, which was set."""
    bench = make_bench()
    coordinator = bench.coordinator()
    bench.hand_over(*bench.produce([1, 2]))
    bench.round(coordinator)
    coordinator.close()
    bench.catalog().drop_table("shop.orders")
    job = bench.job_file()
    job.write_text(job.read_text().replace('table = "shop.orders"\n', 'table = "shop.orders"\nauto_create = true\n'))
    [missing] = [f for f in mirror_findings(load(job), open_admin(load(job))) if f.severity is Severity.ERROR]
    assert missing.id == "CHS-262" and "the mirror has read its topics before" in missing.sentence
    assert "set auto_create" not in missing.fix and "chsink mirror resolve shop.orders" in missing.fix

    bench.catalog().create_table("shop.orders", SCHEMA)  # as it says
    bench.resolve(TableVerdict.REREAD)
    bench.rounds(bench.coordinator(), 2)
    assert bench.landed() == bench.sent()


def rule(
    bench: Bench,
    kind: ResourceType,
    name: str,
    pattern: ResourcePatternType,
    operation: AclOperation,
    permission: AclPermissionType,
) -> None:
    client = AdminClient(dict(bench.names.options))
    acl = AclBinding(kind, name, pattern, "User:ANONYMOUS", "*", operation, permission)
    for future in client.create_acls([acl]).values():
        future.result()


def test_a_missing_right_is_named_with_its_acl(guarded: EmbeddedKafka, tmp_path: Path) -> None:
    """On transactional ids, groups and the topic."""
    bench = Bench(guarded, tmp_path)
    assert not [f for f in problems(bench) if f.severity is Severity.ERROR]
    topic = ResourceType.TOPIC, bench.control_topic, ResourcePatternType.LITERAL
    rule(bench, *topic, AclOperation.ALL, AclPermissionType.ALLOW)
    rule(bench, *topic, AclOperation.WRITE, AclPermissionType.DENY)
    assert [f.fix for f in problems(bench) if f"--operation Write --operation Describe --topic {topic[1]}" in f.fix]
    rule(bench, *topic, AclOperation.DESCRIBE_CONFIGS, AclPermissionType.DENY)
    [hidden] = [f for f in problems(bench) if f.severity is Severity.WARNING]
    assert (hidden.id, f"--operation DescribeConfigs --topic {topic[1]}" in hidden.fix) == ("CHS-250", True), hidden
    ids = ResourceType.TRANSACTIONAL_ID, bench.group, ResourcePatternType.PREFIXED
    rule(bench, *ids, AclOperation.ALL, AclPermissionType.DENY)
    assert [f.fix for f in problems(bench) if f"--transactional-id {bench.group}" in f.fix]
    with pytest.raises(Exception) as refused:  # noqa: PT011 - it becomes an error of the catalogue below
        bench.coordinator()
    error = as_error(refused.value, bench.names)
    assert isinstance(error, PreflightError) and f"--transactional-id {bench.group}" in error.hint, refused.value
    groups = ResourceType.GROUP, bench.group, ResourcePatternType.PREFIXED
    rule(bench, *groups, AclOperation.ALL, AclPermissionType.DENY)
    assert [f.fix for f in problems(bench) if f.severity is Severity.ERROR and f"--group {bench.group}" in f.fix]


def test_rights_that_are_missing_before_the_control_topic_exists(guarded: EmbeddedKafka, tmp_path: Path) -> None:
    """Q-3.  ⚑ "The first start creates it", and the start was refused.  Doctor itself does not create it."""
    bench = Bench(guarded, tmp_path)
    names = replace(bench.names, topic=f"{bench.control_topic}-new")

    def missing() -> list[str]:
        return [f.fix for f in kafka_findings(names) if f.severity is not Severity.OK]

    assert not missing()
    ids = ResourceType.TRANSACTIONAL_ID, bench.group, ResourcePatternType.PREFIXED
    rule(bench, *ids, AclOperation.ALL, AclPermissionType.DENY)
    [fix] = missing()
    assert f"--transactional-id {bench.group}" in fix
    topic = ResourceType.TOPIC, names.topic, ResourcePatternType.LITERAL
    for where in (topic, (ResourceType.BROKER, "kafka-cluster", ResourcePatternType.LITERAL)):
        rule(bench, *where, AclOperation.ALL, AclPermissionType.ALLOW)
        rule(bench, *where, AclOperation.CREATE, AclPermissionType.DENY)
    assert f"--operation Create --topic {names.topic}" in missing()[0]
    assert names.topic not in AdminClient(dict(names.options)).list_topics().topics
    with pytest.raises(PreflightError, match="CHS-250"):
        ensure_control_topic(names)


def test_an_event_that_is_too_large(make_bench: MakeBench) -> None:
    """Nothing of its range is handed over; afterwards it lands once."""
    bench = make_bench()
    coordinator = bench.coordinator()
    piece = OffsetRange(*bench.produce([1]))
    small = replace(bench.names, options={**bench.names.options, "message.max.bytes": "1000"})
    feeds = replace(bench.feeds(), names=small)
    share = Share(bench.tp(), piece)
    with pytest.raises(PreflightError, match="CHS-251"):
        feeds.hand_over(share, bench.records()(piece))
    bench.hand_over(piece.start, piece.end)
    bench.round(coordinator)
    assert bench.landed() == bench.sent()
