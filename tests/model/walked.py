"""One path through the model, as the port calls that it stands for: the model's half of the conformance check.

``CALLS`` names the port calls of every step of the model.  A step of the model that is not in it is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tests.model.driver import moves, reads_exactly
from tests.model.events import recreated
from tests.model.model import Model, World
from tests.model.space import NO_ROW, Checkpoint, Driver, State, Task
from tests.model.spark import restarted, task_moves
from tests.model.story import Run, Story, of_record

Calls = tuple[str, ...]
Asked = Callable[[Model, State, Driver], Calls]
BOUNDS: Calls = ("kafka.log_ends", "kafka.log_starts")


def _asked(model: Model, state: State, d: Driver) -> Calls:
    """Bounds are asked where the plan does not simply go on; the start also of a range in doubt."""
    assert d.rest is not None
    record = model.protocol.record(d.cache[1])
    odd = d.rest[0] != record.end or record.life.topic_id is None
    return BOUNDS if odd else BOUNDS[1:] if record.in_doubt else ()


def _claim(model: Model, state: State, d: Driver) -> Calls:
    return (f"store.{'swap' if d.replaced else 'create'} owner",)


def _take_over(model: Model, state: State, d: Driver) -> Calls:
    if d.cache == NO_ROW:
        return ("store.create EMPTY",)
    return (f"store.swap {of_record(model.protocol.record(d.cache[1]))}",)


def _write(model: Model, state: State, d: Driver) -> Calls:
    return (f"store.swap {of_record(model.protocol.record(d.want))}",)


def _steady(*calls: str) -> Asked:
    return lambda model, state, d: calls


CALLS: dict[str, Asked] = {
    "claim: read": _steady("store.load"),
    "claim: write": _claim,
    "rows": _steady("store.load"),
    "take over": _take_over,
    "write": _write,
    "read back": _steady("store.load"),
    "settle: ids": _steady("kafka.topic_ids"),
    "settle: bounds": _steady(*BOUNDS),
    "take up": _steady("window.must_probe"),
    "mark": _steady("window.holds_foreign", "window.wait_for_inserts", "window.marks"),
    "confirm": _steady("kafka.topic_ids"),
    "still held": _steady("kafka.log_starts", "kafka.log_ends"),
    "plan": _steady("spark.plan"),
    "decide: ids": _steady("kafka.topic_ids"),
    "decide: bounds": _asked,
    "readable": _steady("kafka.log_starts", "kafka.log_ends"),
    "announce": _steady("window.marks"),
    "commit": _steady("spark.commit"),
    "halt": _steady("store.load"),
}


class _Lenient(Model):
    """Here the story gives the reasons for a halt."""

    def happened(self, state: State, *faults: str) -> bool:
        return True


@dataclass
class Walk:
    """A path through a world.  ``calls`` are what was called so far."""

    story: Story
    model: Model = field(init=False)
    calls: list[str] = field(default_factory=list)
    sent: dict[int, int] = field(default_factory=dict)
    """How many pieces the task has sent to each shard that it looks for afterwards."""

    def __post_init__(self) -> None:
        story = self.story
        self.model = _Lenient(
            World(
                "conformance",
                "one path",
                dict.fromkeys(
                    ("store: request lost", "store: answer lost", "insert: request lost", "insert: answer lost"), 9
                ),
                any=9,
                end=story.end,
                chunk_offsets=story.chunk_offsets,
                shards=story.shards,
                on_gap=story.on_gap,
                round_offsets=story.round_offsets,
                split=frozenset({"facts", "read"}),
            )
        )

    def trace(self) -> list[str]:
        """All runs of the story, one after the other."""
        state = self.model.first()
        for number, run in enumerate(self.story.runs, 1):
            state = self._prepared(state, run, number)
            self.calls.append(f"run {number}")
            state = self._run(state, run)._replace(drivers=(), tasks=(), copies=())
        return self.calls

    def _prepared(self, state: State, run: Run, number: int) -> State:
        if run.restart:
            state = restarted(state)
        if run.log_start:
            log = state.kafka
            state = state._replace(
                kafka=log._replace(start=run.log_start, visible=log.visible >> run.log_start << run.log_start)
            )
        if run.recreated:
            state = recreated(self.model, state, run.recreated)
        if run.start is not None:
            state = state._replace(checkpoint=Checkpoint(run.start, made=number))
        driver = Driver(number, limit=run.limit, layout=self.story.shards)
        return state._replace(drivers=(driver,))

    def _run(self, state: State, run: Run) -> State:
        begins = len(self.calls)
        while state.drivers:
            [driver] = state.drivers
            if driver.pc == "job runs":
                task = next(t for t in state.tasks if t.driver == driver.number and t.job == driver.used)
                calls, following = self._task_calls(state, task), task_moves(self.model, state, task)
            else:
                calls = CALLS[driver.pc](self.model, state, driver)
                following = moves(self.model, state, driver)
            if self._die_at(calls, run, begins):
                return state
            what, state = self._next(state, following, run, self.calls[begins:])
            if run.dies(self.calls[begins:]):  # where its job begins
                return state
            if what == "piece sent" and self._die_at(self._first(state, task), run, begins):
                return state
        return state

    def _die_at(self, calls: Calls, run: Run, begins: int) -> bool:
        """Make the calls, until the run dies."""
        for call in calls:
            self.calls.append(call)
            if run.dies(self.calls[begins:]):
                return True
        return False

    def _next(
        self, state: State, following: Iterator[tuple[str, State]], run: Run, calls: list[str]
    ) -> tuple[str, State]:
        """What the story says, or what happens where nothing goes wrong."""
        wanted = run.outcome(calls)
        found = [(what, after) for what, after in following if what == wanted or after.any_left == state.any_left]
        what, after = next((f for f in found if f[0] == wanted), found[0])
        self._job_begins(state, after)
        if what.startswith("halt "):
            self.calls.append(what)
        return what, after

    def _job_begins(self, before: State, after: State) -> None:
        for d in after.drivers:
            was = next((w for w in before.drivers if w.number == d.number), None)
            if d.pc == "job runs" and (was is None or was.pc != "job runs"):
                record = self.model.protocol.record(d.cache[1])
                self.calls.append(f"job {'exact' if reads_exactly(d) else 'batch'} {record.range}")

    def _task_calls(self, state: State, task: Task) -> Calls:
        """What the task's next step asks: the topic, the table's rows, what the table remembers; then it sends."""
        model = self.model
        index, shard = divmod(task.piece, task.shards)
        if index >= model.protocol.chunk_count(task.record):
            return self._searched()
        if task.piece == 0:
            self.sent.clear()
        if task.rows[0] < 0:
            return ()
        probed = _search(shard)
        [(what, _)] = [m for m in task_moves(model, state, task) if m[1].any_left == state.any_left]
        return {
            "still the topic": ("task.topic_ids",),
            "read from another topic": ("task.topic_ids",),
            "probed: nothing there": probed,
            "probed: all there": probed,
            "probed: kept": probed,
            "token may be forgotten": ("task.look",),
            "piece sent": ("task.look", f"task.insert {index}:{shard}"),
        }.get(what, ())

    def _searched(self) -> Calls:
        """What a task asks once it has sent all pieces: of each shard that got more than one of those that it looks for.
        Here, the answer is always that the table has each once: nobody deletes rows or moves parts in a model world.
        """
        return tuple(call for shard, n in self.sent.items() if n > 1 for call in _search(shard))

    def _first(self, state: State, task: Task) -> Calls:
        """What it asks once it has sent one: of the first one on each shard that it looks for."""
        if not self._looks(state, task):
            return ()
        shard = task.piece % task.shards
        self.sent[shard] = self.sent.get(shard, 0) + 1
        return _search(shard) if self.sent[shard] == 1 else ()

    def _looks(self, state: State, task: Task) -> bool:
        """Whether the piece may have been sent before: in a range sent again whose tokens are trusted, or by the task."""
        [driver], record = state.drivers, self.model.protocol.record(task.record)
        again = driver.exact or driver.reinsert or task.stage == "sent"
        return again and self.model.can_probe and not record.doubt.probe


def _search(shard: int) -> Calls:
    """A task looks for rows, once no DELETE is running."""
    return (f"task.deleting shard{shard}", f"task.rows shard{shard}")
