"""The services and folder of a measurement, and the measured processes.

Every variant is a process with its own session, JVM and workers, so variants share neither memory nor compiled code.
All of them stay warm while they take turns.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import clickhouse_connect

from bench.processes import Usage, Watch
from bench.topic import COLUMNS
from chsink.embedded.stack import Stack

ROOT = Path(__file__).resolve().parent.parent
EXIT_LIMIT_S = 30


class MeasuredError(Exception):
    """A variant ended; the message holds the end of its log."""


@dataclass(frozen=True, slots=True)
class Place:
    """Services, a scratch folder, the Kafka source's jars, and the output for progress."""

    stack: Stack
    folder: Path
    jars: str
    say: Callable[[str], None]

    @property
    def url(self) -> str:
        """The one ClickHouse server's."""
        return self.stack.clickhouse[0].url

    @property
    def services(self) -> dict[str, int]:
        """Process ids by name."""
        stack = self.stack
        return {"clickhouse": stack.clickhouse[0].pid, "kafka": stack.kafka.pid, "zookeeper": stack.zookeeper.pid}

    def keeper_requests(self) -> int:
        """Requests that the Keeper has had since it started, sessions' pings among them (a few a second)."""
        host, port = self.stack.zookeeper.hosts.rsplit(":", 1)
        with socket.create_connection((host, int(port)), 5) as connection:
            connection.sendall(b"srvr")
            answer = b"".join(iter(lambda: connection.recv(4096), b"")).decode()
        return next(int(line.split()[1]) for line in answer.splitlines() if line.startswith("Received:"))

    def statements(self, client: Any) -> dict[str, int]:
        """What ClickHouse had so far: questions, inserts (also into KeeperMap), and what inserts took in us."""
        names = {"SelectQuery": "questions", "InsertQuery": "inserts", "InsertQueryTimeMicroseconds": "inserts_us"}
        asked = f"SELECT event, value FROM system.events WHERE event IN {tuple(names)}"
        had = {names[str(name)]: int(value) for name, value in client.query(asked).result_rows}
        return {name: had.get(name, 0) for name in names.values()}

    def client(self) -> Any:
        """An official client of the server."""
        return clickhouse_connect.get_client(dsn=self.url, autogenerate_session_id=False)

    def empty_table(self, client: Any, name: str, *, deduplicated: bool, columns: str = COLUMNS) -> None:
        """A new table of the benchmark's columns, or of others, in the order of the first."""
        client.command(f"DROP TABLE IF EXISTS {name} SYNC")
        window = 10_000 if deduplicated else 0
        client.command(
            f"CREATE TABLE {name} ({columns}) ENGINE = MergeTree ORDER BY {columns.split(maxsplit=1)[0]} "
            f"SETTINGS non_replicated_deduplication_window = {window}"
        )

    def checkpoint(self) -> str:
        """A new folder."""
        return tempfile.mkdtemp(dir=self.folder, prefix="checkpoint-")


class Measured:
    """A started variant; ``with Measured(place, "c") as process: process.drain(topic, table)``."""

    def __init__(
        self,
        place: Place,
        variant: str,
        *,
        block_rows: int = 300_000,
        block_bytes: int = 64 << 20,
        python: str = sys.executable,
        jars: str = "",
    ) -> None:
        """``block_rows``, ``block_bytes``: bounds of a baseline's batches.  ``python``, ``jars``: another Spark's."""
        self.place, self.variant = place, variant
        self._log = place.folder / f"process-{variant}.log"
        settings = {
            "variant": variant, "url": place.url, "bootstrap": place.stack.kafka.bootstrap,
            "jars": jars or place.jars, "lake": str(place.folder / "iceberg"),
            "master": "local[2]", "conf": spark_conf(place.folder),
            "block_rows": str(block_rows), "block_bytes": str(block_bytes),
        }  # fmt: skip
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [python, "-m", "bench.drain", json.dumps(settings)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=ROOT,
                env={**os.environ, "PYSPARK_PYTHON": python},
                text=True,
                start_new_session=True,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def pid(self) -> int:
        """Of the process that drives; its JVM and workers descend from it."""
        return self._process.pid

    def session_s(self) -> float:
        """Wait for the session; seconds that Spark took to start it."""
        return float(self._answer()["session_s"])

    def begin(
        self,
        topic: str,
        table: str,
        checkpoint: str,
        *,
        sink: str,
        max_offsets: int | None = None,
        lake: Mapping[str, str] | None = None,
        mirrored: str = "",
        keep: Mapping[str, Any] | None = None,
        shape: Mapping[str, str] | None = None,
    ) -> None:
        """Start draining the topic into the table: for the mirror, a table of the Iceberg catalog ``lake``; for both
        sides, also into the Iceberg table ``mirrored``.  ``keep`` are the job's sections about bad values, ``shape``
        the columns and partitions of the table that Spark's own Iceberg sink makes.
        """
        command = {"topic": topic, "table": table, "checkpoint": checkpoint, "sink": sink, "max_offsets": max_offsets,
                   "lake": lake, "mirrored": mirrored, "keep": keep, "shape": shape}  # fmt: skip
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()

    def end(self) -> dict[str, Any]:
        """End a job whose ``keep`` has a trigger with an interval; its result."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"end": True}) + "\n")
        self._process.stdin.flush()
        return self.result()

    def result(self) -> dict[str, Any]:
        """Wait for the end of the drain: ``seconds``, and what the variant knows of its own work."""
        return self._answer()

    def drain(
        self,
        topic: str,
        table: str,
        *,
        lake: Mapping[str, str] | None = None,
        mirrored: str = "",
        keep: Mapping[str, Any] | None = None,
        shape: Mapping[str, str] | None = None,
    ) -> tuple[dict[str, Any], Usage]:
        """Drain once with a new checkpoint; the answer and what was used by whom."""
        checkpoint = self.place.checkpoint()
        with Watch(self.pid, self.place.services) as watch:
            sink = f"bench-{Path(checkpoint).name}"
            self.begin(topic, table, checkpoint, sink=sink, lake=lake, mirrored=mirrored, keep=keep, shape=shape)
            answer = self.result()
        return answer, watch.usage

    def kill(self) -> None:
        """SIGKILL it and its JVM at once; the workers end with the JVM."""
        if self._process.poll() is None:
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait(EXIT_LIMIT_S)
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            tail = "\n".join(self._log.read_text(errors="replace").splitlines()[-25:])
            raise MeasuredError(f"variant {self.variant} ended unexpectedly; the end of its log:\n{tail}")
        answer: dict[str, Any] = json.loads(line)
        return answer


def spark_conf(folder: Path) -> Mapping[str, str]:
    """The same for all variants.

    Host and bind address go together: bound to the loopback only, the driver would still hand out the machine's
    outward address for its jars, and the session would fail to start where the two differ.
    """
    return {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "2g",
        "spark.local.dir": str(folder / "spark"),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
