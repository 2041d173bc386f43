"""Single schedules of replays that chance seldom finds, by production code in a world without chance."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pytest

from chsink.connect import Services
from chsink.dlq.where import where
from chsink.errors import FencedError, PreflightError
from chsink.recovery import change
from chsink.recovery.decide import plan_reset
from chsink.replay.report import ReplayReport
from chsink.replay.run import ReplayVerdict
from chsink.statemachine.codec import decode
from chsink.statemachine.records import StateRecord
from tests.replay_sim import job, people
from tests.replay_sim.world import World
from tests.sim.clickhouse import LETTERS
from tests.sim.hub import Group
from tests.sim.services import services_of

T = TypeVar("T")


class Scene(World):
    """One partition, one table, which does not show its rows unless ``shown``; dead letters are in a table.  Nothing
    happens by itself.
    """

    def __init__(self, *, shown: bool = False) -> None:
        super().__init__(SHOWN_SEED if shown else PLAIN_SEED, frozenset())
        self.hub.calm = True
        self.dies_at: str | None = None

    def reach(self, name: str) -> None:
        """Die here, once, if the scene says so."""
        if name == self.dies_at:
            self.dies_at = None
            self.hub.die()

    def start_job(self) -> None:
        """Nothing starts by itself."""

    def play(self, act: Callable[[Services], T]) -> T | None:
        """One process.  What it returns, or raises; None if it died."""
        returned: list[T] = []
        raised: list[Exception] = []

        def run() -> None:
            try:
                returned.append(act(services_of(self)))  # type: ignore[arg-type]
            except Exception as error:
                raised.append(error)

        with self._watched():
            self.hub.spawn(Group("process"), run)
            while self.hub.step():
                pass
        for error in raised:
            raise error
        return next(iter(returned), None)

    def with_letters(self) -> Scene:
        """The job landed two ranges; of the second one, records became dead letters that fit by now."""
        for end in (job.SOME, 2 * job.SOME):
            self.ends[0] = end
            assert self.play(lambda _: self._job())
        return self

    def recorded(self) -> list[StateRecord]:
        """The job's state."""
        return [decode(row.body) for key, row in self.store.rows.items() if key.startswith(f"{self.sink}/")]

    def replay(self, verdict: ReplayVerdict | None = None) -> ReplayReport | None:
        """``chsink dlq replay [--landed | --resend]``."""
        return self.play(lambda services: people.replay_of(self, services).run(where([]), verdict))


def _seed(*, shown: bool) -> int:
    """The first seed whose world has the wanted shape."""
    for seed in range(1000):
        world = World(seed, frozenset())
        kind = world.kinds["db.t"]
        plain = not kind.replicated and not kind.replacing and kind.can_probe == shown and kind.parts == 1
        if plain and world.letters == "table" and world.partitions == 1:
            return seed
    raise AssertionError


PLAIN_SEED, SHOWN_SEED = _seed(shown=False), _seed(shown=True)


def test_a_replay_lands_what_fits() -> None:
    scene = Scene().with_letters()
    done = scene.replay()
    assert done is not None and done.landed > 0
    again = scene.replay()
    assert again is not None and again.landed == 0


def test_marks_that_somebody_deleted_are_missed() -> None:
    """⚑ The table remembers their token and drops them.  Unmarked, their dead letters would be replayed once more, and this
    table cannot show that their records have rows.
    """
    scene = Scene().with_letters()
    scene.dies_at = "task.after_dead_letters"
    assert scene.replay() is None
    marks = scene.servers[0].tables[LETTERS].rows
    assert marks.pop(("t", 0))
    with pytest.raises(PreflightError, match="CHS-337.*but not the marks"):
        scene.replay("landed")


@pytest.mark.parametrize("dies_at", ["task.before_insert", "driver.before_after", None])
def test_rows_of_a_list_with_marks_that_a_person_deleted_land_again(dies_at: str | None) -> None:
    """⚑ Whoever deletes rows of a list in doubt may not know that its marks were sent meanwhile.  ClickHouse remembers the
    tokens and dropped the rows that were sent again; then the marks were believed, and the rows were lost.
    """
    scene = Scene(shown=True).with_letters()
    before = set(+scene.oracle.rows)
    scene.dies_at = "driver.before_after"
    assert scene.replay() is None
    replayed = set(+scene.oracle.rows) - before
    for table, uid in replayed:
        scene.delete(table, uid)
    scene.dies_at = dies_at
    assert (scene.replay("resend") is None) == bool(dies_at)
    done = scene.replay()
    assert done is not None and done.landed == (len(replayed) if dies_at else 0)
    assert replayed and set(+scene.oracle.rows) == before | replayed


def test_a_replay_that_begins_in_the_middle_of_a_reset_stops_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """⚑ It claims the name of the replays before the reset claims the sink, so it may not see the reset in time."""
    scene, claim = Scene().with_letters(), change.claim

    def reset(services: Services) -> None:
        clickhouse, store = services.clickhouse, services.store

        def later(*said: object, **more: object) -> object:
            people.replay_of(scene, services).ledger.claim([], clickhouse.layouts)
            return claim(*said, **more)  # type: ignore[arg-type]

        monkeypatch.setattr(change, "claim", later)
        change.carry_out(clickhouse, store, plan_reset(clickhouse, store, "t", [0]), "reset")

    with pytest.raises(FencedError, match="CHS-801"):
        scene.play(reset)
    assert not any(record.read_again for record in scene.recorded())


def test_a_replay_sends_nothing_that_was_reset_since_it_was_chosen() -> None:
    """⚑ The reset claimed the name of the replays before this replay did: nothing fences it."""
    scene = Scene().with_letters()

    def late(services: Services) -> None:
        replay = people.replay_of(scene, services)
        replay.ledger.claim([], services.clickhouse.layouts)
        replay.source.begin()
        lives, [page] = replay.chooser.lives(), [*replay.source.pages(where([]))]
        chosen = replay.chooser.choose(page, ReplayReport("sink"), {})
        change.claim(services.clickhouse, services.store, "reset", [], resets=True)
        assert chosen and replay._round(chosen, lives) == list(chosen)

    rows = sum(scene.oracle.rows.values())
    scene.play(late)
    assert sum(scene.oracle.rows.values()) == rows
