"""Tables and catalogs that stand in the way of the mirror: what each message says is done, and each record lands once."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import LongType, NestedField, StringType, UUIDType

from chsink.mirror.coordinator import Coordinator
from tests.integration.mirror.bench import SCHEMA, Bench
from tests.integration.mirror.commands import follow, lands, problem, problems, refusal, run, start
from tests.integration.mirror.conftest import MakeBench
from tests.support.kafka import produce
from tests.support.told import named_in, says, setting_of, statements_of, values_of, words_of

pytestmark = [pytest.mark.slow, pytest.mark.soak]
MAPPING = "schema.name-mapping.default"
CHECKOUT = Path(__file__).parents[3]


def table(bench: Bench, name: str = "orders") -> Table:
    return bench.catalog().load_table(f"shop.{name}")


def set_properties(bench: Bench, **values: str) -> None:
    with table(bench).transaction() as change:
        change.set_properties(values)


def name_another_table(bench: Bench, said: str) -> None:
    """In the job file, in place of the first one."""
    says(said, "name another table in [[mirror.route]]")
    bench.catalog().create_table("shop.other", SCHEMA)
    bench.tables = ("other",)


# --- tables that cannot be written -----------------------------------------------------------------------------------


@pytest.mark.exit_of("MIRROR_TABLE_PARTITIONED")
def test_a_spec_that_the_mirror_cannot_write(make_bench: MakeBench) -> None:
    bench = make_bench(schemas={"orders": Schema(*SCHEMA.fields, NestedField(5, "key", UUIDType()))})
    lands(bench)
    with table(bench).update_spec() as spec:
        spec.add_identity("key")
    says(problem(bench, "MIRROR_TABLE_PARTITIONED"), "partition it by columns of the table", "with identity, bucket,")
    with table(bench).update_spec() as spec:
        spec.remove_field("key").add_field("key", BucketTransform(4), "by_key")
    assert problems(bench) == {}
    lands(bench)


@pytest.mark.exit_of("MIRROR_TABLE_VERSION")
def test_a_table_of_version_1(make_bench: MakeBench) -> None:
    bench = make_bench()
    bench.catalog().drop_table("shop.orders")
    bench.catalog().create_table("shop.orders", SCHEMA, properties={"format-version": "1"})
    row = {"id": 1, "name": "", "_kafka_partition": 9, "_kafka_offset": 0}
    table(bench).append(pa.Table.from_pylist([row], schema=table(bench).schema().as_arrow()))
    table(bench).delete("id = 1")
    [statement] = statements_of(problem(bench, "MIRROR_TABLE_VERSION"), "ALTER TABLE")
    assert statement == "ALTER TABLE shop.orders SET TBLPROPERTIES ('format-version' = '2')"
    with table(bench).transaction() as change:
        change.upgrade_table_version(2)
    assert problems(bench) == {}
    lands(bench)


@pytest.mark.exit_of("MIRROR_TABLE_VERSION")
def test_a_table_that_somebody_upgraded(make_bench: MakeBench) -> None:
    """⚑ What it holds lands in another table, if a person wants that."""
    bench = make_bench()
    lands(bench)
    path = Path(table(bench).metadata_location.removeprefix("file://"))
    path.write_text(json.dumps({**json.loads(path.read_text()), "format-version": 3, "next-row-id": 0}))
    name_another_table(bench, problem(bench, "MIRROR_TABLE_VERSION"))
    assert problems(bench) == {}
    halted = start(bench)
    assert halted.exit_code == 3, halted.output
    follow(bench, halted, "shop.other", "--reread")
    lands(bench)


@pytest.mark.exit_of("MIRROR_TABLE_FORMAT")
def test_a_format_of_files(make_bench: MakeBench) -> None:
    bench = make_bench()
    lands(bench)
    set_properties(bench, **{"write.format.default": "orc"})
    set_properties(bench, **values_of(problem(bench, "MIRROR_TABLE_FORMAT")))
    assert problems(bench) == {}
    lands(bench)


@pytest.mark.exit_of("MIRROR_TABLE_COLUMNS")
@pytest.mark.parametrize("way", ["drop", "change", "another"])
def test_columns_that_the_mirror_cannot_fill(make_bench: MakeBench, way: str) -> None:
    bench = make_bench()
    if way != "another":
        lands(bench)
    with table(bench).update_schema() as update:
        if way == "change":
            update.add_column("_kafka_timestamp", StringType())
        else:
            update.add_column("n", LongType(), default_value=7)
    said = problem(bench, "MIRROR_TABLE_COLUMNS")
    says(said, "drop or change these columns")
    if way == "another":
        name_another_table(bench, said)
    else:
        with table(bench).update_schema() as update:
            if way == "drop":
                update.delete_column("n")
            else:
                update.rename_column("_kafka_timestamp", "at")
    assert problems(bench) == {}
    lands(bench)


@pytest.mark.exit_of("MIRROR_TABLE_NAMES")
def test_a_mapping_that_cannot_be_followed(make_bench: MakeBench) -> None:
    bench = make_bench()
    lands(bench)
    set_properties(bench, **{MAPPING: '[{"field-id": 1, "names": ["name"]}]'})
    wrong = named_in(problem(bench, "MIRROR_TABLE_NAMES"), "correct the table property").removesuffix(":")
    set_properties(bench, **{wrong: '[{"field-id": 1, "names": ["id", "number"]}]'})
    assert problems(bench) == {}
    lands(bench)


@pytest.mark.exit_of("MIRROR_TABLE_NAMES")
@pytest.mark.parametrize("way", ["property", "keys"])
def test_an_option_beside_a_mapping(make_bench: MakeBench, way: str) -> None:
    """Doctor says so before a start."""
    bench = make_bench(route='format = { type = "json", constants = { name = "x" } }')
    set_properties(bench, **{MAPPING: '[{"field-id": 2, "names": ["title"]}]'})
    said = problem(bench, "MIRROR_TABLE_NAMES")
    assert refusal(bench, "MIRROR_TABLE_NAMES") == said
    if way == "keys":
        says(said, "or remove the column from these keys")
        bench.route = ""
    else:
        says(said, "may have only its own name there")
        set_properties(bench, **{MAPPING: '[{"field-id": 2, "names": ["name"]}]'})
    assert problems(bench) == {}
    lands(bench)


# --- tables and branches that are not there --------------------------------------------------------------------------


@pytest.mark.exit_of("MIRROR_NO_TABLE")
def test_a_table_that_a_route_names_wrongly(make_bench: MakeBench) -> None:
    bench = make_bench()
    right, bench.tables = bench.tables, ("order",)
    says(problem(bench, "MIRROR_NO_TABLE"), "correct [[mirror.route]]")
    bench.tables = right
    assert problems(bench) == {}
    lands(bench)


@pytest.mark.exit_of("MIRROR_NO_TABLE")
def test_a_table_that_the_mirror_may_create(make_bench: MakeBench) -> None:
    bench = make_bench()
    bench.catalog().drop_table("shop.orders")
    bench.produce([1, 2])
    [bench.route] = [f"{n} = {v}" for n, v in setting_of(problem(bench, "MIRROR_NO_TABLE"), "auto_create").items()]
    assert problems(bench, "--sample", "9") == {}
    started = start(bench)
    assert started.exit_code == 0, started.output
    lands(bench)


@pytest.mark.exit_of("MIRROR_NO_TABLE")
@pytest.mark.exit_of("MIRROR_TABLE_DROPPED")
@pytest.mark.parametrize("way", ["restore", "--reread", "--skip"])
@pytest.mark.parametrize("entry", ["MIRROR_NO_TABLE", "MIRROR_TABLE_DROPPED"])
def test_a_table_that_was_dropped(make_bench: MakeBench, entry: str, way: str) -> None:
    """⚑ What waits for a commit to it lands, too."""
    bench = make_bench(route="auto_create = true" if entry == "MIRROR_TABLE_DROPPED" else "")
    lands(bench)
    bench.hand_over(*bench.produce([7]))
    sent, location = bench.sent(), table(bench).metadata_location
    bench.catalog().drop_table("shop.orders")
    said = problem(bench, entry)
    if way == "restore":
        says(said, "restore it")
        bench.catalog().register_table("shop.orders", location)
    else:
        says(said, "create it empty")
        bench.catalog().create_table("shop.orders", SCHEMA)
        follow(bench, said, way)
    assert problems(bench) == {}
    if way != "--skip":
        lands(bench)
        return
    coordinator = bench.coordinator()
    bench.hand_over(*bench.produce([8]))
    bench.rounds(coordinator, 2)
    assert bench.landed() == bench.sent() - sent


@pytest.mark.exit_of("MIRROR_TABLE_DROPPED")
def test_a_table_that_nobody_wants_any_more(make_bench: MakeBench) -> None:
    bench = make_bench(tables=("orders", "archive"), route="auto_create = true")
    lands(bench)
    bench.catalog().drop_table("shop.archive")
    says(problem(bench, "MIRROR_TABLE_DROPPED"), "remove it from [[mirror.route]]")
    bench.tables = ("orders",)
    assert problems(bench) == {}
    lands(bench)


@pytest.mark.exit_of("MIRROR_NO_BRANCH")
@pytest.mark.parametrize("way", ["create", "correct"])
def test_a_branch_that_is_not_there(make_bench: MakeBench, way: str) -> None:
    bench = make_bench()
    lands(bench)
    bench.branch = "audit"
    said = problem(bench, "MIRROR_NO_BRANCH")
    if way == "correct":
        says(said, "correct mirror.branch")
        bench.branch = "main"
    else:
        [statement] = statements_of(said, "ALTER TABLE")
        named = re.fullmatch(r"ALTER TABLE (\S+) CREATE BRANCH `(\S+)`", statement)
        assert named, statement
        there = bench.catalog().load_table(named[1])
        head = there.current_snapshot()
        assert head is not None
        there.manage_snapshots().create_branch(head.snapshot_id, named[2]).commit()
    assert problems(bench) == {}
    lands(bench)


# --- catalogs --------------------------------------------------------------------------------------------------------


@pytest.mark.exit_of("MIRROR_NO_CATALOG")
@pytest.mark.parametrize("wrong", ["sqll", "bigquery"], ids=["no such type", "its package is missing"])
def test_a_catalog_that_cannot_be_opened(make_bench: MakeBench, wrong: str) -> None:
    bench = make_bench()
    right, bench.properties = bench.properties, {**bench.properties, "type": wrong}
    says(problem(bench, "MIRROR_NO_CATALOG"), "correct mirror.catalog", "or install the package that it names")
    bench.properties = right
    assert problems(bench) == {}
    lands(bench)


@pytest.mark.exit_of("MIRROR_NO_CATALOG_FILE")
@pytest.mark.parametrize("way", ["correct", "restore"])
def test_a_catalog_file_that_is_missing(make_bench: MakeBench, way: str) -> None:
    """⚑ Nothing is created in its place."""
    bench = make_bench()
    lands(bench)
    file, kept, right = bench.folder / "catalog.db", bench.folder / "kept.db", bench.properties
    if way == "restore":
        file.rename(kept)
    else:
        bench.properties = {**right, "uri": f"sqlite:///{bench.folder}/catalogue.db"}
    says(problem(bench, "MIRROR_NO_CATALOG_FILE"), "correct mirror.catalog.uri", "if the file was lost, restore it")
    if way == "restore":
        kept.rename(file)
    bench.properties = right
    assert problems(bench) == {}
    lands(bench)


@pytest.mark.exit_of("MIRROR_NO_CATALOG_FILE")
def test_a_catalog_that_was_never_there(make_bench: MakeBench) -> None:
    bench = make_bench()
    where = bench.folder / "new"
    where.mkdir()
    bench.properties = {"type": "sql", "uri": f"sqlite:///{where}/catalog.db", "warehouse": f"file://{where}"}
    page = named_in(problem(bench, "MIRROR_NO_CATALOG_FILE"), "create the catalog with its tables, as")
    [example, *_] = re.findall(r"```python\n(.*?)```", (CHECKOUT / page).read_text("utf-8"), re.DOTALL)
    exec(example.replace("/data/lake", str(where)).replace('"air', '"shop'), {})
    bench.tables = ("flights",)
    assert problems(bench) == {}
    offsets = produce(
        bench.kafka.bootstrap, bench.topic, 0, [{"icao24": "3c6444", "altitude": 1.5}, {"icao24": "4b1815"}]
    )
    coordinator = bench.coordinator()
    bench.hand_over(*offsets)
    bench.rounds(coordinator, 2)
    rows = table(bench, "flights").scan().to_arrow().to_pylist()
    assert sorted((row["_kafka_offset"], row["icao24"]) for row in rows) == [(0, "3c6444"), (1, "4b1815")]


# --- tables of another sink ------------------------------------------------------------------------------------------


@pytest.mark.exit_of("MIRROR_OTHER_SINK")
@pytest.mark.parametrize("way", ["back", "another table", "recover"])
def test_a_sink_that_was_renamed(make_bench: MakeBench, way: str) -> None:
    """⚑ Records of which the earlier sink's commit had not come yet are landed, too."""
    bench = make_bench()
    lands(bench)
    bench.hand_over(*bench.produce([7]))
    bench.group = f"{bench.group}-2"
    said = problem(bench, "MIRROR_OTHER_SINK")
    match way:
        case "back":
            bench.group = f"chsink-{named_in(said, 'to continue what sink')}"
            says(said, "set sink.name back to it")
        case "another table":
            name_another_table(bench, said)
        case _:
            follow(bench, said, "recover")
            assert problems(bench) == {}
            with table(bench).transaction() as change:
                change.remove_properties(named_in(said, "then remove the table property"))
            assert run(bench, ["mirror", "clean"]).exit_code == 0, "nobody else writes to it"
    assert problems(bench) == {}
    lands(bench)


