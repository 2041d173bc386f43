"""Iceberg tables that the mirror creates: from the first records, by one of several starts, and never a second time."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest
import structlog
from typer.testing import CliRunner

from chsink.cli.main import app
from chsink.config import Config
from chsink.embedded.stack import Stack
from chsink.errors import ChsinkError, HaltError
from chsink.kafka.admin import open_admin
from chsink.mirror.opening import open_mirror
from chsink.spark.mirror import MirrorRun
from chsink.tables.iceberg import create_missing_iceberg
from tests.integration.mirror.mirrored import TABLE, Mirrored, make_mirrored
from tests.support.job import command, eventually
from tests.support.told import says

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow
LOG = structlog.get_logger()


@pytest.fixture
def make_job(stack: Stack, tmp_path: Path) -> Callable[..., Mirrored]:
    """A job whose Iceberg table does not exist."""

    def made(settings: dict[str, Any] | None = None) -> Mirrored:
        own = {
            "mirror.auto_create": "true",
            **(settings or {}),
        }
        job = make_mirrored(stack, tmp_path, own)
        routed(job, (job.topic, TABLE))
        job.catalog.drop_table(TABLE)
        return job

    return made


def routed(job: Mirrored, *routes: tuple[str, str]) -> None:
    """Name these topics and tables in the job file."""
    new = 'create = { partition = ["bucket(4, id)"], sort = ["text"], identifier = ["id"] }'
    text = ", ".join(f'{{ topic = "{topic}", table = "{table}", {new} }}' for topic, table in routes)
    job.settings = {**job.settings, "mirror.route": f"[{text}]"}


def plain(record: dict[str, Any]) -> str:
    """A record without its nulls, and without empty lists: pyiceberg reads a null list as one."""
    return json.dumps(without_nulls(record), sort_keys=True)


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item not in (None, [])}
    return list(map(without_nulls, value)) if isinstance(value, list) else value


def start(config: Config) -> Any:
    """What a start does about missing tables."""
    kafka = open_admin(config)
    return create_missing_iceberg(open_mirror(config, kafka), kafka, LOG)


def test_a_table_is_created_from_its_records(make_job: Callable[..., Mirrored], spark: SparkSession) -> None:
    """A-1 to A-4: by one of two starts; a start that is killed before its first commit leaves it to the next one."""
    job = make_job()
    job.send(0, 30)
    job.send(1, 20)
    sets = [part for key, value in job.settings.items() for part in ("--set", f"{key}={value}")]
    command = ["sql", "create-table", "--iceberg", "-c", str(job.file()), *sets]
    said = CliRunner().invoke(app, command, catch_exceptions=False).stdout
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(start, [job.config(), job.config()]))
    table = job.catalog.load_table(TABLE)
    assert "PARTITIONED BY (bucket(4, `id`))" in said
    assert [f.name for f in table.spec().fields] == ["id_bucket"]
    assert table.schema().identifier_field_names() == {"id"}
    assert table.current_snapshot() is None, "killed before the first commit"

    job.drain(spark)
    job.check_both()
    assert job.catalog.load_table(TABLE).metadata.table_uuid == table.metadata.table_uuid
    assert len(job.catalog.load_table(TABLE).inspect.partitions()) == 4


@pytest.mark.soak
@pytest.mark.exit_of("MIRROR_NO_ICEBERG_TYPES")
def test_the_columns_of_the_clickhouse_table(make_job: Callable[..., Mirrored], spark: SparkSession) -> None:
    """⚑ A-2: before there is a record; what has no Iceberg type is named."""
    job = make_job()
    table = job.tables[job.topic]
    route = job.settings["mirror.route"].replace("create = {", 'create = { columns = "clickhouse",')
    job.settings = {**job.settings, "mirror.route": route}
    command(job.shards[0], f"ALTER TABLE {table} ADD COLUMN wide Int128, ADD COLUMN twice UInt64 ALIAS id * 2")
    with pytest.raises(ChsinkError, match=r"CHS-284.*: wide Int128\n") as raised:
        start(job.config())
    says(raised.value, f"name their types in create.types for {TABLE}")
    sets = [part for key, value in job.settings.items() for part in ("--set", f"{key}={value}")]
    told = CliRunner().invoke(app, ["doctor", "--sample", "9", "--json", "-c", str(job.file()), *sets]).stdout
    refused = [f["sentence"] for f in json.loads(told)["findings"] if (f["id"], f["severity"]) == ("CHS-284", "error")]
    assert len(refused) == 1 and "wide Int128" in refused[0], "doctor finds it before a start does"
    job.settings = {
        **job.settings,
        "mirror.route": route.replace("columns =", 'types = { wide = "string" }, columns ='),
    }
    command(job.shards[0], f"ALTER TABLE {table} ADD COLUMN at Tuple(x UInt64, y Array(String))")

    sets = [part for key, value in job.settings.items() for part in ("--set", f"{key}={value}")]
    print_it = ["sql", "create-table", "--iceberg", "-c", str(job.file()), *sets]
    said = CliRunner().invoke(app, print_it, catch_exceptions=False).stdout
    assert "STRUCT<`x`: DECIMAL(20, 0), `y`: ARRAY<STRING>>," in said
    assert list(start(job.config()).targets) == [TABLE], "without a record"
    assert [f.name for f in job.catalog.load_table(TABLE).schema().fields][:-4] == ["id", "text", "wide", "at"]
    spark.sql("SELECT CAST(NULL AS STRUCT<`x`: DECIMAL(20, 0), `y`: ARRAY<STRING>>)")  # as Spark reads the type
    command(job.shards[0], f"ALTER TABLE {table} DROP COLUMN at, DROP COLUMN wide")

    job.send(0, 30)
    job.drain(spark)
    job.check_both()


@pytest.mark.soak
def test_a_table_that_was_dropped_is_not_created_again(make_job: Callable[..., Mirrored], spark: SparkSession) -> None:
    """R-10: a person decides what it should hold."""
    job = make_job()
    job.send(0, 5)
    job.drain(spark)
    job.catalog.drop_table(TABLE)
    with pytest.raises(ChsinkError, match="CHS-262"):
        MirrorRun(job.config(), spark, LOG)
    assert not job.catalog.table_exists(TABLE)


@pytest.mark.soak
def test_a_topic_without_a_record_waits(make_job: Callable[..., Mirrored], stack: Stack, spark: SparkSession) -> None:
    """The others go on, and it lands from its first record."""
    job = make_job()
    late = f"{job.topic}-late"
    stack.kafka.create_topic(late, 1)
    routed(job, (job.topic, TABLE), (late, "shop.late"))
    job.send(0, 10)
    waiting = start(job.config())
    assert (list(waiting.targets), job.catalog.table_exists("shop.late")) == ([TABLE], False)
    job.drain(spark)
    job.check_both()

    job.make_table(late)
    job.send(0, 7, topic=late)
    started = start(job.config())
    assert sorted(started.targets) == ["shop.late", TABLE]
    with MirrorRun(job.config(), spark, LOG) as run:
        run.run(Drained())
    rows = job.catalog.load_table("shop.late").scan().to_arrow()
    assert sorted(rows.column("_kafka_offset").to_pylist()) == list(range(7))


@pytest.mark.soak
def test_a_topic_of_which_nothing_can_be_read_waits(
    make_job: Callable[..., Mirrored], stack: Stack, spark: SparkSession
) -> None:
    """⚑ A producer gave up its first transaction: the log was not empty, no record said which columns the table has, and
    CHS-285 stopped all topics.
    """
    job = make_job()
    late = f"{job.topic}-late"
    stack.kafka.create_topic(late, 1)
    text = f"""[{{ topic_pattern = '{job.topic}(?<more>|-.+)', table = "shop.{{topic:_}}" }}]"""
    job.settings = {**job.settings, "mirror.route": text}
    table, waits = (f"shop.{name.replace('-', '_')}" for name in (job.topic, late))
    for count in (0, 7):
        job.send_values(0, [{"id": -1}, {"id": -2}], topic=late, transactional=job.name, abort=True)
        job.send(0, 10)
        job.send(0, count, topic=late)
        with MirrorRun(job.config(), spark, LOG) as run:
            run.run(Drained())
        assert held(job, waits) == count
    assert held(job, table) == 20


@pytest.mark.soak
def test_a_topic_that_waits_is_created_again_empty(
    make_job: Callable[..., Mirrored], stack: Stack, spark: SparkSession
) -> None:
    """⚑ After a crash, its planned range lay beyond its log.  Each start ended so that the next one would begin the topic,
    which found no record: the mirror started again and again, and no topic landed.  Now a person learns why.
    """
    job = make_job()
    late = f"{job.topic}-late"
    stack.kafka.create_topic(late, 1)
    text = f"""[{{ topic_pattern = '{job.topic}(?<more>|-.+)', table = "shop.{{topic:_}}" }}]"""
    job.settings = {**job.settings, "mirror.route": text}
    table, waits = (f"shop.{name.replace('-', '_')}" for name in (job.topic, late))
    job.send_values(0, [{"id": -1}, {"id": -2}], topic=late, transactional=job.name, abort=True)
    job.send(0, 10)

    def drain() -> None:
        with MirrorRun(job.config(), spark, LOG) as run:
            run.run(Drained())

    drain()
    for commit in (job.folder / "checkpoint-mirror" / "commits").glob("*0*"):
        commit.unlink()  # as if it had crashed before
    stack.kafka.delete_topic(late)
    stack.kafka.create_topic(late, 1)
    job.send(0, 5)
    with pytest.raises(HaltError, match=rf"CHS-319.*{late}-0 offset was changed from 3 to 0") as named:
        drain()
    assert "set sink.checkpoint to a new folder" in named.value.hint
    job.settings["sink.checkpoint"] = str(job.folder / "new")
    job.send(0, 7, topic=late)
    drain()
    assert (held(job, table), held(job, waits)) == (15, 7)


@pytest.mark.soak
def test_a_topic_that_a_pattern_finds_while_the_mirror_runs(
    make_job: Callable[..., Mirrored], stack: Stack, spark: SparkSession
) -> None:
    """F-3's templates: the run ends once the new topic has a record; the next start makes its table and lands it."""
    job = make_job({"trigger.mode": "processing_time", "trigger.interval": "1 seconds"})
    text = f"""[{{ topic_pattern = '{job.topic}(?<more>|-.+)', table = "shop.{{topic:_}}" }}]"""
    job.settings = {**job.settings, "mirror.route": text}
    table, late = (f"shop.{name.replace('-', '_')}" for name in (job.topic, f"{job.topic}-late"))
    job.send(0, 10)
    stop, ended = Drained(), list[ChsinkError]()

    def run() -> None:
        with MirrorRun(job.config(), spark, LOG) as running:
            try:
                running.run(stop)
            except ChsinkError as error:
                ended.append(error)

    for topic, name, count in ((job.topic, table, 10), (f"{job.topic}-late", late, 7)):
        thread = Thread(target=run)
        thread.start()
        eventually(f"the records of {topic}", lambda name=name, count=count: held(job, name) == count)  # type: ignore[misc]
        if topic == job.topic:
            stack.kafka.create_topic(f"{job.topic}-late", 1)
            job.send(0, 7, topic=f"{job.topic}-late")
        else:
            stop.received = "SIGTERM"
        thread.join(120)
        assert not thread.is_alive()
    [begins] = ended
    assert begins.name == "MIRROR_TOPIC_BEGINS" and f"{job.topic}-late" in begins.message
    assert (held(job, table), held(job, late)) == (10, 7)


