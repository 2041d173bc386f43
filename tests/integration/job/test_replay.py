"""``chsink dlq replay`` on the real engine: dead letters become rows once, whatever ends a replay."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from chsink import failpoints
from chsink.cli.main import app
from chsink.connect import connected
from chsink.dlq.letters import create_table
from chsink.dlq.where import where
from chsink.errors import FencedError
from chsink.replay.report import Report
from chsink.replay.run import open_replay
from chsink.statemachine.records import Phase
from tests.integration.job.conftest import MakeJob
from tests.support.doubt import announce, edit, insert
from tests.support.job import DATABASE, command, select
from tests.support.kafka import Record, read_all

pytestmark = pytest.mark.slow

GOOD, BAD = 10, 6
"""Of each partition: records that have rows, and after them records whose id does not fit UInt8."""
STILL_BAD = b'{"id": "secret", "text": "x"}'


class Kept:
    """A job that kept dead letters: two partitions, of which all is confirmed.  ``forgets`` makes the target table
    remember no more than a few blocks.
    """

    def __init__(
        self, make_job: MakeJob, *, shards: int = 1, metadata: str | None = None, window: int = 10_000
    ) -> None:
        engine = f"ENGINE = MergeTree ORDER BY tuple() SETTINGS non_replicated_deduplication_window = {window}"
        more: dict[str, Any] = {"metadata": metadata} if metadata is not None else {}
        self.job = make_job(
            partitions=2, shards=shards, columns="id UInt8, text String", engine=engine, shard_key=["id"], **more
        )
        self.table = f"{DATABASE}.dead_{self.job.tables[self.job.topic].removeprefix(f'{DATABASE}.')}"
        command(self.job.shards[0], create_table(self.table).replace("window = 10000", f"window = {window}"))
        for partition in (0, 1):
            self.job.send(partition, GOOD)
            values = [{"id": 1000 + n, "text": f"{partition}:{n}"} for n in range(BAD)]
            self.job.send_values(partition, [*values, STILL_BAD], key=b"\xfe", headers=[("h", b"\x00")])
            if metadata is None:
                insert(self.job, partition, range(GOOD))
        self.keep(read_all(self.job.bootstrap, self.job.topic))
        announce(self.job, dict.fromkeys((0, 1), (GOOD + BAD + 1, GOOD + BAD + 1)))

    def keep(self, records: Iterable[Record]) -> None:
        """Dead letters, as the job delivers them."""
        for r in records:
            if r.offset >= GOOD:
                names = (
                    "sink, `table`, _kafka_topic, _kafka_partition, _kafka_offset, timestamp_ms, key, value, headers"
                )
                key, value = (f"unhex('{(part or b'').hex()}')" for part in (r.key, r.value))
                where = f"'{self.job.name}', '{self.target}', '{self.job.topic}', {r.partition}, {r.offset}"
                row = f"{where}, {r.timestamp}, {key}, {value}, [('h', unhex('00'))]"
                command(self.job.shards[0], f"INSERT INTO {self.table} ({names}) VALUES ({row})")

    @property
    def target(self) -> str:
        return self.job.tables[self.job.topic]

    def widen(self) -> None:
        """What a person does who wants the records."""
        for shard in self.job.shards:
            command(shard, f"ALTER TABLE {self.target} MODIFY COLUMN id UInt64")

    @property
    def keeps(self) -> dict[str, str]:
        """What the job file says about dead letters."""
        return {"errors.on_bad_value": "dead_letter", "dead_letters.table": self.table}

    def arguments(self, *words: str) -> list[str]:
        keeps = [word for name, value in self.keeps.items() for word in ("--set", f"{name}={value}")]
        return ["dlq", words[0], "-c", str(self.job.file()), *keeps, *words[1:]]

    def invoke(self, *words: str) -> Result:
        return CliRunner().invoke(app, self.arguments(*words))

    def replay(self, *words: str) -> dict[str, Any]:
        """What it reports."""
        mode = [] if "--dry-run" in words else ["--yes"]
        result = self.invoke("replay", *mode, "--json", *words)
        assert result.exit_code == 0, result.output
        document: dict[str, Any] = json.loads(result.stdout)
        return document

    def crash(self, monkeypatch: pytest.MonkeyPatch, points: str, *words: str) -> None:
        """A replay that ends at a failpoint."""
        with monkeypatch.context() as armed:
            armed.setattr(failpoints, "_ACTIVE", failpoints._parse(points))
            result = self.invoke("replay", "--yes", *words)
        assert isinstance(result.exception, failpoints.FailpointError), result.output

    def others_insert(self, blocks: int) -> None:
        """Until the table may have forgotten our tokens."""
        for n in range(blocks):
            command(self.job.shards[0], f"INSERT INTO {self.target} (id, text) VALUES ({n}, 'other')")

    def open(self) -> int:
        listed = json.loads(self.invoke("list", "--json", "--where", "replayed=no").stdout)
        return len(listed)

    def check(self) -> None:
        """Every record but the one that never fits has one row, and its dead letter says so."""

        def rows(record: Record) -> list[tuple[Any, ...]]:
            if record.value == STILL_BAD:
                return []
            document = json.loads(record.value or b"{}")
            return [(document["id"], document["text"])]

        verdict = self.job.verdict(rows_of=rows)
        assert verdict.exactly_once, str(verdict)
        assert self.open() == 2
        marks = (
            f"SELECT count(), uniqExact(_kafka_partition, _kafka_offset) FROM {self.table} WHERE sink LIKE '%~replay'"
        )
        assert select(self.job.shards[0], marks).split() == [str(2 * BAD)] * 2


POINTS = (
    "driver.after_before",
    "task.after_insert",
    "task.after_dead_letters",
    "driver.before_after",
    "driver.after_after",
)


def test_a_replay_lands_each_dead_letter_once(make_job: MakeJob, monkeypatch: pytest.MonkeyPatch) -> None:
    """⚑ It ends at every point of its way, once by SIGKILL, twice over; others replay in between."""
    kept = Kept(make_job, shards=2)
    first = kept.replay("--dry-run")
    assert (first["landed"], first["left"]["bad"]) == (0, 2 * (BAD + 1))
    kept.widen()
    dry = kept.replay("--dry-run")
    assert (dry["landed"], dry["left"]["bad"], kept.open()) == (2 * BAD, 2, 2 * (BAD + 1))
    child = [sys.executable, "-m", "chsink.cli.main", *kept.arguments("replay", "--yes", "--where", "partition=0")]
    killed = subprocess.run(child, env={**os.environ, "CHSINK_FAILPOINTS": "task.after_insert=kill"}, check=False)
    assert killed.returncode == -9
    for point in POINTS:
        kept.crash(monkeypatch, f"{point}=fail")
    done = kept.replay()
    assert done["left"]["bad"] == 2
    kept.check()
    assert kept.replay()["landed"] == 0
    kept.check()
    assert [one["reason"] for one in done["letters"]]
    assert "secret" not in json.dumps(done)


def test_forgotten_tokens_are_looked_for(make_job: MakeJob, monkeypatch: pytest.MonkeyPatch) -> None:
    """⚑ Between a crash and the next replay, the tables forget every token.  Meanwhile another replay took over from one
    that had chosen already; and letters of a range that the job has in doubt wait.
    """
    kept = Kept(make_job, window=20)
    kept.widen()
    with connected(kept.job.config(kept.keeps)) as opened:
        slow = open_replay(opened)
        slow.ledger.claim([], opened.clickhouse.layouts)
        [page] = slow.chooser.pages(where(["offset=10"]))
        chosen = slow.chooser.choose(page, Report(""), {})
        assert sum(map(len, chosen.values())) == 2
        for at, point in enumerate(("driver.after_before", "task.after_insert", "task.after_dead_letters")):
            first = GOOD + 2 * at
            kept.crash(monkeypatch, f"{point}=fail", "--where", f"offset={first}..{first + 1}")
            kept.others_insert(25)
            assert kept.replay("--where", "table=no")["settled"] == 4
        with pytest.raises(FencedError, match="CHS-801"):
            slow._round(chosen)
    kept.check()


@pytest.mark.exit_of("REPLAY_IN_DOUBT")
@pytest.mark.exit_of("REPLAY_ROWS_THERE")
def test_a_person_decides_where_nothing_can_be_known(make_job: MakeJob, monkeypatch: pytest.MonkeyPatch) -> None:
    """⚑ A list whose pipeline changed is decided about, both ways; and what the job has in doubt is not replayed."""
    kept = Kept(make_job)
    announce(kept.job, {1: (GOOD + 2, GOOD + BAD + 1)})
    kept.widen()
    assert kept.replay("--dry-run")["left"]["not_confirmed"] == BAD - 1
    kept.crash(monkeypatch, "task.after_insert=fail", "--where", "partition=0")
    command(kept.job.shards[0], f"ALTER TABLE {kept.target} ADD COLUMN more String DEFAULT ''")
    halted = kept.invoke("replay", "--yes")
    assert halted.exit_code == 3
    said = " ".join(halted.stderr.split())
    assert "CHS-336" in said and "pipeline has changed" in said and "--landed" in said
    refused = kept.invoke("replay", "--yes", "--resend")
    assert refused.exit_code == 2 and "CHS-337" in refused.stderr and f"holds {BAD} rows" in refused.stderr
    assert kept.replay("--landed", "--where", "table=no")["settled"] == BAD

    kept.crash(monkeypatch, "driver.after_before=fail", "--where", "partition=1")
    command(kept.job.shards[0], f"ALTER TABLE {kept.target} ADD COLUMN yet String DEFAULT ''")
    assert "CHS-336" in kept.invoke("replay", "--yes").stderr
    assert kept.replay("--resend")["landed"] == 2
    edit(kept.job, phase=Phase.AFTER)
    assert kept.replay()["landed"] == BAD - 2
    kept.check()
    assert "CHS-275" in kept.invoke("replay", "--set", "dead_letters.topic=x", "--set", "dead_letters.table=").stderr
