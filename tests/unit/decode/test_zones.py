"""Local times of time zones, also after 2037, where a zone's file lists no changes any more but a rule."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from chsink.decode import Column, Decoded, JsonDecoder, conform
from chsink.decode.zones import Zone

ZONES = ("Europe/Berlin", "Australia/Lord_Howe", "Antarctica/Troll", "America/New_York")
DATE_TIME_MAX = datetime(2106, 2, 7, 6, 28, 15, tzinfo=UTC)


def instants(low: datetime, high: datetime, count: int) -> list[datetime]:
    chosen = random.Random(count)
    return [low + timedelta(seconds=chosen.randrange(int((high - low).total_seconds()))) for _ in range(count)]


def decode(kind: str, texts: Sequence[str]) -> Decoded:
    return JsonDecoder([Column("c", kind)], timezone="UTC").decode(
        pa.array([f'{{"c":{json.dumps(text)}}}'.encode() for text in texts], pa.binary())
    )


def local_texts(zone: str, times: Sequence[datetime]) -> tuple[list[str], list[datetime]]:
    """Local spellings in the zone, and the instants that they mean: of a repeated hour the first."""
    local = [time.astimezone(ZoneInfo(zone)).replace(fold=0) for time in times]
    return [f"{time:%Y-%m-%d %H:%M:%S}" for time in local], [time.astimezone(UTC) for time in local]


@pytest.mark.parametrize("zone", ZONES)
def test_local_times_after_2037_follow_the_zones_rule(zone: str) -> None:
    """⚑ a zone's changes do not end in 2037: a text, and a timestamp without a zone, land at zoneinfo's instant."""
    texts, expected = local_texts(
        zone, instants(datetime(2038, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC), 4000)
    )
    naive = pa.record_batch([pc.strptime(pa.array(texts), "%Y-%m-%d %H:%M:%S", "us")], names=["c"])
    for precision in (3, 8):
        kind = f"DateTime64({precision}, '{zone}')"
        for decoded in (decode(kind, texts), conform(naive, [Column("c", kind)], timezone="UTC")):
            assert decoded.bad == []
            found = decoded.batch.column(0).to_pylist()
            assert found == (expected if precision == 3 else [int(time.timestamp()) for time in expected])


@pytest.mark.parametrize("zone", ZONES)
def test_the_end_of_datetime_is_an_instant_not_a_local_time(zone: str) -> None:
    texts, expected = local_texts(zone, [DATE_TIME_MAX, DATE_TIME_MAX + timedelta(seconds=1)])
    decoded = decode(f"DateTime('{zone}')", texts)
    assert decoded.batch.column(0).to_pylist() == expected[:1]
    assert [(bad.row, bad.reason) for bad in decoded.bad] == [(1, "out of range for DateTime")]


@pytest.mark.parametrize(
    ("zone", "repeated", "utc", "skipped"),
    [
        ("Europe/Berlin", "2050-10-30 02:30:00", "2050-10-30 00:30", "2050-03-27 02:30:00"),
        ("Australia/Lord_Howe", "2050-04-03 01:45:00", "2050-04-02 14:45", "2050-10-02 02:15:00"),
        ("America/New_York", "2050-11-06 01:00:00", "2050-11-06 05:00", "2050-03-13 02:59:59"),
    ],
)
def test_a_repeated_hour_is_the_first_and_a_skipped_one_is_refused(
    zone: str, repeated: str, utc: str, skipped: str
) -> None:
    decoded = decode(f"DateTime('{zone}')", [repeated, skipped] * 50)
    assert decoded.batch.column(0).to_pylist() == [datetime.fromisoformat(utc).replace(tzinfo=UTC)] * 50
    assert {bad.row % 2 for bad in decoded.bad} == {1}
    assert {bad.reason for bad in decoded.bad} == {f"a local time that a clock change in {zone} skips"}


@pytest.mark.parametrize("zone", [*ZONES, "Europe/Amsterdam", "Africa/Monrovia", "Pacific/Apia", "Africa/Casablanca"])
def test_every_second_around_a_change_is_what_zoneinfo_says(zone: str) -> None:
    rules, known = ZoneInfo(zone), Zone(zone)
    times = np.array(
        [int(time.timestamp()) for time in instants(datetime(1900, 1, 1, tzinfo=UTC), DATE_TIME_MAX, 3000)]
    )
    found, unusable = known.instants(times, 1)
    epoch = datetime(1970, 1, 1)  # noqa: DTZ001 - a local time
    for local, instant, refused in zip(times.tolist(), found.tolist(), unusable.tolist(), strict=True):
        expected = (epoch + timedelta(seconds=local)).replace(tzinfo=rules).astimezone(UTC)
        exists = expected.astimezone(rules).replace(tzinfo=None) == epoch + timedelta(seconds=local)
        assert (instant == expected.timestamp()) if exists else refused


def test_local_nanoseconds_beyond_64_bits_do_not_wrap() -> None:
    ticks = np.array([2**63 - 1, 2**63 - 10**14], np.int64)
    found, unusable = Zone("America/New_York").instants(ticks, 10**9)
    assert unusable.tolist() == [True, False]
    assert found[1] == ticks[1] + 4 * 3600 * 10**9
