"""The status page on real services: what it finds, that it leaves no trace, and what a running job adds to it."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest
import structlog
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from chsink.as_typed import as_typed
from chsink.dlq.letters import create_table
from chsink.embedded.base.ports import free_port
from chsink.embedded.stack import Stack
from chsink.embedded.topics import create_topic, delete_records
from chsink.errors import HaltError
from chsink.ui.eyes import Eyes
from chsink.ui.serve import StatusPage, served
from tests.integration.job.conftest import MakeJob
from tests.support.child import Child
from tests.support.doubt import announce
from tests.support.job import DATABASE, Job, command, select
from tests.support.watching import Watching

pytestmark = pytest.mark.slow

BAD = b'{"id": "secret", "text": "x"}'


@contextmanager
def page(job: Job, *, show_values: bool = False, **observe: Any) -> Iterator[str]:
    """As ``chsink ui`` serves it; gives its URL."""
    settings = {"observe.ui": "127.0.0.1:0", **{f"observe.{name}": value for name, value in observe.items()}}
    config = job.config(settings)
    with served(StatusPage(config, structlog.get_logger(), Eyes(config, show_values=show_values))) as made:
        yield made.url


def once(url: str) -> dict[str, Any]:
    """What ``/status.json`` says."""
    at = urlsplit(url)
    connection = http.client.HTTPConnection(at.hostname or "", at.port or 0, timeout=60)
    connection.request("GET", "/status.json")
    answer = connection.getresponse()
    text = answer.read()
    connection.close()
    assert answer.status == 200, text
    return dict(json.loads(text))


def traces(job: Job) -> Mapping[str, object]:
    """All that a look could leave behind."""
    state = select(job.shards[0], f"SELECT * FROM {DATABASE}.chsink_state ORDER BY 1 FORMAT JSONEachRow")
    groups = AdminClient({"bootstrap.servers": job.bootstrap}).list_consumer_groups().result().valid
    tables = select(
        job.shards[0], f"SELECT name FROM system.tables WHERE database = '{DATABASE}' ORDER BY 1 FORMAT TSV"
    )
    return {"state": state, "groups": sorted(group.group_id for group in groups), "tables": tables}


def test_the_page_without_a_job_and_without_a_trace(make_job: MakeJob, spark: SparkSession) -> None:
    job = make_job(partitions=2)
    dead = f"{DATABASE}.dead_{job.tables[job.topic].partition('.')[2]}"
    command(job.shards[0], create_table(dead))
    job.settings = {"errors.on_bad_value": "dead_letter", "dead_letters.table": dead}
    job.send(0, 20)
    job.send_values(1, [BAD, BAD])
    job.drain(spark)
    job.send(0, 7)
    before = traces(job)

    with page(job) as url:
        found = once(url)
    with page(job, show_values=True) as url:
        whole = once(url)

    assert traces(job) == before
    [route] = found["routes"]
    assert (route["topic"], route["table"], route["partitions"]) == (job.topic, job.tables[job.topic], 2)
    assert (found["sums"]["lag"], route["speed"]["lag"], route["dead_letters"]) == (7, 7, 2)
    assert 0 <= found["sums"]["lag_s"] < 600
    assert [row[1:6] for row in found["partitions"]] == [[0, "AFTER", 0, 20, 7], [1, "AFTER", 0, 2, 0]]
    assert found["health"]["level"] == "busy"
    assert found["health"]["sentence"].startswith("7 offsets wait in Kafka")
    assert (found["problems"], found["batch"], found["mirror"], found["beside"]) == ([], None, None, False)
    [group] = found["letters"]["groups"]
    assert (group["table"], group["column"], group["count"], group["replayed"]) == (job.tables[job.topic], "id", 2, 0)
    assert {(one["partition"], one["offset"]) for one in group["letters"]} == {(1, 0), (1, 1)}
    assert "secret" not in json.dumps(found)
    assert [one["value"] for one in whole["letters"]["groups"][0]["letters"]] == [BAD.decode()] * 2


def test_a_range_that_nobody_can_settle_is_named_before_the_start(make_job: MakeJob, spark: SparkSession) -> None:
    """The halt, with its fix, is the one that the start raises."""
    job = make_job(partitions=2)
    for n in (0, 1):
        job.send(n, 25)
    announce(job, {0: (10, 20), 1: (10, 20)})
    with page(job, ui_interval_s=1.0) as url:
        assert once(url)["problems"] == []
        delete_records(job.bootstrap, job.topic, 0, 15)
        time.sleep(1.1)
        found = once(url)
    status = job.status()

    with pytest.raises(HaltError) as raised:
        job.drain(spark)

    [problem] = found["problems"]
    assert (problem["where"], problem["id"]) == ("ahead", raised.value.id)
    assert (problem["message"], problem["fix"]) == (raised.value.message, raised.value.hint)
    assert problem["commands"] == [f"chsink state resolve {job.topic} 0 -c {job.file()}"]
    assert found["health"]["sentence"] == "The next start will halt with CHS-308: see the fix below."
    assert status["halts"] == [{"id": problem["id"], "message": problem["message"], "fix": as_typed(problem["fix"])}]


@pytest.mark.soak
def test_a_topic_that_was_recreated_with_fewer_records(make_job: MakeJob, spark: SparkSession, services: Stack) -> None:
    """⚑ the page said that all had landed, and the status a lag of 0: none of the new records could land."""
    job = make_job(partitions=1)
    job.send(0, 10)
    job.drain(spark)
    services.kafka.delete_topic(job.topic)
    services.kafka.create_topic(job.topic, 1)
    with page(job, ui_interval_s=1.0) as url:
        assert once(url)["health"]["level"] == "good"
        job.sent.clear()
        job.send(0, 5)
        time.sleep(1.1)
        found = once(url)
    with pytest.raises(HaltError, match="CHS-3"):
        job.drain(spark)
    status = job.status()

    assert found["health"]["sentence"] == "The next start will halt with CHS-303: see the fix below."
    assert (found["sums"]["lag"], status["lag"]) == (5, 5)
    assert 0 <= status["partitions"][0]["lag_s"] < 600
    [halt] = status["halts"]
    assert halt["id"] == "CHS-303" and "start with a new checkpoint" in halt["fix"]
    job.lose_checkpoint()
    job.drain(spark)
    assert (job.status()["lag"], job.status()["halts"]) == (0, [])


def test_beside_a_job_until_its_end(make_job: MakeJob, spark: SparkSession) -> None:
    """Whoever watches sees the last batch, and then that the job has ended."""
    job = make_job(partitions=2)
    job.send(0, 40)
    port = free_port()
    watching = Watching(port)

    job.drain(spark, {"observe.ui": f"127.0.0.1:{port}", "observe.ui_interval_s": 1.0})

    last = watching.last()
    assert last["beside"] and last["ended"]
    assert last["health"]["sentence"] == "The job has ended, and this page is no longer updated."
    assert last["batch"]["offsets"] == last["batch"]["rows"] == 40
    assert {"plan", "before", "insert", "after"} <= last["batch"]["phases"].keys()


def test_the_halt_that_ends_a_job_is_its_last_event(make_job: MakeJob, spark: SparkSession) -> None:
    job = make_job(partitions=1)
    job.send(0, 5)
    job.send_values(0, [BAD])
    port = free_port()
    watching = Watching(port)

    with pytest.raises(HaltError, match="CHS-501") as raised:
        job.drain(spark, {"observe.ui": f"127.0.0.1:{port}"})

    last = watching.last()
    assert (last["health"]["level"], last["ended"]) == ("bad", True)
    [problem] = [p for p in last["problems"] if p["where"] == "ended"]
    assert (problem["id"], problem["message"], problem["fix"]) == ("CHS-501", raised.value.message, raised.value.hint)
    assert problem["commands"]


@pytest.mark.soak
def test_dead_letters_of_a_topic_are_read_once(make_job: MakeJob, spark: SparkSession) -> None:
    job = make_job(partitions=1)
    topic = f"{job.topic}-dead"
    create_topic(job.bootstrap, topic, 2, {"retention.ms": "-1"})
    job.settings = {"errors.on_bad_value": "dead_letter", "dead_letters.topic": topic}
    job.send_values(0, [BAD])
    job.drain(spark)
    with page(job, ui_interval_s=1.0) as url:
        first = once(url)
        job.send_values(0, [BAD, b"not json"])
        job.drain(spark)
        time.sleep(1.1)
        second = once(url)

    assert [(g["column"], g["count"], g["replayed"]) for g in first["letters"]["groups"]] == [("id", 1, None)]
    groups = {group["column"]: group for group in second["letters"]["groups"]}
    assert groups["id"]["count"] == 2
    assert sum(group["count"] for group in groups.values()) == 3
    assert [one["offset"] for one in groups["id"]["letters"]] == [1, 0], "the newest first"
    assert "secret" not in json.dumps(second)


def test_services_that_are_away(make_job: MakeJob) -> None:
    job = make_job(partitions=1)
    nobody = f"127.0.0.1:{free_port()}"
    job.settings = {"clickhouse.endpoints": [f"http://{nobody}"], "state.timeout_s": 1.0}
    with page(job) as url:
        found = once(url)
    assert found["health"]["level"] == "bad"
    assert found["health"]["sentence"].startswith("The state cannot be read: CHS-7")
    assert [problem["where"] for problem in found["problems"]] == ["state"]


def test_the_command_ends_by_a_signal(make_job: MakeJob) -> None:
    job = make_job(partitions=1)
    job.send(0, 3)
    line = [sys.executable, "-m", "chsink.cli.main", "ui", "-c", str(job.file()), "--listen", "127.0.0.1:0"]
    with subprocess.Popen(line, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        url = process.stderr.readline().split()[0]
        said = once(url)["health"]["sentence"]
        assert said.startswith("This sink has not run yet, or its state was lost. 3 offsets wait in Kafka")
        process.send_signal(2)
        said = process.stderr.read()
    assert process.returncode == 0
    assert said == ""


@pytest.mark.soak
def test_a_kill_is_seen_live(make_job: MakeJob) -> None:
    """A page of its own goes on when the job is killed with ranges in doubt, and sees the next start settle them."""
    job = make_job(partitions=2)
    job.send(0, 30)
    with page(job, ui_interval_s=1.0) as url:
        watching = Watching(urlsplit(url).port or 0)
        with Child(job, traps="driver.after_before=kill") as child:
            assert child.end() == -9, child.said[-3000:]
        time.sleep(2.5)
        killed = watching.seen[-1]
        with Child(job) as child:
            assert child.end() == 0, child.said[-3000:]
        time.sleep(2.5)
        settled = watching.seen[-1]
    assert killed["sums"]["in_doubt"] == 1
    assert (settled["sums"]["in_doubt"], settled["sums"]["lag"]) == (0, 0)
    assert settled["health"]["level"] == "good"
    assert max(watching.seen, key=lambda seen: seen["at"])["at"] == watching.last()["at"]
