"""What Kafka deleted of ranges in doubt: said in the state, listed as dead letters, counted, and never replayed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from chsink.batch.model import Ack, ChunkAck, left_out_of
from chsink.dlq.kept import KeptLetters
from chsink.dlq.letters import DELETED_ID, deleted_letter
from chsink.dlq.place import LettersTopic
from chsink.dlq.topic import letter_of
from chsink.driver.deleted_offsets import announce_deleted, listed
from chsink.driver.roles import Assignment
from chsink.replay.choose import LetterChooser
from chsink.replay.report import KeepReason, ReplayReport
from chsink.statemachine.parts import Sending, TopicLife
from chsink.statemachine.ranges import OffsetRange
from chsink.statemachine.records import Phase, StateKey, StateRecord
from chsink.statemachine.tokens import letters_token

GONE, SOME, HELD = (StateKey("s", "t", partition, "d.t") for partition in range(3))
RECORD = StateRecord(Phase.BEFORE, 1, "a", 10, 20, life=TopicLife("id"), sent=Sending(4))


def ledger(records: dict[StateKey, StateRecord]) -> Any:
    return SimpleNamespace(records=records, epoch=2, attempt=lambda: "x", write=records.update)


def test_the_state_says_what_is_gone_before_anything_is_listed() -> None:
    """⚑ A start after a crash lists the same runs, and only new ones behind them."""
    kept = ledger(dict.fromkeys((GONE, SOME, HELD), RECORD))
    starts = {GONE.topic_partition: 90, SOME.topic_partition: 13, HELD.topic_partition: 10}
    assert announce_deleted(kept, dict(kept.records), starts) == [GONE, SOME]
    assert [kept.records[key].deleted for key in (GONE, SOME, HELD)] == [(20,), (13,), ()]
    assert announce_deleted(kept, dict(kept.records), starts | {SOME.topic_partition: 15}) == [GONE, SOME]
    assert kept.records[SOME].deleted_runs == (OffsetRange(10, 13), OffsetRange(13, 15))
    kept.write = None
    assert announce_deleted(kept, dict(kept.records), starts) == [GONE, SOME]


def test_its_dead_letter_says_which_offsets_and_has_no_record() -> None:
    run = OffsetRange(10, 13)
    [row] = deleted_letter(GONE, run).to_pylist()
    assert (row["_kafka_offset"], row["key"], row["value"], row["error_id"]) == (10, None, None, "CHS-308")
    assert row["reason"] == (
        "Kafka deleted offsets [10, 13) while they were in doubt; their records may or may not be in the table"
    )
    sent = dict(letter_of(row, "nonce")["headers"])
    assert (sent["chsink.last_offset"], sent["__connect.errors.exception.class.name"]) == (b"12", b"HaltError")


def test_its_name_is_no_other_dead_letters() -> None:
    """⚑ Its chunks have dead letters, too."""
    names = {letters_token(GONE, RECORD, number) for number in (-2, -1, 0, 1)}
    assert len(names) == 4
    own, lists = LettersTopic({}, "dead", "s", 1), LettersTopic({}, "dead", "s", 1, lists_deleted=True)
    assert own.group_of("t") != lists.group_of("t")
    assert own.transactional_id(GONE) != lists.transactional_id(GONE)
    assert lists.group.startswith(own.group), "what the Kafka user is granted"


def test_each_run_counts_as_a_dead_letter() -> None:
    kept = ledger({SOME: RECORD})
    announce_deleted(kept, dict(kept.records), {SOME.topic_partition: 13})
    ack = listed(Assignment(SOME, kept.records[SOME], "", 0))
    task = Ack(0, "t", 1, (ChunkAck(13, 20, records=5, rows=4, dead_letters=1),))
    assert left_out_of([task, ack])[SOME.topic_partition].dead_letters == 2
    assert "offset 10: Kafka deleted offsets [10, 13)" in ack.chunks[0].first_dead_letter


def test_a_replay_leaves_it_out() -> None:
    """⚑ Without a value, it would replay as a tombstone."""
    letter = KeptLetters("t", 0, 10, "d.t", "", DELETED_ID, "gone", 0, -1, False, None, None, ())
    target = SimpleNamespace(shards=())
    clickhouse: Any = SimpleNamespace(targets={GONE.topic_table: target})
    source: Any = SimpleNamespace(letters=lambda *_: [letter], sink="s")
    unused: Any = None
    report = ReplayReport("s", dry_run=True)
    assert list(LetterChooser(clickhouse, unused, unused, source)._fitting(GONE, "", [10], report)) == []
    assert report.left == {KeepReason.DELETED: 1}
