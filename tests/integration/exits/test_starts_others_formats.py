"""What a start says of dead letters, of deletes and of schemas: what it tells to do leads on."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from fastavro import parse_schema, schemaless_writer
from pyspark.sql import DataFrame, SparkSession

from chsink.errors import PreflightError
from tests.integration.exits.looked import cli, done, leads_on, look
from tests.integration.job.conftest import MakeJob
from tests.integration.job.test_dead_letters import BAD, check, fits, make_letters
from tests.support.job import METADATA, WINDOW, Job, Row, command, select
from tests.support.kafka import Record
from tests.support.registry import RegistryService
from tests.support.told import engine_of, says, setting_of, words_of

pytestmark = [pytest.mark.slow, pytest.mark.soak]
FIELDS = [{"name": "id", "type": "long"}, {"name": "text", "type": "string"}]
SCHEMA: dict[str, Any] = {"type": "record", "name": "O", "fields": FIELDS}
VALUES = [{"id": n, "text": f"0:{n}"} for n in range(5)]


@pytest.mark.exit_of("DEAD_LETTERS_COLUMNS")
@pytest.mark.parametrize("changed", [True, False])
def test_a_table_that_cannot_take_dead_letters(make_job: MakeJob, spark: SparkSession, *, changed: bool) -> None:
    job = make_job(partitions=1)
    place, job.settings = make_letters(job)
    url = job.shards[0]
    command(url, f"ALTER TABLE {place} DROP COLUMN value")
    before = look(job)
    words = words_of(before.fix("DEAD_LETTERS_COLUMNS"), "sql", "dead-letters")
    if changed:
        assert "value Nullable(String)" in " ".join(done(cli(job, *words)).replace("`", "").split())
        command(url, f"ALTER TABLE {place} ADD COLUMN value Nullable(String)")
    else:
        place = f"{place}_new"
        job.settings = {**job.settings, "dead_letters.table": place}
        command(url, done(cli(job, *words)))
    leads_on("DEAD_LETTERS_COLUMNS", before, job)
    job.send(0, 5)
    job.send_values(0, BAD)
    job.drain(spark)
    check(job, place)


@pytest.mark.exit_of("DEAD_LETTERS_FIELDS")
@pytest.mark.parametrize("kept", [True, False])
def test_a_transform_that_drops_columns_of_dead_letters(make_job: MakeJob, spark: SparkSession, *, kept: bool) -> None:
    def narrow(stream: DataFrame) -> DataFrame:
        return stream.select("topic", "partition", "offset", "value")

    job = make_job(partitions=1)
    place, job.settings = make_letters(job)
    job.send(0, 5)
    job.send_values(0, BAD)
    with pytest.raises(PreflightError) as raised:
        job.drain_sink(spark, narrow)
    assert raised.value.name == "DEAD_LETTERS_FIELDS"
    if kept:
        says(raised.value, "keep Kafka's columns in the transform (and read the topic with includeHeaders)")
        job.drain_sink(spark, lambda stream: stream.select("*"))
        check(job, place)
    else:
        fates = [setting_of(raised.value, f"errors.{fate}") for fate in ("on_bad_value", "on_tombstone")]
        job.drain_sink(spark, narrow, {**fates[0], **fates[1]})
        job.check(rows_of=fits)


def routed(job: Job, **more: Any) -> None:
    """The job's only route, with these settings."""
    job.settings = {**job.settings, "route": [{"topic": job.topic, "table": job.tables[job.topic], **more}]}


@pytest.mark.exit_of("DELETES_UNKNOWN")
@pytest.mark.parametrize("table", [True, False])
def test_a_table_that_cannot_delete(make_job: MakeJob, spark: SparkSession, *, table: bool) -> None:
    job = make_job(partitions=1)
    keys = {"key_format": "json", "key_columns": ["id"]}
    job.settings = {"errors.on_tombstone": "delete"}
    job.send_values(0, [{"text": "x"}, None, {"text": "y"}], key=b'{"id":1}')
    job.send_values(0, [{"text": "x"}, None], key=b'{"id":2}')
    routed(job, **keys)
    before = look(job)
    fix = before.fix("DELETES_UNKNOWN")
    if table:
        columns = f"id UInt64, text String, {METADATA}, is_deleted UInt8"
        made = f"{job.tables[job.topic]}_deletes"
        job.create(f"CREATE TABLE {made} ({columns}) ENGINE = {engine_of(fix)} ORDER BY id SETTINGS {WINDOW}")
        job.tables[job.topic] = made
        routed(job, **keys)
    else:
        job.settings = {**job.settings, **setting_of(fix, "errors.on_tombstone")}
    leads_on(
        "DELETES_UNKNOWN", before, job, then=["CHS-240"] if table else []
    )  # the engine combines rows, as it should
    job.drain(spark)
    name = job.tables[job.topic]
    rows = select(job.shards[0], f"SELECT id, text FROM {name} {'FINAL' if table else ''} ORDER BY ALL FORMAT CSV")
    assert rows.split() == (['1,"y"'] if table else ['1,"x"', '1,"y"', '2,"x"'])


@pytest.mark.exit_of("SUBJECT_MISSING")
def test_a_registry_without_the_schemas(make_job: MakeJob, spark: SparkSession) -> None:
    job = make_job(partitions=1)
    routed(job, format="avro")
    route = job.settings
    with RegistryService() as wrong, RegistryService() as right:
        serialize = AvroSerializer(SchemaRegistryClient({"url": right.url}), json.dumps(SCHEMA))
        context = SerializationContext(job.topic, MessageField.VALUE)
        job.send_values(0, [serialize(value, context) for value in VALUES])
        job.settings = {**route, "schema_registry.url": wrong.url}
        before = look(job)
        says(before.fix("SUBJECT_MISSING"), "otherwise check the topic and schema_registry.url")
        job.settings = {**route, "schema_registry.url": right.url}
        leads_on("SUBJECT_MISSING", before, job)
        job.drain(spark)
    job.check(rows_of=as_sent)


def as_sent(record: Record) -> list[Row]:
    """The row of a record of ``VALUES``."""
    return [(record.offset, f"0:{record.offset}")]


@pytest.mark.exit_of("SCHEMA_FILE_WRONG")
@pytest.mark.parametrize("corrected", [True, False])
def test_a_schema_file_that_is_no_schema(
    make_job: MakeJob, spark: SparkSession, tmp_path: Path, *, corrected: bool
) -> None:
    job = make_job(partitions=1)
    file, other = tmp_path / "a.avsc", tmp_path / "b.avsc"
    file.write_text('{"type": "record"')
    routed(job, format={"type": "avro", "schema_file": str(file)})
    job.send_values(0, map(encoded, VALUES))
    before = look(job)
    says(before.fix("SCHEMA_FILE_WRONG"), "correct the file, or the route's format.schema_file")
    (file if corrected else other).write_text(json.dumps(SCHEMA))
    routed(job, format={"type": "avro", "schema_file": str(file if corrected else other)})
    leads_on("SCHEMA_FILE_WRONG", before, job)
    job.drain(spark)
    job.check(rows_of=as_sent)


def encoded(value: dict[str, Any]) -> bytes:
    """Avro without a header."""
    written = io.BytesIO()
    schemaless_writer(written, parse_schema(SCHEMA), value)
    return written.getvalue()
