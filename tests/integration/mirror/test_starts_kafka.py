"""What stands in the way of the mirror in Kafka: what each message says is done, and each record lands once."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import sleep
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import (
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourcePatternType,
    ResourceType,
)
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from chsink.config import load
from chsink.embedded.kafka import EmbeddedKafka
from chsink.errors import PreflightError
from chsink.jvm import jars
from chsink.jvm.java import find_java
from chsink.kafka.admin import open_admin
from chsink.mirror.opening import open_mirror
from chsink.mirror.task import Share
from chsink.statemachine.ranges import OffsetRange
from tests.integration.mirror.bench import Bench
from tests.integration.mirror.commands import lands, problem, problems, run, start
from tests.integration.mirror.conftest import MakeBench
from tests.integration.mirror.test_control_topic import joined, rule
from tests.support.acl_lines import Allowed
from tests.support.secured_kafka import allow
from tests.support.told import Said, acls_of, named_in, says, topic_of, values_of

pytestmark = [pytest.mark.slow, pytest.mark.soak]


def set_topic(bench: Bench, values: dict[str, str]) -> None:
    """Settings of the control topic."""
    admin = AdminClient(dict(bench.names.options))  # it must outlive the answer
    changes = [ConfigEntry(n, v, incremental_operation=AlterConfigOpType.SET) for n, v in values.items()]
    topic = ConfigResource(ConfigResource.Type.TOPIC, bench.control_topic, incremental_configs=changes)
    [asked] = admin.incremental_alter_configs([topic]).values()
    asked.result()


def waiting(bench: Bench) -> None:
    """A mirror that has landed records; others wait for its next commit."""
    lands(bench)
    bench.hand_over(*bench.produce([7, 8]))


@pytest.mark.exit_of("MIRROR_CONTROL_COMPACTED")
@pytest.mark.exit_of("MIRROR_CONTROL_SHORT")
@pytest.mark.exit_of("MIRROR_CONTROL_SMALL")
@pytest.mark.parametrize(
    ("wrong", "entry"),
    [
        ({"cleanup.policy": "compact"}, "MIRROR_CONTROL_COMPACTED"),
        ({"cleanup.policy": "compact,delete"}, "MIRROR_CONTROL_COMPACTED"),
        ({"retention.ms": "3600000"}, "MIRROR_CONTROL_SHORT"),
        ({"retention.bytes": "1000000"}, "MIRROR_CONTROL_SHORT"),
        ({"max.message.bytes": "500000"}, "MIRROR_CONTROL_SMALL"),
    ],
)
def test_settings_of_the_control_topic(make_bench: MakeBench, wrong: dict[str, str], entry: str) -> None:
    bench = make_bench()
    waiting(bench)
    set_topic(bench, wrong)
    set_topic(bench, values_of(problem(bench, entry)))
    assert problems(bench) == {}
    lands(bench)


@pytest.mark.exit_of("MIRROR_CONTROL_COMPACTED")
def test_another_control_topic(make_bench: MakeBench) -> None:
    """⚑ What waits is named on the earlier one alone."""
    bench = make_bench()
    waiting(bench)
    set_topic(bench, {"cleanup.policy": "compact"})
    says(problem(bench, "MIRROR_CONTROL_COMPACTED"), "or name another topic in mirror.control_topic")
    bench.control_topic = f"{bench.control_topic}-2"
    assert problems(bench) == {}
    started = start(bench)
    assert started.exit_code == 0, started.output
    assert bench.landed() == bench.sent()
    lands(bench)


@pytest.mark.exit_of("MIRROR_EVENT_TOO_LARGE")
@pytest.mark.parametrize("where", ["topic", "client"])
def test_an_event_that_is_too_large(make_bench: MakeBench, where: str) -> None:
    """Nothing of its range is handed over."""
    bench = make_bench()
    lands(bench)
    job = bench.job_file()
    if where == "topic":
        set_topic(bench, {"max.message.bytes": "300"})
    else:
        own = '[kafka.client_options]\n"message.max.bytes" = "1000"\n[mirror]\n'
        job.write_text(job.read_text("utf-8").replace("[mirror]\n", own), "utf-8")
    piece, config = OffsetRange(*bench.produce([7])), load(job)
    with pytest.raises(PreflightError) as raised:
        open_mirror(config, open_admin(config)).feeds().hand_over(Share(bench.tp(), piece), bench.records()(piece))
    assert raised.value.name == "MIRROR_EVENT_TOO_LARGE"
    assert named_in(raised.value, "set max.message.bytes of") == bench.control_topic
    set_topic(bench, values_of(raised.value))
    says(raised.value, 'remove "message.max.bytes" from [kafka.client_options]')
    assert problems(bench) == {}, "with the job file as it was"
    lands(bench)


@pytest.mark.exit_of("MIRROR_GROUP_TAKEN")
def test_a_program_that_uses_the_mirrors_group(make_bench: MakeBench) -> None:
    """⚑ It moved the group past records that the mirror has not read."""
    bench = make_bench()
    lands(bench)
    _, end = bench.produce([2, 3])
    foreign = joined(bench, bench.group)
    foreign.commit(offsets=[TopicPartition(bench.topic, 0, end)], asynchronous=False)
    says(problem(bench, "MIRROR_GROUP_TAKEN"), "give that program another group.id")
    foreign.close()
    other = joined(bench, f"other-{uuid.uuid4()}")
    assert problems(bench) == {}
    lands(bench)
    other.close()


@pytest.mark.exit_of("MIRROR_RIGHT_MISSING")
@pytest.mark.parametrize("there", [False, True], ids=["no topic", "a topic that its user does not see"])
def test_rights_are_granted_one_by_one(guarded: EmbeddedKafka, tmp_path: Path, there: bool) -> None:
    """From a user who may use nothing of the mirror's, to one who has what the messages named, until it lands.
    ⚑ Doctor said of a topic that was there that the first start creates it.
    """
    bench = Bench(guarded, tmp_path)
    bench.control_topic += "" if there else "-new"
    named = set[Allowed]()
    if there:
        named.add(Allowed("ANONYMOUS", "Create", "topic", bench.control_topic, prefixed=False))
        allow(guarded.bootstrap, *named)
    mine = [
        ("topic", bench.control_topic, False),
        ("group", bench.group, True),
        ("transactional-id", bench.group, True),
    ]
    allow(guarded.bootstrap, *(Allowed("somebody", "All", *each) for each in mine))
    cluster = ResourceType.BROKER, "kafka-cluster", ResourcePatternType.LITERAL
    rule(bench, *cluster, AclOperation.ALL, AclPermissionType.ALLOW)
    rule(bench, *cluster, AclOperation.CREATE, AclPermissionType.DENY)
    assert "does not exist yet" not in run(bench, ["doctor"]).output
    while said := refused_for_a_right(bench):
        granted = acls_of(said, "ANONYMOUS")
        assert not named & {*granted}, "it is named again"
        named |= {*granted}
        allow(guarded.bootstrap, *granted)
    assert {one.operation for one in named} == {"Create", "Describe", "DescribeConfigs", "Read", "Write"}
    assert problems(bench) == {}
    lands(bench)
    bench.close()


def refused_for_a_right(bench: Bench) -> Said | None:
    """What doctor says, else a start, else doctor once the start has created the topic."""
    found = problems(bench)
    if not found:
        started = start(bench)
        assert started.exit_code == 0 or "CHS-250" in started.stderr, started.output
        if started.exit_code:
            return started
        found = problems(bench)
    assert found.keys() <= {"MIRROR_RIGHT_MISSING"}, found
    return found.get("MIRROR_RIGHT_MISSING")


@pytest.mark.exit_of("MIRROR_CONTROL_NOT_MADE")
def test_a_broker_that_refuses_the_topic(tmp_path: Path) -> None:
    """By default, it wants more copies than it has brokers.  Doctor says so before a start."""
    with EmbeddedKafka(tmp_path / "kafka", properties={"default.replication.factor": "3"}) as kafka:
        bench = Bench(kafka, tmp_path)
        kafka.delete_topic(bench.control_topic)
        said = problem(bench, "MIRROR_CONTROL_NOT_MADE")
        says(said, "create it with what this reason asks for, such as --replication-factor")
        kafka.create_topic(*topic_of(said))  # with one copy
        assert problems(bench) == {}
        lands(bench)
        bench.close()


class SecondBroker(EmbeddedKafka):
    """One more in the cluster of another broker, which has the controller."""

    def __init__(self, path: Path, first: EmbeddedKafka) -> None:
        super().__init__(path)
        self._first = first

    def _addresses(self) -> dict[str, str]:
        voters = self._first._addresses()["controller.quorum.voters"]
        own = {"process.roles": "broker", "node.id": "2", "listeners": f"PLAINTEXT://{self.bootstrap}"}
        return {**super()._addresses(), **own, "controller.quorum.voters": voters}

    def _format(self, *_: Any) -> None:
        found = (self._first._data / "meta.properties").read_text("utf-8")
        self._data.mkdir(parents=True)
        mine = re.sub(r"(?m)^directory\.id=.*$", "", found.replace("node.id=1", "node.id=2"))
        (self._data / "meta.properties").write_text(mine, "utf-8")


@contextmanager
def java() -> Iterator[Any]:
    """A Java process with Kafka's client."""
    [py4j] = jars.spark_jars_folder().glob("py4j-*.jar")
    classes = ":".join(map(str, jars.ensure("kafka-broker")))
    port, token, process = launch_gateway(
        jarpath=str(py4j),
        classpath=classes,
        java_path=str(find_java()),
        die_on_exit=True,
        enable_auth=True,
        return_proc=True,
    )
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token, auto_convert=True))
    try:
        yield gateway.jvm
    finally:
        gateway.shutdown()
        process.stdin.close()
        process.wait(30)


