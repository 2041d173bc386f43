"""Tables that Iceberg's own Kafka Connect sink filled are taken over: every record is in them once."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from pyiceberg.transforms import BucketTransform, IdentityTransform
from typer.testing import CliRunner

from chsink.cli.main import app
from tests.integration.mirror.bench import Bench
from tests.integration.mirror.real_connector import RealConnector, wait

pytestmark = [pytest.mark.slow, pytest.mark.soak]


@pytest.mark.parametrize("files_wait", [False, True])
def test_it_is_continued_exactly(make_bench: Callable[..., Bench], tmp_path: Path, files_wait: bool) -> None:
    """⚑ Stopped in peace, or killed after it reported files and before it committed them."""
    bench = make_bench(partitions=2, tables=("orders", "archive"))
    with bench.catalog().load_table("shop.archive").update_spec() as spec:
        spec.add_field("id", BucketTransform(3), "bucket").add_field("_kafka_partition", IdentityTransform(), "part")
    control = f"{bench.topic}-control"
    bench.kafka.create_topic(control, 2)
    job = ["-c", str(bench.job_file())]
    with RealConnector(bench, tmp_path / "connect", control) as connector:
        wait(lambda: bool(connector.offsets(f"{connector.group}-coord")))  # before, it would pass over its first files
        bench.produce(range(100))
        bench.produce(range(100, 130), 1)
        wait(lambda: bench.landed("orders") == bench.landed("archive") == bench.sent())
        runs = CliRunner().invoke(app, ["mirror", "takeover", "--yes", *job])
        assert (
            runs.exit_code == 2 and f"groups ({connector.group}, {connector.group}-coord) have members" in runs.stderr
        )
        if files_wait:
            with connector.no_commits():
                bench.produce(range(200, 220))
                wait(lambda: connector.offsets(connector.group) == {0: 120, 1: 30})
                connector.kill()
    bench.produce([300, 301], 1)
    bench.produce([302])

    def taken_over() -> bool:
        done = CliRunner().invoke(app, ["mirror", "takeover", "--yes", "--json", *job])
        assert done.exit_code == 0 or "have members" in done.output, done.output
        if done.exit_code == 0:
            found = json.loads(done.stdout)
            assert (found["group"], found["control_topic"]) == (connector.group, control)
            assert {t["table"]: t["rows"] for t in found["tables"]} == {
                f"shop.{name}": 20 * files_wait for name in bench.tables
            }
            assert [p["continues_at"] for p in found["partitions"]] == [120 if files_wait else 100, 30]
        return done.exit_code == 0

    wait(taken_over)  # a killed member stays in its group until its session ends
    coordinator = bench.coordinator()
    for number in range(2):
        bench.hand_over(0, bench.admin.log_ends([bench.tp(number)])[bench.tp(number)], number)
    bench.rounds(coordinator, 2)
    for name in bench.tables:
        assert bench.landed(name) == bench.sent(), name
    found = bench.catalog().load_table("shop.archive").scan("id = 205 or id = 301").to_arrow().column("id").to_pylist()
    assert sorted(found) == ([205, 301] if files_wait else [301])  # files lie under their partition values
