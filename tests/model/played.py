"""The same stories in production code, over the simulator's services: production's half of the conformance check.

Every port that driver and tasks are given is wrapped; what is called is written down, or goes wrong as the story says.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pytest

from chsink.batch.model import Ack, PlannedBatch
from chsink.clickhouse.landing import assemble
from chsink.driver.lanes import Lanes
from chsink.driver.pace import Pace
from chsink.driver.roles import Assignment
from chsink.errors import ChsinkError, HaltError
from chsink.ports import StoredRow, Swap, Unanswered
from chsink.statemachine.codec import decode
from chsink.statemachine.owner import decode_owner
from tests.model.story import LOST, Run, Story, of_record
from tests.sim.checkpoint import Checkpoint, Query
from tests.sim.clickhouse import Client
from tests.sim.hub import Group
from tests.sim.job import Watcher
from tests.sim.services import STREAM, services_of
from tests.sim.spark import Runner
from tests.sim.store import StoreClient
from tests.sim.test_cases import TP, Scene

NOT_MODELLED = {
    "kafka.partitions": "a model world has one partition",
    "window.check_nothing_landed": "asks for rows that no state accounts for",
    "window.check_unchanged": "a model world's table is altered only between two starts",
    "task.views": "a model world's table feeds no view",
    "window.limit": "a model world's batch fits one round",
    "window.deadline_ms": "computed, not asked",
    "window.is_alone": "computed, not asked",
    "store.swap layouts": "a model world's layout is a number",
}
"""What production asks and the model does not, and why."""


@dataclass
class Recorder:
    """What was called in this run, and what the story has go wrong."""

    scene: Scene
    story: Story
    run: Run
    calls: list[str] = field(default_factory=list)

    def call(self, name: str) -> str:
        """The call begins.  Returns what becomes of it, "" where nothing goes wrong; or the job dies here."""
        if name in NOT_MODELLED:
            return ""
        self.calls.append(name)
        if self.run.dies(self.calls):
            self._die()
        return self.run.outcome(self.calls).partition(": ")[2]

    def _die(self) -> None:
        current = self.scene.hub.current
        assert current is not None
        for group in [*self.scene.drivers, *self.scene.executors]:
            if group is not current.group:
                self.scene.hub.kill(group)
                self.scene.gone(group)
        self.scene.hub.die()


class Steady(Pace):
    """A pace that is not learned: the model has no clock that would teach it."""

    def took(self, offsets: int, seconds: float, of: float) -> None:
        """Nothing changes."""


class Port:
    """A port whose calls are recorded as ``name.method``."""

    def __init__(self, name: str, inner: Any, recorder: Recorder) -> None:
        self._name, self._inner, self._recorder = name, inner, recorder

    def __getattr__(self, method: str) -> Any:
        found = getattr(self._inner, method)
        if not callable(found):
            return found

        def called(*arguments: Any, **named: Any) -> Any:
            self._recorder.call(f"{self._name}.{method}")
            return found(*arguments, **named)

        return called


@dataclass
class Store:
    """:class:`chsink.ports.StateStore`; a write is named by the record that it stores."""

    inner: StoreClient
    recorder: Recorder
    name: str = "recorded"
    durable: bool = True

    def load(self, sink: str) -> dict[str, StoredRow]:
        self.recorder.call("store.load")
        return self.inner.load(sink)

    def create(self, rows: Sequence[StoredRow]) -> bool:
        return self._write("create", rows[0], partial(self.inner.create, rows))

    def swap(self, swaps: Sequence[Swap]) -> bool:
        return self._write("swap", swaps[0].row, partial(self.inner.swap, swaps))

    def _write(self, verb: str, row: StoredRow, write: Callable[[], bool]) -> bool:
        what = of_record(decode(row.body)) if "/" in row.key else self._of_owner(row)
        wrong = self.recorder.call(f"store.{verb} {what}")
        applied = wrong != LOST and write()
        return applied and not wrong

    def _of_owner(self, row: StoredRow) -> str:
        stored = self.inner.store.rows.get(row.key)
        layouts = () if stored is None else decode_owner(stored.body).layouts
        return "owner" if decode_owner(row.body).layouts == layouts else "layouts"

    def prepare(self) -> None:
        """Nothing to make."""

    def close(self) -> None:
        """Nothing to release."""


class Jobs(Runner):
    """Runs the tasks; a job is named by its source and the range."""

    recorder: Recorder

    def from_batch(self, batch: PlannedBatch, assignments: Sequence[Assignment]) -> list[Ack]:
        self.recorder.call(f"job batch {assignments[0].range}")
        return super().from_batch(batch, assignments)

    def from_kafka(self, assignments: Sequence[Assignment]) -> list[Ack]:
        self.recorder.call(f"job exact {assignments[0].range}")
        return super().from_kafka(assignments)


def played(story: Story, patch: pytest.MonkeyPatch) -> list[str]:
    """The port calls of all runs of the story, one after the other."""
    scene = Scene()
    scene.chunk_offsets, scene.shards, scene.on_gap = story.chunk_offsets, story.shards, story.on_gap
    scene.kafka.append(TP, story.end)
    calls: list[str] = []
    for number, run in enumerate(story.runs, 1):
        if run.restart:
            scene.servers[0].crash(0)
            scene.servers[1].crash(0)
        if run.log_start:
            scene.kafka.expire(TP, run.log_start, lossy=True)
        if run.recreated:
            scene.kafka.recreate(TP.topic)
            scene.kafka.append(TP, run.recreated)
        if run.start is not None:
            scene.checkpoint = Checkpoint({TP: run.start})
        scene.hub.now += 60_000
        recorder = Recorder(scene, story, run)
        with patch.context() as patched, scene.watched():
            _record_tasks(recorder, patched)
            group = Group(f"driver{number}")
            scene.drivers.append(group)
            scene.hub.spawn(group, partial(_drive, recorder, group))
            while scene.hub.step():
                pass
        calls += [f"run {number}", *recorder.calls]
    return calls


def _drive(recorder: Recorder, group: Group) -> None:
    """As ``Sink.start`` and ``foreachBatch`` use a driver, without the start's own checks of rows, logs and checkpoint."""
    scene, hub = recorder.scene, recorder.scene.hub
    services = services_of(scene)
    store: Any = Store(StoreClient(scene.store), recorder)
    kafka: Any = Port("kafka", scene.kafka, recorder)
    lanes, _ = assemble(services.clickhouse, store, kafka, STREAM, Watcher(scene), services.log)
    [driver] = lanes.drivers
    window: Any = Port("window", driver.window, recorder)
    lanes = Lanes([replace(driver, window=window, pace=Steady(recorder.story.round_offsets))])
    jobs = Jobs(scene)
    jobs.recorder = recorder
    query = Query(hub, scene.kafka, scene.checkpoint, recorder.run.limit)
    try:
        lanes.claim(services.clickhouse.layouts)
        lanes.settle_all(jobs)
        query.start(json.dumps({TP.topic: {str(TP.partition): 0}}))
        while True:
            recorder.call("spark.plan")
            batch = query.next_batch()
            if batch is None:
                break
            lanes.process(batch, jobs)
            recorder.call("spark.commit")
            query.commit()
    except HaltError as halt:
        recorder.calls.append(f"halt {halt.id}")
    except ChsinkError:
        pass  # a task reported it: the model's driver ends there, too
    scene.gone(group)


