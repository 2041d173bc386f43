"""How many files a commit takes, and how large they are, by how often workers hand over: ``python -m bench.files``.

What a table gets in one commit interval is written as the mirror's workers write it, without Kafka: four
topic-partitions, 1,000 records a second each.  Then the table is read once.  At last the files of each partition value
are joined into one, as a coordinator would have to do before its commit, to show what that would cost.
"""

from __future__ import annotations

import sys
import tempfile
import uuid
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from time import process_time
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.manifest import DataFile
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec

from bench.lake import BUCKET, SCHEMA, Lake
from bench.topic import PARTITIONS, record
from chsink.mirror.files import DataFiles, data_file, entry_of
from chsink.mirror.tables import MirrorTable, PropertyKeys
from chsink.mirror.types import TableColumns
from chsink.ports import Outcome
from chsink.statemachine.commit.chain import Chain

INTERVAL_S = 300
RATE = 1_000
"""Records of a topic-partition a second."""
TRIGGERS_S = (10, 60, 300)
GROUP = 100_000
SPECS: Mapping[str, PartitionSpec] = {"no partitions": UNPARTITIONED_PARTITION_SPEC, "bucket(16, id)": BUCKET}


def measure(folder: Path, rate: int = RATE) -> dict[str, Any]:
    """Figures of each kind of table and trigger."""
    values = [[record(PARTITIONS * n + tp) for n in range(INTERVAL_S * rate)] for tp in range(PARTITIONS)]
    lake = Lake(folder)
    found = []
    for number, (what, spec) in enumerate(SPECS.items()):
        for trigger_s in TRIGGERS_S:
            identifier = lake.table(f"files{number}_{trigger_s}", SCHEMA, spec)
            figures = _measured(lake, identifier, values, a_batch=trigger_s * rate)
            found.append({"table": what, "trigger_s": trigger_s, **figures})
            lake.remove("m", identifier)
    return {"interval_s": INTERVAL_S, "rate": rate, "tables": found}


def _measured(lake: Lake, identifier: str, values: Sequence[Sequence[bytes]], *, a_batch: int) -> dict[str, Any]:
    rows = sum(map(len, values))
    began = process_time()
    files = [file for each in values for file in _written(lake, identifier, each, a_batch)]
    written = process_time() - began
    commit_s = _commit(lake, identifier, files)
    began = process_time()
    there = lake.catalog().load_table(identifier).scan().to_arrow().num_rows
    read_s = process_time() - began
    assert there == rows, f"{there} rows of {rows}"
    joined, join_s = _joined(lake, identifier, files)
    return {
        "files": len(files),
        "kb": sum(file.file_size_in_bytes for file in files) / len(files) / 1000,
        "mb": sum(file.file_size_in_bytes for file in files) / 1e6,
        "write_us": written / rows * 1e6,
        "commit_s": commit_s,
        "read_us": read_s / rows * 1e6,
        "joined_files": len(joined),
        "join_us": join_s / rows * 1e6,
    }


def _written(lake: Lake, identifier: str, values: Sequence[bytes], a_batch: int) -> Iterator[DataFile]:
    """The files of one topic-partition: a range for each batch."""
    table = lake.catalog().load_table(identifier)
    columns = TableColumns(table.schema())
    for start in range(0, len(values), a_batch):
        files = DataFiles(table.metadata, table.io, uuid.uuid4())
        for at in range(start, min(start + a_batch, len(values)), GROUP):
            some = values[at : min(at + GROUP, start + a_batch)]
            files.write(columns.decode(pa.RecordBatch.from_pydict({"value": pa.array(some, pa.binary())})).batch)
        yield from files.close()


def _commit(lake: Lake, identifier: str, files: Sequence[DataFile]) -> float:
    """Seconds of CPU time of the commit, its reading of the table included."""
    keys = PropertyKeys("bench", "bench")
    table = MirrorTable(lake.catalog(), identifier, keys)
    spec = lake.catalog().load_table(identifier).spec()
    partition = spec.partition_type(SCHEMA)
    entries = [entry_of(file, spec.spec_id, partition) for file in files]
    began = process_time()
    read = table.read()
    assert read is not None
    done = table.append(read, [data_file(entry) for entry in entries], Chain(), uuid.uuid4(), None)
    assert done.outcome is Outcome.APPLIED, done.reason
    return process_time() - began


def _joined(lake: Lake, identifier: str, files: Sequence[DataFile]) -> tuple[list[DataFile], float]:
    """One file of each partition value, and the CPU time of reading and writing them.  Nothing is committed."""
    table = lake.catalog().load_table(identifier)
    by_value = defaultdict[str, list[DataFile]](list)
    for file in files:
        by_value[repr(file.partition)].append(file)
    began = process_time()
    made: list[DataFile] = []
    for mine in by_value.values():
        one = DataFiles(table.metadata, table.io, uuid.uuid4())
        for file in mine:
            one.write(pq.ParquetFile(file.file_path.removeprefix("file://")).read())
        made += one.close()
    return made, process_time() - began


def lines(figures: Mapping[str, Any]) -> list[str]:
    """A table for people."""
    what = f"{figures['interval_s']} s of {PARTITIONS} topic-partitions, {figures['rate']:,} records a second each"
    out = [f"files: what one commit takes after {what}"]
    heads = f"{'files':>6} {'kB each':>8} {'MB':>6}  CPU us/row: write, read, join  commit"
    out.append(f"{'':<15} {'handed over':>12} {heads}")
    out += [
        f"{f['table']:<15} {_every(f['trigger_s']):>12} {f['files']:>6} {f['kb']:>8,.0f} {f['mb']:>6.1f}"
        f"  {f['write_us']:>17.2f} {f['read_us']:>5.2f} {f['join_us']:>5.2f}  {f['commit_s']:.2f} s"
        for f in figures["tables"]
    ]
    return out


def _every(seconds: int) -> str:
    return f"every {seconds} s"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        print("\n".join(lines(measure(Path(place), *map(int, sys.argv[1:])))))
