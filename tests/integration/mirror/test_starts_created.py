"""Tables that the mirror cannot create or change: what each message says is done, and each record lands once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyiceberg.types import LongType

from chsink.config import load
from chsink.embedded.stack import Stack
from chsink.errors import AlteredError, ChsinkError
from chsink.kafka.admin import open_admin
from chsink.mirror import new_tables
from chsink.mirror.opening import OpenMirror, open_mirror
from chsink.mirror.task import Share
from chsink.statemachine.ranges import OffsetRange
from tests.integration.mirror.bench import SCHEMA, Bench
from tests.integration.mirror.commands import follow, lands, problem, problems, refusal, start
from tests.integration.mirror.conftest import MakeBench
from tests.integration.mirror.mirrored import TABLE, Mirrored, make_mirrored
from tests.integration.mirror.test_created_tables import start as create_missing
from tests.support.job import command
from tests.support.kafka import produce
from tests.support.told import named_in, says, setting_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.soak]


@pytest.fixture(autouse=True)
def _without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(new_tables, "PAUSES_S", (0,))


def sample(bench: Bench, values: Sequence[dict[str, Any]]) -> OffsetRange:
    """Records for a table that is not there."""
    bench.catalog().drop_table("shop.orders")
    return OffsetRange(*produce(bench.kafka.bootstrap, bench.topic, 0, values))


def allow_reading_only(bench: Bench) -> dict[str, str]:
    """From now on, the catalog's user may change nothing.  Returns the properties of one who may."""
    before = dict(bench.properties)
    bench.properties = {**before, "uri": f"sqlite:///file:{bench.folder}/catalog.db?mode=ro&uri=true"}
    return before


@pytest.mark.exit_of("MIRROR_TABLE_NOT_CREATED")
@pytest.mark.parametrize("way", ["allow", "yourself"])
def test_a_catalog_that_refuses_a_new_table(make_bench: MakeBench, way: str) -> None:
    bench = make_bench(route="auto_create = true")
    sample(bench, [{"id": 1, "name": "order 1"}, {"id": 2, "name": "order 2"}])
    allowed = allow_reading_only(bench)
    said = refusal(bench, "MIRROR_TABLE_NOT_CREATED")
    if way == "allow":
        says(said, "or allow the catalog's user to create tables")
    else:
        printed = follow(bench, said, "--iceberg").stdout
        assert "CREATE TABLE IF NOT EXISTS `lake`.`shop`.`orders`" in printed
    bench.properties = allowed
    if way == "yourself":
        bench.catalog().create_table("shop.orders", SCHEMA)
    started = start(bench)
    assert started.exit_code == 0, started.output
    assert problems(bench) == {}
    lands(bench)


@pytest.mark.exit_of("MIRROR_TABLE_NOT_AS_WANTED")
@pytest.mark.parametrize("way", ["create", "types"])
def test_a_column_that_the_partition_does_not_take(make_bench: MakeBench, way: str) -> None:
    """A value of one record made it text."""
    wanted = 'auto_create = true\ncreate = { partition = ["day(ordered_at)"]'
    bench = make_bench(route=f"{wanted} }}")
    times = [{"id": 1, "ordered_at": "2026-11-21T23:47:11Z"}, {"id": 2, "ordered_at": "soon"}]
    sent = sample(bench, times)
    said = problem(bench, "MIRROR_TABLE_NOT_AS_WANTED", "--sample", "9")
    assert refusal(bench, "MIRROR_TABLE_NOT_AS_WANTED") == said
    if way == "create":
        says(said, "the create of its [[mirror.route]]")
        bench.route = 'auto_create = true\ncreate = { partition = ["bucket(4, ordered_at)"] }'
    else:
        [(column, kind)] = setting_of(said, "ordered_at").items()
        says(said, "records that do not fit it are then bad values")
        bench.route = f'{wanted}, types = {{ {column} = "{kind}" }} }}'
    found = problems(bench, "--sample", "9")
    assert found.keys() == (set() if way == "create" else {"SAMPLE_BAD"}), found
    assert start(bench).exit_code == 0
    coordinator = bench.coordinator()
    bench.worker(halt_on_bad_value=False).run(sent, bench.records())
    bench.rounds(coordinator, 2)
    assert bench.landed() == {(0, n, n + 1): 1 for n in range(2 if way == "create" else 1)}


# --- columns ---------------------------------------------------------------------------------------------------------


def opened(bench: Bench) -> OpenMirror:
    """The mirror of the present job file."""
    config = load(bench.job_file())
    return open_mirror(config, open_admin(config))