def _named(client: Client, sql: str) -> str:
    """A task's question to a server."""
    if "uptime()" in sql:
        return "task.look"
    if "dependencies_table" in sql:
        return "task.views"
    what = "deleting" if "system.mutations" in sql else "rows"
    return f"task.{what} shard{client.server.number}"


def _record_tasks(recorder: Recorder, patched: pytest.MonkeyPatch) -> None:
    """What tasks ask, by their process; the piece that they asked for last names a look and a send."""
    query, insert, ids = Client.query, Client.insert, recorder.scene.kafka.topic_ids

    def in_task() -> bool:
        current = recorder.scene.hub.current
        return current is not None and current.group.name == "executor"

    def asked(client: Client, sql: str, parameters: Any = None) -> Any:
        if in_task():
            recorder.call(_named(client, sql))
        return query(client, sql, parameters)

    def sent(client: Client, sql: str, body: Any, settings: Any, url: str) -> None:
        piece = ":".join(str(settings["insert_deduplication_token"]).split(":")[-3:-1])
        wrong = recorder.call(f"task.insert {piece}")
        if wrong == LOST:
            raise Unanswered(wrong)
        insert(client, sql, body, settings, url)
        if wrong:
            raise Unanswered(wrong)

    def topic_ids(topics: Any) -> Any:
        if in_task():
            recorder.call("task.topic_ids")
        return ids(topics)

    patched.setattr(Client, "query", asked)
    patched.setattr(Client, "insert", sent)
    patched.setattr(recorder.scene.kafka, "topic_ids", topic_ids)