def held(job: Mirrored, name: str) -> int:
    """How many rows a table has, 0 if there is none."""
    return len(job.catalog.load_table(name).scan().to_arrow()) if job.catalog.table_exists(name) else 0


@pytest.mark.soak
def test_a_backlog_whose_records_gain_fields(make_job: Callable[..., Mirrored], spark: SparkSession) -> None:
    """A-5, A-6: in the middle of a range, and in another partition; every record is complete, older files stay."""
    job = make_job({"mirror.evolution": "add_columns", "mirror.interval_s": "1"})
    routed(job, (job.topic, TABLE))
    old: list[dict[str, Any]] = [{"id": n, "text": f"0:{n}", "at": {"x": n}, "all": [{"y": [n]}]} for n in range(40)]
    job.send_values(0, old)
    job.drain(spark)
    before = {file.file.file_path for file in job.catalog.load_table(TABLE).scan().plan_files()}

    new: list[dict[str, Any]] = [
        {"id": 40 + n, "text": f"0:{40 + n}", "n": n, "price": n / 4, "gone": None} for n in range(20)
    ]
    new = [{**each, "at": {"place": {"city": "ü"}}, "all": [{"y": [1], "z": 0.5}, {}]} for each in new]
    more = [{"id": 100 + n, "text": None, "n": n + 2**40, "seen": bool(n % 2)} for n in range(20)]
    job.send_values(0, [*old[:5], *new])
    job.send_values(1, [*old[:5], *more])
    with MirrorRun(job.config(), spark, LOG) as run:
        run.run(Drained())

    table = job.catalog.load_table(TABLE)
    rows = table.scan().to_arrow().to_pylist()
    landed = [plain({k: v for k, v in row.items() if not k.startswith("_kafka")}) for row in rows]
    assert sorted(landed) == sorted(map(plain, [*old, *old[:5], *new, *old[:5], *more]))
    types = {field.name: str(field.field_type) for field in table.schema().fields}
    assert (types["n"], types["price"], types["seen"]) == ("long", "double", "boolean")
    assert "gone" not in types
    assert table.schema().find_field("at.place.city") and table.schema().find_field("all.element.z")
    assert table.scan(row_filter="at.x = 3").to_arrow().num_rows == 3
    assert len(table.schemas()) == 2, "one change for all tasks"
    assert before <= {file.file.file_path for file in table.scan().plan_files()}
    assert table.scan(row_filter=f"n >= {2**40}").to_arrow().num_rows == 20


class Drained:
    """No signal."""

    times = 0
    received = ""
