"""``make demo``: the real job lands real records in ClickHouse and Iceberg, and is killed on the way; then the checker
compares.

Local Kafka, ZooKeeper and two ClickHouse shards are started; records are produced as JSON; ``chsink run`` drains them,
into the shards and into Iceberg tables.  A Python worker is killed inside its transaction.  All processes of the job
are killed twice: once half-way; once while a range of ClickHouse is in doubt and the mirror's coordinator has committed
one table and not yet the next.  Every kill is SIGKILL; if one does not happen where it should, the demo ends.
The last two lines say what the checker found on each side.  Everything started here is stopped, whatever happens.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import clickhouse_connect

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from demo.checker import Compared, Side, check, on_shards
from demo.data import Dataset, ddl, from_file, nycflights, produce
from demo.lake import Lake

DATABASE = "demo"
STATE_TABLE = "chsink_state"
FEW = 10_000
"""With fewer records, a job may end before it can be killed."""
ASLEEP = "sleep:3600"
UNAVAILABLE = 5
"""chsink's exit code for what a new start resolves."""


def say(text: str) -> None:
    print(text, flush=True)  # noqa: T201


def main() -> int:
    """Run the demo; 0 when every record landed exactly once."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--input", type=Path, help="your own records, one JSON object per line")
    parser.add_argument("--keep", action="store_true", help="leave the working folder, with all logs, in place")
    arguments = parser.parse_args()
    from chsink.embedded.stack import Stack

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what was started is stopped then too
    datasets = from_file(arguments.input) if arguments.input else nycflights()
    root = Path(tempfile.mkdtemp(prefix="chsink-demo-"))
    try:
        say("starting Kafka, ZooKeeper and two ClickHouse shards")
        with Stack(root, clickhouse=2) as stack:
            demo = Demo(root, stack, datasets)
            try:
                return demo.run()
            finally:
                demo.end()
    finally:
        if arguments.keep:
            say(f"kept: {root}")
        else:
            shutil.rmtree(root, ignore_errors=True)


BY_MONTH = 'create = { partition = ["month(time_hour)"] }'
"""Of all topics but the first, which may hold a user's own records."""


