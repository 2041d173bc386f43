"""From a picture to the JSON that the page shows.  Nothing is escaped here: the browser shows all of it as text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from chsink.as_typed import as_typed
from chsink.dlq.kept import KeptLetters
from chsink.dlq.reasons import LetterGroup
from chsink.observe.pace import TableSpeed
from chsink.status.model import SinkStatus
from chsink.ui.health import health
from chsink.ui.picture import Failure, Letters, MirrorPicture, Picture

if TYPE_CHECKING:
    from chsink.mirror.status import TableStatus

LONGEST: Final = 2_000
"""Characters of a key or a value that are shown."""
_COMMAND: Final = re.compile(r"`(chsink [^`]+)`")
_PLACEHOLDER: Final = re.compile(r"\b[A-Z]{4,}\b|…|<")


def document(picture: Picture, *, job_words: Sequence[str], interval_s: float) -> dict[str, Any]:
    """All that the page shows.  ``job_words`` are added to commands."""
    status, job, said = picture.status, picture.job, health(picture)
    leads = list(dict.fromkeys((p.topic, p.table) for p in status.partitions)) if status else []
    speeds = {(s.topic, s.table): s for s in picture.speeds}
    numbers = {lead: number for number, lead in enumerate(leads)}
    return {
        "sink": picture.sink,
        "at": _time(picture.at_ms),
        "interval_s": interval_s,
        "health": asdict(said),
        "beside": job is not None,
        "ended": job is not None and job.ending,
        "sums": None if status is None else _sums(status),
        "problems": [_problem(where, failure, job_words) for where, failure in _problems(picture)],
        "routes": [_route(picture, status, lead, speeds.get(lead)) for lead in leads] if status else [],
        "partitions": [
            [numbers[p.topic, p.table], p.partition, p.phase, p.start, p.end, p.lag, p.lag_s, p.age_s]
            for p in (status.partitions if status else ())
        ],
        "batch": None if job is None or job.last_batch is None else asdict(job.last_batch),
        "letters": None if picture.letters is None else _letters(picture.letters),
        "mirror": None if picture.mirror is None else _mirror(picture.mirror),
    }


def _sums(status: SinkStatus) -> dict[str, Any]:
    ages = [p.lag_s for p in status.partitions if p.lag_s is not None]
    return {
        "owner": None if status.owner is None else dict(status.owner),
        "lag": status.lag,
        "lag_s": max(ages, default=None),
        "lag_unknown": status.lag_unknown,
        "in_doubt": status.in_doubt,
        "skipped": status.skipped,
        "dead_letters": status.dead_letters,
        "verified": None if status.verified is None else asdict(status.verified),
    }


def _route(picture: Picture, status: SinkStatus, lead: tuple[str, str], speed: TableSpeed | None) -> dict[str, Any]:
    mine = [p for p in status.partitions if (p.topic, p.table) == lead]
    fields: dict[str, int] = {}
    for p in mine:
        for name, count in p.unknown_fields.items():
            fields[name] = fields.get(name, 0) + count
    return {
        "topic": lead[0],
        "table": lead[1],
        "partitions": len(mine),
        "speed": None if speed is None else asdict(speed),
        "history": [round(rate, 1) for rate in picture.history.get(lead, ())],
        "skipped": sum(p.skipped for p in mine),
        "dead_letters": sum(p.dead_letters for p in mine),
        "unknown_fields": sorted(fields.items(), key=lambda item: (-item[1], item[0]))[:50],
    }


def _problems(picture: Picture) -> Iterable[tuple[str, Failure]]:
    """What needs a person, and where it is: the most urgent first."""
    for failure in picture.job.end if picture.job else ():
        yield "ended", failure
    if picture.failure is not None:
        yield "state", picture.failure
    for halt in picture.status.halts if picture.status else ():
        yield "ahead", Failure(halt.id, halt.message, halt.fix)
    if picture.mirror is not None:
        for table in picture.mirror.status.tables if picture.mirror.status else ():
            if table.problem:
                id_, _, message = table.problem.partition(": ")
                yield "mirror", Failure(id_, message, table.fix)
        if picture.mirror.failure is not None:
            yield "mirror", picture.mirror.failure
    if picture.letters is not None and picture.letters.failure is not None:
        yield "letters", picture.letters.failure


def _problem(where: str, failure: Failure, job_words: Sequence[str]) -> dict[str, Any]:
    return {"where": where, **asdict(failure), "commands": commands(failure.fix, job_words)}


def commands(fix: str, job_words: Sequence[str]) -> list[str]:
    """The commands of a fix that can be run as they are, for this job."""
    found = dict.fromkeys(match for match in _COMMAND.findall(fix) if not _PLACEHOLDER.search(match))
    return [as_typed(f"`{command}`", job_words).strip("`") for command in found]


def _letters(letters: Letters) -> dict[str, Any]:
    return {"place": letters.place, "groups": [_group(group) for group in letters.groups]}


def _group(group: LetterGroup) -> dict[str, Any]:
    return {
        "table": group.table,
        "column": group.column,
        "error_id": group.error_id,
        "count": group.count,
        "replayed": group.replayed,
        "newest": _time(group.newest_ms) if group.newest_ms >= 0 else None,
        "letters": [_letter(one) for one in group.letters],
    }


def _letter(kept: KeptLetters) -> dict[str, Any]:
    """With its record, if that was read."""
    whole = kept.document()
    shown = {name: whole[name] for name in ("topic", "partition", "offset", "reason", "replayed")}
    return shown | {name: _cut(whole[name]) for name in ("key", "value") if whole[name] is not None}


def _cut(content: str | dict[str, str]) -> str:
    text = content if isinstance(content, str) else f"hex {content['hex']}"
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}… ({len(text):,} characters)"


def _mirror(mirror: MirrorPicture) -> dict[str, Any]:
    owner = None if mirror.status is None else mirror.status.owner
    said = None if owner is None else {**asdict(owner), "since": _time(owner.since_ms)}
    tables = () if mirror.status is None else mirror.status.tables
    return {"owner": said, "tables": [_mirror_table(table) for table in tables]}


def _mirror_table(table: TableStatus) -> dict[str, Any]:
    """The snapshot as text: a number of 64 bits would lose digits in the browser."""
    names = ("table", "last_commit", "valid_through", "pending", "pending_units", "lag", "lag_s", "skipped")
    snapshot = None if table.snapshot is None else str(table.snapshot)
    return {**{name: getattr(table, name) for name in names}, "snapshot": snapshot, "halted": bool(table.problem)}


def _time(ms: int) -> str:
    try:
        return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    except (ValueError, OverflowError):  # a producer may send any number
        return f"{ms} ms"
