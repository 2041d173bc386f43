"""What a dry run reports of records: every column and reason at once, misspelt fields, rows by shard, and no value."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from chsink.clickhouse.definition import Ttl
from chsink.clickhouse.table import TargetTable
from chsink.config import Route
from chsink.decode.columns import Column
from chsink.findings import Severity
from chsink.formats.decoders import decoder_of
from chsink.formats.pipeline import Untouched
from chsink.formats.settings import JSON
from chsink.kafka.records import SCHEMA
from chsink.sample import Misfits, Sample
from chsink.sharding import Layout, Shard

COLUMNS = (Column("id", "UInt32"), Column("name", "Nullable(String)"), Column("flag", "UInt8"))
SHARDS = {0: "http://one", 1: "http://two"}


@pytest.fixture
def sample() -> Sample:
    table = TargetTable("d", "t", "uuid", "MergeTree", COLUMNS, "", Ttl(), {}, "UTC")
    layout = Layout((Shard(("http://one",), 1, "one"), Shard(("http://two",), 1, "two")), "intHash64", ("id",), "halt")
    decoder = decoder_of("d.t", table.insertable, "UTC", Untouched("read_committed"), JSON)
    return Sample(
        Route(topic="t", table="d.t"), table, "d.t", layout.to_json(), decoder, Misfits(skip_tombstones=False)
    )


def records(*values: Any, partition: int = 0, start: int = 0) -> pa.RecordBatch:
    size = len(values)
    return pa.RecordBatch.from_pydict(
        {
            "key": [None] * size,
            "value": [v if isinstance(v, bytes) else json.dumps(v).encode() for v in values],
            "topic": ["t"] * size,
            "partition": [partition] * size,
            "offset": range(start, start + size),
            "timestamp": [0] * size,
            "timestampType": [0] * size,
            "headers": [None] * size,
        },
        schema=SCHEMA,
    )


def test_every_column_and_reason_is_reported_at_once(sample: Sample) -> None:
    good = {"id": 1, "name": "x", "flag": 0}
    sample.add(records(good, {**good, "id": "secret"}, b"[secret", {**good, "flag": 300}, start=7))
    sample.add(records({**good, "flag": 70_000}, good, partition=1))

    found = [f for f in sample.findings(SHARDS, policy="halt") if f.id == "CHS-507"]

    assert {f.severity for f in found} == {Severity.ERROR}
    said = [f.sentence for f in found]
    assert len(said) == 3
    assert said[0].startswith("t: 2 of 6 sampled records do not fit d.t, column flag: ")
    assert said[0].endswith("the first is at partition 0 offset 10")
    assert any("column id: " in s and s.endswith("partition 0 offset 8") for s in said)
    assert any("the record as a whole: " in s and s.endswith("partition 0 offset 9") for s in said)
    assert "secret" not in "".join(said)
    assert all("(for null values alone, errors.on_tombstone)" in f.fix for f in found)
    kept_out = [f for f in sample.findings(SHARDS, policy="dead_letter") if f.id == "CHS-507"]
    assert {f.severity for f in kept_out} == {Severity.WARNING}
    assert all('errors.on_bad_value = "dead_letter" keeps them out' in f.fix for f in kept_out)


@pytest.mark.parametrize("skip", [False, True])
def test_a_tombstone_is_reported_unless_the_job_skips_it(sample: Sample, skip: bool) -> None:
    sample.misfits.skip_tombstones = skip
    tombstone = records(None).set_column(1, "value", pa.array([None], pa.binary()))
    sample.add(tombstone)

    assert [f.severity for f in sample.findings(SHARDS, policy="halt") if f.id == "CHS-507"] == [
        Severity.OK if skip else Severity.ERROR
    ]


def test_fields_without_a_column_are_counted_by_name(sample: Sample) -> None:
    sample.add(records({"id": 1, "nmae": "x", "flag": 0}, {"id": 1, "nmae": "x", "other": [], "flag": 0}))

    found = [f for f in sample.findings(SHARDS, policy="halt") if f.id == "CHS-508"]

    assert [(f.severity, f.sentence) for f in found] == [
        (
            Severity.WARNING,
            "t: 2 of 2 sampled records have a field nmae, and d.t has a column name, but no column nmae; the first is at partition 0 offset 0",
        ),
        (
            Severity.INFO,
            "t: 1 of 2 sampled records have a field other, and d.t has no such column; the first is at partition 0 offset 1",
        ),
    ]


def test_one_reason_is_one_finding_wherever_in_a_record_it_is(sample: Sample) -> None:
    sample.add(records(b"{", b'{"id": 1, ', b'{"id": 1, "na', b"\xff", b"{}\xff"))

    said = [f.sentence for f in sample.findings(SHARDS, policy="halt") if f.id == "CHS-507"]

    assert [s.partition(" sampled")[0] for s in said] == ["t: 3 of 5", "t: 2 of 5"]


def test_a_field_that_differs_only_in_case_is_misspelt(sample: Sample) -> None:
    sample.add(records({"ID": 1, "NAME": "x", "flag": 0}))

    found = [f for f in sample.findings(SHARDS, policy="halt") if f.id == "CHS-508"]

    assert [(f.severity, f.sentence.partition(" has a ")[2].split(",")[0]) for f in found] == [
        (Severity.WARNING, "column id"),
        (Severity.WARNING, "column name"),
    ]


@pytest.mark.parametrize(
    "fields",
    [
        [{"id": 1, "ids": [7], "flag": 0}],
        [{"id": 1, "ID": 1, "flag": 0}],
        [{"id": 1, "flag": 0}, {"ids": [7], "flag": 0}],
    ],
    ids=["beside it", "beside it, in another case", "in another record"],
)
def test_a_field_is_not_a_misspelt_name_of_a_column_that_the_records_fill(
    sample: Sample, fields: list[dict[str, Any]]
) -> None:
    """It said "correct the name" of a field whose name is only similar to a column's."""
    sample.add(records(*fields))

    [finding] = [f for f in sample.findings(SHARDS, policy="skip") if f.id == "CHS-508"]

    assert finding.severity is Severity.INFO
    assert "has no such column" in finding.sentence


