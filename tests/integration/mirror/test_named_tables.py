"""Records name tables that do not exist yet (F-3): each lands in the one that it names, from its first record on."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from chsink.cli.main import app
from chsink.embedded.stack import Stack
from chsink.errors import HaltError, PreflightError
from chsink.kafka.admin import open_admin
from chsink.mirror.opening import open_mirror
from chsink.spark.mirror import run
from tests.integration.mirror.mirrored import Mirrored, make_mirrored
from tests.support.told import named_in, says

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow
ORDERS, REFUND, GIFT = "shop.orders", "shop.of_refund", "shop.of_gift"
Named = dict[str, list[tuple[int, int]]]


@pytest.fixture
def make_job(stack: Stack, tmp_path: Path) -> Callable[..., Mirrored]:
    """A job whose records name tables; only the one that the job file names exists."""

    def made(**by: Any) -> Mirrored:
        job = make_mirrored(stack, tmp_path, {"mirror.auto_create": "true", "errors.on_bad_value": "skip"})
        routed(job, **by)
        return job

    return made


def routed(job: Mirrored, **by: Any) -> None:
    more = ", ".join(f"{key} = {json.dumps(value)}" for key, value in by.items())
    named = f'field = "$.kind", tables = {{ order = "{ORDERS}" }}, others = "shop.of_{{value}}"'
    table_by = f"{{ {named}{', ' if more else ''}{more} }}"
    job.settings = {**job.settings, "mirror.route": f'[{{ topic = "{job.topic}", table_by = {table_by} }}]'}


def send(job: Mirrored, partition: int, *kinds: str | None) -> None:
    values = [{"id": n, "text": "x", **({} if kind is None else {"kind": kind})} for n, kind in enumerate(kinds)]
    job.send_values(partition, [{**v, "price": 2.5} if v.get("kind") == "Refund" else v for v in values])


def landed(job: Mirrored) -> Named:
    """(partition, offset) of the rows of each table."""
    found: Named = {}
    for namespace, name in job.catalog.list_tables("shop"):
        rows = job.catalog.load_table((namespace, name)).scan().to_arrow().to_pylist()
        found[f"{namespace}.{name}"] = sorted((row["_kafka_partition"], row["_kafka_offset"]) for row in rows)
    return found


def test_a_record_names_a_table_that_does_not_exist_yet(make_job: Callable[..., Mirrored], spark: SparkSession) -> None:
    """⚑ In both partitions, in the middle of ranges, and again later; a value that is no name is a bad value."""
    job = make_job()
    send(job, 0, "order", "Refund", "no name", None, "order", "refund")
    send(job, 1, "REFUND", "order")
    run(job.config(), spark)

    assert landed(job) == {ORDERS: [(0, 0), (0, 4), (1, 1)], REFUND: [(0, 1), (0, 5), (1, 0)]}
    types = {field.name: str(field.field_type) for field in job.catalog.load_table(REFUND).schema().fields}
    assert (types["id"], types["price"], types["kind"]) == ("long", "double", "string")

    send(job, 0, *["order"] * 30, "gift", *["order"] * 30)
    send(job, 1, "refund", "order")
    run(job.config(), spark)
    found = landed(job)
    assert (found[GIFT], found[REFUND][-1]) == ([(0, 36)], (1, 2))
    assert len(found[ORDERS]) == 3 + 60 + 1

    uuids = {name: job.catalog.load_table(name).metadata.table_uuid for name in found}
    run(job.config(), spark)
    assert found == landed(job) and uuids == {n: job.catalog.load_table(n).metadata.table_uuid for n in found}
    status = CliRunner().invoke(app, ["mirror", "status", "--json", "-c", str(job.file()), *sets(job)])
    tables = json.loads(status.stdout)["tables"]
    assert {(table["table"], table["lag"]) for table in tables} == {(name, 0) for name in found}


def sets(job: Mirrored) -> list[str]:
    return [part for key, value in job.settings.items() for part in ("--set", f"{key}={value}")]


@pytest.mark.soak
@pytest.mark.exit_of("MIRROR_TOO_MANY_TABLES")
def test_records_that_name_too_many_tables(make_job: Callable[..., Mirrored], spark: SparkSession) -> None:
    """⚑ Nothing is created for them; both ways out land each record."""
    job = make_job(max_tables=1)
    send(job, 0, "order", "refund", "gift", "junk")
    with pytest.raises(HaltError, match="CHS-360.*of_gift, shop.of_junk, shop.of_refund") as halted:
        run(job.config(), spark)
    says(
        halted.value,
        "set max_tables higher",
        "list the values that name them in `tables`, with a table for their records",
    )
    assert landed(job) == {ORDERS: []}

    text = job.settings["mirror.route"].replace("tables = {", f'tables = {{ junk = "{ORDERS}",')
    job.settings = {**job.settings, "mirror.route": text.replace("max_tables = 1", "max_tables = 2")}
    run(job.config(), spark)
    assert landed(job) == {ORDERS: [(0, 0), (0, 3)], REFUND: [(0, 1)], GIFT: [(0, 2)]}


@pytest.mark.soak
@pytest.mark.exit_of("MIRROR_TABLE_DROPPED")
def test_a_table_that_records_named_and_that_was_dropped(
    make_job: Callable[..., Mirrored], spark: SparkSession
) -> None:
    """R-10: it is not created again before a person says so, and then only for the records that come."""
    job = make_job()
    send(job, 0, "order", "refund")
    run(job.config(), spark)
    job.catalog.drop_table(REFUND)
    send(job, 0, "order", "refund")
    with pytest.raises(PreflightError, match="CHS-262") as dropped:
        run(job.config(), spark)

    says(dropped.value, "from the first table of its route")
    begins = named_in(dropped.value, "remove the property whose name begins with")
    orders = job.catalog.load_table(ORDERS)
    [name] = [name for name in orders.properties if name.startswith(begins)]
    with orders.transaction() as change:
        change.remove_properties(name)
    run(job.config(), spark)
    assert landed(job) == {ORDERS: [(0, 0), (0, 2)], REFUND: [(0, 3)]}
    assert REFUND in open_mirror(job.config(), open_admin(job.config())).targets