class Demo:
    """One run over a started stack."""

    def __init__(self, root: Path, stack: Any, datasets: list[Dataset]) -> None:
        self.root = root
        self.bootstrap: str = stack.kafka.bootstrap
        self.endpoints: list[str] = [c.url for c in stack.clickhouse]
        self.datasets = datasets
        self.total = sum(len(d.lines) for d in datasets)
        self.jobs: list[subprocess.Popen[bytes]] = []
        self.clients = [clickhouse_connect.get_client(dsn=e, autogenerate_session_id=False) for e in self.endpoints]
        self.lake = Lake(root / "lake")
        first, *others = datasets
        self.create = [self.lake.create(first.columns), *[BY_MONTH] * len(others)]
        self.iceberg = [self.lake.compared(d.topic, d.columns) for d in datasets]

    def run(self) -> int:
        """Prepare, drain with kills, judge."""
        self._tables()
        self._send()
        config = self._config()
        say(f"job file: {config}")
        self._killed_half_way(config)
        self._killed_in_doubt(config)
        say("third start: drains to the end")
        job = self._start(config)
        while job.poll() is None:
            self._progress()
            time.sleep(0.5)
        if job.returncode != 0:
            say(f"chsink run ended with exit code {job.returncode}:\n{self._tail()}")
            return 1
        return self._judge()

    def end(self) -> None:
        """End a job that still runs, with all its processes."""
        for job in self.jobs:
            if job.poll() is None:
                self._kill(job)

    # --- preparing ------------------------------------------------------------------------------------------------

    def _tables(self) -> None:
        for client in self.clients:
            client.command(f"CREATE DATABASE IF NOT EXISTS {DATABASE}")
            for dataset in self.datasets:
                client.command(ddl(dataset, DATABASE))

    def _send(self) -> None:
        for dataset in self.datasets:
            for sent in produce(self.bootstrap, dataset):
                _bar(f"producing {dataset.topic}", sent, len(dataset.lines))
            say("")

    def _config(self) -> Path:
        routes = "\n".join(
            f'[[route]]\ntopic = "{d.topic}"\ntable = "{d.topic}"\nshard_key = {json.dumps(d.shard_key)}'
            for d in self.datasets
        )
        mirrored = "\n".join(
            f'[[mirror.route]]\ntopic = "{item.topic}"\ntable = "{item.table}"\n{create}'
            for item, create in zip(self.iceberg, self.create, strict=True)
        )
        path = self.root / "job.toml"
        path.write_text(f"""\
[sink]
name = "demo"
checkpoint = "{self.root / "checkpoint"}"

[kafka]
bootstrap = "{self.bootstrap}"
max_offsets_per_trigger = {max(1000, self.total // 6)}

{routes}

[clickhouse]
endpoints = {json.dumps(self.endpoints)}
database = "{DATABASE}"
chunk_offsets = 5000

[mirror]
enabled = true
auto_create = true
catalog = {{ name = "lake", type = "sql", uri = "{self.lake.uri}", warehouse = "{self.lake.warehouse}" }}
interval_s = 3

{mirrored}

[trigger]
mode = "available_now"

[spark]
master = "local[2]"
conf = {{ "spark.ui.enabled" = "false" }}
""")
        return path

    # --- running and killing --------------------------------------------------------------------------------------

    def _start(self, config: Path, faults: str = "") -> subprocess.Popen[bytes]:
        traps = {"CHSINK_FAILPOINTS": faults, "CHSINK_FAILPOINTS_LOG": str(self.root / f"faults-{len(self.jobs)}")}
        with (self.root / "job.log").open("ab") as log:
            job = subprocess.Popen(
                [sys.executable, "-m", "chsink.cli.main", "run", "-c", str(config)],
                stdout=log, stderr=log, start_new_session=True, cwd=self.root, env={**os.environ, **traps},
            )  # fmt: skip
        self.jobs.append(job)
        say(f"started chsink run, pid {job.pid}")
        return job

    @staticmethod
    def _kill(job: subprocess.Popen[bytes]) -> None:
        os.killpg(job.pid, signal.SIGKILL)
        job.wait()

    def _killed_half_way(self, config: Path) -> None:
        """One Python worker dies inside its transaction; after a quarter of the records, all processes die.

        Spark in local mode retries no task.  It stops the mirror's query, and at times the other one, too: then the job
        ends with exit code 5, and is started again, as a supervisor would do.
        """
        enough, nth = self.total // 4, 1 if self.total < FEW else 2
        job = self._start(config, f"worker.in_transaction=kill@{nth}")
        self._wait(job, lambda: self._landed() >= enough and bool(self._fired()))
        fired = self._fired()
        if not fired:
            raise SystemExit(f"no worker died inside its transaction:\n{self._tail()}")
        if job.poll() == UNAVAILABLE:
            say("\nthe job ended with exit code 5, because it lost a worker; it is started again")
            job = self._start(config)
        if self._await(job, lambda: self._landed() >= enough):
            self._kill(job)
            say(f"\nkilled pid {job.pid} with SIGKILL, half-way: {self._landed()} of {self.total} rows are there")
        say(f"  before that, worker {fired[0]} was killed with SIGKILL inside the transaction of its hand-over")

    def _killed_in_doubt(self, config: Path) -> None:
        """All processes die while a range of this very run is announced and not confirmed, and the coordinator is
        between two tables' commits; with one table, between its commit and the coordinator's own offsets.

        Should the range be confirmed before the blow, the job is started again.
        """
        several = len(self.iceberg) > 1
        fault = "coordinator.between_tables" if several else "coordinator.after_tables"
        while True:
            enough, before = self._landed() + self.total // 4, self._epoch()
            job = self._start(config, f"{fault}={ASLEEP}")

            def is_time(enough: int = enough, before: int = before) -> bool:
                landed = self._landed()
                return bool(self._fired()) and (
                    landed >= self.total or (landed >= enough and bool(self._doubtful(before)))
                )

            if self._await(job, is_time):
                self._kill(job)
            if not self._fired():
                raise SystemExit(f"the coordinator did not reach {fault}")
            doubtful = self._doubtful(before)
            say(f"\nkilled pid {job.pid} with SIGKILL, in doubt: {self._landed()} of {self.total} rows are there")
            for row in doubtful[:3]:
                say(f"  BEFORE row seen: {row}")
            where = "between two tables' commits" if several else "between its table's commit and its own offsets"
            say(f"  the coordinator was {where}; snapshots: {self._snapshots()}")
            if doubtful or self._landed() >= self.total:
                return

    def _await(self, job: subprocess.Popen[bytes], is_time: Callable[[], bool]) -> bool:
        """Whether it is time for the blow; with few records, the job may end before it."""
        self._wait(job, is_time)
        if job.poll() is not None and self.total >= FEW:
            raise SystemExit(f"the job ended before it could be killed:\n{self._tail()}")
        if job.poll() is not None:
            say(f"the job ended before it could be killed: exit code {job.returncode}")
        return job.poll() is None

    def _wait(self, job: subprocess.Popen[bytes], is_time: Callable[[], bool]) -> None:
        """Until it is time, or the job ended."""
        while job.poll() is None and not is_time():
            self._progress()
            time.sleep(0.2)

    def _snapshots(self) -> str:
        return ", ".join(f"{item.table} {self.lake.snapshots(item.table)}" for item in self.iceberg)

    def _fired(self) -> list[str]:
        """The processes in which a fault of the newest start fired."""
        log = self.root / f"faults-{len(self.jobs) - 1}"
        return [line.split()[2] for line in log.read_text().splitlines()] if log.exists() else []

    def _state(self) -> list[tuple[str, dict[str, Any]]]:
        if not self._number(self.clients[0], f"EXISTS TABLE {DATABASE}.{STATE_TABLE}"):
            return []
        rows = self.clients[0].query(f"SELECT key, body FROM {DATABASE}.{STATE_TABLE} ORDER BY key").result_rows
        records = ((key, json.loads(body)) for key, body in rows)
        return [(key, record) for key, record in records if "phase" in record]

    def _epoch(self) -> int:
        return max((record["epoch"] for _key, record in self._state()), default=0)

    def _doubtful(self, newer_than: int) -> list[str]:
        """Rows at BEFORE that were written under a later epoch than ``newer_than``."""
        return [
            f"{key} [{record['start']}, {record['end']}) epoch {record['epoch']}"
            for key, record in self._state()
            if record["phase"] == "BEFORE" and record["epoch"] > newer_than
        ]

    def _landed(self) -> int:
        parts = f"SELECT sum(rows) FROM system.parts WHERE active AND database = '{DATABASE}'"
        return sum(self._number(client, parts) for client in self.clients)

    @staticmethod
    def _number(client: Any, sql: str) -> int:
        return int(client.query(sql).result_rows[0][0])

    def _progress(self) -> None:
        _bar("landed", self._landed(), self.total)

    def _tail(self) -> str:
        return "\n".join((self.root / "job.log").read_text(errors="replace").splitlines()[-30:])

    # --- judging --------------------------------------------------------------------------------------------------

    def _judge(self) -> int:
        say("\nchecking Kafka against the shards and the Iceberg tables")
        tables = [Compared(d.topic, f"{DATABASE}.{d.topic}", d.columns) for d in self.datasets]
        shards = Side(tables, partial(on_shards, self.endpoints))
        verdict, mirrored = check(self.bootstrap, [shards, Side(self.iceberg, self.lake.landed)])
        snapshots = sum(self.lake.snapshots(item.table) for item in self.iceberg)
        for item in self.iceberg:
            say(f"Iceberg table {item.table}: created by the mirror, {self.lake.spec(item.table)}")
        say(f"{'exactly once' if verdict.exactly_once else 'NOT exactly once'}: {verdict}")
        say(f"mirror{'' if mirrored.exactly_once else ', NOT exactly once'}: {mirrored} snapshots={snapshots}")
        return 0 if verdict.exactly_once and mirrored.exactly_once else 1


def _bar(what: str, done: int, total: int) -> None:
    """A progress line: redrawn on a terminal, at each tenth elsewhere."""
    tenth = 10 * done // max(1, total)
    if sys.stdout.isatty():
        sys.stdout.write(f"\r{what:20} [{'#' * tenth:<10}] {done:>9,} of {total:,} ")
        sys.stdout.flush()
    elif _bar.__dict__.get("last") != (what, tenth):
        _bar.__dict__["last"] = (what, tenth)
        say(f"{what}: {done:,} of {total:,}")


if __name__ == "__main__":
    sys.exit(main())
