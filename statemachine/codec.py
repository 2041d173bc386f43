"""How a state record is stored: as one line of versioned JSON, each of its parts under the part's name.

What every record has is always there, and demanded.  What most records do not have (``doubt``, ``table_by``, ``tally``,
and each field of them) is absent then.
"""

from __future__ import annotations

import json
from dataclasses import fields
from itertools import accumulate, pairwise
from typing import Any, TypeVar

from .parts import Expired, Mark, Seen, Sending, TableChoice, TopicLife, Unsettled
from .ranges import OffsetRange
from .records import Phase, StateRecord
from .tally import Tally

CODEC_VERSION = 3
Whole = TypeVar("Whole", TopicLife, Sending)


class CodecError(ValueError):
    """A stored record cannot be read: it was damaged, or written by another version of chsink."""


def encode(record: StateRecord) -> str:
    """The record as one line of JSON, keys sorted, with the codec's version."""
    doubt, table_by, tally = record.doubt, record.table_by, record.tally
    always = {
        "version": CODEC_VERSION,
        "phase": record.phase,
        "epoch": record.epoch,
        "attempt": record.attempt,
        "start": record.start,
        "end": record.end,
        "gaps": [[g.start, g.end] for g in record.gaps],
        "life": {name: getattr(record.life, name) for name in _FIELDS[TopicLife]},
        "sent": {name: getattr(record.sent, name) for name in _FIELDS[Sending]},
        "seen": {
            "before_at": record.seen.before_at,
            "marks": [_mark(m) for m in record.seen.marks],
        },
    }
    seldom = {
        "doubt": _there(
            probe=doubt.probe,
            expired=None if doubt.expired is None else {"deleted": doubt.expired.deleted},
            only=[after - before for before, after in pairwise((0, *doubt.only))],
        ),
        "table_by": _there(since=table_by.since, left=table_by.left),
        "tally": _there(skipped=tally.skipped, dead_letters=tally.dead_letters, unknown=dict(tally.unknown)),
    }
    return json.dumps(always | _there(**seldom), sort_keys=True, separators=(",", ":"))


def decode(text: str) -> StateRecord:
    """The inverse of :func:`encode`.  Raises :class:`CodecError` for anything else."""
    try:
        document: dict[str, Any] = json.loads(text)
        version = document.pop("version")
        if version != CODEC_VERSION:
            raise CodecError(f"state record of version {version}; this chsink reads version {CODEC_VERSION}")
        return StateRecord(
            phase=Phase(document.pop("phase")),
            start=document.pop("start"),
            end=document.pop("end"),
            gaps=tuple(OffsetRange(a, b) for a, b in document.pop("gaps")),
            life=_whole(TopicLife, document.pop("life")),
            sent=_whole(Sending, document.pop("sent")),
            seen=_seen(**document.pop("seen")),
            doubt=_doubt(**document.pop("doubt", {})),
            table_by=TableChoice(**document.pop("table_by", {})),
            tally=_tally(**document.pop("tally", {})),
            **document,
        )
    except CodecError:
        raise
    except (AssertionError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise CodecError(f"damaged state record ({type(error).__name__}: {error})") from error


_FIELDS = {part: tuple(field.name for field in fields(part)) for part in (TopicLife, Sending)}


def _there(**values: Any) -> dict[str, Any]:
    """Those that say something."""
    return {name: value for name, value in values.items() if value}


def _whole(part: type[Whole], document: dict[str, Any]) -> Whole:
    return part(**{name: document.pop(name) for name in _FIELDS[part]}, **document)


def _mark(mark: Mark) -> list[Any]:
    rest = [mark.feeds, mark.uuids, list(mark.window)]
    while rest and not rest[-1]:
        rest.pop()
    return [mark.blocks, mark.since_s, mark.fed, mark.at_s, *rest]


def _seen(before_at: int, marks: list[list[Any]]) -> Seen:
    return Seen(before_at, tuple(Mark(*mark[:6], *map(tuple, mark[6:])) for mark in marks))


def _doubt(*, probe: bool = False, expired: dict[str, Any] | None = None, only: tuple[int, ...] = ()) -> Unsettled:
    return Unsettled(probe, None if expired is None else Expired(tuple(expired["deleted"])), tuple(accumulate(only)))


def _tally(*, skipped: int = 0, dead_letters: int = 0, unknown: dict[str, int] | None = None) -> Tally:
    return Tally(skipped, dead_letters, tuple(sorted((unknown or {}).items())))
