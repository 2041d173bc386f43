"""The scheduler: runs one greenlet at a time, chosen by a seeded source.  A step is one choice.

Every port call of production code hands control back to the hub (``pause``), which picks the next actor.  Nothing else
switches actors, so one seed gives one run.  The clock moves one millisecond a step, and jumps when all actors sleep.

Two random sources: ``random`` chooses the next actor and the events of the world, ``chance`` whether a fault happens.
Faults are numbered by opportunity, so that a failing run can be replayed with only some of its faults.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import NoReturn

from greenlet import greenlet

NEVER = 1 << 62
EPOCH_MS = 1_700_000_000_000
FACTORS = (0.0, 0.3, 1.0, 1.0, 3.0)
"""Each world makes some faults rarer, some more frequent, and some impossible."""


class Violation(Exception):
    """An invariant broke: ``invariant`` is its name."""

    def __init__(self, invariant: str, what: str) -> None:
        super().__init__(f"{invariant}: {what}")
        self.invariant = invariant
        self.what = what


class Killed(BaseException):
    """The process died here: code in ``finally`` must not reach the world any more."""


class Group:
    """Actors that die together: a process."""

    __slots__ = ("actors", "alive", "frozen_until", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.alive = True
        self.frozen_until = 0
        self.actors: list[Actor] = []


class Actor:
    """One thread of a process.  ``wake`` is when it can go on."""

    __slots__ = ("group", "result", "run", "wake")

    def __init__(self, group: Group, run: greenlet) -> None:
        self.group = group
        self.run = run
        self.wake = 0
        self.result: BaseException | None = None


class Timer:
    """Something the world does at a time of its own."""

    __slots__ = ("fire", "wake")

    def __init__(self, wake: int, fire: Callable[[], None]) -> None:
        self.wake = wake
        self.fire = fire


class Hub:
    """The scheduler.  ``allowed``: only these fault opportunities may fire (None: all)."""

    def __init__(self, seed: int, allowed: frozenset[int] | None = None) -> None:
        self.seed = seed
        self.factors: dict[str, float] = {}
        self.random = Random(f"order {seed}")
        self.chance = Random(f"faults {seed}")
        self.allowed = allowed
        self.now = EPOCH_MS
        self.steps = 0
        self.calm = False
        self.actors: list[Actor] = []
        self.timers: list[Timer] = []
        self.current: Actor | None = None
        self.opportunity = 0
        self.fired: list[tuple[int, str]] = []
        self.counts: Counter[str] = Counter()
        self.died: Callable[[Group], None] = lambda _: None
        self.main = greenlet.getcurrent()
        self.failure: BaseException | None = None

    # --- called by actors -----------------------------------------------------------------------------------------

    def pause(self, until: int = 0) -> None:
        """A port call: let the hub choose the next actor.  Raises Killed if the process was killed meanwhile."""
        actor = self.current
        assert actor is not None
        if not actor.group.alive:
            raise Killed
        actor.wake = until
        self.main.switch()
        if not actor.group.alive:
            raise Killed

    def sleep(self, seconds: float) -> None:
        """Wait by the simulated clock."""
        self.pause(self.now + max(1, int(seconds * 1000)))

    def die(self) -> NoReturn:
        """The running process is killed at this point."""
        assert self.current is not None
        self.current.group.alive = False
        raise Killed

    def spawn(self, group: Group, body: Callable[[], None]) -> Actor:
        """A new thread of the process."""
        actor = Actor(group, greenlet(self._guard(body)))
        actor.run.parent = self.main
        group.actors.append(actor)
        self.actors.append(actor)
        return actor

    def _guard(self, body: Callable[[], None]) -> Callable[[], None]:
        def run() -> None:
            actor = self.current
            assert actor is not None
            try:
                body()
            except Killed:
                pass
            except BaseException as error:  # what production code raises here is a finding
                actor.result = error
                self.failure = self.failure or error

        return run

    # --- faults ---------------------------------------------------------------------------------------------------

    def fault(self, name: str, probability: float) -> bool:
        """Whether this opportunity for the fault is taken.  Never once the world is calm."""
        if self.calm:
            return False
        self.opportunity += 1
        if self.chance.random() >= probability * self.factor(name):
            return False
        if self.allowed is not None and self.opportunity not in self.allowed:
            return False
        self.fired.append((self.opportunity, name))
        self.counts[f"fault {name}"] += 1
        return True

    def factor(self, name: str) -> float:
        """How much more often than usual the fault happens in this world; 0: never."""
        factor = self.factors.get(name)
        if factor is None:
            factor = self.factors[name] = Random(f"{self.seed} {name}").choice(FACTORS)
        return factor

    # --- called by the world --------------------------------------------------------------------------------------

    def after(self, delay_ms: int, fire: Callable[[], None]) -> None:
        """Have something happen later."""
        self.timers.append(Timer(self.now + delay_ms, fire))

    def kill(self, group: Group) -> None:
        """SIGKILL: nothing of the process runs on."""
        group.alive = False
        for actor in group.actors:
            self._bury(actor)

    def _bury(self, actor: Actor) -> None:
        if actor in self.actors:
            self.actors.remove(actor)
        before, self.current = self.current, actor
        if actor.run and not actor.run.dead:
            actor.run.parent = greenlet.getcurrent()
            actor.run.throw(Killed)
        self.current = before

    def step(self) -> bool:
        """Choose an actor and run it to its next port call.  False if there is none."""
        self.steps += 1
        self.now += 1
        actors, timers = self._ready()
        if not actors and not timers:
            if not self._skip_time():
                return False
            actors, timers = self._ready()
        index = int(self.random.random() * (len(actors) + len(timers)))
        if index >= len(actors):
            timer = timers[index - len(actors)]
            self.timers.remove(timer)
            timer.fire()
        else:
            self._go_on(actors[index])
        if self.failure is not None:
            raise self.failure
        return True

    def _ready(self) -> tuple[list[Actor], list[Timer]]:
        now = self.now
        actors = [a for a in self.actors if a.wake <= now and a.group.frozen_until <= now]
        return actors, [t for t in self.timers if t.wake <= now] if self.timers else []

    def _skip_time(self) -> bool:
        wakes = [max(a.wake, a.group.frozen_until) for a in self.actors]
        wakes += [t.wake for t in self.timers]
        soonest = min(wakes, default=NEVER)
        if soonest >= NEVER:
            return False
        self.now = max(self.now, soonest)
        return True

    def _go_on(self, actor: Actor) -> None:
        self.current = actor
        actor.run.switch()
        self.current = None
        if actor.run.dead or not actor.group.alive:
            if actor in self.actors:
                self.actors.remove(actor)
            if not actor.group.alive:
                self.kill(actor.group)
                self.died(actor.group)
