"""The defects: what is wrong, the changes of production code that make it so, and what catches it.

The list drives the test and the table in ``docs/simulator.md``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.mutations.changes import (
    Change,
    added,
    always,
    answers,
    argument,
    becomes,
    constant,
    drop,
    instead,
    moved,
    never,
    without,
)


@dataclass(frozen=True, slots=True)
class Defect:
    """``invariant`` breaks in this ``world`` of the model, or else in the simulator under this ``seed``.

    ``often`` makes faults of the simulated world more frequent, so that one short run is enough.  Where neither can
    reach the defect, ``test`` names a pytest test that fails with it, and there is no ``invariant``.  ``of`` says whose
    worlds the seed is of.
    """

    name: str
    changes: tuple[Change, ...]
    invariant: str = ""
    world: str | None = None
    seed: int = 0
    often: Mapping[str, float] = field(default_factory=dict)
    test: str | None = None
    of: str = "clickhouse"

    @property
    def simulated(self) -> bool:
        """Whether the simulator catches it."""
        return self.world is None and self.test is None

    @property
    def caught_by(self) -> str:
        """Where to look."""
        if self.test is not None:
            return f"`{self.test}`"
        return f"model, world “{self.world}”" if self.world is not None else f"simulator, seed {self.seed}"


_WINDOW_TESTS, _MARK_TESTS = "tests/unit/clickhouse/test_window.py", "tests/unit/clickhouse/test_dedup_mark.py"
_LEDGER_TESTS, _LANES_TESTS = "tests/unit/driver/test_ledger.py", "tests/unit/driver/test_lanes.py"
_CASES, _SCENES = "tests/unit/statemachine/test_cases.py", "tests/sim/test_cases.py"
_TOPIC_FAULTS = {
    "killed at task.after_dead_letters": 10.0,
    "dead letters answer lost": 10.0,
    "group of dead letters forgotten": 3.0,
    "marker slow": 10.0,
    "speculative duplicate": 5.0,
}
_DELETED_FAULTS = {
    "retention ahead of the sink": 15.0,
    "retention under a read": 8.0,
    "killed at driver.after_before": 6.0,
    "killed at driver.before_after": 6.0,
    "killed at driver.after_settle_inserts": 20.0,
}

DEFECTS = (
    # --- tokens -------------------------------------------------------------------------------------------------------
    Defect(
        "no token",
        (
            becomes(
                "chsink.clickhouse.writer.ShardWriter.insert",
                "{**A, **B, **C, **E, 'insert_deduplication_token': D}",
                "{**A, **B, **C, **E, 'insert_deduplication_token': __import__('uuid').uuid4().hex}",
            ),
        ),
        "at_most_once",
        seed=2,
    ),
    Defect(
        "a retry has a token of its own",
        (
            argument(
                "chsink.clickhouse.writer.ShardWriter.insert",
                "insert",
                2,
                '{**_, "insert_deduplication_token": f"{token}:{sends}"}',
            ),
        ),
        "at_most_once",
        seed=4,
    ),
    Defect(
        "token of the planned range, not of the recorded one",
        (
            added("chsink.batch.reader.Chunk", "planned: OffsetRange | None = None"),
            argument(
                "chsink.batch.reader.TaskReader._chunk", "Chunk", "planned", "self.plan.planned[self.topic_partition]"
            ),
            becomes(
                "chsink.clickhouse.pieces._insert",
                "piece_token(A, B, C.index, D)",
                "piece_token(A, replace(B, start=C.planned.start, end=C.planned.end), C.index, D)",
            ),
        ),
        "at_most_once",
        seed=76,
    ),
    Defect(
        "token without the incarnation's nonce",
        (without("chsink.statemachine.tokens._token", "nonce"),),
        "token_is_content",
        world="topic recreated",
    ),
    Defect(
        "tokens are those of the sink that was removed",
        (argument("chsink.statemachine.writes._anew", "replace(A.life, ...)", "nonce", "A.life.nonce"),),
        "after_means_landed",
        world="started again from nothing",
    ),
    Defect(
        "token without the chunk's number",
        (
            without("chsink.statemachine.tokens._token", "chunk_index"),
            becomes("chsink.statemachine.tokens._token", "f'{A}{B}:{C}:{D}'", "f'{A}{C}:{D}'"),
        ),
        "token_is_content",
        world="compaction and retention",
    ),
    # --- the order of a batch -------------------------------------------------------------------------------------------
    Defect(
        "BEFORE is remembered, not stored",
        (becomes("chsink.driver.driver.Driver._announce", "A.write(B)", "A.records.update(B)"),),
        "announced_first",
        seed=1,
    ),
    Defect(
        "AFTER is stored before the inserts",
        (
            moved(
                "chsink.driver.driver.Driver._land_recorded", "phase('after')", before="phase('insert' if ... else ...)"
            ),
            argument("chsink.driver.driver.Driver._land_recorded", "_done", 2, "{}"),
        ),
        "after_means_landed",
        seed=1,
    ),
    Defect(
        "a range whose task halted is confirmed with the others",
        (drop("chsink.driver.driver.Driver._land_recorded", "add(...)"),),
        "after_means_landed",
        seed=1,
    ),
    Defect(
        "a failed insert is acknowledged",
        (instead("chsink.clickhouse.pieces._insert", "insert(...)", "try:\n    _\nexcept ChsinkError:\n    continue"),),
        "after_means_landed",
        seed=10,
    ),
    Defect(
        "dead letters are counted and not delivered",
        (drop("chsink.clickhouse.pieces.PieceLander.__call__", "deliver(...)"),),
        "after_means_landed",
        seed=3,
    ),
    Defect(
        "dead letters have a token for all chunks",
        (argument("chsink.statemachine.tokens.letters_token", "_token", 2, "0"),),
        "token_is_content",
        seed=3,
    ),
    Defect(
        "what is sent again is taken as kept",
        (drop("chsink.clickhouse.pieces._insert", "sent(...)"),),
        "after_means_landed",
        seed=11,
        often={"rows in doubt deleted": 8.0},
    ),
    Defect(
        "what is sent again is taken as kept where tokens are trusted",
        (
            always("chsink.clickhouse.probe.rows_after", "can_probe(...)"),
            always("chsink.clickhouse.kept.SentAgain.check", "pieces"),
        ),
        "after_means_landed",
        seed=11,
        often={"rows in doubt deleted": 8.0},
    ),
    Defect(
        "rows that are there twice are taken as kept",
        (never("chsink.clickhouse.kept.ShardRange.check_kept", "alone"),),
        "at_most_once",
        seed=19,
        often={"rows in doubt attached again": 8.0},
    ),
    Defect(
        "of what is sent again, only the first piece is looked for",
        (drop("chsink.clickhouse.pieces.PieceLander.finish", "check()"),),
        test="tests/unit/batch/test_task.py",
    ),
    Defect(
        "a bit stands for any number of rows",
        (without("chsink.clickhouse.kept._each_once", "bit_count()"),),
        test="tests/unit/batch/test_task.py",
    ),
    Defect(
        "all rows of a range's offsets are taken as its own",
        (answers("chsink.clickhouse.window.DedupWindow.is_alone", "True"),),
        test="tests/unit/clickhouse/test_window.py",
    ),
    Defect(
        "rows from before BEFORE are taken for what was sent again",
        (always("chsink.clickhouse.probe.rows_after", "probe"),),
        test="tests/unit/batch/test_task.py",
    ),
    Defect(
        "dead letters that are sent again are taken as kept",
        (drop("chsink.clickhouse.dead_letters.TableLetters.deliver", "check_kept(...)"),),
        "after_means_landed",
        seed=19,
        often={"rows in doubt deleted": 8.0},
    ),
    Defect(
        "dead letters that are there twice are taken as kept",
        (becomes("chsink.clickhouse.kept.ShardRange.check_kept", "has_more(...)", "_ and self.refusals is OF_PIECES"),),
        "at_most_once",
        seed=159,
        often={"rows in doubt attached again": 8.0},
    ),
    Defect(
        "a replica that lags is asked for rows",
        (always("chsink.clickhouse.replicas.current", "in_keeper(...)"),),
        "at_most_once",
        seed=36,
        often={"state lost": 6.0, "window overflowed by other writers": 4.0},
    ),
    Defect(
        "an unread entry of the replication log is taken for an empty log",
        (always("chsink.clickhouse.replicas._why_behind", "A and B == 0"),),
        test="tests/unit/clickhouse/test_replicas.py",
    ),
    Defect(
        "a replica is asked once whether it is current",
        (becomes("chsink.clickhouse.replicas.current", "A or A", "A"),),
        test="tests/unit/clickhouse/test_replicas.py",
    ),
    Defect(
        "one replica's rows are taken for kept",
        (becomes("chsink.clickhouse.replicas.current", "len(A) >= min(...)", "A"),),
        test="tests/unit/clickhouse/test_replicas.py",
    ),
    Defect(
        "parts of a Replicated table are told apart by its log",
        (without("chsink.clickhouse.writer.ShardWriter._recent", "replicated"),),
        test="tests/unit/clickhouse/test_writer.py",
    ),
    Defect(
        "rows that a DELETE is about to remove are counted",
        (always("chsink.clickhouse.writer.ShardWriter._once_deleted", "not A"),),
        test="tests/unit/clickhouse/test_writer.py",
    ),
    Defect(
        "dead letters are not looked for",
        (never("chsink.clickhouse.dead_letters.TableLetters.deliver", "already_there(...)"),),
        "at_most_once",
        seed=95,
    ),
    Defect(
        "dead letters are sent whatever their table remembers",
        (instead("chsink.clickhouse.writer.ShardWriter.insert", "_check_table(A, ...)", "if A == 0:\n    _"),),
        "at_most_once",
        seed=21,
    ),
    Defect(
        "dead letters for a topic: the group is not asked",
        (never("chsink.dlq.topic.TopicLetters._deliver", "_is_ours(...)"),),
        "at_most_once",
        seed=2,
        often=_TOPIC_FAULTS,
    ),
    Defect(
        "dead letters for a topic: an unknown outcome is taken for refused",
        (drop("chsink.dlq.topic.TopicLetters.deliver", "close()"),),
        "at_most_once",
        seed=2,
        often=_TOPIC_FAULTS,
    ),
    Defect(
        "dead letters for a topic: the group is read before older senders are fenced",
        (moved("chsink.dlq.topic._Open.__init__", "_producer(...)", after="group_offsets(...)"),),
        "at_most_once",
        seed=188,
        often={"speculative duplicate": 30.0},
    ),
    Defect(
        "dead letters for a topic: the offset of another life counts",
        (becomes("chsink.dlq.topic.TopicLetters._is_ours", "A.nonce == B.nonce", "True"),),
        "after_means_landed",
        seed=2,
        often={"topic recreated": 20.0},
    ),
    Defect(
        "dead letters for a topic: a group that forgot is believed",
        (never("chsink.dlq.topic.TopicLetters._deliver", "again"),),
        "at_most_once",
        seed=6,
        often=_TOPIC_FAULTS,
    ),
    Defect(
        "what is sent again after an error is not looked for",
        (argument("chsink.clickhouse.writer.ShardWriter.insert", "InsertResult", "unsure", "False"),),
        "after_means_landed",
        seed=11,
        often={"insert leaves its token": 5.0},
    ),
    Defect(
        "of two shards that may be the recorded one, the first is taken",
        (becomes("chsink.sharding.layout.Layout._replicas_now", "len(A) == 1 and B == 1", "bool(A)"),),
        test="tests/unit/sharding/test_layout.py",
    ),
    Defect(
        "recover does not wait for inserts of replays",
        (becomes("chsink.recovery.landed_rows.wait_for_any_insert", "(sink, A(sink))", "(sink,)"),),
        test="tests/unit/recovery/test_inserts_under_way.py",
    ),
    Defect(
        "a replica that was removed is not waited for",
        (becomes("chsink.clickhouse.window.DedupWindow.wait_where_answered", "A.wait_for_tokens(...)", "False"),),
        test="tests/unit/replay/test_rows_there.py",
    ),
    Defect(
        "a float is added for whole numbers that it rounds",
        (without("chsink.decode.inferred._wider", "not rounds"),),
        test="tests/unit/clickhouse/test_unknown_fields.py",
    ),
    Defect(
        "a command names rows to delete by a state that is over",
        (drop("chsink.recovery.change.find", "catch_up(...)"),),
        test="tests/unit/recovery/test_change.py",
    ),
    Defect(
        "the first attempt does not look for what a speculative copy may have sent",
        (argument("chsink.spark.runner._answers", "replace", "copied", "False"),),
        test="tests/unit/spark/test_shared_tasks.py",
    ),
    Defect(
        "dead letters for a topic: what was forgotten is searched for in one chunk only",
        (argument("chsink.dlq.topic.TopicLetters._deliver", "delivered_until", 3, "offsets"),),
        "at_most_once",
        seed=2,
        often=_TOPIC_FAULTS,
    ),
    Defect(
        "dead letters for a topic: the search does not wait for open transactions",
        (argument("chsink.dlq.search.delivered_until", "letters_in", "whole", "False"),),
        test="tests/unit/replay/test_in_topic.py::test_dead_letters_behind_an_open_transaction_are_waited_for",
    ),
    Defect(
        "dead letters for a topic: the transaction does not move the group",
        (drop("chsink.dlq.topic._Open.send", "move(...)"),),
        "at_most_once",
        seed=2,
        often=_TOPIC_FAULTS,
    ),
    Defect(
        "a range gains dead letters without being announced again",
        (drop("chsink.driver.take_up.TakeUp.__call__", "_announce_more(...)"),),
        test="tests/unit/driver/test_take_up.py::test_a_range_gains_dead_letters_before_any_is_sent",
    ),
    Defect(
        "a task keeps its error to itself, and acknowledgements need not tile the range",
        (
            becomes("chsink.batch.task.run_task", "None if A is None else (A.name, A.params)", "None"),
            becomes("chsink.batch.confirm.confirm", "not tiles(A, B)", "tiles(A, [*B, *B])"),
        ),
        "after_means_landed",
        seed=1,
    ),
    Defect(
        "what is in doubt is forgotten when newer data comes",
        (
            always("chsink.driver.driver.Driver._settle_all", "not A"),
            drop("chsink.driver.driver.Driver._settle_first", "in_doubt"),
            without("chsink.statemachine.writes.before", "not in_doubt"),
            without("chsink.statemachine.writes.before", "... is Phase.AFTER"),
        ),
        "one_slot",
        seed=8,
    ),
    # --- rounds ---------------------------------------------------------------------------------------------------------
    Defect(
        "a batch ends after its first round",
        (never("chsink.driver.driver.Driver._process", "is_empty"),),
        "halt_justified",
        seed=8,
    ),
    Defect(
        "the last round comes first",
        (
            becomes(
                "chsink.statemachine.rounds._head",
                "OffsetRange(A.start, min(A.end, A.start + B))",
                "OffsetRange(max(A.start, A.end - B), A.end)",
            ),
        ),
        "no_defect",
        seed=22,
    ),
    Defect(
        "what a person gave up is recorded as landed",
        (never("chsink.statemachine.writes.after", "expired"),),
        "after_means_landed",
        seed=14,
    ),
    # --- ranges and chunks ----------------------------------------------------------------------------------------------
    Defect(
        "chunks by row count",
        (
            added("chsink.batch.reader.TaskReader", "rows: int = 0"),
            becomes("chsink.batch.reader.TaskReader._cut", "chunk_index(...)", "self.rows // span.chunk_offsets"),
            drop("chsink.batch.reader.TaskReader._cut", "chunk(...)"),
            instead(
                "chsink.batch.reader.TaskReader._cut",
                "int(searchsorted(...))",
                "stop = min(high, low + span.chunk_offsets - self.rows % span.chunk_offsets)\nself.rows += stop - low",
            ),
        ),
        "at_most_once",
        seed=72,
    ),
    Defect(
        "the last chunk reaches beyond the range",
        (becomes("chsink.statemachine.chunks.chunk", "min(A, ...)", "A"),),
        "halt_justified",
        seed=1,
    ),
    Defect(
        "offsets below the processed region are skipped",
        (argument("chsink.statemachine.records.StateRecord.lacks", "OffsetRange", 1, "0"),),
        "complete_at_rest",
        world="checkpoint",
    ),
    Defect(
        "what Kafka still holds is recorded as a gap",
        (answers("chsink.statemachine.table._STILL_HELD", "False"),),
        "complete_at_rest",
        world="gaps recorded, rewinds refused",
    ),
    Defect(
        "a range is sent again by the present shard layout",
        (argument("chsink.driver.driver.Driver._layout", "layout", 0, "self.routes[key.topic].layout"),),
        "no_defect",
        seed=27,
        often={"shards changed": 10.0, "killed at driver.after_before": 10.0},
    ),
    # --- fencing --------------------------------------------------------------------------------------------------------
    Defect(
        "no fencing: a write replaces whatever is stored",
        (
            becomes(
                "chsink.driver.ledger.Ledger.write",
                "[_swap(A, ..., C) for A, C in D]",
                "[Swap(now[str(A)].attempt, _row(A, C)) for now in [self._load()] for A, C in D]",
            ),
        ),
        "state_forward",
        seed=13,
    ),
    Defect(
        "an unknown outcome of a state write is taken for applied",
        (becomes("chsink.driver.ledger.Ledger.write", "swap(...)", "_ or True"),),
        "announced_first",
        seed=3,
    ),
    # --- Kafka ----------------------------------------------------------------------------------------------------------
    Defect(
        "state is compared by the topic's name only",
        (
            answers("chsink.statemachine.table.Situation.id_differs", "False"),
            never("chsink.driver.recheck.check_same_topics", "A != B.topic_id"),
        ),
        "announced_first",
        seed=39,
    ),
    Defect(
        "the topic's id is not asked again after reading",
        (never("chsink.driver.recheck.check_same_topics", "A != B.topic_id"),),
        test="tests/unit/batch/test_task.py::test_nothing_of_a_topic_that_was_recreated_under_the_read_is_sent",
    ),
    Defect(
        "a task sends what it read of a topic that was recreated",
        (never("chsink.clickhouse.pieces.PieceLander.__call__", "topic_id"),),
        "announced_first",
        seed=20,
    ),
    Defect(
        "a claim does not look for rows of what was never announced",
        (drop("chsink.driver.driver.Driver.check_claimed", "_check_nothing_landed(...)"),),
        "at_most_once",
        seed=431,
        often={"state lost": 60.0, "driver frozen": 12.0, "driver killed": 3.0, "second driver": 3.0},
    ),
    Defect(
        "retention during a settle goes unnoticed",
        (never("chsink.driver.recheck.check_still_held", "A > B.start"),),
        "after_means_landed",
        seed=195,
    ),
    Defect(
        "a log that shrank is not noticed when a range is settled",
        (becomes("chsink.statemachine.table.TABLE.LOG_SHRANK", "... < X.e", "_ and not X.planned.is_empty"),),
        test="tests/unit/statemachine/test_decide.py",
    ),
    # --- the deduplication window -----------------------------------------------------------------------------------------
    Defect(
        "inserts go on though the window by time is over",
        (never("chsink.clickhouse.dedup_mark.why_too_late", "A.seconds"),),
        "at_most_once",
        seed=92,
        often={"executor frozen": 50.0, "insert answer lost": 20.0},
    ),
    Defect(
        "the clock is looked at before a question that may take long",
        (moved("chsink.clickhouse.writer.ShardWriter.insert", "_check_time(...)", before="_check_table(...)"),),
        test="tests/unit/clickhouse/test_writer.py",
    ),
    Defect(
        "a driver trusts tokens for ever",
        (
            becomes("chsink.clickhouse.window.DedupWindow.must_probe", "_forgotten(...)", "None"),
            drop("chsink.clickhouse.writer.ShardWriter.insert", "_check_table(...)"),
        ),
        "at_most_once",
        seed=3,
    ),
    Defect(
        "a send does not look what its table remembers",
        (drop("chsink.clickhouse.writer.ShardWriter.insert", "_check_table(...)"),),
        "at_most_once",
        seed=22,
    ),
    Defect(
        "an overflow of the window by count goes unnoticed",
        (never("chsink.clickhouse.dedup_mark.why_forgotten", "... >= usable_blocks(table)"),),
        "at_most_once",
        world="window by count",
    ),
    Defect(
        "a restart of a server that lost its tokens goes unnoticed",
        (becomes("chsink.clickhouse.dedup_mark.why_forgotten", "not all(A)", "all(A)"),),
        "at_most_once",
        world="server restarts",
    ),
    Defect(
        "a task's own clock tells how old a token is",
        (
            argument(
                "chsink.clickhouse.writer.ShardWriter._check_table",
                "why_too_late",
                2,
                "__import__('dataclasses').replace(_, at_s=self.clock.now_ms() // 1000)",
            ),
        ),
        test="tests/unit/clickhouse/test_writer.py::test_not_sent_when_the_token_may_expire",
    ),
    Defect(
        "a driver's own clock tells how old a token is",
        (
            argument(
                "chsink.clickhouse.window.DedupWindow._forgotten",
                "why_too_late",
                1,
                "__import__('dataclasses').replace(_, at_s=record.seen.before_at // 1000)",
            ),
            argument(
                "chsink.clickhouse.window.DedupWindow._forgotten",
                "why_too_late",
                2,
                "__import__('dataclasses').replace(_, at_s=self.clock.now_ms() // 1000)",
            ),
            without("chsink.clickhouse.writer.ShardWriter._check_table", "why_too_late(...)"),
        ),
        test="tests/unit/clickhouse/test_window.py::test_only_the_servers_clock_tells_how_old_a_token_is",
    ),
    Defect(
        "a view's target that forgot tokens goes unnoticed",
        (never("chsink.clickhouse.dedup_mark.why_forgotten", "A is not None and B >= usable_blocks(A)"),),
        "at_most_once",
        seed=937,
        often={
            "window overflowed by other writers": 20.0,
            "executor frozen": 50.0,
            "insert answer lost": 20.0,
        },
    ),
    # --- what no small or random world reaches ----------------------------------------------------------------------------
    Defect(
        "a batch settles only its own partitions",
        (
            argument(
                "chsink.driver.driver.Driver._settle_first",
                "_settle_all",
                1,
                "{*_, *(k for k in self.ledger.records if k not in plan.keys.values())}",
            ),
        ),
        test="tests/sim/test_cases.py::test_a_batch_settles_partitions_that_are_not_in_it",
    ),
    Defect(
        "a plan of another life of the topic is accepted",
        (without("chsink.statemachine.table.TABLE.TOPIC_RECREATED_FROM_ZERO", "a == 0"),),
        test="tests/unit/statemachine/test_decide.py",
    ),
    Defect(
        "gaps count as processed",
        (without("chsink.statemachine.records.StateRecord.lacks", "gaps"),),
        test="tests/unit/statemachine/test_decide.py",
    ),
    Defect(
        "a store's answer is believed without reading back",
        (instead("chsink.state.keepermap.KeeperMapStore._write", "command(...)", "_\nreturn True"),),
        test="tests/unit/state/test_keepermap_answers.py",
    ),
    Defect(
        "a new checkpoint ignores recorded ends",
        (becomes("chsink.spark.starting._start", "is_of_another(...)", "not _"),),
        test="tests/unit/spark/test_starting.py",
    ),
    Defect(
        "a partition that came later is planned from its end",
        (without("chsink.spark.starting._start", "late"),),
        test="tests/unit/spark/test_starting.py",
    ),
    Defect(
        "recover takes rows for an earlier incarnation's",
        (becomes("chsink.recovery.survey._stale", "A > B.end", "A > B.known_end"),),
        test="tests/sim/test_cases.py::test_an_old_backup_of_an_incarnation_that_is_behind_an_earlier_one",
    ),
    # --- what Kafka deleted of ranges in doubt ------------------------------------------------------------------------
    Defect(
        "deleted offsets are given up and not listed",
        (drop("chsink.driver.driver.Driver._list_deleted", "list_deleted(...)"),),
        "one_fate",
        seed=2,
        often=_DELETED_FAULTS,
    ),
    Defect(
        "a list of deleted offsets has another name with each start",
        (argument("chsink.clickhouse.deleted_offsets.deleted_lists", "deliver(A, ...)", 1, "_ - A.record.epoch"),),
        "at_most_once",
        seed=55,
        often=_DELETED_FAULTS,
    ),
    Defect(
        "a list of deleted offsets counts as never sent before",
        (argument("chsink.driver.driver.Driver._list_deleted", "_assign", "again", "False"),),
        "at_most_once",
        seed=383,
        often=_DELETED_FAULTS | {"rows in doubt deleted": 8.0},
    ),
    # --- one topic, several tables ------------------------------------------------------------------------------------
    Defect(
        "table_by may change in the middle of a batch",
        (becomes("chsink.driver.lanes.Lanes._check_choices", "A is not None", "_ and tp not in found"),),
        "at_most_once",
        seed=5,
        of="tables",
    ),
    Defect(
        "of a table that is ahead, only its last round is compared",
        (
            becomes(
                "chsink.statemachine.choices.mixed_choices",
                "(A := max(_compared_from(B, C), ...)) < ...",
                "C.start <= B.done and _",
            ),
        ),
        "at_most_once",
        seed=104,
        of="tables",
    ),
    Defect(
        "since when a choice holds is not compared",
        (becomes("chsink.statemachine.choices._other_end", "record.table_by.since", "0"),),
        test="tests/unit/statemachine/test_choices.py",
    ),
    Defect(
        "what one table lacks is passed over for any other one",
        (always("chsink.statemachine.table.Situation.passed_over", "... is None"),),
        test="tests/unit/statemachine/test_decide.py",
    ),
    Defect(
        "recover goes on from the log's end",
        (never("chsink.recovery.partition_survey.PartitionSurvey._next_record", "num_rows"),),
        test="tests/unit/recovery/test_expired_tail.py",
    ),
    Defect(
        "only the first shard is asked whether rows can be looked for",
        (
            becomes(
                "chsink.clickhouse.window.DedupWindow.must_probe",
                "all(A.table.can_probe for A in B)",
                "B[0].table.can_probe",
            ),
        ),
        test="tests/unit/clickhouse/test_window.py",
    ),
    Defect(
        "a window that was raised is relied on for what came before",
        (
            becomes("chsink.clickhouse.dedup_mark.why_forgotten", "_as_then(...)", "table"),
            becomes("chsink.clickhouse.dedup_mark.why_too_late", "_as_then(A, ...)", "A"),
        ),
        test="tests/unit/clickhouse/test_dedup_mark.py::test_a_window_that_was_raised_remembers_nothing_again",
    ),
    Defect(
        "no part of the window is spare",
        (becomes("chsink.clickhouse.dedup_mark.usable_blocks", "A - A // SPARE", "A"),),
        test="tests/unit/clickhouse/test_dedup_mark.py",
    ),
    Defect(
        "the time limit leaves no time for the insert itself",
        (becomes("chsink.clickhouse.dedup_mark.why_too_late", "A.seconds", "A.margin_s"),),
        test="tests/unit/clickhouse/test_window.py",
    ),
    Defect(
        "an old answer is relied on",
        (becomes("chsink.clickhouse.writer.ShardWriter._check_time", "A > FRESH_MS + ...", "A < 0"),),
        test="tests/unit/clickhouse/test_writer.py",
    ),
    Defect(
        "a partly landed piece is taken for whole",
        (becomes("chsink.clickhouse.probe.presence", "all(A)", "any(A)"),),
        test="tests/unit/batch/test_task.py",
    ),
    Defect(
        "a lightweight DELETE under way is not waited for",
        (constant("chsink.clickhouse.mutations._DELETES", "\"match(command, '(?i)^[( ]*DELETE')\""),),
        test="tests/integration/client/test_probe.py::test_a_delete_under_way_is_waited_for",
    ),
    Defect(
        "the longest limit by time tells how long tokens are trusted",
        (
            becomes("chsink.clickhouse.dedup_mark.why_too_late", "min(A, default=None)", "max(A, default=None)"),
            becomes(
                "chsink.clickhouse.dedup_mark._seen",
                "min(windows_s(table), default=0)",
                "max(windows_s(table), default=0)",
            ),
        ),
        test=f"{_WINDOW_TESTS}::test_the_shortest_limit_by_time_tells_how_long_tokens_are_trusted",
    ),
    Defect(
        "a round takes as long as the longest limit by time allows",
        (becomes("chsink.clickhouse.window.DedupWindow.limit", "min([ROUND_S, *A])", "max([0, *A]) or ROUND_S"),),
        test=f"{_WINDOW_TESTS}::test_the_shard_that_remembers_least_bounds_a_round",
    ),
    Defect(
        "a round is as large as the shard that remembers most allows",
        (
            becomes(
                "chsink.clickhouse.window.DedupWindow.limit",
                "min(most_chunks(A) for B in C)",
                "max(most_chunks(A) for B in C)",
            ),
        ),
        test=f"{_WINDOW_TESTS}::test_the_shard_that_remembers_least_bounds_a_round",
    ),
    Defect(
        "a window that was lowered to fewer blocks is relied on",
        (never("chsink.clickhouse.dedup_mark._why_altered", "A.window_blocks < B.window_blocks"),),
        test=f"{_MARK_TESTS}::test_a_window_that_was_lowered_has_forgotten_tokens",
    ),
    Defect(
        "a window that was lowered to less time is relied on",
        (never("chsink.clickhouse.dedup_mark._why_altered", "A.window_s < B.window_s"),),
        test=f"{_MARK_TESTS}::test_a_window_that_was_lowered_has_forgotten_tokens",
    ),
    Defect(
        "a window that was lowered and raised again is relied on",
        (answers("chsink.clickhouse.window.DedupWindow._may_have_been_lowered", "False"),),
        "at_most_once",
        seed=18,
    ),
    Defect(
        "a window that was lowered and raised again on another replica is relied on",
        (answers("chsink.clickhouse.window.DedupWindow._altered_elsewhere", "-1"),),
        "at_most_once",
        seed=156,
    ),
    Defect(
        "the clocks of two replicas are taken for one",
        (becomes("chsink.clickhouse.window.DedupWindow._altered_elsewhere", "A + max(B) - min(B)", "A"),),
        test=f"{_WINDOW_TESTS}::test_a_table_that_was_altered_on_another_replica_is_looked_into",
    ),
    Defect(
        "names of shards that changed with their servers are taken for moves",
        (never("chsink.sharding.layout.Layout._replicas_now", "any(...)"),),
        test="tests/unit/sharding/test_layout.py::test_a_name_at_another_server_may_be_a_move_or_only_a_name",
    ),
    Defect(
        "rows of a range in doubt are looked for on its recorded shards only",
        (becomes("chsink.clickhouse.window.DedupWindow.everywhere", "[*A, *B]", "[*A]"),),
        test="tests/unit/clickhouse/test_window.py::test_everywhere_is_each_server_once",
    ),
    Defect(
        "a plain table that moved to another server is taken for the same",
        (never("chsink.clickhouse.window.DedupWindow._forgotten", "A and not B.table.replicated"),),
        test="tests/unit/clickhouse/test_window.py::test_a_plain_table_that_may_have_moved_has_forgotten",
    ),
    Defect(
        "what another replica forgets is relied on",
        (
            becomes(
                "chsink.clickhouse.table.lowered",
                "min(int(A), B)",
                "int(A)",
            ),
        ),
        test="tests/unit/clickhouse/test_least.py::test_a_table_is_remembered_as_by_the_replica_that_remembers_least",
    ),
    Defect(
        "a topic that was recreated knows only the life before it",
        (becomes("chsink.statemachine.writes._anew", "A.known_end", "A.end"),),
        test=f"{_CASES}::test_what_earlier_lives_reached_is_known_in_all_later_ones",
    ),
    Defect(
        "a reset knows only the life before it",
        (becomes("chsink.statemachine.writes.reset", "A.known_end", "A.end"),),
        test=f"{_CASES}::test_what_earlier_lives_reached_is_known_in_all_later_ones",
    ),
    Defect(
        "a row of a newer owner is taken for a read that lags",
        (becomes("chsink.driver.ledger.Ledger._unapplied", "_read(...).epoch > ...", "False"),),
        test=f"{_LEDGER_TESTS}::test_a_row_of_a_newer_owner_is_no_read_that_lags",
    ),
    Defect(
        "rows that a claim made itself count as known before",
        (becomes("chsink.driver.ledger.Ledger.claim", "_topic_tables(A) if ... is None else ...", "_topic_tables(A)"),),
        test=f"{_LEDGER_TESTS}::test_rows_that_a_claim_made_itself_do_not_make_the_others_late",
    ),
    Defect(
        "a table that comes back is taken for left when another one has landed",
        (argument("chsink.driver.ledger.Ledger._take_over", "adopt", "routed", "False"),),
        test="tests/unit/driver/test_resent.py::test_tables_that_were_left_together_come_back_together",
    ),
    Defect(
        "a table is left in partitions that no batch had",
        (without("chsink.driver.lanes.Lanes._leave", "topic_partition in ..."),),
        test=f"{_LANES_TESTS}::test_a_table_is_left_only_in_partitions_of_which_records_landed_without_it",
    ),
    Defect(
        "a table is left in partitions of which a batch had no record",
        (argument("chsink.driver.lanes.Lanes.process", "_leave", 0, "batch.ranges"),),
        test=f"{_LANES_TESTS}::test_a_table_is_left_only_in_partitions_of_which_records_landed_without_it",
    ),
    Defect(
        "token without the chunk size",
        (without("chsink.statemachine.tokens._token", "chunk_offsets"),),
        test=f"{_SCENES}::test_a_range_that_is_announced_twice_and_cut_otherwise_is_not_dropped",
    ),
    Defect(
        "token without the layout",
        (without("chsink.statemachine.tokens._token", "layout"),),
        test=f"{_SCENES}::test_a_range_that_is_announced_twice_and_cut_otherwise_is_not_dropped",
    ),
    Defect(
        "a probe does not wait for inserts that run",
        (drop("chsink.driver.take_up.TakeUp.__call__", "wait_for_inserts(...)"),),
        test=f"{_SCENES}::test_a_probe_waits_for_an_insert_of_which_a_part_is_stored",
    ),
    Defect(
        "dead letters come after the rows of their chunk",
        (moved("chsink.clickhouse.pieces.PieceLander.__call__", "_insert(...)", after="reach('task.before_insert')"),),
        test="tests/unit/dlq/test_dead_letters.py::test_no_row_of_a_chunk_is_there_before_its_dead_letters_are",
    ),
    Defect(
        "recover --replace trusts an old range in doubt to its end",
        (
            becomes("chsink.recovery.partition_survey.PartitionSurvey._unaccounted", "record.done", "record.end"),
            becomes(
                "chsink.recovery.partition_survey.PartitionSurvey._in_doubt", "_replaced.done", "self._replaced.end"
            ),
        ),
        test=f"{_SCENES}::test_an_old_backup_of_the_state_with_a_range_in_doubt_is_rebuilt_from_the_rows",
    ),
    Defect(
        "resolve --resend counts rows while an insert runs",
        (moved("chsink.recovery.decide._resend", "wait_for_inserts(...)", after="raise_all(...)"),),
        test=f"{_SCENES}::test_a_command_waits_for_inserts_that_still_run",
    ),
    Defect(
        "foreign rows are not looked for",
        (without("chsink.driver.take_up.TakeUp._without_foreign", "holds_foreign(...)"),),
        test="tests/unit/driver/test_take_up.py",
    ),
    Defect(
        "an empty log is believed by the wall clock",
        (
            becomes("chsink.clickhouse.replicas.current", "A or steady_ms()", "A or clock.now_ms()"),
            becomes("chsink.clickhouse.replicas.current", "steady_ms() - A >= B", "clock.now_ms() - A >= B"),
        ),
        test="tests/unit/clickhouse/test_replicas.py::test_a_clock_that_somebody_sets_does_not_make_a_log_empty",
    ),
    Defect(
        "the wall clock tells how old an answer is",
        (
            becomes("chsink.clickhouse.writer.ShardWriter.insert", "steady_ms()", "self.clock.now_ms()"),
            becomes("chsink.clickhouse.writer.ShardWriter._check_time", "steady_ms()", "self.clock.now_ms()"),
        ),
        test="tests/unit/clickhouse/test_writer.py::test_a_clock_that_somebody_sets_makes_no_answer_fresh_or_old",
    ),
)
