"""A job whose Kafka user has exactly the ACLs that ``chsink kafka acls`` prints: it lands, and every command works."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from chsink.cli.main import app
from chsink.embedded.clickhouse import EmbeddedClickHouse
from chsink.errors import PreflightError
from chsink.kafka.exact import open_exact_reader
from chsink.statemachine.ranges import OffsetRange, TopicPartition
from tests.integration.job.conftest import forget
from tests.integration.mirror.mirrored import SCHEMA, TABLE, Mirrored
from tests.support.acl_lines import Allowed, allowed
from tests.support.certificates import Authority
from tests.support.job import DATABASE, command
from tests.support.kafka_logins import JAAS, Options, logins, options_toml
from tests.support.secured_kafka import USER, SecuredKafka

pytestmark = pytest.mark.slow


class Bench(Mirrored):
    """A job with everything that writes to Kafka: dead letters in a topic, and the mirror."""

    options: Options

    def file(self) -> Path:
        """The job file, with the login."""
        path = super().file()
        path.write_text(path.read_text() + options_toml(self.options))
        return path

    def cli(self, *words: str, code: int = 0) -> str:
        """A command of this job, and what it prints."""
        sets = [f"--set={name}={value}" for name, value in self.settings.items()]
        result = CliRunner().invoke(app, [*words, "-c", str(self.file()), *sets])
        assert result.exit_code == code, f"{words}: {result.output} {result.exception!r}"
        return result.output

    def acls(self) -> Sequence[Allowed]:
        """Those that are printed."""
        return list(allowed(self.cli("kafka", "acls")))


Make = Callable[[Mapping[str, str]], Bench]


@pytest.fixture
def make(
    secured: SecuredKafka,
    authority: Authority,
    clickhouse: list[EmbeddedClickHouse],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Make]:
    """A job with these settings.  Its topic and tables are there, and nothing is allowed yet."""
    monkeypatch.setenv("JAAS", JAAS)
    url = clickhouse[0].url

    def bench(settings: Mapping[str, str]) -> Bench:
        name = f"acls-{uuid.uuid4().hex[:8]}"
        given = {key: value.replace("NAME", name).replace("FOLDER", str(tmp_path)) for key, value in settings.items()}
        own = {"kafka.bootstrap": secured.sasl, "kafka.timeout_s": "10"}
        command(url, f"CREATE DATABASE IF NOT EXISTS {DATABASE}")
        job = Bench(name, tmp_path, secured.bootstrap, [url], settings={**own, **given})
        job.options = logins(authority)["scram-512"]
        secured.create_topic(name, 1)
        job.make_table(name)
        return job

    yield bench
    forget(url)


EVERYTHING = {
    "errors.on_bad_value": "dead_letter",
    "dead_letters.topic": "NAME-dead",
    "mirror.enabled": "true",
    "mirror.catalog.name": "lake",
    "mirror.catalog.type": "sql",
    "mirror.catalog.uri": "sqlite:///FOLDER/catalog.db",
    "mirror.catalog.warehouse": "file://FOLDER/lake",
    "mirror.control_topic": "NAME-control",
    "mirror.interval_s": "1",
    "mirror.route": f'[{{ topic = "NAME", table = "{TABLE}" }}]',
}


def tour(job: Bench, *more: str) -> None:
    """What a person does with the job.  Nothing of it is refused."""
    for words in ("doctor --sample 5", "status", "verify", *more):
        output = job.cli(*words.split())
        refused = [line for line in output.splitlines() if re.search("uthoriz|CHS-200|CHS-250 .*not allow", line)]
        assert not refused, (words, refused)


def test_a_job_and_its_commands_need_no_more(make: Make, secured: SecuredKafka, spark: SparkSession) -> None:
    """⚑ Without the right to read, the error names the command that prints it, and another start would not help."""
    job = make({})
    every = job.acls()
    assert {(one.user, one.kind) for one in every} == {(USER, "topic"), (USER, "group")}
    job.send(0, 5)
    secured.allow(*(one for one in every if one.kind == "group"))
    with pytest.raises(PreflightError, match="(?s)CHS-200.*`chsink kafka acls`"):
        job.drain(spark)
    secured.allow(*every)
    job.drain(spark)
    tour(job)
    job.check()


@pytest.mark.soak
def test_a_group_that_is_not_allowed(make: Make, secured: SecuredKafka) -> None:
    """⚑ The client says so without an offset, at any time while it reads: `chsink verify` died of an assertion."""
    job = make({})
    job.send(0, 5)
    secured.allow(*(one for one in job.acls() if one.kind == "topic"))
    refused = set()
    try:
        read_again_and_again(job)
    except PreflightError as error:
        refused.add(error.id)
    assert refused <= {"CHS-200"}


def read_again_and_again(job: Bench) -> None:
    """All records, thirty times: the refusal may come at any of them, or not at all."""
    with closing(open_exact_reader(job.config(), lambda _: 0)) as reader:
        for _ in range(30):
            parts = reader.read(TopicPartition(job.topic, 0), OffsetRange(0, 5))
            assert sum(part.records.num_rows for part in parts) == 5


@pytest.mark.soak
def test_with_dead_letters_and_the_mirror(make: Make, secured: SecuredKafka, spark: SparkSession) -> None:
    job = make(EVERYTHING)
    secured.create_topic(job.settings["dead_letters.topic"], 1)
    job.catalog.create_namespace("shop")
    job.catalog.create_table(TABLE, SCHEMA)
    secured.allow(*job.acls())
    for _ in range(2):  # the second time, it settles what the first one left
        job.send(0, 5)
        job.send_values(0, [b'{"id": "no number"}'])
        job.drain(spark)
    tour(job, "dlq list", f"dlq show {job.topic} 0 5", "dlq replay --dry-run", "mirror status")
    assert len(job.landed()) == len(job.mirrored()) == 10