@pytest.mark.exit_of("MIRROR_SINK_BESIDE")
@pytest.mark.parametrize("leaves", ["this", "other"])
def test_two_sinks_that_start_before_either_has_committed(make_bench: MakeBench, leaves: str) -> None:
    """⚑ Neither had committed when the other one started: each record landed twice, and nobody said so.  Where rows were
    deleted before the sink that stays was as far as the other one in each partition, it landed them again.
    """
    bench = make_bench(partitions=2)
    first, one = bench.coordinator(), bench.group
    bench.group = other = f"{one}-copy"
    assert problems(bench).keys() == {"MIRROR_OTHER_SINK"}
    second = bench.coordinator()
    for partition in (0, 1):
        bench.produce([1, 2, 3], partition)
    for coordinator, bench.group, ends in ((first, one, (1, 3)), (second, other, (3, 1))):
        hand_over_from(bench, coordinator, (0, 0), ends)
    assert problems(bench) == {}, "it committed last"
    bench.group = one
    said = problem(bench, "MIRROR_SINK_BESIDE")
    if leaves == "this":
        ahead, tables = untils(bench, said), bench.tables
        says(
            said,
            "shows as `until` for this table, name another table",
            "until its own status shows at least these offsets",
        )
        name_another_table(bench, said)
        assert problems(bench) == {}
        bench.group, bench.tables = other, tables
        hand_over_from(bench, bench.coordinator(), (3, 1), (3, ahead[1]))
    else:
        with table(bench).transaction() as change:
            change.remove_properties(named_in(said, "stop that sink, remove the table property"))
        ahead = {0: int(named_in(said, f"as `until`: {bench.tp()}:").rstrip("."))}
        hand_over_from(bench, bench.coordinator(), (1, 3), (ahead[0], 3))
    assert untils(bench, said) == {0: 3, 1: 3}
    says(said, "Then stop the sink that stays, and only then")
    delete_one_of_each_two_rows(bench, said)
    assert bench.landed() == bench.sent() and problems(bench) == {}
    lands(bench)


