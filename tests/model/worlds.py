"""The small worlds and their bounds.  Each is explored whole: every order of its steps and of the faults it may see.

A world has one topic-partition of two to five offsets and two to four starts of the job; batches and chunks are small.
"""

from __future__ import annotations

from tests.model.model import World

STORE = ("store: request lost", "store: answer lost", "store: arrives late", "store: arrives twice")
INSERT = ("insert: request lost", "insert: answer lost", "insert: arrives late")
CHECKPOINT = ("checkpoint: lost", "checkpoint: rewound", "checkpoint: anywhere", "checkpoint: commit deleted")


def once(*faults: str) -> dict[str, int]:
    """Each of these faults once."""
    return dict.fromkeys(faults, 1)


WORLDS = (
    World(
        "two drivers",
        "a second driver claims while the first is at any step; state writes are lost, late, doubled, unanswered",
        once("second driver", "driver killed", *STORE),
        any=2,
        end=2,
        split=frozenset({"load"}),
    ),
    World(
        "three claims",
        "three drivers claim at the same time, and end there; an answer of the store is lost",
        {"second driver": 2, "store: answer lost": 1},
        any=3,
        starts=3,
        claims_only=True,
    ),
    World(
        "two drivers, one checkpoint",
        "both plan batches into one offset log; a driver that was fenced without noticing goes on",
        once("second driver", "insert: answer lost"),
        any=2,
    ),
    World(
        "tasks",
        "speculative duplicates, lost executors, zombies that send late; inserts lost, unanswered, late; two shards",
        once("driver killed", "task: speculative duplicate", "task: executor lost", *INSERT),
        any=3,
        shards=2,
        eager=False,
    ),
    World(
        "window by time",
        "time passes at any step; a replicated table forgets tokens after two ticks",
        {"driver killed": 1, "time passes": 4} | once("insert: answer lost", "insert: arrives late"),
        any=5,
        end=2,
        starts=3,
        replicated=True,
        window=2,
    ),
    World(
        "window by count",
        "others insert as many blocks as the table remembers, at any step",
        {"driver killed": 1, "others write": 2} | once("time passes", "insert: answer lost", "insert: arrives late"),
        any=3,
        window_blocks=10,
        starts=3,
    ),
    World(
        "server restarts",
        "the server is started anew, or dies with an insert whose token it loses",
        once(
            "driver killed",
            "server restarts",
            "server dies with an insert",
            "time passes",
            "task: speculative duplicate",
            "insert: answer lost",
        ),
        any=3,
        starts=3,
    ),
    World(
        "cannot probe",
        "a table that does not allow looking: halt, never a guess",
        once("driver killed", "others write", "time passes", "server restarts"),
        any=3,
        window_blocks=10,
        can_probe=False,
        replicated=True,
        window=2,
    ),
    World(
        "compaction and retention",
        "records go while they are planned, read, sent, settled; a transaction marker lies in the log",
        once("driver killed", "kafka: compaction", "kafka: retention", "insert: answer lost"),
        any=3,
        end=5,
        holes=0b00010,
        limits=(4,),
        split=frozenset({"facts", "read"}),
    ),
    World(
        "compaction, then probed",
        "records go while their tokens are forgotten: a part of a piece is there",
        once("driver killed", "kafka: compaction", "others write", "time passes"),
        any=4,
        end=2,
        window_blocks=10,
    ),
    World(
        "topic recreated",
        "the topic is deleted and made anew at any step, shorter or as long",
        once("driver killed", "kafka: topic recreated", "checkpoint: lost", "insert: answer lost"),
        any=3,
        starts=3,
        split=frozenset({"facts", "read"}),
    ),
    World(
        "recreated, tokens forgotten",
        "rows of an earlier life of the topic have the same offsets as those that are probed for",
        once("driver killed", "kafka: topic recreated", "checkpoint: lost", "others write", "time passes"),
        any=4,
        starts=3,
        end=2,
        window_blocks=10,
    ),
    World(
        "checkpoint",
        "batches are planned again with another range: the checkpoint lost, rewound, set anywhere, a commit deleted",
        once(*CHECKPOINT, "limit changed", "driver killed"),
        any=3,
        end=5,
        holes=0b01000,
        limits=(2, 3, 5, 1),
        starts=3,
        eager=False,
    ),
    World(
        "rounds",
        "batches larger than a round: killed between two rounds, planned again, records gone meanwhile",
        once("driver killed", "checkpoint: lost", "limit changed", "kafka: retention", "insert: answer lost"),
        any=3,
        end=5,
        limits=(5, 2),
        round_offsets=2,
        starts=3,
        split=frozenset({"facts"}),
    ),
    World(
        "gaps recorded, rewinds refused",
        "the other policies; retention ahead of the sink",
        once("checkpoint: anywhere", "checkpoint: rewound", "kafka: retention", "driver killed"),
        any=4,
        on_gap="record",
        on_rewind="halt",
        starts=4,
    ),
    World(
        "much is lost",
        "the log shrinks, brokers stop telling ids, the state is lost, the table is altered",
        once(
            "driver killed",
            "kafka: log shrinks",
            "kafka: ids hidden",
            "store: state lost",
            "table altered",
            "checkpoint: rewound",
        ),
        any=3,
        starts=3,
    ),
    World(
        "reads lag",
        "a replica of the store answers with what was there before the last write",
        {"store: read lags": 2} | once("store: answer lost", "driver killed"),
        any=4,
        starts=2,
        end=2,
        split=frozenset({"load"}),
    ),
    World(
        "reads lag, two drivers",
        "the same while a second driver claims at any step",
        once("store: read lags", "store: answer lost", "second driver"),
        any=3,
        end=2,
    ),
    World(
        "brokers gain topic ids",
        "brokers that told no ids begin to, at any step",
        once("kafka: ids shown", "driver killed", "insert: answer lost", "checkpoint: lost"),
        any=3,
        starts=3,
        known=False,
        split=frozenset({"facts"}),
    ),
    World(
        "started again from nothing",
        "the sink is stopped, its rows, state and checkpoint are removed, and it is started again under the same name",
        once("everything removed", "driver killed", "insert: answer lost", "kafka: retention"),
        any=3,
        starts=3,
    ),
    World(
        "shards changed",
        "the list of shards is another one at the next start",
        once("driver killed", "shards changed", "insert: answer lost", "task: speculative duplicate"),
        any=3,
        starts=3,
        eager=False,
    ),
)
