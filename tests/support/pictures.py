"""Pictures as a look would have found them, one for each state of a sink, and a page that shows them."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import structlog

from chsink.config import Config
from chsink.dlq.kept import KeptLetters
from chsink.dlq.reasons import LetterGroup
from chsink.errors import halts, services
from chsink.mirror.owner import CoordinatorClaim
from chsink.mirror.status import MirrorStatus, TableStatus
from chsink.observe.observer import LastBatch
from chsink.observe.pace import TableSpeed
from chsink.statemachine.ranges import TopicPartition
from chsink.status.last_verify import LastVerify
from chsink.status.model import NextHalt, PartitionStatus, SinkStatus
from chsink.ui.app import STATIC
from chsink.ui.document import document
from chsink.ui.picture import Failure, JobView, Letters, MirrorPicture, Picture, failure_of
from chsink.ui.serve import StatusPage, served
from tests.support import statuses

NOW_MS = 1_795_512_072_000
OWNER = {"driver": "spark-driver-0:4211", "epoch": 7, "since": "2026-11-24T06:14:02+00:00"}
HOSTILE = '<img src=x onerror="document.title=1">\u202etxt.\u0007exe'
CLICKS, FLIGHTS = ("clicks", "web.clicks"), ("flights", "air.flights")


def partitions(lead: tuple[str, str], count: int, end: int = 48_210, **given: Any) -> list[PartitionStatus]:
    """``count`` partitions that are up to date, but for what is ``given``."""
    topic, table = lead
    usual = {"topic": topic, "table": table, "start": end - 5_000, "end": end, "age_s": 8.0}
    return [statuses.partition(**{**usual, "partition": n, **given}) for n in range(count)]


def sink(*some: PartitionStatus, **given: Any) -> SinkStatus:
    """The status of the sink with these partitions."""
    return statuses.status(*some, **{"sink": "web", "owner": OWNER, **given})


def picture(status: SinkStatus | None = None, **given: Any) -> Picture:
    """A picture of a sink that has been watched for a minute."""
    return Picture(**{"sink": "web", "at_ms": NOW_MS, "status": status, "watched_s": 60.0, **given})


def speed(lead: tuple[str, str], **given: Any) -> TableSpeed:
    """The speed of a table that is up to date, but for what is ``given``."""
    usual = {"landed_per_s": 0.0, "produced_per_s": 0.0, "lag": 0, "lag_s": 0.0, "left_s": 0.0, "in_doubt": 0}
    return TableSpeed(*lead, **{**usual, **given})


def verified(**given: Any) -> LastVerify:
    """All rows, three hours ago, without a difference."""
    at = datetime.fromtimestamp(NOW_MS / 1000 - 3 * 3600, UTC).isoformat(timespec="seconds")
    usual: dict[str, Any] = {"sink": "web", "at": at, "ok": True, "part": "", "differences": {}}
    return LastVerify(**{**usual, "offsets": 810_413, "records": 810_411, "rows": 810_411, **given})


def idle() -> Picture:
    """Everything has landed, and was verified three hours ago."""
    return picture(
        sink(*partitions(CLICKS, 12), *partitions(FLIGHTS, 6), verified=verified()),
        speeds=[speed(CLICKS), speed(FLIGHTS)],
        history={CLICKS: [0.0] * 12, FLIGHTS: [0.0] * 12},
    )


def landing() -> Picture:
    """A running job that catches up, seen from beside it."""
    clicks = [
        statuses.partition(
            **{**_fields(p), "lag": lag, "lag_s": lag / 900, "phase": "BEFORE" if n % 3 == 0 else "AFTER"}
        )
        for n, (p, lag) in enumerate(zip(partitions(CLICKS, 24), _lags(24), strict=True))
    ]
    flights = partitions(FLIGHTS, 6, dead_letters=2, skipped=1)
    status = sink(*clicks, *flights)
    batch = LastBatch(1_284, NOW_MS - 4_000, 412_000, 411_958, PHASES)
    return picture(
        status,
        speeds=[
            speed(
                CLICKS,
                landed_per_s=41_200.0,
                produced_per_s=18_400.0,
                lag=status.lag,
                lag_s=61.0,
                left_s=55.0,
                in_doubt=8,
            ),
            speed(FLIGHTS, landed_per_s=320.4, produced_per_s=320.4),
        ],
        history={
            CLICKS: [38_000.0 + 900 * ((n * 7) % 11) for n in range(40)],
            FLIGHTS: [300.0 + (n * 5) % 40 for n in range(40)],
        },
        job=JobView(batch),
        letters=Letters("web.dead_letters", [group(12, 4)]),
    )


PHASES: Mapping[str, float] = {"plan": 0.034, "before": 0.121, "insert": 3.482, "after": 0.118}


def in_doubt() -> Picture:
    """A job crashed long ago and left ranges behind."""
    left = partitions(CLICKS, 12)
    crashed = [
        statuses.partition(**{**_fields(p), "phase": "BEFORE", "age_s": 7_520.0, "lag": 30_400, "lag_s": 7_511.0})
        for p in left[:3]
    ]
    behind = [statuses.partition(**{**_fields(p), "lag": 22_100, "lag_s": 7_490.0}) for p in left[3:]]
    status = sink(*crashed, *behind)
    return picture(
        status,
        speeds=[speed(CLICKS, lag=status.lag, lag_s=7_511.0, left_s=None, in_doubt=3)],
        history={CLICKS: [0.0] * 9},
    )


def halted() -> Picture:
    """What a start would halt with, and what ended the job."""
    lost = halts.IN_DOUBT_LOST(
        tp=TopicPartition("clicks", 3), detail="Kafka's log starts at 48300, the range in doubt is [43210, 48210)"
    )
    changed = halts.PIPELINE_CHANGED(
        tp=TopicPartition("clicks", 5), detail="the range [43210, 48210) is in doubt, and changed since: columns"
    )
    some = partitions(CLICKS, 12)
    for n in (3, 5):
        some[n] = statuses.partition(
            **{**_fields(some[n]), "phase": "BEFORE", "age_s": 610.0, "lag": 4_100, "lag_s": 600.0}
        )
    return picture(
        sink(*some, halts=(NextHalt(lost.id, lost.message, lost.hint),)),
        speeds=[speed(CLICKS, lag=8_200, lag_s=600.0, left_s=None, in_doubt=2)],
        job=JobView(
            LastBatch(1_284, NOW_MS - 611_000, 60_000, 60_000, PHASES),
            (Failure(changed.id, changed.message, changed.hint),),
            ending=True,
        ),
    )


def mirrored() -> Picture:
    """A mirror with a table that cannot go on."""
    wrong = halts.MIRROR_ROLLED_BACK(
        **{
            name: {"tables": "lake.flights", "property": "chsink.chain"}.get(name, "snapshot 5126")
            for name in halts.MIRROR_ROLLED_BACK.parameters
        }
    )
    tables = (
        TableStatus(
            "lake.clicks",
            "",
            "",
            5_126_883_402_117_345_921,
            at(-38),
            at(-41),
            41_200,
            3,
            60_210,
            44.0,
            17,
            2,
            9,
            70,
            (),
        ),
        TableStatus(
            "lake.flights",
            f"{wrong.id}: {wrong.message}",
            wrong.hint,
            77,
            at(-7_300),
            at(-7_350),
            0,
            0,
            812_400,
            7_290.0,
            0,
            2,
            9,
            70,
            (),
        ),
    )
    status = MirrorStatus(CoordinatorClaim("spark-driver-0:4211", 4, NOW_MS - 9_000_000), tables)
    return picture(
        sink(*partitions(CLICKS, 12), *partitions(FLIGHTS, 6)),
        speeds=[speed(CLICKS, landed_per_s=18_400.0, produced_per_s=18_400.0), speed(FLIGHTS)],
        mirror=MirrorPicture(status),
    )


def mirror_alone() -> Picture:
    """As ``chsink mirror run`` serves it: nothing is known of ClickHouse, and the tables are up to date."""
    found = mirrored().mirror
    assert found is not None and found.status is not None
    tables = tuple(
        replace(table, lag=0, lag_s=0.0, pending=0, pending_units=0, problem="", fix="")
        for table in found.status.tables
    )
    return picture(None, mirror=MirrorPicture(replace(found.status, tables=tables)), job=JobView())


def differing() -> Picture:
    """Everything has landed, and verify found differences."""
    found = verified(ok=False, part="--topic clicks", differences={"missing": 3, "unexpected": 1})
    return replace(idle(), status=sink(*partitions(CLICKS, 12), *partitions(FLIGHTS, 6), verified=found))


def away() -> Picture:
    """Kafka answered, and does no longer."""
    lost = services.KAFKA_UNAVAILABLE(bootstrap="kafka-1:9092", reason="Local: Broker transport failure")
    return replace(landing(), failure=failure_of(lost), speeds=(), watched_s=None, job=None, letters=None)


def many() -> Picture:
    """512 partitions, of which some are behind, in doubt or unknown."""
    some = []
    for p, lag in zip(partitions(CLICKS, 512), _lags(512), strict=True):
        given: dict[str, Any] = {"lag": lag, "lag_s": lag / 900}
        if p.partition % 97 == 5:
            given = {"lag": None, "lag_s": None}
        if p.partition % 41 == 7:
            given["phase"] = "BEFORE"
        some.append(statuses.partition(**{**_fields(p), **given}))
    status = sink(*some)
    return picture(
        status,
        speeds=[
            speed(
                CLICKS,
                landed_per_s=212_000.0,
                produced_per_s=190_000.0,
                lag=status.lag,
                lag_s=88.0,
                left_s=140.0,
                in_doubt=status.in_doubt,
            )
        ],
        history={CLICKS: [200_000.0 + 3_000 * ((n * 7) % 13) for n in range(60)]},
    )


def hostile() -> Picture:
    """Names that try to be HTML, or to turn text around."""
    lead = (HOSTILE, f"db.`{HOSTILE}`")
    letters = Letters(
        HOSTILE,
        [group(3, None, topic=HOSTILE, table=lead[1], column="</script><b>x", value=b"<script>alert(1)</script>")],
    )
    status = sink(
        *partitions(lead, 8, lag=10, lag_s=3.0, phase="BEFORE", unknown_fields={HOSTILE: 3}),
        halts=(NextHalt("CHS-301", HOSTILE, f"run `chsink state resolve {HOSTILE}`"),),
    )
    return picture(status, speeds=[speed(lead, lag=80)], letters=letters)


def group(count: int, replayed: int | None, value: bytes | None = None, **given: str) -> LetterGroup:
    """Dead letters of one reason."""
    said = {"topic": "flights", "table": "air.flights", "column": "dep_delay", **given}
    letters = tuple(
        KeptLetters(
            said["topic"],
            n % 4,
            40_100 + 13 * n,
            said["table"],
            said["column"],
            "CHS-502",
            REASON,
            NOW_MS - n * 60_000,
            0,
            n == 1,
            None,
            value,
            (),
        )
        for n in range(min(count, 20))
    )
    return LetterGroup(said["table"], said["column"], "CHS-502", count, replayed, NOW_MS - 60_000, letters)


REASON = "expected a number for Nullable(Int32), found a string"
STATES = {
    f.__name__: f for f in (idle, landing, in_doubt, halted, differing, away, mirrored, mirror_alone, many, hostile)
}


def digest() -> str:
    """Of all that the pictures in the docs are drawn from: what the page is made of, and what it shows in each state."""
    states = [document(state(), job_words=[], interval_s=5) for state in STATES.values()]
    parts = [each.read_bytes() for each in sorted(Path(str(STATIC)).iterdir())]
    return hashlib.sha256(b"\0".join([*parts, json.dumps(states).encode()])).hexdigest()


class Shown:
    """Looks at nothing: shows the pictures one after the other, and the last one again and again."""

    def __init__(self, *pictures: Picture) -> None:
        self.left = list(pictures)
        self.looks = 0
        self.rests = 0

    def look(self) -> Picture:
        """The next one."""
        self.looks += 1
        return self.left.pop(0) if len(self.left) > 1 else self.left[0]

    def rest(self) -> None:
        """Counted."""
        self.rests += 1


def config(**observe: Any) -> Config:
    """A least configuration whose page takes a free port."""
    data: dict[str, Any] = {
        "sink": {"name": "web"},
        "kafka": {"bootstrap": "localhost:9092"},
        "route": [{"topic": "clicks", "table": "clicks"}],
        "clickhouse": {"endpoints": ["http://localhost:8123"]},
        "observe": {"ui": "127.0.0.1:0", "ui_interval_s": 1, **observe},
    }
    return Config.from_mapping(data, environ={"TOKEN": "a token of this test", "SHORT": "x"})


@contextmanager
def page(*pictures: Picture, **observe: Any) -> Iterator[StatusPage]:
    """A page that shows these pictures."""
    made = StatusPage(config(**observe), structlog.get_logger(), Shown(*pictures))
    made.board._interval_s = 0.3  # a job file allows one second or more
    with served(made) as shown:
        yield shown


def at(seconds: float) -> str:
    """A time relative to that of the pictures."""
    return time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(NOW_MS / 1000 + seconds))


def _lags(count: int) -> Sequence[int]:
    return [0 if n % 5 == 0 else (n * 7919) % 40 * 37 if n % 3 else (n * 104_729) % 61_000 for n in range(count)]


def _fields(p: PartitionStatus) -> dict[str, Any]:
    return {name: getattr(p, name) for name in PartitionStatus.__dataclass_fields__}
