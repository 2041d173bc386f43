"""Named places where a test may make this process die, wait or fail.  Off unless ``CHSINK_FAILPOINTS`` is set.

``CHSINK_FAILPOINTS="driver.after_before=kill@2,task.after_insert=sleep:5"``: at the second time ``driver.after_before``
is reached, SIGKILL this process; at each time ``task.after_insert`` is reached, sleep five seconds.  Actions: ``kill``,
``stop`` (SIGSTOP), ``fail`` (raise), ``sleep:SECONDS``.  Each firing is appended to ``CHSINK_FAILPOINTS_LOG`` before it
acts, so that a fault that never fired can be distinguished from one that was survived.

Cost when off: one comparison per call, and no call is made per record.
"""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from dataclasses import dataclass

NAMES = (
    "driver.before_before",
    "driver.after_before",
    "driver.after_settle_inserts",
    "driver.before_after",
    "driver.after_after",
    "task.before_insert",
    "task.after_insert",
    "task.after_chunks",
)
TABLES = ("tables.between_servers",)
DEAD_LETTERS = ("task.in_dead_letters", "task.after_dead_letters")
MIRROR = (
    "worker.before_transaction",
    "worker.in_transaction",
    "worker.after_transaction",
    "coordinator.in_transaction",
    "coordinator.between_tables",
    "coordinator.after_tables",
    "table.after_commit",
)
ALL = NAMES + TABLES + DEAD_LETTERS + MIRROR


class FailpointError(RuntimeError):
    """Raised by the action ``fail``."""


@dataclass(frozen=True, slots=True)
class _Trap:
    action: str
    argument: float
    at: int | None


def _parse(text: str) -> dict[str, _Trap]:
    traps: dict[str, _Trap] = {}
    for part in filter(None, (p.strip() for p in text.split(","))):
        name, _, rest = part.partition("=")
        if name not in ALL:
            raise ValueError(f"no failpoint {name!r}; there are {', '.join(ALL)}")
        action, _, at = rest.partition("@")
        verb, _, argument = action.partition(":")
        if verb not in ("kill", "stop", "fail", "sleep"):
            raise ValueError(f"failpoint {name}: no action {verb!r}")
        traps[name] = _Trap(verb, float(argument or 0), int(at) if at else None)
    return traps


_ACTIVE: dict[str, _Trap] | None = _parse(os.environ.get("CHSINK_FAILPOINTS", "")) or None
_REACHED: Counter[str] = Counter()


def reach(name: str) -> None:
    """Report that the named place was reached; runs its action if one is due."""
    if _ACTIVE is not None and name in _ACTIVE:
        _act(name, _ACTIVE[name])


def _act(name: str, trap: _Trap) -> None:
    _REACHED[name] += 1
    if trap.at is not None and _REACHED[name] != trap.at:
        return
    log = os.environ.get("CHSINK_FAILPOINTS_LOG")
    if log:
        with open(log, "a", encoding="utf-8") as out:  # noqa: PTH123
            out.write(f"{name} {trap.action} {os.getpid()}\n")
    match trap.action:
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        case "fail":
            raise FailpointError(name)
        case _:
            time.sleep(trap.argument)
