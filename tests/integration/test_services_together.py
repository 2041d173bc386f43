"""The services as one stack, as the demo and every later test uses them; and the Spark session of the tests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import clickhouse_connect
import pytest
from pyspark.sql import SparkSession

from chsink.embedded.base.ports import accepts, free_port
from chsink.embedded.kafka import EmbeddedKafka
from chsink.embedded.stack import Stack
from chsink.errors import ChsinkError
from tests.conftest import MakeTopic
from tests.support.kafka import produce


def test_keeper_map_written_through_one_server_is_read_through_the_other(stack: Stack) -> None:
    first, second = (
        clickhouse_connect.get_client(host=server.host, port=server.port, autogenerate_session_id=False)
        for server in stack.clickhouse
    )
    for client in (first, second):
        client.command("CREATE TABLE shared (k String, v UInt8) ENGINE = KeeperMap('/together') PRIMARY KEY k")
    first.command("INSERT INTO shared VALUES ('a', 1)")
    assert second.query("SELECT k, v FROM shared").result_rows == [("a", 1)]
    first.command("DROP TABLE shared")
    second.command("DROP TABLE shared")
    first.close()
    second.close()


def test_a_stack_that_cannot_start_leaves_nothing_running(tmp_path: Path) -> None:
    stack = Stack(tmp_path, clickhouse=1)
    stack.kafka.properties["num.io.threads"] = "none"
    with pytest.raises(ChsinkError, match=r"(?s)CHS-904.*kafka.*num\.io\.threads"):
        stack.start()
    assert not any(member.running for member in stack.members)


def test_spark_reads_what_was_committed(spark: SparkSession, kafka: EmbeddedKafka, topic: MakeTopic) -> None:
    name = topic(partitions=2)
    produce(kafka.bootstrap, name, 0, ["a", "b"], transactional=name)
    produce(kafka.bootstrap, name, 1, ["gone"], transactional=name, abort=True)
    options = {
        "kafka.bootstrap.servers": kafka.bootstrap,
        "kafka.isolation.level": "read_committed",
        "subscribe": name,
        "startingOffsets": "earliest",
    }
    rows = (
        spark.read.format("kafka").options(**options).load().selectExpr("CAST(value AS STRING) v", "offset").collect()
    )
    assert sorted((row.v, row.offset) for row in rows) == [("a", 0), ("b", 1)]


@pytest.mark.soak
def test_python_workers_find_the_package_and_the_tests(spark: SparkSession) -> None:
    def where(_: int) -> str:
        import chsink
        from tests.support import kafka as helpers

        return f"{chsink.__file__} {helpers.__file__}"

    assert spark.sparkContext.parallelize([1], 1).map(where).first()


def test_two_processes_are_never_given_the_same_port() -> None:
    program = "from chsink.embedded.base.ports import free_port; print(*(free_port() for _ in range(2000))); input()"
    processes = [
        subprocess.Popen(
            [sys.executable, "-X", "dev", "-c", program],  # so that a socket that nobody closed is said
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    try:
        given = [line.split() for process in processes if process.stdout and (line := process.stdout.readline())]
    finally:
        complaints = [process.communicate("\n")[1] for process in processes]
    assert [len(ports) for ports in given] == [2000, 2000]
    assert not set(given[0]) & set(given[1])
    assert complaints == ["", ""]
    assert not accepts(free_port())
