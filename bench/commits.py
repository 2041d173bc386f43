"""What a commit costs, by its number of files: from events on the control topic to one snapshot.

A coordinator checks that the files exist, so they do: all of them are names of one file.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from bench.coordinated import Coordinated, coordinated
from bench.lake import Lake
from bench.measured import Place
from bench.topic import record
from chsink.mirror.events import DataWritten, Event, FileEntry, UnitTag, encode, split
from chsink.mirror.files import DataFiles, entry_of
from chsink.mirror.worker import NO_COMMIT

FILES = (10, 1_000, 10_000)
ROWS = 100


def measure(place: Place) -> dict[str, Any]:
    """Seconds of wall clock and of CPU time by number of files."""
    lake = Lake(place.folder)
    found = []
    for count in FILES:
        mirror = coordinated(place, lake, f"commit-{count}", 1, count)
        with mirror.coordinator() as coordinator:
            tag = _tag(mirror, count)
            _hand_over(mirror, tag, _named(mirror, tag, count))
            seconds, cpu_s = mirror.commit(coordinator)
        assert mirror.snapshots == 1
        found.append({"files": count, "seconds": seconds, "cpu_s": cpu_s})
        place.say(f"commit: {count:,} files in {seconds:.2f} s")
    return {"commits": found}


def _tag(mirror: Coordinated, count: int) -> UnitTag:
    """One range of an offset a file, as the first event of its unit says it."""
    [tp], table = mirror.tps, str(mirror.work.metadata.table_uuid)
    unit = f"{uuid.uuid4()}/{mirror.work.table}"
    return UnitTag(unit, table, tp.topic, mirror.topic_id, tp.partition, 0, count, 0, 1, 0)


def _named(mirror: Coordinated, tag: UnitTag, count: int) -> list[FileEntry]:
    """``count`` files with the same rows, under names of the unit."""
    work = mirror.work
    files = DataFiles(work.metadata, work.io, tag.file_id)
    rows = pa.RecordBatch.from_pydict({"value": pa.array([record(n) for n in range(ROWS)], pa.binary())})
    files.write(work.columns.decode(rows).batch)
    [file] = files.close()
    first = Path(file.file_path.removeprefix("file://"))
    entries: list[FileEntry] = []
    for number in range(count):
        name = first.with_name(f"{first.stem}-{number}.parquet")
        os.link(first, name)
        entries.append({**entry_of(file, work.metadata.default_spec_id), "file_path": f"file://{name}"})
    return entries


def _hand_over(mirror: Coordinated, tag: UnitTag, entries: list[FileEntry]) -> None:
    """Hand over the unit, with as many events as its files need."""
    [tp], groups = mirror.tps, split(entries)
    events = [
        DataWritten(NO_COMMIT, mirror.work.reference, group, replace(tag, part=number, parts=len(groups)))
        for number, group in enumerate(groups)
    ]
    names = mirror.names
    values = [encode(Event(uuid.uuid4(), datetime.now(UTC), names.group, event)) for event in events]
    with names.sender(names.worker_id(tp), names.group) as sender:
        sender.send(str(tp), values, {tp: tag.until})


def lines(figures: Mapping[str, Any]) -> list[str]:
    """A table for people."""
    out = ["commit: one table, from the events on the control topic to its snapshot"]
    return [
        *out,
        *(f"{c['files']:>7,} files {c['seconds']:>6.2f} s, CPU {c['cpu_s']:>6.2f} s" for c in figures["commits"]),
    ]
