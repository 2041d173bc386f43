"""CPU time of the mirror's commits to one table, by how many there were before: ``python -m bench.many_commits``.

Each commit reads the table and appends a file for each of eight topic-partitions.  ``make bench`` measures two of the
variants.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import process_time, time
from typing import Any
from uuid import uuid4

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.types import DoubleType, LongType, NestedField, StringType

from chsink.mirror.expiry import expired
from chsink.mirror.files import DataFiles, data_file, entry_of
from chsink.mirror.tables import MirrorTable, PropertyKeys
from chsink.ports import Outcome
from chsink.statemachine.commit.chain import Chain, Link, read_chain
from chsink.statemachine.ranges import TopicPartition

COMMITS = 1000
AROUND = 5
"""The median of so many commits before is taken."""
PARTITIONS = 8
COLUMNS = 10
EVERY = 50
"""Commits between two expiries."""
NOT_MERGED = {"commit.manifest-merge.enabled": "false"}
TIDIED = {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "10"}
EXPIRED = {**TIDIED, "history.expire.max-snapshot-age-ms": "1", "history.expire.min-snapshots-to-keep": "20"}
CREATED, KEPT_SMALL = "as a table is created", f"and snapshots expire every {EVERY} commits"
VARIANTS: Mapping[str, Mapping[str, str]] = {
    "manifests are not merged": NOT_MERGED,
    CREATED: {},
    "and old metadata files are deleted": TIDIED,
    KEPT_SMALL: EXPIRED,
}
FLAT = 1.2
"""The goal: the CPU time of the last commit, as a multiple of that at a fifth of the commits, if snapshots expire."""


def main() -> int:
    """Measure and print a row for each variant."""
    commits = int(sys.argv[1]) if sys.argv[1:] else COMMITS
    with TemporaryDirectory() as folder:
        print("\n".join(lines(measure(Path(folder), commits, [*VARIANTS]))))
    return 0


def measure(folder: Path, commits: int, variants: Sequence[str] = (CREATED, KEPT_SMALL)) -> dict[str, Any]:
    """Figures by variant, of so many commits each."""
    at = (10, commits // 5, commits)
    found = {}
    for number, name in enumerate(variants):
        place = folder / f"commits{number}"
        place.mkdir()
        found[name] = _measured(place, VARIANTS[name], at)
    ratio = found[KEPT_SMALL]["ms"][2] / found[KEPT_SMALL]["ms"][1]
    return {"at": at, "variants": found, "goal": {"most": FLAT, "ratio": ratio, "met": ratio <= FLAT}}


def lines(figures: Mapping[str, Any]) -> list[str]:
    """A table for people."""
    at, goal = figures["at"], figures["goal"]
    out = [f"many commits to one table: CPU ms of the {at[0]}th, {at[1]:,}th and {at[2]:,}th"]
    for name, v in figures["variants"].items():
        ms = " ".join(f"{spent:>6.0f}" for spent in v["ms"])
        files = f"metadata {v['metadata_kb']:,} kB in {v['metadata_files']:,} files, {v['manifests']:,} manifests"
        out.append(f"{name:<38} {ms}   {files}")
    met = "met" if goal["met"] else "MISSED"
    return [
        *out,
        f"goal the {at[2]:,}th <= {goal['most']} x the {at[1]:,}th, if snapshots expire: x {goal['ratio']:.2f}, {met}",
    ]


def _measured(folder: Path, properties: Mapping[str, str], at: Sequence[int]) -> dict[str, Any]:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/lake")
    catalog.create_namespace("shop")
    texts = [NestedField(2 + n, f"text{n}", StringType()) for n in range(COLUMNS - 2)]
    schema = Schema(NestedField(1, "id", LongType()), *texts, NestedField(90, "amount", DoubleType()))
    catalog.create_table("shop.orders", schema, properties=dict(properties))
    table = MirrorTable(catalog, "shop.orders", PropertyKeys("chsink-orders", "chsink-mirror"))
    file, spent = _file(table), list[float]()
    for number in range(1, at[-1] + 1):
        began = process_time()
        _commit(table, number, file)
        spent.append((process_time() - began) * 1000)
        if "history.expire.max-snapshot-age-ms" in properties and number % EVERY == 0:
            _expire(table)
    now = catalog.load_table("shop.orders")
    files = [*(folder / "lake").rglob("*.metadata.json")]
    size = Path(now.metadata_location.removeprefix("file://")).stat().st_size // 1000
    head = now.current_snapshot()
    assert head is not None
    return {
        "ms": [median(spent[max(0, n - AROUND) : n]) for n in at],
        "metadata_kb": size,
        "metadata_files": len(files),
        "manifests": len(head.manifests(now.io)),
    }


def _file(table: MirrorTable) -> DataFile:
    there = table.load()
    assert there is not None
    files = DataFiles(there.metadata, there.io, uuid4())
    rows = {
        f.name: ["x" * 10] * 100 if isinstance(f.field_type, StringType) else [1] * 100 for f in there.schema().fields
    }
    files.write(pa.table(rows, schema=there.schema().as_arrow()))
    [written] = files.close()
    return written


def _commit(table: MirrorTable, number: int, file: DataFile) -> None:
    read = table.read()
    assert read is not None
    chain = read_chain(read.view).chain or Chain()
    tps = [TopicPartition("orders", p) for p in range(PARTITIONS)]
    after = replace(chain, links={tp: Link("W8Rn3hE4T0aGJ1uV5yQkZg", 0, 100 * number) for tp in tps})
    entries = [{**entry_of(file, 0), "file_path": f"{file.file_path}-{number}-{p}"} for p in range(PARTITIONS)]
    done = table.append(read, [data_file(entry) for entry in entries], after, uuid4(), None)
    assert done.outcome is Outcome.APPLIED, done.reason


def _expire(table: MirrorTable) -> None:
    read = table.read()
    assert read is not None and read.view.own is not None
    gone = expired(read.table.metadata, read.view.own.snapshot_id, int(time() * 1000))
    assert table.expire(read, gone).outcome is Outcome.APPLIED


if __name__ == "__main__":
    sys.exit(main())
