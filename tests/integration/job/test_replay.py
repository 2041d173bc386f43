"""``chsink dlq replay`` on the real engine: dead letters become rows once, whatever ends a replay."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from threading import Timer
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic
from typer.testing import CliRunner, Result

from chsink import failpoints
from chsink.cli.main import app
from chsink.connect import Services, connected
from chsink.dlq import digest
from chsink.dlq.letters import COLUMNS, create_table
from chsink.dlq.topic import letter_of
from chsink.dlq.where import where
from chsink.driver.ledger import read_records
from chsink.errors import ChsinkError, FencedError, HaltError, PreflightError
from chsink.notation.metadata_columns import PROBE_COLUMNS
from chsink.observe.logs import configure
from chsink.recovery.change import claim
from chsink.replay.choose import ChosenOffsets
from chsink.replay.opening import open_replay
from chsink.replay.report import ReplayReport
from chsink.replay.run import Replay, ReplayVerdict
from chsink.replay.source import InTable
from chsink.statemachine.records import Phase, StateKey
from tests.integration.exits.commands import settings_of
from tests.integration.job.conftest import MakeJob
from tests.support.doubt import announce, edit, insert, quietly_connected, run
from tests.support.job import DATABASE, command, select
from tests.support.kafka import Record, read_all
from tests.support.told import statements_of, words_of

pytestmark = pytest.mark.slow

GOOD, BAD = 10, 6
"""Of each partition: records that have rows, and after them records whose id does not fit UInt8."""
STILL_BAD = b'{"id": "secret", "text": "x"}'


def rows_of(record: Record) -> list[tuple[Any, ...]]:
    """What a record becomes once the table is wide enough."""
    if record.value == STILL_BAD:
        return []
    document = json.loads(record.value or b"{}")
    return [(document["id"], document["text"])]


class Kept:
    """A job that kept dead letters: two partitions, of which all is confirmed.  ``forgets`` makes the target table
    remember no more than a few blocks.
    """

    services: Services

    def __init__(
        self, make_job: MakeJob, *, shards: int = 1, metadata: str | None = None, window: int = 10_000
    ) -> None:
        engine = f"ENGINE = MergeTree ORDER BY tuple() SETTINGS non_replicated_deduplication_window = {window}"
        more: dict[str, Any] = {"metadata": metadata} if metadata is not None else {}
        self.job = make_job(
            partitions=2, shards=shards, columns="id UInt8, text String", engine=engine, shard_key=["id"], **more
        )
        self.table = f"{DATABASE}.dead_{self.job.tables[self.job.topic].removeprefix(f'{DATABASE}.')}"
        self.job.create(create_table(self.table).replace("window = 10000", f"window = {window}"))
        for partition in (0, 1):
            self.job.send(partition, GOOD)
            values = [{"id": 1000 + n, "text": f"{partition}:{n}"} for n in range(BAD)]
            self.job.send_values(partition, [*values, STILL_BAD], key=b"\xfe", headers=[("h", b"\x00")])
            if metadata is None:
                insert(self.job, partition, range(GOOD))
        announce(self.job, dict.fromkeys((0, 1), (GOOD + BAD + 1, GOOD + BAD + 1)))
        self.keep(read_all(self.job.bootstrap, self.job.topic))

    def keep(self, records: Iterable[Record]) -> None:
        """Dead letters, as the job delivers them."""
        names = "sink, `table`, _kafka_topic, _kafka_partition, _kafka_offset, timestamp_ms, key, value, headers"
        rows = []
        for r in records:
            if r.offset >= GOOD:
                key, value = (f"unhex('{(part or b'').hex()}')" for part in (r.key, r.value))
                where = f"'{self.job.name}', '{self.target}', '{self.job.topic}', {r.partition}, {r.offset}"
                rows.append(f"({where}, {r.timestamp}, {key}, {value}, [('h', unhex('00'))])")
        command(self.job.shards[0], f"INSERT INTO {self.table} ({names}) VALUES {', '.join(rows)}")

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
        """Of a command."""
        keeps = [word for name, value in self.keeps.items() for word in ("--set", f"{name}={value}")]
        return ["dlq", words[0], "-c", str(self.job.file()), *keeps, *words[1:]]

    def open(self) -> Replay:
        """A replay that knows the tables as they are now."""
        self.services.take_up(self.services.config)
        return open_replay(self.services.clickhouse, self.services.store, self.services.kafka)

    def replay(self, *conditions: str, verdict: ReplayVerdict | None = None) -> dict[str, Any]:
        """What it reports."""
        return self.open().run(where(conditions), verdict).as_dict()

    def marks(self) -> list[int]:
        """How many replay marks there are, and of how many dead letters."""
        marks = "SELECT count(), uniqExact(_kafka_partition, _kafka_offset)"
        counted = select(self.job.shards[0], f"{marks} FROM {self.table} WHERE sink LIKE '%~replay'")
        return [int(number) for number in counted.split()]

    def survey(self) -> dict[str, Any]:
        """What a dry run reports."""
        return self.open().survey(where(())).as_dict()

    def crash(self, monkeypatch: pytest.MonkeyPatch, point: str, *conditions: str) -> None:
        """A replay that ends at a failpoint."""
        with monkeypatch.context() as armed:
            armed.setattr(failpoints, "_ACTIVE", failpoints._parse(f"{point}=fail"))
            with pytest.raises(failpoints.FailpointError):
                self.replay(*conditions)

    def others_insert(self, blocks: int) -> None:
        """Until the table may have forgotten our tokens."""
        for n in range(blocks):
            command(self.job.shards[0], f"INSERT INTO {self.target} (id, text) VALUES ({n}, 'other')")

    def insert(self, row: tuple[int, str, int, int]) -> None:
        """What the job or a person inserts: id, text, partition and offset."""
        number, text, partition, offset = row
        values = f"({number}, '{text}', '{self.job.topic}', {partition}, {offset})"
        command(self.job.shards[0], f"INSERT INTO {self.target} (id, text, {', '.join(PROBE_COLUMNS)}) VALUES {values}")

    def left(self) -> int:
        """How many dead letters were not replayed."""
        source = self.open().source
        assert isinstance(source, InTable)
        return len(source.table.listed(where(["replayed=no"]), 100))

    def check(self) -> None:
        """Every record but the one that never fits has one row, and its dead letter says so."""
        verdict = self.job.verdict(rows_of=rows_of)
        assert verdict.exactly_once, str(verdict)
        assert (self.left(), self.marks()) == (2, [2 * BAD] * 2)


class KeptInTopic(Kept):
    """The same with dead letters in a topic of two partitions.  Two are in both of them, and one was delivered with a
    range that was sent again since.
    """

    @property
    def letters(self) -> str:
        return f"{self.job.topic}-dead"

    def keep(self, records: Iterable[Record]) -> None:
        client: dict[str, Any] = {"bootstrap.servers": self.job.bootstrap}
        admin = AdminClient(client)
        if self.letters not in admin.list_topics(timeout=20).topics:
            admin.create_topics([NewTopic(self.letters, 2)])[self.letters].result(20)
        producer = Producer(client)
        with quietly_connected(self.job) as opened:
            nonces = {key.partition: r.life.nonce for key, r in read_records(opened.store, self.job.name).items()}
        names = ("sink", "table", "_kafka_topic", "_kafka_partition", "_kafka_offset", "timestamp_ms", "timestamp_type")
        for r in records:
            if r.offset >= GOOD:
                place = self.job.name, self.target, self.job.topic, r.partition, r.offset, r.timestamp, 0
                headers = [{"key": name, "value": value} for name, value in r.headers]
                why = {"column": "id", "error_id": "CHS-501", "reason": "too large"}
                row = {
                    **dict(zip(names, place, strict=True)),
                    **why,
                    "key": r.key,
                    "value": r.value,
                    "headers": headers,
                }
                nonce = "earlier" if (r.partition, r.offset) == (1, GOOD + 1) else nonces[r.partition]
                for partition in (0, 1) if r.offset == GOOD else (r.partition,):
                    producer.produce(self.letters, partition=partition, **letter_of(row, nonce))
        assert not producer.flush(20)

    @property
    def keeps(self) -> dict[str, str]:
        return {"errors.on_bad_value": "dead_letter", "dead_letters.topic": self.letters}

    def left(self) -> int:
        listed = CliRunner().invoke(app, self.arguments("list", "--json", "--where", "replayed=no"))
        return len({(one["partition"], one["offset"]) for one in json.loads(listed.stdout)})

    def marks(self) -> list[int]:
        marks = [dict(r.headers) for r in read_all(self.job.bootstrap, self.letters) if r.value is None]
        places = {(mark["chsink.partition"], mark["chsink.offset"]) for mark in marks}
        return [len(marks) - 2, len(places)]


def choose(slow: Replay, *conditions: str) -> tuple[ChosenOffsets, dict[StateKey, str]]:
    """What a replay does until it has chosen; in which lives of the partitions it did so."""
    slow.ledger.claim([], slow.clickhouse.layouts)
    slow.source.begin()
    [page] = slow.source.pages(where(conditions))
    lives = slow.chooser.lives()
    return slow.chooser.choose(page, ReplayReport(""), {}), lives


def check_digests(server: str) -> None:
    """ClickHouse and Python agree, byte for byte."""
    records: list[tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]] = [
        (0, None, None, []),
        (-5, b"", None, []),
        (5, None, b"", [("", b"")]),
        (1_700_000_000_000, b"\x00\x00", b"\xfe\xff", [("h", b"\x00"), ("ä∂", None), ("h", b"")]),
        (1, b"1:", b"-", [("-", None)]),
    ]
    columns = ", ".join(f"{name} {COLUMNS[name]}" for name in ("timestamp_ms", "key", "value", "headers"))

    def written(part: bytes | None) -> str:
        return "NULL" if part is None else f"unhex('{part.hex()}')"

    found = []
    for ms, key, value, headers in records:
        pairs = ", ".join(f"({written(name.encode())}, {written(part)})" for name, part in headers)
        row = f"{ms}, {written(key)}, {written(value)}, [{pairs}]"
        types = columns.replace("'", "\\'")
        found.append(select(server, f"SELECT {digest.SQL} FROM values('{types}', ({row}))").strip())
    assert found == [digest.digest_of(*record) for record in records]


POINTS = ("driver.after_before", "task.after_dead_letters", "driver.before_after")


@pytest.fixture
def make_kept(make_job: MakeJob) -> Iterator[Callable[..., Kept]]:
    """``Kept`` with services of its own."""
    with ExitStack() as closing:

        def make(kind: type[Kept] = Kept, **options: Any) -> Kept:
            kept = kind(make_job, **options)
            configure("console", "error")
            kept.services = closing.enter_context(connected(kept.job.config(kept.keeps)))
            return kept

        yield make


@pytest.mark.parametrize("kind", [Kept, pytest.param(KeptInTopic, marks=pytest.mark.soak)])
def test_a_replay_lands_each_dead_letter_once(
    make_kept: Callable[..., Kept], monkeypatch: pytest.MonkeyPatch, kind: type[Kept]
) -> None:
    """⚑ It ends at every point of its way, once by SIGKILL; whoever replays next finishes it."""
    kept = make_kept(kind, shards=2)
    check_digests(kept.job.shards[0])
    first = kept.survey()
    assert (first["landed"], first["left"]["bad"]) == (0, 2 * (BAD + 1))
    kept.widen()
    dry = kept.survey()
    assert (dry["landed"], dry["left"]["bad"], kept.left()) == (2 * BAD, 2, 2 * (BAD + 1))
    if kind is Kept:
        child = [sys.executable, "-m", "chsink.cli.main", *kept.arguments("replay", "--yes", "--where", "partition=0")]
        killed = subprocess.run(child, env={**os.environ, "CHSINK_FAILPOINTS": "task.after_insert=kill"}, check=False)
        assert killed.returncode == -9
    else:
        kept.crash(monkeypatch, "task.after_insert", "partition=0")
    assert kept.survey()["in_doubt"] == BAD
    for at, point in enumerate(POINTS):
        kept.crash(monkeypatch, point, f"offset={GOOD + at}")
    result = CliRunner().invoke(app, kept.arguments("replay", "--yes", "--json"))
    assert result.exit_code == 0, result.output
    done = json.loads(result.stdout)
    assert (done["left"]["bad"], {one["column"] for one in done["letters"]}) == (2, {"id"})
    assert "secret" not in result.stdout
    kept.check()
    assert kept.replay()["landed"] == 0
    kept.check()
    one = "text = '0:0' AND id = 1000"
    for shard in kept.job.shards:
        command(shard, f"ALTER TABLE {kept.target} DELETE WHERE {one} SETTINGS mutations_sync = 1")
    verified = CliRunner().invoke(app, ["verify", *kept.arguments("", "--json")[2:]])
    [found, _] = json.loads(verified.stdout)["partitions"]
    assert (verified.exit_code, found["missing"]["ranges"]) == (1, [[GOOD, GOOD + 1]])
    for shard in kept.job.shards:
        command(shard, f"ALTER TABLE {kept.target} DELETE WHERE text LIKE '1:%' SETTINGS mutations_sync = 1")
    others = [r for r in read_all(kept.job.bootstrap, kept.job.topic) if r.partition == 1 and r.value != STILL_BAD]
    kept.keep([replace(r, timestamp=r.timestamp + 1, headers=(("h", None),)) for r in others])
    kept.keep([replace(r, value=(r.value or b"").replace(b"1:", b"2:")) for r in others if r.offset == GOOD + 1])
    assert kept.left() == (2 if kind is KeptInTopic else 3) + BAD
    again = kept.replay()
    left = {why: number for why, number in again["left"].items() if number}
    assert (again["landed"], left) == (BAD - 1, {"bad": 2, "ambiguous": 1}), "other records at these places"
    assert kept.replay()["landed"] == 0


@pytest.mark.soak
def test_forgotten_tokens_are_looked_for(make_kept: Callable[..., Kept], monkeypatch: pytest.MonkeyPatch) -> None:
    """⚑ Between a crash and the next replay, the table forgets every token.  Meanwhile others took over from a replay that
    had chosen already.
    """
    kept = make_kept(window=20)
    kept.widen()
    slow = kept.open()
    chosen, lives = choose(slow, "offset=10")
    assert sum(map(len, chosen.values())) == 2
    for at, point in enumerate(("driver.after_before", "task.after_insert", "task.after_dead_letters")):
        first = GOOD + 2 * at
        kept.crash(monkeypatch, point, f"offset={first}..{first + 1}")
        kept.others_insert(25)
        assert kept.replay("table=no")["settled"] == 4
    with pytest.raises(FencedError, match="CHS-801"):
        slow._round(chosen, lives)
    kept.check()


@pytest.mark.soak
@pytest.mark.exit_of("REPLAY_IN_DOUBT")
@pytest.mark.exit_of("REPLAY_ROWS_THERE")
@pytest.mark.exit_of("REPLAY_ROWS_MISSING")
def test_a_person_decides_where_nothing_can_be_known(
    make_kept: Callable[..., Kept], monkeypatch: pytest.MonkeyPatch
) -> None:
    """⚑ A list whose pipeline changed is decided about, both ways; what the job has in doubt is not replayed;
    a list whose partition was reset is not sent blindly; and who
    inserted a record has nothing doubled.
    """
    kept = make_kept()
    announce(kept.job, {1: (GOOD + 2, GOOD + BAD + 1)})
    kept.widen()
    assert kept.survey()["left"]["not_confirmed"] == BAD - 1
    kept.crash(monkeypatch, "driver.after_before", "partition=0", f"offset={GOOD}")
    end = GOOD + BAD + 1
    edit(kept.job, 0, phase=Phase.EMPTY, start=0, end=0, life={"older_end": end})
    with pytest.raises(HaltError, match="CHS-336.*partition was reset"):
        kept.replay()
    edit(kept.job, 0, phase=Phase.AFTER, end=end)
    kept.insert((1000, "0:0", 0, GOOD))
    assert kept.replay("table=no")["settled"] == 1

    kept.crash(monkeypatch, "task.after_insert", "partition=0")
    command(kept.job.shards[0], f"ALTER TABLE {kept.target} MODIFY COLUMN id UInt32")
    with pytest.raises(HaltError, match="CHS-336.*pipeline has changed") as halted:
        kept.replay()
    with pytest.raises(PreflightError, match=f"CHS-337.*holds {BAD - 1} of their rows") as refused:
        kept.replay(verdict=verdict_of(halted.value, "--resend"))
    assert " IN (" in statements_of(refused.value, "DELETE FROM")[0]
    assert kept.replay("table=no", verdict=verdict_of(refused.value, "--landed"))["settled"] == BAD - 1

    kept.crash(monkeypatch, "driver.after_before", "partition=1")
    command(kept.job.shards[0], f"ALTER TABLE {kept.target} MODIFY COLUMN id UInt64")
    with pytest.raises(HaltError, match="CHS-336"):
        kept.replay()
    with pytest.raises(PreflightError, match="CHS-337.*lacks the rows of 2 of them") as contradicted:
        kept.replay("table=no", verdict="landed")
    assert kept.replay(verdict=verdict_of(contradicted.value, "--resend"))["landed"] == 2
    edit(kept.job, phase=Phase.AFTER)
    kept.insert((1002, "1:2", 1, GOOD + 2))
    done = kept.replay()
    assert (done["landed"], done["left"]["has_row"]) == (BAD - 3, 1)
    assert kept.left() == 3
    assert kept.job.verdict(rows_of=rows_of).exactly_once


@pytest.mark.soak
@pytest.mark.exit_of("REPLAY_MARKS_DROPPED")
def test_marks_whose_token_alone_is_remembered(make_kept: Callable[..., Kept], monkeypatch: pytest.MonkeyPatch) -> None:
    """⚑ Found by the simulator (replays, seed 94000000): the rows were there, and every command ended with CHS-333."""
    kept = make_kept()
    kept.widen()
    kept.crash(monkeypatch, "task.after_dead_letters", "partition=0")
    of_replay = "sink LIKE '%~replay' SETTINGS mutations_sync = 1"
    command(kept.job.shards[0], f"ALTER TABLE {kept.table} DELETE WHERE {of_replay}")
    with pytest.raises(PreflightError, match="CHS-337.*but not the marks") as refused:
        kept.replay("table=no", verdict="landed")
    for shard in kept.job.shards:
        command(shard, f"{statements_of(refused.value, 'DELETE FROM')[0]} SETTINGS lightweight_deletes_sync = 2")
    assert kept.replay(verdict=verdict_of(refused.value, "--resend"))["landed"] == 2 * BAD
    kept.check()


@pytest.mark.soak
@pytest.mark.exit_of("REPLAY_MARKS_THERE")
def test_some_of_the_marks_of_a_list(make_kept: Callable[..., Kept], monkeypatch: pytest.MonkeyPatch) -> None:
    """⚑ Found by an adversary: it was given up as never landed, and dead letters with a mark were never chosen again."""
    kept = make_kept()
    kept.widen()
    kept.crash(monkeypatch, "driver.before_after", "partition=0")
    url, synced = kept.job.shards[0], "SETTINGS lightweight_deletes_sync = 2"
    of_one = f"sink LIKE '%~replay' AND _kafka_offset = {GOOD} SETTINGS mutations_sync = 1"
    command(url, f"ALTER TABLE {kept.table} DELETE WHERE {of_one}")
    with pytest.raises(HaltError, match="CHS-336"):
        kept.replay()
    command(url, f"DELETE FROM {kept.target} WHERE id >= 1000 {synced}")
    with pytest.raises(PreflightError, match="CHS-337.*only some of its replay marks") as refused:
        kept.replay(verdict="resend")
    command(url, f"{statements_of(refused.value, 'DELETE FROM')[0]} {synced}")
    assert kept.replay(verdict=verdict_of(refused.value, "--resend"))["landed"] == 2 * BAD
    kept.check()


@pytest.mark.soak
@pytest.mark.parametrize("kind", [Kept, KeptInTopic])
def test_rows_that_somebody_deleted_behind_their_marks(
    make_kept: Callable[..., Kept], monkeypatch: pytest.MonkeyPatch, kind: type[Kept]
) -> None:
    """⚑ Found by an adversary: ClickHouse dropped the rows that --resend sent, and the next replay believed the marks."""
    kept = make_kept(kind)
    kept.widen()
    kept.crash(monkeypatch, "driver.before_after", "partition=0")
    url, synced = kept.job.shards[0], "SETTINGS lightweight_deletes_sync = 2"
    command(url, f"DELETE FROM {kept.target} WHERE id IN (1000, 1001) {synced}")
    with pytest.raises(PreflightError, match="CHS-337.*lacks the rows of 2 of them") as refused:
        kept.replay(verdict="landed")
    command(url, f"{statements_of(refused.value, 'DELETE FROM')[0]} {synced}")
    assert kept.replay(verdict=verdict_of(refused.value, "--resend"))["left"]["bad"] == 2
    assert kept.job.verdict(rows_of=rows_of).exactly_once
    assert kept.left() == 2


@pytest.mark.soak
def test_rows_on_a_shard_that_was_removed(make_kept: Callable[..., Kept], monkeypatch: pytest.MonkeyPatch) -> None:
    """⚑ Found by an adversary: verdicts looked at the present shards only, and what they said to do doubled records."""
    kept = make_kept(shards=2)
    kept.widen()
    kept.crash(monkeypatch, "task.after_insert", "partition=0")
    job = kept.job
    both, job.shards, job.weights, job.shard_key = job.shards, job.shards[:1], job.weights[:1], []
    with connected(job.config(kept.keeps)) as kept.services:
        with pytest.raises(PreflightError, match=f"CHS-337.*holds {BAD} of their rows"):
            kept.replay("table=no", verdict="resend")
        assert kept.replay(verdict="landed")["settled"] == BAD
    job.shards = both
    assert job.verdict(rows_of=rows_of).exactly_once


@pytest.mark.soak
def test_shards_that_have_each_others_names(make_kept: Callable[..., Kept], monkeypatch: pytest.MonkeyPatch) -> None:
    """⚑ Neither a start nor ``chsink doctor`` said so of a replay in doubt; its next run did, once it had fenced others."""
    kept = make_kept(shards=2)
    kept.widen()
    job = kept.job

    def named(urls: Iterable[str]) -> dict[str, list[dict[str, str]]]:
        return {"clickhouse.endpoints": [{"url": url, "name": name} for url, name in zip(urls, "ab", strict=True)]}

    job.settings = named(job.shards)
    with connected(job.config(kept.keeps)) as kept.services:
        kept.crash(monkeypatch, "task.after_insert", "partition=0")
    job.settings = named(reversed(job.shards))
    doctor = CliRunner().invoke(app, ["doctor", *kept.arguments("", "--json")[2:], *settings_of(job)])
    [renamed] = [one for one in json.loads(doctor.stdout)["findings"] if one["id"] == "CHS-409"]
    assert renamed["severity"] == "warning", "the job itself may go on"
    places = re.findall(r"[(;] ?(\w): (http\S+?)(?=[;)])", renamed["fix"])
    job.settings = {"clickhouse.endpoints": [{"url": url, "name": name} for name, url in places]}
    with connected(job.config(kept.keeps)) as kept.services:
        assert kept.replay()["settled"] == BAD
    assert job.verdict(rows_of=rows_of).exactly_once


def verdict_of(said: ChsinkError, option: str) -> ReplayVerdict:
    """What the option of the command that the message names decides."""
    assert words_of(said, option) == ["dlq", "replay", option]
    return "landed" if option == "--landed" else "resend"


@pytest.mark.soak
@pytest.mark.exit_of("REPLAY_UNSETTLED")
def test_a_reset_after_the_replay_that_its_refusal_names(
    make_kept: Callable[..., Kept], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = make_kept()
    kept.widen()
    kept.crash(monkeypatch, "driver.after_before", "partition=0")
    refused = run(kept.job, "reset", kept.job.topic, "0", "--yes")
    assert (refused.exit_code, "CHS-338" in refused.stderr) == (2, True), refused.output

    group, *words = words_of(refused, "replay")
    assert group == "dlq"
    done = CliRunner().invoke(app, kept.arguments(*words, "--yes"))
    assert done.exit_code == 0, done.output
    assert run(kept.job, "reset", kept.job.topic, "0", "--yes").exit_code == 0
    assert kept.job.verdict(rows_of=rows_of).exactly_once


@pytest.mark.soak
def test_a_reset_and_a_replay_do_not_meet(make_kept: Callable[..., Kept], monkeypatch: pytest.MonkeyPatch) -> None:
    """⚑ A list in doubt is settled before a reset, a replay that has chosen already is stopped by it, and one that begins in
    the middle of it sends nothing.  The table cannot show which records it has.
    """
    kept = make_kept(metadata="")
    kept.widen()
    reset = ("reset", kept.job.topic, "0", "--yes")
    kept.crash(monkeypatch, "driver.after_before", "partition=0", f"offset={GOOD}")
    refused = run(kept.job, *reset)
    assert (refused.exit_code, "CHS-338" in refused.stderr) == (2, True), refused.output
    assert kept.replay("table=no")["settled"] == 1

    slow = kept.open()
    chosen, lives = choose(slow, "partition=0", f"offset={GOOD + 1}")
    assert run(kept.job, *reset).exit_code == 0
    with pytest.raises(FencedError, match="CHS-801"):
        slow._round(chosen, lives)
    assert kept.survey()["left"]["not_confirmed"] == 2 * BAD + 1, "until the job starts again"

    edit(kept.job, 0, phase=Phase.AFTER, end=GOOD + BAD + 1)
    slow = kept.open()
    chosen, lives = choose(slow, "partition=1", f"offset={GOOD}")
    assert len(chosen) == 1
    claim(kept.services.clickhouse, kept.services.store, "reset", [], resets=True)
    assert slow._round(chosen, lives) == list(chosen)
    assert select(kept.job.shards[0], f"SELECT count() FROM {kept.target} WHERE id >= 1000").strip() == "1"


@pytest.mark.soak
def test_what_replays_need_of_a_topic(make_kept: Callable[..., Kept]) -> None:
    """⚑ Marks behind an open transaction are waited for: the table cannot show the rows.  So what was delivered with a
    range that was sent again is not replayed.  A topic that is compacted is
    refused.
    """
    kept = make_kept(KeptInTopic, metadata="")
    assert isinstance(kept, KeptInTopic)
    kept.widen()
    client: dict[str, Any] = {"bootstrap.servers": kept.job.bootstrap}
    first = kept.open()
    chosen, lives = choose(first, "partition=0")
    open_ = Producer({**client, "transactional.id": kept.job.name})
    open_.init_transactions(20)
    open_.begin_transaction()
    for partition in (0, 1):
        open_.produce(kept.letters, b"", partition=partition)
    assert not open_.flush(20)
    assert not first._round(chosen, lives)
    ending = Timer(2, open_.abort_transaction, [20])
    ending.start()
    done = kept.replay()
    assert (done["landed"], done["left"]["earlier"]) == (BAD - 1, 1)
    ending.join()
    rows = f"SELECT count(), uniqExact(text) FROM {kept.target} WHERE id >= 1000"
    assert select(kept.job.shards[0], rows).split() == [str(2 * BAD - 1)] * 2
    compact = ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, kept.letters, incremental_configs=[compact])
    admin = AdminClient(client)
    [changed] = admin.incremental_alter_configs([resource]).values()
    changed.result(20)
    with pytest.raises(PreflightError, match="CHS-275"):
        kept.open()


@pytest.mark.soak
def test_a_view_that_lacks_rows_of_a_replay(make_kept: Callable[..., Kept]) -> None:
    """⚑ CHS-336 said to look in the table, which had all rows; the view's table never got them."""
    kept = make_kept()
    kept.widen()
    job, filled = kept.job, f"{kept.target}_filled"
    window = "SETTINGS non_replicated_deduplication_window = 1000"
    job.create(f"CREATE TABLE {filled} (id UInt64) ENGINE = MergeTree ORDER BY id {window}")
    view = f"CREATE MATERIALIZED VIEW {kept.target}_view TO {filled} AS SELECT toUInt64(id) AS id FROM {kept.target}"
    job.everywhere(f"{view} WHERE NOT throwIf(id = 1003)")

    def replay(*words: str) -> Result:
        return CliRunner().invoke(app, kept.arguments("replay", *words, "--yes", "--set", "clickhouse.retry_for_s=3"))

    assert "CHS-315" in replay("--where", "partition=0").output
    job.everywhere(f"DROP TABLE {kept.target}_view SYNC")
    job.everywhere(view)
    said = " ".join(replay().output.split())
    assert "CHS-336" in said and f"these dependent views may lack them: {kept.target}_view" in said
    assert "insert what a view's target lacks, and run `chsink dlq replay" in said
    job.everywhere(f"INSERT INTO {filled} SELECT id FROM {kept.target} WHERE id >= 1000 AND _kafka_partition = 0")
    assert replay("--landed").exit_code == 0
    assert select(job.shards[0], f"SELECT count(), uniqExact(id) FROM {filled} WHERE id >= 1000").split() == ["12", "6"]
    assert job.verdict(rows_of=rows_of).exactly_once
