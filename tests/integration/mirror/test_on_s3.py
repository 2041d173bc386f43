"""Tables on S3, in a SQL catalog and in a REST catalog: records land once, and ``clean`` lists and removes what is there."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from chsink.cli.main import app
from chsink.errors import UnavailableError
from chsink.mirror.clean import Cleaner
from chsink.mirror.failures import in_words
from chsink.mirror.tables import MirrorTable
from tests.integration.mirror.bench import Bench
from tests.support.iceberg_rest import IcebergRest
from tests.support.s3 import BUCKET, S3Server

pytestmark = [pytest.mark.slow, pytest.mark.soak]
LATER_MS = 4_102_444_800_000
"""2100: all files are old by then."""


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with S3Server(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture
def bench(make_bench: Callable[..., Bench], s3: S3Server, tmp_path: Path) -> Bench:
    """Each has a warehouse of its own."""
    warehouse = f"s3://{BUCKET}/{tmp_path.name}"
    return make_bench(tables=("orders", "archive"), properties={**s3.properties, "warehouse": warehouse})


def test_records_land_once_and_orphans_go(bench: Bench) -> None:
    coordinator = bench.coordinator()
    bench.hand_over(*bench.produce(range(20)))
    bench.rounds(coordinator, 2)
    bench.hand_over(*bench.produce(range(20, 30)))
    second = bench.coordinator()
    bench.rounds(second, 2)
    for name in bench.tables:
        assert bench.landed(name) == bench.sent()

    table = bench.catalog().load_table("shop.orders")
    orphan = f"{table.location()}/data/00000-0-orphan.parquet"
    other = f"{table.location()}/metadata/00000-0-orphan.parquet"
    for location in (orphan, other):
        with table.io.new_output(location).create() as stream:
            stream.write(b"left behind")
    cleaner = Cleaner(bench.names, bench.targets(), LATER_MS, timedelta(days=1), expire=True)
    planned = cleaner.plan("shop.orders")
    assert [file.location for file in planned.orphans] == [orphan] and len(planned.snapshots) == 1
    assert cleaner.carry_out("shop.orders") == planned
    assert [table.io.new_input(location).exists() for location in (orphan, other)] == [False, True]
    assert cleaner.plan("shop.orders").orphans == ()
    assert bench.landed() == bench.sent()


def test_storage_that_does_not_answer(bench: Bench, s3: S3Server) -> None:
    """The table's metadata is there, too: an error that a restart may cure."""
    quick = {"s3.connect-timeout": "1", "s3.request-timeout": "1"}
    bench.properties = {**bench.properties, **quick, "s3.endpoint": "http://127.0.0.1:1"}
    table = MirrorTable(bench.catalog(), "shop.orders", bench.targets()["shop.orders"].table.keys)
    with pytest.raises(UnavailableError, match="CHS-715"), in_words(bench.names):
        table.load()


def test_commands_with_a_rest_catalog_and_a_branch(
    make_bench: Callable[..., Bench], s3: S3Server, tmp_path: Path
) -> None:
    """All three together, as an operator meets them; the keys of the storage come from the catalog alone."""
    with IcebergRest(tmp_path / "rest", s3.of_a_catalog, ["s3"]) as server:
        storage = {name: s3.properties[name] for name in ("s3.endpoint", "s3.region")}
        where = {"type": "rest", "uri": server.url, "warehouse": "lake", **storage}
        bench = make_bench(branch="audit", properties=where)
        coordinator = bench.coordinator()
        bench.hand_over(*bench.produce(range(20)))
        bench.rounds(coordinator, 2)
        job = ["-c", str(bench.job_file())]

        def said(*command: str) -> Any:
            done = CliRunner().invoke(app, ["mirror", *command, *job, "--json"])
            assert done.exit_code == 0, done.output
            return json.loads(done.stdout)

        [table] = said("status")["tables"]
        assert (table["problem"], table["lag"], table["pending"]) == ("", 0, 0)
        assert {event["state"] for event in said("events")["events"]} == {"committed"}
        assert bench.landed(branch="audit") == bench.sent() and bench.landed() == Counter()
        [published] = said("publish")["tables"]
        assert published["after"] == table["snapshot"] and bench.landed() == bench.sent()
        [cleaned] = said("clean", "--expire-snapshots", "--apply")["tables"]
        assert cleaned["orphans"] == [] and bench.landed() == bench.sent()