def hand_over_from(bench: Bench, coordinator: Coordinator, starts: tuple[int, int], ends: tuple[int, int]) -> None:
    """Land these offsets of both partitions, and stop."""
    for partition, (begin, end) in enumerate(zip(starts, ends, strict=True)):
        if begin < end:
            bench.hand_over(begin, end, partition)
    bench.rounds(coordinator, 2)
    coordinator.close()


def untils(bench: Bench, said: str) -> dict[int, int]:
    """By partition, what the status command of a message shows."""
    [shown] = json.loads(run(bench, words_of(said, "status")).stdout)["tables"]
    return {one["partition"]: one["until"] for one in shown["partitions"]}


def delete_one_of_each_two_rows(bench: Bench, said: str) -> None:
    says(said, "delete one of each two rows")
    found = table(bench).scan().to_arrow()
    once = {(row["_kafka_partition"], row["_kafka_offset"]): row for row in found.to_pylist()}
    assert len(once) < len(found)
    table(bench).overwrite(pa.Table.from_pylist([*once.values()], schema=table(bench).schema().as_arrow()))


@pytest.mark.soak
def test_a_renamed_sink_on_another_branch(make_bench: MakeBench) -> None:
    """⚑ The branch has the rows of the earlier name, whose chain is that of main."""
    bench = make_bench()
    lands(bench)
    head = table(bench).current_snapshot()
    assert head is not None
    table(bench).manage_snapshots().create_branch(head.snapshot_id, "audit").commit()
    lands(bench)
    bench.group, bench.branch = f"{bench.group}-2", "audit"
    follow(bench, problem(bench, "MIRROR_OTHER_SINK"), "recover")
    assert problems(bench) == {}
    lands(bench)