def test_a_misspelt_name_is_found_in_the_records_of_one_of_two_producers(sample: Sample) -> None:
    sample.add(records({"id": 1, "flag": 0}, {"ID": 1, "flag": 0}))

    [finding] = [f for f in sample.findings(SHARDS, policy="skip") if f.id == "CHS-508"]

    assert (finding.severity, "has a column id" in finding.sentence) == (Severity.WARNING, True)


def test_rows_by_shard(sample: Sample) -> None:
    sample.add(records(*({"id": i, "flag": 0} for i in range(1000))))

    ok, rows = sample.findings(SHARDS, policy="halt")

    assert (ok.id, ok.severity, ok.sentence) == ("CHS-507", Severity.OK, "t: all 1000 sampled records fit d.t")
    assert rows.sentence.startswith("t: the sample would become 1,000 rows of d.t, by shard: http://one ")
    assert min(sample.rows.values()) > 400


@pytest.mark.parametrize(("chunk_offsets", "fits"), [(100, True), (1000, False)])
def test_chunks_that_would_be_too_large(sample: Sample, chunk_offsets: int, fits: bool) -> None:
    """``fitting`` is what the fix says to set: it then passes."""
    assert list(sample.chunk_finding(chunk_offsets, 1 << 20)) == []
    sample.add(records(*({"id": i, "name": "x" * 2000, "flag": 0} for i in range(10))))

    [finding] = sample.chunk_finding(chunk_offsets, 1 << 20)

    assert (finding.id, finding.severity) == ("CHS-510", Severity.OK if fits else Severity.WARNING)
    if not fits:
        fitting = int(finding.fix.split()[3])
        [finding] = sample.chunk_finding(fitting, 1 << 20)
        assert finding.severity is Severity.OK


@pytest.mark.parametrize(("count", "severity"), [(1000, Severity.INFO), (2, Severity.WARNING)])
def test_a_topic_of_few_records_does_not_show_that_the_job_would_halt(
    sample: Sample, count: int, severity: Severity
) -> None:
    """A sample of few records of a large topic does."""
    sample.add(records(*({"id": i, "name": "x" * 2000, "flag": 0} for i in range(7))))

    [finding] = sample.chunk_finding(1000, 1 << 20, count)

    assert (finding.id, finding.severity) == ("CHS-510", severity)
    assert ("may halt" in finding.sentence) is (severity is Severity.WARNING)


def test_an_empty_topic(sample: Sample) -> None:
    [finding] = sample.findings(SHARDS, policy="halt")
    assert (finding.severity, finding.sentence) == (Severity.INFO, "t holds no record to sample")