def reassign(bench: Bench, brokers: list[int]) -> None:
    """What ``kafka-reassign-partitions.sh`` does for the control topic, until it is done."""
    with java() as jvm:
        clients = jvm.org.apache.kafka.clients.admin
        admin = clients.Admin.create({"bootstrap.servers": bench.kafka.bootstrap})
        wanted = jvm.java.util.HashMap()
        for number in (0, 1):
            copies = jvm.java.util.Optional.of(clients.NewPartitionReassignment(brokers))
            wanted.put(jvm.org.apache.kafka.common.TopicPartition(bench.control_topic, number), copies)
        admin.alterPartitionReassignments(wanted).all().get()
        while not admin.listPartitionReassignments().reassignments().get().isEmpty():
            sleep(0.1)
        admin.close()


@pytest.mark.exit_of("MIRROR_CONTROL_ONE_COPY")
def test_a_control_topic_with_one_copy(tmp_path: Path) -> None:
    with EmbeddedKafka(tmp_path / "first") as first, SecondBroker(tmp_path / "second", first):
        bench = Bench(first, tmp_path)
        waiting(bench)
        says(problem(bench, "MIRROR_CONTROL_ONE_COPY"), "kafka-reassign-partitions.sh")
        reassign(bench, [1, 2])
        assert problems(bench) == {}
        lands(bench)
        bench.close()
