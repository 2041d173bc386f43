"""The sink's health in one sentence: of all that may be said, the most urgent."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Literal

from chsink.errors.counts import counted
from chsink.status.model import SinkStatus
from chsink.ui.picture import Picture

LONG_S: Final = 1800.0
"""A range that is in doubt for longer is worth a warning (docs/operations.md, alerts)."""
STILL_S: Final = 45.0
"""Seconds without a record landed after which a lag is worth a warning."""
UNCOMMITTED_S: Final = 600.0
"""The same without a commit of the mirror."""

Level = Literal["good", "busy", "idle", "warn", "bad"]


@dataclass(frozen=True, slots=True)
class Health:
    """``level`` chooses the colour."""

    level: Level
    sentence: str


def health(picture: Picture) -> Health:
    """The first that applies."""
    return next(_urgent(picture), None) or next(_doubtful(picture), None) or _usual(picture)


def _urgent(picture: Picture) -> Iterator[Health]:
    """What a person has to do something about."""
    job, status = picture.job, picture.status
    if job is not None and job.end:
        goes_on = "" if job.ending else " The mirror goes on."
        yield Health("bad", f"The job ended with {_ids(f.id for f in job.end)}: see the fix below.{goes_on}")
    if picture.failure is not None:
        older = " The figures below were read before that." if status is not None else ""
        yield Health("bad", f"The state cannot be read: {picture.failure}.{older}")
    if status is not None and status.halts:
        what = "batch or start" if job is not None else "start"
        yield Health("bad", f"The next {what} will halt with {_ids(h.id for h in status.halts)}: see the fix below.")
    if picture.mirror is not None and picture.mirror.failure is not None:
        yield Health("bad", f"The mirror's tables cannot be read: {picture.mirror.failure}.")
    if wrong := [table.table for table in picture.tables if table.problem]:
        yield Health("bad", f"The mirror cannot continue with {_listed(wrong)}: see the fix below.")


def _doubtful(picture: Picture) -> Iterator[Health]:
    """What a person should know."""
    status = picture.status
    if picture.job is not None and picture.job.ending:
        yield Health("idle", "The job has ended, and this page is no longer updated.")
    if (waited_s := _uncommitted_s(picture)) > UNCOMMITTED_S:
        since = f"Nothing was committed for {duration(waited_s)}: does the mirror run, and commit?"
        yield Health("warn", f"{_of_mirror(picture).lstrip()} {since}")
    if status is None:
        return
    if status.lag_unknown is not None:
        yield Health("warn", "Kafka does not answer, so the lag is not known.")
    waiting = [p.age_s for p in status.partitions if p.in_doubt and p.age_s is not None]
    if waiting and max(waiting) > LONG_S:
        which = _count(status.in_doubt, "range is", "ranges are")
        yield Health("warn", f"{which} in doubt, for {duration(max(waiting))} now. Starting the job settles them.")
    if status.verified is not None and not status.verified.ok:
        yield Health("warn", f"chsink verify found differences, {status.verified.sentence}.")
    if status.owner is None and not status.partitions:
        yield Health("idle", f"This sink has not run yet, or its state was lost. {_waits(status)}")
    watched_s = picture.watched_s or 0.0
    if status.lag and watched_s >= STILL_S and not _landed(picture):
        yield Health("warn", f"{_waits(status)} Nothing has landed for {duration(watched_s)}: is the job running?")


def _usual(picture: Picture) -> Health:
    """The job runs, or has nothing to do."""
    status = picture.status
    if status is None:
        return _of_mirror_alone(picture)
    if status.in_doubt and not status.lag:
        return _of_doubt(picture, status.in_doubt)
    if not status.lag:
        landed_all = f"Up to date: everything that Kafka holds has landed{_left_out(status)}."
        return Health("good", landed_all + _of_mirror(picture))
    landed = _landed(picture)
    if landed:
        lefts = [s.left_s for s in picture.speeds]
        left = None if None in lefts else max((s for s in lefts if s is not None), default=None)
        until = f"caught up in {duration(left)}" if left else "not catching up at this speed"
        return Health("busy", f"Landing {landed:,.0f} offsets per second, {status.lag:,} behind: {until}.")
    return Health("busy", f"{_waits(status)}{_of_mirror(picture)}")


def _of_doubt(picture: Picture, ranges: int) -> Health:
    """All that Kafka holds is announced, but not all of it is confirmed: a batch lands, or a job died in one."""
    it = "it" if ranges == 1 else "them"
    words = (
        f"{_count(ranges, 'range is', 'ranges are')} in doubt: a running job is landing {it}, or the next start does."
    )
    if picture.job is not None and not picture.job.end:
        words = f"Landing the last {'range' if ranges == 1 else f'{ranges:,} ranges'} that Kafka holds."
    return Health("busy", words + _of_mirror(picture))


def _of_mirror_alone(picture: Picture) -> Health:
    if picture.mirror is None or picture.mirror.status is None:
        return Health("idle", "Nothing was read yet.")
    behind = _of_mirror(picture).lstrip()
    return Health("busy", behind) if behind else Health("good", "Up to date: the mirror has all that Kafka holds.")


def _landed(picture: Picture) -> float:
    return sum(s.landed_per_s or 0.0 for s in picture.speeds)


def _waits(status: SinkStatus) -> str:
    if not status.lag:
        return "Kafka holds nothing for it."
    ages = [p.lag_s for p in status.partitions if p.lag_s]
    oldest = f", the oldest record for {duration(max(ages))}" if ages else ""
    return f"{_count(status.lag, 'offset waits', 'offsets wait')} in Kafka{oldest}."


def _left_out(status: SinkStatus) -> str:
    said = [f"{status.dead_letters:,} kept as dead letters"] if status.dead_letters else []
    said += [f"{status.skipped:,} skipped"] if status.skipped else []
    return f" ({', '.join(said)})" if said else ""


def _of_mirror(picture: Picture) -> str:
    behind = sum(table.lag for table in picture.tables)
    return f" The mirror is {counted(behind, 'offsets')} behind." if behind else ""


def _uncommitted_s(picture: Picture) -> float:
    """How long records of a table have waited without a commit to it; the longest of all tables."""
    behind = [table for table in picture.tables if table.lag]
    commits = [(table.lag_s or 0.0, table.measures()["last_commit"] or 0.0) for table in behind]
    return max((min(oldest_s, picture.at_ms / 1000 - at_s) for oldest_s, at_s in commits), default=0.0)


def _ids(ids: Iterable[str]) -> str:
    return _listed(list(dict.fromkeys(ids)))


def _listed(names: list[str]) -> str:
    shown, more = names[:3], len(names) - 3
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")


def _count(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"


def duration(seconds: float) -> str:
    """In the two largest units that matter: ``4 s``, ``3 min 20 s``, ``2 h 5 min``, ``3 d 4 h``."""
    whole = timedelta(seconds=max(0, round(seconds)))
    minutes, s = divmod(whole.seconds, 60)
    hours, minutes = divmod(minutes, 60)
    parts = [(whole.days, "d"), (hours, "h"), (minutes, "min"), (s, "s")]
    first = next((at for at, (number, _) in enumerate(parts) if number), len(parts) - 1)
    largest, *more = parts[first : first + 2]
    return " ".join(f"{number} {unit}" for number, unit in (largest, *(part for part in more if part[0])))
