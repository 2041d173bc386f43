"""The files of a checkpoint: which ranges a batch was planned with, and whether Spark can go on from them.

Spark writes ``offsets/N`` (the planned end offsets of batch N) before it runs the batch, and repeats the same plan
if ``commits/N`` is missing.  Batch N starts where ``offsets/N-1`` ended; batch 0 at ``sources/0/0``; a partition that
appears later starts at 0.  A file that Spark cannot read stops every start alike, and Spark does not name it: it is
named here (CHS-316).
"""

from __future__ import annotations

import json
import re
from typing import Protocol

from chsink.batch.model import PlannedBatch
from chsink.errors import halts
from chsink.spark.offsets import CutShort, Offsets, initial_offsets, source_offsets
from chsink.statemachine.ranges import OffsetRange

_CHECKSUM = re.compile(r"\.(\d+)\.crc")


class Unreadable(Exception):
    """A file is there, and its bytes are not what was written: by its checksum, or no text at all."""


class LogFiles(Protocol):
    """A checkpoint's files."""

    def names(self, part: str) -> list[str]:
        """Names of the files in a subfolder; none where it does not exist."""
        ...

    def text(self, path: str) -> str | None:
        """A small file's content, None where it does not exist.  Raises :class:`Unreadable`."""
        ...


def planned_batch(files: LogFiles, batch_id: int) -> PlannedBatch:
    """What batch ``batch_id`` will read.  HaltError or PreflightError when the checkpoint does not say."""
    ends, initial = planned_ends(files, batch_id), first_offsets(files)
    starts = planned_ends(files, batch_id - 1) if batch_id else initial
    ranges = {}
    for tp, end in sorted(ends.items()):
        start = starts.get(tp, 0)
        if end < start:
            raise halts.PLAN_SHRANK(tp=tp, batch=batch_id, end=end, start=start)
        ranges[tp] = OffsetRange(start, end)
    history = frozenset(tp for tp, r in ranges.items() if r.start > initial.get(tp, 0))
    return PlannedBatch(batch_id, ranges, history)


def last_batch(files: LogFiles, part: str) -> int | None:
    """The number of the last file in ``offsets`` or ``commits``, None where there is none."""
    return max((int(name) for name in files.names(part) if name.isdecimal()), default=None)


def planned_ends(files: LogFiles, batch_id: int) -> Offsets:
    """Where the plan of a batch ends.  HaltError CHS-316 when that cannot be read."""
    path = f"offsets/{batch_id}"
    try:
        return source_offsets(_required(files, path))
    except CutShort as cut:
        raise halts.CHECKPOINT_DAMAGED(path=path, reason=cut) from cut


def first_offsets(files: LogFiles) -> Offsets:
    """Where the source began.  HaltError CHS-316 when that cannot be read."""
    try:
        return initial_offsets(_required(files, "sources/0/0"))
    except CutShort as cut:
        raise halts.CHECKPOINT_DAMAGED(path="sources/0/0", reason=cut) from cut


def check_readable(files: LogFiles) -> None:
    """HaltError CHS-316 when Spark could not go on from this checkpoint, which may be new."""
    last, committed = last_batch(files, "offsets"), last_batch(files, "commits")
    begun = last is not None or committed is not None or ".metadata.crc" in files.names("")
    if begun or _present(files, "metadata"):
        _check_object("metadata", _required(files, "metadata"))
    if last is not None or _present(files, "sources/0/0"):
        first_offsets(files)
    if committed is not None:
        path = f"commits/{committed}"
        version, _, rest = _required(files, path).partition("\n")
        if not re.fullmatch(r"v\d+", version):
            raise halts.CHECKPOINT_DAMAGED(path=path, reason="does not begin with a version")
        _check_object(path, rest)
    before = last - 1 if last else None
    for batch_id in (last, before, committed):
        if batch_id is not None:
            planned_ends(files, batch_id)
    for part in ("offsets", "commits"):
        _check_no_leftover(files, part, last or 0)


def _check_no_leftover(files: LogFiles, part: str, first: int) -> None:
    """A checksum without its file: Spark cannot write that file again, and blames another query for it."""
    names = set(files.names(part))
    for number in sorted(int(found[1]) for name in names if (found := _CHECKSUM.fullmatch(name))):
        if number >= first and str(number) not in names:
            raise halts.CHECKPOINT_DAMAGED(path=f"{part}/{number}", reason="was removed, and its checksum was not")


def _check_object(path: str, text: str) -> None:
    try:
        whole = isinstance(json.loads(text), dict)
    except ValueError:
        whole = False
    if not whole:
        raise halts.CHECKPOINT_DAMAGED(path=path, reason="is cut off")


def _required(files: LogFiles, path: str) -> str:
    try:
        text = files.text(path)
    except Unreadable as error:
        raise halts.CHECKPOINT_DAMAGED(path=path, reason=f"cannot be read: {error}") from error
    if not text:
        raise halts.CHECKPOINT_DAMAGED(path=path, reason="is missing" if text is None else "is empty")
    return text


def _present(files: LogFiles, path: str) -> bool:
    try:
        return files.text(path) is not None
    except Unreadable:
        return True
