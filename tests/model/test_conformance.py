"""The model's own driver, ledger and tasks call the same ports in the same order as production code does.

Both play the same stories (:mod:`tests.model.story`); a change of one side alone makes the traces differ.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.model.ledger import STEPS
from tests.model.model import Model
from tests.model.played import played
from tests.model.space import Driver, State
from tests.model.story import LOST, UNANSWERED, Run, Story
from tests.model.walked import CALLS, Asked, Calls, Walk

BEFORE, AFTER = ("store.swap BEFORE [0, 4)", 1), ("store.swap AFTER [0, 4)", 1)
AGAIN = {
    "the same checkpoint": Run(),
    "a new checkpoint at the end": Run(start=4),
    "a new checkpoint from the start": Run(start=0),
    "a new checkpoint, smaller batches": Run(start=0, limit=2),
    "a new checkpoint, larger batches": Run(start=0, limit=6),
    "a new checkpoint inside": Run(start=2),
    "a new checkpoint inside, a small batch": Run(start=1, limit=2),
    "a new checkpoint beyond": Run(start=6),
    "a restart, the same checkpoint": Run(restart=True),
    "a restart, a new checkpoint": Run(start=4, restart=True),
    "the log begins inside": Run(start=4, log_start=2),
    "the log begins inside, the plan before it": Run(start=0, limit=6, log_start=2),
    "the log begins beyond": Run(start=6, log_start=6),
    "another life of the topic": Run(start=0, recreated=6),
    "another life of the topic, the same checkpoint": Run(recreated=12),
}
"""A second start: all positions of a plan against the recorded range [0, 4)."""
FIRST = {
    "landed": Run(),
    "announced": Run(dies_at=("job batch [0, 4)", 1)),
    "inserted": Run(dies_at=AFTER),
    "in part": Run(dies_at=("task.insert 1:0", 1)),
    "not announced": Run(dies_at=BEFORE),
    "claimed": Run(dies_at=("spark.plan", 1)),
}
"""How the first start ends."""
WRONG = {
    f"{call} {n} {what}": Story((Run(wrong={(call, n): what}), Run(start=0)))
    for what in (LOST, UNANSWERED)
    for call, n in [
        ("store.create owner", 1),
        ("store.create EMPTY", 1),
        BEFORE,
        AFTER,
        ("task.insert 0:0", 1),
        ("task.insert 1:1", 1),
    ]
}
STORIES = {
    **{
        f"{ended}, {again}, {on_gap}": Story((first, second), on_gap=on_gap)
        for ended, first in FIRST.items()
        for again, second in AGAIN.items()
        for on_gap in ("halt", "record")
    },
    **WRONG,
    "a claim of another's rows, unanswered": Story(
        (Run(dies_at=AFTER), Run(wrong={("store.swap owner", 1): UNANSWERED, ("store.swap BEFORE [0, 4)", 1): LOST}))
    ),
    **{
        f"rounds: {ended}, {again}": Story((replace(first, limit=8), replace(second, limit=8)), round_offsets=4)
        for ended, first in FIRST.items()
        for again, second in AGAIN.items()
    },
    "one shard": Story((Run(dies_at=AFTER), Run(restart=True), Run(start=0)), shards=1, chunk_offsets=3),
    "killed again and again": Story(
        (Run(dies_at=AFTER), Run(restart=True, dies_at=("store.swap BEFORE [0, 4) probe", 1)), Run(restart=True), Run())
    ),
}


@pytest.mark.parametrize("name", STORIES)
def test_the_model_calls_what_production_calls(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    story = STORIES[name]
    assert Walk(story).trace() == played(story, monkeypatch)


def _in_doubt() -> Story:
    return STORIES["inserted, a restart, the same checkpoint, halt"]


@pytest.mark.parametrize(
    "name",
    [
        "chsink.driver.driver.check_readable",
        "chsink.driver.driver.check_same_topics",
        "chsink.clickhouse.pieces.check_same_topics",
    ],
)
def test_a_change_of_production_alone_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(name, lambda *_: None)
    assert Walk(_in_doubt()).trace() != played(_in_doubt(), monkeypatch)


@pytest.mark.parametrize(
    ("step", "instead"), [("take up", "mark"), ("still held", "confirm"), ("readable", "announce")]
)
def test_a_change_of_the_model_alone_is_noticed(step: str, instead: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The model leaves a step out."""
    expected = played(_in_doubt(), monkeypatch)
    monkeypatch.setitem(STEPS, step, STEPS[instead])
    monkeypatch.setitem(CALLS, step, CALLS[instead])
    assert Walk(_in_doubt()).trace() != expected


def test_every_step_of_the_model_names_its_calls_and_is_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    reached: set[str] = set()

    def reaching(name: str, ask: Asked) -> Asked:
        def asked(model: Model, state: State, driver: Driver) -> Calls:
            reached.add(name)
            return ask(model, state, driver)

        return asked

    for name, ask in list(CALLS.items()):
        monkeypatch.setitem(CALLS, name, reaching(name, ask))
    for story in STORIES.values():
        Walk(story).trace()
    assert reached == set(CALLS) == set(STEPS)
