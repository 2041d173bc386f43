"""The defects: small patches of production files, and the invariant that must break.

A patch is old text → new text; the old text must be there exactly once, so that a defect never goes stale unnoticed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Patch:
    """One change of one file."""

    path: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Defect:
    """``caught_by``: the check that must fail; ``invariants``: the names by which it may say so."""

    name: str
    patches: tuple[Patch, ...]
    caught_by: Literal["simulator", "model"]
    invariants: tuple[str, ...]
    seed: int = 1
    steps: int = 150_000


DRIVER, TASK, LEDGER = "chsink/delivery/driver.py", "chsink/delivery/task.py", "chsink/delivery/ledger.py"
WRITER, WINDOW = "chsink/clickhouse/writer.py", "chsink/clickhouse/window.py"
PLAN, TOKENS, WRITES = "statemachine/plan.py", "statemachine/tokens.py", "statemachine/writes.py"
TABLE, RECORDS, CONFIRM = "statemachine/transitions.py", "statemachine/records.py", "chsink/delivery/confirm.py"

DEFECTS = (
    Defect(
        "no token: every send has a name of its own",
        (Patch(WRITER, '"insert_deduplication_token": token}', '"insert_deduplication_token": str(id(body))}'),),
        "simulator",
        ("at_most_once",),
    ),
    Defect(
        "token of the planned range instead of the recorded one",
        (
            Patch(
                TASK,
                "from dataclasses import dataclass, field\n",
                "from dataclasses import dataclass, field, replace\n",
            ),
            Patch(
                TASK,
                "        token = piece_token(assignment.key, assignment.record, item.index, piece.shard)\n",
                "        plan = context.planned[tp]\n"
                "        named = replace(assignment.record, first=0, start=plan.start, end=plan.end)\n"
                "        token = piece_token(assignment.key, named, item.index, piece.shard)\n",
            ),
        ),
        "simulator",
        ("at_most_once", "token_is_content"),
    ),
    Defect(
        "neither topic id nor incarnation in the token",
        (Patch(TOKENS, "        record.topic_id,\n        record.incarnation,\n", ""),),
        "simulator",
        ("token_is_content",),
    ),
    Defect(
        "BEFORE is only remembered, not stored",
        (
            Patch(
                DRIVER,
                "            )\n        self.ledger.write(changes)\n",
                "            )\n        self.ledger.records.update(changes)\n",
            ),
        ),
        "simulator",
        ("announced_first",),
    ),
    Defect(
        "AFTER is stored before the inserts",
        (
            Patch(
                DRIVER,
                '        with self.observer.phase("insert" if fresh else "settle"):\n            acks = run(assignments)\n',
                "        attempt, epoch = self.ledger.attempt(), self.ledger.epoch\n"
                "        self.ledger.write({k: writes.after(self.ledger.records[k], epoch=epoch, attempt=attempt) "
                "for k in keys})\n"
                "        acks = run(assignments)\n",
            ),
            Patch(
                DRIVER,
                '        with self.observer.phase("after"):\n'
                "            attempt, epoch = self.ledger.attempt(), self.ledger.epoch\n"
                "            self.ledger.write({k: writes.after(self.ledger.records[k], epoch=epoch, attempt=attempt) "
                "for k in keys})\n",
                "",
            ),
        ),
        "simulator",
        ("after_means_landed",),
    ),
    Defect(
        "no fencing: a write replaces whatever is stored",
        (
            Patch(
                LEDGER,
                "            if self.store.swap([_swap(k, self.records[k], r) for k, r in pending.items()]) "
                "is Outcome.APPLIED:\n",
                "            now = self._load()\n"
                "            forced = [Swap(now[str(k)].attempt, _row(k, r)) for k, r in pending.items()]\n"
                "            if self.store.swap(forced) is Outcome.APPLIED:\n",
            ),
        ),
        "simulator",
        ("state_forward", "one_slot"),
    ),
    Defect(
        "an unknown outcome of a state write is taken for applied",
        (
            Patch(
                LEDGER,
                "for k, r in pending.items()]) is Outcome.APPLIED:",
                "for k, r in pending.items()]) is not None:",
            ),
        ),
        "simulator",
        ("announced_first",),
    ),
    Defect(
        "a second claim reuses the attempt of the first",
        (Patch(LEDGER, "            if found != replaced:", "            if not attempt:"),),
        "simulator",
        ("state_forward",),
        steps=600_000,
    ),
    Defect(
        "rows of a newer owner are taken for ours",
        (Patch(LEDGER, "            if record.epoch > self.epoch:", "            if record.epoch < 0:"),),
        "simulator",
        ("no_defect",),
        steps=600_000,
    ),
    Defect(
        "state is compared by the topic's name only",
        (
            Patch(PLAN, "facts.topic_id in (None, record.topic_id):\n", "facts.topic_id != 0:\n"),
            Patch(DRIVER, "        self._check_same_topics(keys)\n        if check", "        if check"),
        ),
        "simulator",
        ("complete_at_rest", "after_means_landed", "at_most_once", "token_is_content"),
    ),
    Defect(
        "the topic's id is not asked again after reading",
        (Patch(DRIVER, "        self._check_same_topics(keys)\n        if check", "        if check"),),
        "simulator",
        ("after_means_landed",),
        steps=600_000,
    ),
    Defect(
        "chunks by row count",
        (
            Patch(TASK, "    last_offset: int = -1\n", "    last_offset: int = -1\n    rows: int = 0\n"),
            Patch(
                TASK,
                "            index = chunk_index(record.range, record.chunk_offsets, int(offsets[low]))\n"
                "            end = chunk(record.range, record.chunk_offsets, index).end\n"
                "            stop = int(np.searchsorted(offsets, end))\n",
                "            index = self.rows // record.chunk_offsets\n"
                "            stop = min(high, low + record.chunk_offsets - self.rows % record.chunk_offsets)\n"
                "            self.rows += stop - low\n",
            ),
        ),
        "simulator",
        ("at_most_once", "token_is_content"),
    ),
    Defect(
        "a range is sent again by the present shard layout",
        (Patch(DRIVER, "layout = self.ledger.owner.layout(record.layout)", "layout = self.routes[key.topic].layout"),),
        "simulator",
        ("right_shard", "at_most_once"),
        steps=400_000,
    ),
    Defect(
        "the in-doubt range is forgotten when newer data comes",
        (
            Patch(DRIVER, "        if not doubtful:\n            return\n", "        return\n"),
            Patch(WRITES, "    assert not record.in_doubt and not asked.is_empty", "    assert not asked.is_empty"),
            Patch(WRITES, "    assert fresh or (record.phase is Phase.AFTER and", "    assert fresh or (True and"),
        ),
        "simulator",
        ("one_slot",),
    ),
    Defect(
        "inserts go on after the deadline",
        (Patch(WRITER, "        if self.clock.now_ms() >= deadline_ms:", "        if deadline_ms < 0:"),),
        "simulator",
        ("at_most_once",),
    ),
    Defect(
        "a token is trusted for ever",
        (Patch(WINDOW, "        why = self._forgotten(members, key, record)\n", "        why = None\n"),),
        "simulator",
        ("at_most_once",),
    ),
    Defect(
        "a retry does not notice that the server restarted",
        (Patch(WRITER, "        if uptime_s <= ", "        if uptime_s < 0 and uptime_s <= "),),
        "simulator",
        ("at_most_once",),
    ),
    Defect(
        "rows of a deleted topic are taken for those of its successor",
        (
            Patch(
                DRIVER, "        if probe and record.incarnation > 0:", "        if probe and record.incarnation < 0:"
            ),
        ),
        "simulator",
        ("after_means_landed", "halt_justified"),
        steps=600_000,
    ),
    Defect(
        "retention during a settle goes unnoticed",
        (Patch(DRIVER, "runner.from_kafka, check=self._check_still_held)", "runner.from_kafka)"),),
        "simulator",
        ("after_means_landed",),
        steps=600_000,
    ),
    Defect(
        "a failed insert is acknowledged",
        (
            Patch(
                TASK,
                "        result = writer.insert(piece.shard, assignment.key.table, piece.batch, token, "
                "assignment.deadline_ms)\n",
                "        try:\n"
                "            result = writer.insert(piece.shard, assignment.key.table, piece.batch, token, "
                "assignment.deadline_ms)\n"
                "        except ChsinkError:\n"
                "            continue\n",
            ),
        ),
        "simulator",
        ("after_means_landed",),
    ),
    Defect(
        "a log that shrank is not noticed when a range is settled",
        (Patch(PLAN, "_log_shrank(record, record.range, facts) or _cannot_reproduce", "_cannot_reproduce"),),
        "simulator",
        ("after_means_landed",),
        steps=600_000,
    ),
)