def lacking(bench: Bench, piece: OffsetRange) -> AlteredError:
    """What a task reports of these records."""
    with pytest.raises(AlteredError) as raised:
        opened(bench).feeds().hand_over(Share(bench.tp(), piece), bench.records()(piece))
    assert raised.value.name == "MIRROR_COLUMNS_MISSING"
    return raised.value


def growing(make_bench: MakeBench) -> tuple[Bench, OffsetRange]:
    """A mirror that has landed records, and one with a field more."""
    bench = make_bench(mirror='evolution = "add_columns"')
    lands(bench)
    return bench, OffsetRange(*produce(bench.kafka.bootstrap, bench.topic, 0, [{"id": 7, "name": "x", "extra": 5}]))


def landed_with(bench: Bench, extra: list[int | None]) -> None:
    """Each record once, with these values of the new column."""
    lands(bench)
    rows = bench.catalog().load_table("shop.orders").scan().to_arrow().sort_by("_kafka_offset")
    assert rows.column("extra").to_pylist() == extra


@pytest.mark.exit_of("MIRROR_COLUMNS_MISSING")
def test_columns_that_records_need(make_bench: MakeBench) -> None:
    """What the driver does at its next start.  ``test_created_tables.py`` has all of it with Spark."""
    bench, piece = growing(make_bench)
    error = lacking(bench, piece)
    says(error, 'start again: the mirror changes the tables, as mirror.evolution is "add_columns"')
    assert opened(bench).config.mirror.evolution == "add_columns"
    assert opened(bench).adapt(error)
    opened(bench).feeds().hand_over(Share(bench.tp(), piece), bench.records()(piece))
    landed_with(bench, [None, 5, None])


@pytest.mark.exit_of("MIRROR_COLUMNS_NOT_ADDED")
@pytest.mark.parametrize("way", ["allow", "yourself"])
def test_a_catalog_that_refuses_new_columns(make_bench: MakeBench, way: str) -> None:
    bench, piece = growing(make_bench)
    lack = lacking(bench, piece)
    allowed = allow_reading_only(bench)
    with pytest.raises(ChsinkError) as raised:
        opened(bench).adapt(lack)
    assert raised.value.name == "MIRROR_COLUMNS_NOT_ADDED"
    assert "(extra long)" in raised.value.message
    says(raised.value, "allow the catalog's user to alter the table, or change these columns yourself", "start again")
    bench.properties = allowed
    if way == "allow":
        assert opened(bench).adapt(lack)
    else:
        with bench.catalog().load_table("shop.orders").update_schema() as update:
            update.add_column("extra", LongType())
    assert problems(bench) == {}
    opened(bench).feeds().hand_over(Share(bench.tp(), piece), bench.records()(piece))
    landed_with(bench, [None, 5, None])


# --- columns of a ClickHouse table -----------------------------------------------------------------------------------


@pytest.fixture
def job(stack: Stack, tmp_path: Path) -> Mirrored:
    """Its Iceberg table is to have the columns of the ClickHouse table, and does not exist."""
    made = make_mirrored(stack, tmp_path, {"mirror.auto_create": "true"})
    made.catalog.drop_table(TABLE)
    columns_from(made, "clickhouse")
    made.send(0, 9)
    return made


def columns_from(job: Mirrored, source: str) -> None:
    route = f'{{ topic = "{job.topic}", table = "{TABLE}", create = {{ columns = "{source}" }} }}'
    job.settings = {**job.settings, "mirror.route": f"[{route}]"}


@pytest.mark.exit_of("MIRROR_NO_CLICKHOUSE_TABLE")
@pytest.mark.parametrize("way", ["create", "route", "records"])
def test_a_clickhouse_table_that_is_not_there(job: Mirrored, spark: SparkSession, way: str) -> None:
    there, wrong = job.tables[job.topic], f"{job.tables[job.topic]}_wrong"
    job.tables[job.topic] = wrong
    with pytest.raises(ChsinkError) as raised:
        create_missing(job.config())
    assert raised.value.name == "MIRROR_NO_CLICKHOUSE_TABLE"
    says(raised.value, "correct the [[route]] of these topics, or create the ClickHouse table")
    if way == "records":
        assert named_in(raised.value, 'set create.columns = "records" for') == TABLE
        columns_from(job, setting_of(raised.value, "create.columns")["create.columns"])
        create_missing(job.config())
    if way == "route":
        job.tables[job.topic] = there
    else:
        command(job.shards[0], f"CREATE TABLE {wrong} AS {there}")
    job.drain(spark)
    job.check_both()
