"""The defects: what is wrong, the change of production code that makes it so, and what catches it.

The list drives the test and the table in ``docs/simulator.md``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.mutations.patching import Patch


@dataclass(frozen=True, slots=True)
class Defect:
    """``invariant`` breaks in this ``world`` of the model, or else in the simulator under this ``seed``.

    ``often`` makes faults of the simulated world more frequent, so that one short run is enough.  Where neither can
    reach the defect, ``test`` names a pytest test that fails with it, and there is no ``invariant``.  ``of`` says whose
    worlds the seed is of.
    """

    name: str
    patches: tuple[Patch, ...]
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


DRIVER, TASK, LEDGER = "chsink/batch/driver.py", "chsink/batch/task.py", "chsink/batch/ledger.py"
PROBE, KEEPERMAP = "chsink/clickhouse/probe.py", "chsink/state/keepermap.py"
STARTING, RECOVER = "chsink/spark/starting.py", "chsink/recovery/recover.py"
READER, PIECES = "chsink/batch/reader.py", "chsink/clickhouse/pieces.py"
KEPT = "chsink/clickhouse/kept.py"
LETTERS, LETTERS_TOPIC = "chsink/clickhouse/dead_letters.py", "chsink/dlq/topic.py"
LETTERS_SEARCH, DELETED = "chsink/dlq/search.py", "chsink/clickhouse/deleted.py"
RECHECK, CONFIRM = "chsink/batch/recheck.py", "chsink/batch/confirm.py"
WRITER, WINDOW, DEDUP_MARK = (
    "chsink/clickhouse/writer.py",
    "chsink/clickhouse/window.py",
    "chsink/clickhouse/dedup_mark.py",
)
REPLICAS = "chsink/clickhouse/replicas.py"
TABLE, TOKENS, WRITES = "statemachine/table.py", "statemachine/tokens.py", "statemachine/writes.py"
RECORDS, CHUNKS, ROUNDS = "statemachine/records.py", "statemachine/chunks.py", "statemachine/rounds.py"
LANES, CHOICES = "chsink/batch/lanes.py", "statemachine/choices.py"
MUTATIONS, DECIDE = "chsink/clickhouse/mutations.py", "chsink/recovery/decide.py"

_WINDOW_TESTS, _MARK_TESTS = "tests/unit/clickhouse/test_window.py", "tests/unit/clickhouse/test_dedup_mark.py"
_LEDGER_TESTS, _LANES_TESTS = "tests/unit/batch/test_ledger.py", "tests/unit/batch/test_lanes.py"
_CASES, _SCENES = "tests/unit/statemachine/test_cases.py", "tests/sim/test_cases.py"
_DELIVERED = (
    "        if rejected.dead:\n"
    '            assert self.letters_for is not None, "fates with dead letters come with a place for them"\n'
    "            letters = letters_of(records, rejected.dead, assignment)\n"
    "            self.letters_for(assignment, writer).deliver(assignment, chunk.index, offsets, letters)\n"
    '            failpoints.reach("task.after_dead_letters")\n'
)
_SENT = "        sent, unproven = _insert(chunk, prepared.pieces, assignment, writer, self.kept)\n"
_INSERT = (
    "        result = writer.insert(piece.shard, assignment.key.table, piece.batch, token, assignment.deadline_ms)\n"
)
_AFTER = (
    "            attempt, epoch = self.ledger.attempt(), self.ledger.epoch\n"
    "            self.ledger.write({k: self._done(k, starts, left_out, epoch, attempt) for k in keys})\n"
)
_TOKEN = "        token = piece_token(assignment.key, assignment.record, chunk.index, piece.shard)\n"
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
            Patch(
                WRITER,
                '            "insert_deduplication_token": token,\n',
                '            "insert_deduplication_token": str(id(body)),\n',
            ),
        ),
        "at_most_once",
        seed=1,
    ),
    Defect(
        "a retry has a token of its own",
        (
            Patch(
                WRITER,
                "            client.insert(sql, body, settings)\n",
                '            client.insert(sql, body, {**settings, "insert_deduplication_token": f"{token}:{sends}"})\n',
            ),
        ),
        "at_most_once",
        seed=4,
    ),
    Defect(
        "token of the planned range, not of the recorded one",
        (
            Patch(READER, "    bytes: int = 0\n", "    bytes: int = 0\n    planned: OffsetRange | None = None\n"),
            Patch(
                READER,
                "        return Chunk(self.topic_partition, index, ",
                "        planned = self.plan.planned[self.topic_partition]\n"
                "        return Chunk(self.topic_partition, index, planned=planned, offsets=",
            ),
            Patch(
                PIECES,
                _TOKEN,
                "        plan = chunk.planned\n"
                "        named = replace(assignment.record, first=0, start=plan.start, end=plan.end)\n"
                "        token = piece_token(assignment.key, named, chunk.index, piece.shard)\n",
            ),
        ),
        "at_most_once",
        seed=62,
    ),
    Defect(
        "token without the incarnation's nonce",
        (Patch(TOKENS, "        record.life.nonce,\n", ""),),
        "token_is_content",
        world="topic recreated",
    ),
    Defect(
        "tokens are those of the sink that was removed",
        (Patch(WRITES, "replace(record.life, nonce=nonce, first=first)", "replace(record.life, first=first)"),),
        "after_means_landed",
        world="started again from nothing",
    ),
    Defect(
        "token without the chunk's number",
        (
            Patch(TOKENS, "        chunk_index,\n        place,\n    ]", "        place,\n    ]"),
            Patch(TOKENS, "{chunk_index}:{place}:{digest}", "{place}:{digest}"),
        ),
        "token_is_content",
        world="compaction and retention",
    ),
    # --- the order of a batch -------------------------------------------------------------------------------------------
    Defect(
        "BEFORE is remembered, not stored",
        (
            Patch(
                DRIVER,
                "        self.ledger.write(changes)\n        self.observer.state",
                "        self.ledger.records.update(changes)\n        self.observer.state",
            ),
        ),
        "announced_first",
        seed=1,
    ),
    Defect(
        "AFTER is stored before the inserts",
        (
            Patch(
                DRIVER,
                '        with self.observer.phase("insert" if fresh else "settle"):\n',
                '        with self.observer.phase("after"):\n'
                + _AFTER.replace("left_out", "{}")
                + '        with self.observer.phase("insert" if fresh else "settle"):\n',
            ),
            Patch(
                DRIVER,
                '        failpoints.reach("driver.before_after" if fresh else "driver.after_settle_inserts")\n'
                '        with self.observer.phase("after"):\n' + _AFTER,
                '        failpoints.reach("driver.before_after" if fresh else "driver.after_settle_inserts")\n',
            ),
        ),
        "after_means_landed",
        seed=1,
    ),
    Defect(
        "a range whose task halted is confirmed with the others",
        (
            Patch(
                DRIVER,
                "        for key in keys:\n            if key.topic_partition in unproven:\n"
                "                halted.add(key, unproven[key.topic_partition])\n",
                "",
            ),
        ),
        "after_means_landed",
        seed=1,
    ),
    Defect(
        "a failed insert is acknowledged",
        (
            Patch(
                PIECES,
                _INSERT,
                "        try:\n    " + _INSERT + "        except ChsinkError:\n            continue\n",
            ),
        ),
        "after_means_landed",
        seed=10,
    ),
    Defect(
        "dead letters are counted and not delivered",
        (
            Patch(
                PIECES,
                "            self.letters_for(assignment, writer).deliver(assignment, chunk.index, offsets, letters)\n",
                "            del letters\n",
            ),
        ),
        "after_means_landed",
        seed=3,
    ),
    Defect(
        "dead letters have a token for all chunks",
        (Patch(TOKENS, '_token(key, record, chunk_index, "dead-letters")', '_token(key, record, 0, "dead-letters")'),),
        "token_is_content",
        seed=3,
    ),
    Defect(
        "what is sent again is taken as kept",
        (
            Patch(
                PIECES,
                "        kept.sent(place, chunk.offsets, piece.batch)\n",
                "",
            ),
        ),
        "after_means_landed",
        seed=1,
        often={"rows in doubt deleted": 8.0},
    ),
    Defect(
        "what is sent again is taken as kept where tokens are trusted",
        (
            Patch(
                PROBE,
                "    if not (assignment.again and writer.can_probe(shard)):\n",
                "    if True:\n",
            ),
            Patch(KEPT, "        if not self.pieces:\n", "        if True:\n"),
        ),
        "after_means_landed",
        seed=1,
        often={"rows in doubt deleted": 8.0},
    ),
    Defect(
        "rows that are there twice are taken as kept",
        (Patch(KEPT, "        if self.assignment.alone and has_more(sent, there):\n", "        if False:\n"),),
        "at_most_once",
        seed=13,
        often={"rows in doubt attached again": 8.0},
    ),
    Defect(
        "of what is sent again, only the first piece is looked for",
        (Patch(PIECES, "        self.kept.check()\n", ""),),
        test="tests/unit/batch/test_task.py",
    ),
    Defect(
        "a bit stands for any number of rows",
        (Patch(KEPT, " and there.rows == there.bits.bit_count()", ""),),
        test="tests/unit/batch/test_task.py",
    ),
    Defect(
        "all rows of a range's offsets are taken as its own",
        (
            Patch(
                WINDOW,
                "        return not self.foreign_accepted and record.start >= record.life.older_end\n",
                "        return True\n",
            ),
        ),
        test="tests/unit/clickhouse/test_window.py",
    ),
    Defect(
        "rows from before BEFORE are taken for what was sent again",
        (
            Patch(
                PROBE,
                "    if assignment.record.doubt.probe:\n        return rows_there",
                "    if True:\n        return rows_there",
            ),
        ),
        test="tests/unit/batch/test_task.py",
    ),
    Defect(
        "dead letters that are sent again are taken as kept",
        (
            Patch(
                LETTERS,
                "        place.check_kept(offsets, rows_of(letters))\n",
                "",
            ),
        ),
        "after_means_landed",
        seed=19,
        often={"rows in doubt deleted": 8.0},
    ),
    Defect(
        "dead letters that are there twice are taken as kept",
        (
            Patch(
                KEPT,
                "        if self.assignment.alone and has_more(sent, there):\n",
                "        if self.assignment.alone and has_more(sent, there) and self.refusals is OF_PIECES:\n",
            ),
        ),
        "at_most_once",
        seed=94,
        often={"rows in doubt attached again": 8.0},
    ),
    Defect(
        "a replica that lags is asked for rows",
        (Patch(REPLICAS, "    if not in_keeper(table.engine):\n", "    if True:\n"),),
        "at_most_once",
        seed=106,
        often={"state lost": 6.0, "window overflowed by other writers": 4.0},
    ),
    Defect(
        "an unread entry of the replication log is taken for an empty log",
        (Patch(REPLICAS, "    return None if empty and delay_s == 0 else", "    return None if True else"),),
        test="tests/unit/clickhouse/test_replicas.py",
    ),
    Defect(
        "a replica is asked once whether it is current",
        (Patch(REPLICAS, " or _why_behind(replica, table, empty=empty)", ""),),
        test="tests/unit/clickhouse/test_replicas.py",
    ),
    Defect(
        "one replica's rows are taken for kept",
        (Patch(REPLICAS, "            if len(there) >= min(copies, len(replicas)):\n", "            if there:\n"),),
        test="tests/unit/clickhouse/test_replicas.py",
    ),
    Defect(
        "parts of a Replicated table are told apart by its log",
        (Patch(WRITER, "        tells = not at.table.replicated and ", "        tells = "),),
        test="tests/unit/clickhouse/test_writer.py",
    ),
    Defect(
        "rows that a DELETE is about to remove are counted",
        (Patch(WRITER, "            if not found:\n                return asked\n", "            return asked\n"),),
        test="tests/unit/clickhouse/test_writer.py",
    ),
    Defect(
        "dead letters are not looked for",
        (
            Patch(
                LETTERS,
                "        if place.already_there(offsets, letters):\n            return NOTHING\n",
                "",
            ),
        ),
        "at_most_once",
        seed=95,
    ),
    Defect(
        "dead letters are sent whatever their table remembers",
        (
            Patch(
                WRITER,
                "            self._check_table(shard, token, batch.schema.names)\n",
                "            if shard == 0:\n                self._check_table(shard, token, batch.schema.names)\n",
            ),
        ),
        "at_most_once",
        seed=22,
    ),
    Defect(
        "dead letters for a topic: the group is not asked",
        (
            Patch(
                LETTERS_TOPIC,
                "        reached = self._open.offset if self._is_ours(life, assignment.key) else None\n",
                "        reached = None\n",
            ),
        ),
        "at_most_once",
        seed=2,
        often=_TOPIC_FAULTS,
    ),
    Defect(
        "dead letters for a topic: an unknown outcome is taken for refused",
        (Patch(LETTERS_TOPIC, "                self.close()\n                reason", "                reason"),),
        "at_most_once",
        seed=2,
        often=_TOPIC_FAULTS,
    ),
    Defect(
        "dead letters for a topic: the group is read before older senders are fenced",
        (
            Patch(LETTERS_TOPIC, "        self._producer = _producer(place, key)\n", ""),
            Patch(
                LETTERS_TOPIC,
                "        self.offset, self.note = group_offsets(self._consumer, [tp], place.timeout_s)[tp]\n",
                "        self.offset, self.note = group_offsets(self._consumer, [tp], place.timeout_s)[tp]\n"
                "        self._producer = _producer(place, key)\n",
            ),
        ),
        "at_most_once",
        seed=42,
        often={"speculative duplicate": 30.0},
    ),
    Defect(
        "dead letters for a topic: the offset of another life counts",
        (Patch(LETTERS_TOPIC, "        return noted.nonce == life.nonce\n", "        return True\n"),),
        "after_means_landed",
        seed=2,
        often={"topic recreated": 20.0},
    ),
    Defect(
        "dead letters for a topic: a group that forgot is believed",
        (Patch(LETTERS_TOPIC, "        if self._open.offset is None and assignment.again:", "        if False:"),),
        "at_most_once",
        seed=2,
        often=_TOPIC_FAULTS,
    ),
    Defect(
        "dead letters for a topic: what was forgotten is searched for in one chunk only",
        (Patch(LETTERS_TOPIC, "life.nonce, assignment.record.range), life)", "life.nonce, offsets), life)"),),
        "at_most_once",
        seed=58,
        often=_TOPIC_FAULTS,
    ),
    Defect(
        "dead letters for a topic: the search does not wait for open transactions",
        (Patch(LETTERS_SEARCH, "for letter in letters_in(place, whole=True)", "for letter in letters_in(place)"),),
        test="tests/unit/replay/test_in_topic.py::test_dead_letters_behind_an_open_transaction_are_waited_for",
    ),
    Defect(
        "dead letters for a topic: the transaction does not move the group",
        (
            Patch(
                LETTERS_TOPIC,
                "        self._producer.move(self._consumer, {self._tp: end}, str(life))\n",
                "",
            ),
        ),
        "at_most_once",
        seed=2,
        often=_TOPIC_FAULTS,
    ),
    Defect(
        "a range gains dead letters without being announced again",
        (Patch(DRIVER, "        self._announce_more(keys)\n", ""),),
        test="tests/unit/batch/test_take_up.py::test_a_range_gains_dead_letters_before_any_is_sent",
    ),
    Defect(
        "a task keeps its error to itself, and acknowledgements need not tile the range",
        (
            Patch(TASK, "        error = known\n", "        del known\n"),
            Patch(
                CONFIRM,
                "not tiles(assignment.range, covered)",
                "tiles(assignment.range, [*covered, *covered])",
            ),
        ),
        "after_means_landed",
        seed=1,
    ),
    Defect(
        "what is in doubt is forgotten when newer data comes",
        (
            Patch(DRIVER, "        if not doubtful:\n            return\n", "        return\n"),
            Patch(WRITES, "    assert not record.in_doubt and not asked.is_empty", "    assert not asked.is_empty"),
            Patch(
                WRITES, "    assert fresh or (record.phase is Phase.AFTER and follows)", "    assert fresh or follows"
            ),
            Patch(DRIVER, "        assert not any(self.ledger.records[k].in_doubt ", "        assert not any(False "),
        ),
        "one_slot",
        seed=2,
    ),
    # --- rounds ---------------------------------------------------------------------------------------------------------
    Defect(
        "a batch ends after its first round",
        (Patch(DRIVER, "        while any(not r.is_empty for r in rest.ranges.values()):", "        while not rest:"),),
        "halt_justified",
        seed=8,
    ),
    Defect(
        "the last round comes first",
        (
            Patch(
                ROUNDS,
                "    return OffsetRange(whole.start, min(whole.end, whole.start + offsets))",
                "    return OffsetRange(max(whole.start, whole.end - offsets), whole.end)",
            ),
        ),
        "no_defect",
        seed=22,
    ),
    Defect(
        "what a person gave up is recorded as landed",
        (Patch(WRITES, "    if record.doubt.expired and log_start > record.start:", "    if log_start < 0:"),),
        "after_means_landed",
        seed=14,
    ),
    # --- ranges and chunks ----------------------------------------------------------------------------------------------
    Defect(
        "chunks by row count",
        (
            Patch(READER, "    last_offset: int = -1\n", "    last_offset: int = -1\n    rows: int = 0\n"),
            Patch(
                READER,
                "            index = chunk_index(span.range, span.chunk_offsets, int(offsets[low]))\n"
                "            end = chunk(span.range, span.chunk_offsets, index).end\n"
                "            stop = int(np.searchsorted(offsets, end))\n",
                "            index = self.rows // span.chunk_offsets\n"
                "            stop = min(high, low + span.chunk_offsets - self.rows % span.chunk_offsets)\n"
                "            self.rows += stop - low\n",
            ),
        ),
        "at_most_once",
        seed=3,
    ),
    Defect(
        "the last chunk reaches beyond the range",
        (
            Patch(
                CHUNKS,
                "OffsetRange(start, min(start + chunk_offsets, whole.end))",
                "OffsetRange(start, start + chunk_offsets)",
            ),
        ),
        "halt_justified",
        seed=1,
    ),
    Defect(
        "offsets below the processed region are skipped",
        (Patch(RECORDS, "OffsetRange(0, self.life.first), *", "OffsetRange(0, 0), *"),),
        "complete_at_rest",
        world="checkpoint",
    ),
    Defect(
        "what Kafka still holds is recorded as a gap",
        (
            Patch(
                TABLE,
                "lambda x: x.facts.log_start is not None and x.facts.log_start < x.a,",
                "lambda x: x.facts.log_start is not None and x.facts.log_start < 0,",
            ),
        ),
        "complete_at_rest",
        world="gaps recorded, rewinds refused",
    ),
    Defect(
        "a range is sent again by the present shard layout",
        (
            Patch(
                DRIVER,
                "layout = self.ledger.layout(record.sent.layout)",
                "layout = self.ledger.layout(self.routes[key.topic].layout)",
            ),
        ),
        "no_defect",
        seed=2,
        often={"shards changed": 10.0, "killed at driver.after_before": 10.0},
    ),
    # --- fencing --------------------------------------------------------------------------------------------------------
    Defect(
        "no fencing: a write replaces whatever is stored",
        (
            Patch(
                LEDGER,
                "            if self.store.swap([_swap(k, self.records[k], r) for k, r in pending.items()]):\n",
                "            now = self._load()\n"
                "            forced = [Swap(now[str(k)].attempt, _row(k, r)) for k, r in pending.items()]\n"
                "            if self.store.swap(forced):\n",
            ),
        ),
        "state_forward",
        seed=1,
    ),
    Defect(
        "an unknown outcome of a state write is taken for applied",
        (
            Patch(
                LEDGER,
                "for k, r in pending.items()]):",
                "for k, r in pending.items()]) or True:",
            ),
        ),
        "announced_first",
        seed=2,
    ),
    # --- Kafka ----------------------------------------------------------------------------------------------------------
    Defect(
        "state is compared by the topic's name only",
        (
            Patch(TABLE, "return self.r.is_of_another(self.facts.topic_id)", "return self.r.life.topic_id == 0"),
            Patch(RECHECK, "        if now != record.life.topic_id:", "        if now == 0:"),
        ),
        "announced_first",
        seed=39,
    ),
    Defect(
        "the topic's id is not asked again after reading",
        (Patch(RECHECK, "        if now != record.life.topic_id:", "        if now == 0:"),),
        test="tests/unit/batch/test_task.py::test_nothing_of_a_topic_that_was_recreated_under_the_read_is_sent",
    ),
    Defect(
        "a task sends what it read of a topic that was recreated",
        (
            Patch(
                PIECES,
                "        if assignment.record.life.topic_id is not None:",
                "        if assignment.record.life.topic_id == 0:",
            ),
        ),
        "announced_first",
        seed=11,
    ),
    Defect(
        "a claim does not look for rows of what was never announced",
        (Patch(DRIVER, "            self._check_nothing_landed(keys)", "            pass"),),
        "at_most_once",
        seed=298,
        often={"state lost": 60.0, "driver frozen": 12.0, "driver killed": 3.0, "second driver": 3.0},
    ),
    Defect(
        "retention during a settle goes unnoticed",
        (Patch(RECHECK, "        if start > record.start and ", "        if start < 0 and "),),
        "after_means_landed",
        seed=62,
    ),
    Defect(
        "a log that shrank is not noticed when a range is settled",
        (
            Patch(
                TABLE,
                "lambda x: x.facts.log_end is not None and x.facts.log_end < x.e,",
                "lambda x: x.facts.log_end is not None and x.facts.log_end < x.e and not x.planned.is_empty,",
            ),
        ),
        test="tests/unit/statemachine/test_decide.py",
    ),
    # --- the deduplication window -----------------------------------------------------------------------------------------
    Defect(
        "inserts go on though the window by time is over",
        (Patch(DEDUP_MARK, "    if passed >= least - slack.seconds:", "    if passed > 10**9:"),),
        "at_most_once",
        seed=84,
        often={"executor frozen": 50.0, "insert answer lost": 20.0},
    ),
    Defect(
        "the clock is looked at before a question that may take long",
        (
            Patch(
                WRITER,
                "            self._check_table(shard, token, batch.schema.names)\n"
                "            self._check_time(asked_ms, token, deadline_ms, took)  # last: what comes before it may take long\n",
                "            self._check_time(asked_ms, token, deadline_ms, took)\n"
                "            self._check_table(shard, token, batch.schema.names)\n",
            ),
        ),
        test="tests/unit/clickhouse/test_writer.py",
    ),
    Defect(
        "a driver trusts tokens for ever",
        (
            Patch(
                WINDOW,
                "        why = self._forgotten(shards, record, {} if looked is None else looked)\n        if why is None:",
                "        why = None\n        if why is None:",
            ),
            Patch(WRITER, "            self._check_table(shard, token, batch.schema.names)\n", ""),
        ),
        "at_most_once",
        seed=20,
    ),
    Defect(
        "a send does not look what its table remembers",
        (Patch(WRITER, "            self._check_table(shard, token, batch.schema.names)\n", ""),),
        "at_most_once",
        seed=20,
    ),
    Defect(
        "an overflow of the window by count goes unnoticed",
        (Patch(DEDUP_MARK, "    if grown >= usable_blocks(table):", "    if grown >= 10**9:"),),
        "at_most_once",
        world="window by count",
    ),
    Defect(
        "a restart of a server that lost its tokens goes unnoticed",
        (Patch(DEDUP_MARK, "    if restarted and not all(", "    if restarted and all("),),
        "at_most_once",
        world="server restarts",
    ),
    Defect(
        "a task's own clock tells how old a token is",
        (
            Patch(WRITER, "from dataclasses import dataclass\n", "from dataclasses import dataclass, replace\n"),
            Patch(
                WRITER,
                "why_too_late(at.table, at.mark, now.mark, slack)",
                "why_too_late(at.table, at.mark, replace(now.mark, at_s=self.clock.now_ms() // 1000), slack)",
            ),
        ),
        test="tests/unit/clickhouse/test_writer.py::test_not_sent_when_the_token_may_expire",
    ),
    Defect(
        "a driver's own clock tells how old a token is",
        (
            Patch(WINDOW, "from dataclasses import dataclass\n", "from dataclasses import dataclass, replace\n"),
            Patch(
                WINDOW,
                "            why = why or why_too_late(shard.table, then, looked[at], Slack(self.insert_s, self.margin_s))\n",
                "            then = replace(then, at_s=record.seen.before_at // 1000)\n"
                "            now = replace(looked[at], at_s=self.clock.now_ms() // 1000)\n"
                "            why = why or why_too_late(shard.table, then, now, Slack(self.insert_s, self.margin_s))\n",
            ),
            Patch(WRITER, " or why_too_late(at.table, at.mark, now.mark, slack)", ""),
        ),
        test="tests/unit/clickhouse/test_window.py::test_only_the_servers_clock_tells_how_old_a_token_is",
    ),
    Defect(
        "a view's target that forgot tokens goes unnoticed",
        (Patch(DEDUP_MARK, "    if least is not None and fed >= usable_blocks(least):", "    if fed >= 10**9:"),),
        "at_most_once",
        seed=218,
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
            Patch(
                DRIVER,
                "        self._settle_all(runner, set(at_hand), halted)\n        halted.decided(",
                "        others = {k for k in self.ledger.records if k not in keys.values()}\n"
                "        self._settle_all(runner, {*at_hand, *others}, halted)\n        halted.decided(",
            ),
        ),
        test="tests/sim/test_cases.py::test_a_batch_settles_partitions_that_are_not_in_it",
    ),
    Defect(
        "a plan of another life of the topic is accepted",
        (Patch(TABLE, "lambda x: x.id_differs and x.a == 0 and (", "lambda x: x.id_differs and ("),),
        test="tests/unit/statemachine/test_decide.py",
    ),
    Defect(
        "gaps count as processed",
        (
            Patch(
                RECORDS,
                "        passed = (OffsetRange(0, self.life.first), *(g for g in self.gaps if g.end > log_start))\n",
                "        passed = (OffsetRange(0, self.life.first),)\n",
            ),
        ),
        test="tests/unit/statemachine/test_decide.py",
    ),
    Defect(
        "a store's answer is believed without reading back",
        (
            Patch(
                KEEPERMAP,
                "            self.client.command(sql, self._pinned)\n        except ServerRefused",
                "            self.client.command(sql, self._pinned)\n            return True\n        except ServerRefused",
            ),
        ),
        test="tests/unit/state/test_keepermap_answers.py",
    ),
    Defect(
        "a new checkpoint ignores recorded ends",
        (
            Patch(
                STARTING, "    return FIRST if record.is_of_another(", "    return FIRST if not record.is_of_another("
            ),
        ),
        test="tests/unit/spark/test_starting.py",
    ),
    Defect(
        "a partition that came later is planned from its end",
        (Patch(STARTING, "        return FIRST if record.life.late or (", "        return FIRST if ("),),
        test="tests/unit/spark/test_starting.py",
    ),
    Defect(
        "recover takes rows for an earlier incarnation's",
        (Patch(RECOVER, "(there.range.end > record.end or", "(there.range.end > record.known_end or"),),
        test="tests/sim/test_cases.py::test_an_old_backup_of_an_incarnation_that_is_behind_an_earlier_one",
    ),
    # --- what Kafka deleted of ranges in doubt ------------------------------------------------------------------------
    Defect(
        "deleted offsets are given up and not listed",
        (Patch(DRIVER, "                self.list_deleted(assigned)\n", ""),),
        "one_fate",
        seed=6,
        often=_DELETED_FAULTS,
    ),
    Defect(
        "a list of deleted offsets has another name with each start",
        (Patch(DELETED, "assignment, -number, run", "assignment, -number - assignment.record.epoch, run"),),
        "at_most_once",
        seed=21,
        often=_DELETED_FAULTS,
    ),
    Defect(
        "a list of deleted offsets counts as never sent before",
        (
            Patch(
                DRIVER,
                "                assigned = self._assign(key, 0, again=True)\n",
                "                assigned = self._assign(key, 0, again=False)\n",
            ),
        ),
        "at_most_once",
        seed=132,
        often=_DELETED_FAULTS | {"rows in doubt deleted": 8.0},
    ),
    # --- one topic, several tables ------------------------------------------------------------------------------------
    Defect(
        "table_by may change in the middle of a batch",
        (
            Patch(
                LANES, "            if mixed is not None:\n", "            if mixed is not None and tp not in found:\n"
            ),
        ),
        "at_most_once",
        seed=13,
        of="tables",
    ),
    Defect(
        "of a table that is ahead, only its last round is compared",
        (
            Patch(
                CHOICES,
                "        if behind != ahead and (begins",
                "        if behind != ahead and record.start <= other.done and (begins",
            ),
        ),
        "at_most_once",
        seed=104,
        of="tables",
    ),
    Defect(
        "since when a choice holds is not compared",
        (Patch(CHOICES, "    return record.table_by.since if ", "    return 0 if "),),
        test="tests/unit/statemachine/test_choices.py",
    ),
    Defect(
        "what one table lacks is passed over for any other one",
        (
            Patch(
                TABLE,
                "            lacking = [] if other is None else [part for r in lacking for part in other.lacks(r, log_start)]\n",
                "            lacking = []\n",
            ),
        ),
        test="tests/unit/statemachine/test_decide.py",
    ),
    Defect(
        "recover goes on from the log's end",
        (Patch(RECOVER, "            if part.records.num_rows:\n", "            if False:\n"),),
        test="tests/unit/recovery/test_expired_tail.py",
    ),
    Defect(
        "only the first shard is asked whether rows can be looked for",
        (
            Patch(
                WINDOW,
                "        if not all(m.table.can_probe for m in shards):",
                "        if not shards[0].table.can_probe:",
            ),
        ),
        test="tests/unit/clickhouse/test_window.py",
    ),
    Defect(
        "no part of the window is spare",
        (
            Patch(
                DEDUP_MARK,
                "    return table.window_blocks - table.window_blocks // SPARE",
                "    return table.window_blocks",
            ),
        ),
        test="tests/unit/clickhouse/test_dedup_mark.py",
    ),
    Defect(
        "the time limit leaves no time for the insert itself",
        (Patch(DEDUP_MARK, "    if passed >= least - slack.seconds:", "    if passed >= least - slack.margin_s:"),),
        test="tests/unit/clickhouse/test_window.py",
    ),
    Defect(
        "an old answer is relied on",
        (Patch(WRITER, "        if not 0 <= spent <= FRESH_MS + needed:", "        if spent < 0:"),),
        test="tests/unit/clickhouse/test_writer.py",
    ),
    Defect(
        "a partly landed piece is taken for whole",
        (
            Patch(
                PROBE, "    complete = all(there.get(offset) == rows ", "    complete = any(there.get(offset) == rows "
            ),
        ),
        test="tests/unit/batch/test_task.py",
    ),
    Defect(
        "a lightweight DELETE under way is not waited for",
        (Patch(MUTATIONS, "DELETE|_row_exists'", "DELETE'"),),
        test="tests/integration/client/test_probe.py::test_a_delete_under_way_is_waited_for",
    ),
    Defect(
        "the longest limit by time tells how long tokens are trusted",
        (
            Patch(
                DEDUP_MARK,
                "least, passed = min(windows_s(table), default",
                "least, passed = max(windows_s(table), default",
            ),
        ),
        test=f"{_WINDOW_TESTS}::test_the_shortest_limit_by_time_tells_how_long_tokens_are_trusted",
    ),
    Defect(
        "a round takes as long as the longest limit by time allows",
        (
            Patch(
                WINDOW,
                "min([ROUND_S, *(w - needed_s for s in shards for w in windows_s(s.table))])",
                "max([0, *(w - needed_s for s in shards for w in windows_s(s.table))]) or ROUND_S",
            ),
        ),
        test=f"{_WINDOW_TESTS}::test_the_shard_that_remembers_least_bounds_a_round",
    ),
    Defect(
        "a round is as large as the shard that remembers most allows",
        (Patch(WINDOW, "chunks = min(most_chunks(s.table)", "chunks = max(most_chunks(s.table)"),),
        test=f"{_WINDOW_TESTS}::test_the_shard_that_remembers_least_bounds_a_round",
    ),
    Defect(
        "a window that was lowered to fewer blocks is relied on",
        (Patch(DEDUP_MARK, "    if now.window_blocks < table.window_blocks:\n", "    if False:\n"),),
        test=f"{_MARK_TESTS}::test_a_window_that_was_lowered_has_forgotten_tokens",
    ),
    Defect(
        "a window that was lowered to less time is relied on",
        (Patch(DEDUP_MARK, " and now.window_s < table.window_s:", " and False:"),),
        test=f"{_MARK_TESTS}::test_a_window_that_was_lowered_has_forgotten_tokens",
    ),
    Defect(
        "a topic that was recreated knows only the life before it",
        (
            Patch(
                WRITES,
                "incarnation + 1, older_end=record.known_end)\n    return empty",
                "incarnation + 1, older_end=record.end)\n    return empty",
            ),
        ),
        test=f"{_CASES}::test_what_earlier_lives_reached_is_known_in_all_later_ones",
    ),
    Defect(
        "a reset knows only the life before it",
        (Patch(WRITES, "older_end=record.known_end))", "older_end=record.end))"),),
        test=f"{_CASES}::test_what_earlier_lives_reached_is_known_in_all_later_ones",
    ),
    Defect(
        "a row of a newer owner is taken for a read that lags",
        (
            Patch(
                LEDGER,
                "            newer = row is not None and _read(decode, row).epoch > self.epoch\n",
                "            newer = False\n",
            ),
        ),
        test=f"{_LEDGER_TESTS}::test_a_row_of_a_newer_owner_is_no_read_that_lags",
    ),
    Defect(
        "rows that a claim made itself count as known before",
        (
            Patch(
                LEDGER, "known = _topic_tables(rows) if known is None else known  #", "known = _topic_tables(rows)  #"
            ),
        ),
        test=f"{_LEDGER_TESTS}::test_rows_that_a_claim_made_itself_do_not_make_the_others_late",
    ),
    Defect(
        "a table that comes back is taken for left when another one has landed",
        (
            Patch(
                LEDGER,
                "adopt(r, epoch=self.epoch, attempt=attempt, routed=k in routed)",
                "adopt(r, epoch=self.epoch, attempt=attempt)",
            ),
        ),
        test="tests/unit/batch/test_resent.py::test_tables_that_were_left_together_come_back_together",
    ),
    Defect(
        "a table is left in partitions that no batch had",
        (Patch(LANES, "            if key.topic_partition in read\n            and ", "            if "),),
        test=f"{_LANES_TESTS}::test_a_table_is_left_only_in_partitions_of_which_records_landed_without_it",
    ),
    Defect(
        "a table is left in partitions of which a batch had no record",
        (
            Patch(
                LANES,
                "self._leave(read)",
                "self._leave(batch.ranges)",
            ),
        ),
        test=f"{_LANES_TESTS}::test_a_table_is_left_only_in_partitions_of_which_records_landed_without_it",
    ),
    Defect(
        "token without the chunk size",
        (Patch(TOKENS, "        record.sent.chunk_offsets,\n", ""),),
        test=f"{_SCENES}::test_a_range_that_is_announced_twice_and_cut_otherwise_is_not_dropped",
    ),
    Defect(
        "token without the layout",
        (Patch(TOKENS, "        record.sent.layout,\n", ""),),
        test=f"{_SCENES}::test_a_range_that_is_announced_twice_and_cut_otherwise_is_not_dropped",
    ),
    Defect(
        "a probe does not wait for inserts that run",
        (
            Patch(
                DRIVER,
                "            for key in probed:\n                self.window.wait_for_inserts(key, self.ledger.records[key])\n",
                "            pass\n",
            ),
        ),
        test=f"{_SCENES}::test_a_probe_waits_for_an_insert_of_which_a_part_is_stored",
    ),
    Defect(
        "dead letters come after the rows of their chunk",
        (Patch(PIECES, _DELIVERED + _SENT, _SENT + _DELIVERED),),
        test="tests/unit/dlq/test_dead_letters.py::test_no_row_of_a_chunk_is_there_before_its_dead_letters_are",
    ),
    Defect(
        "recover --replace trusts an old range in doubt to its end",
        (
            Patch(RECOVER, "        done = record.done\n", "        done = record.end\n"),
            Patch(RECOVER, "self._replaced.done", "self._replaced.end"),
        ),
        test=f"{_SCENES}::test_an_old_backup_of_the_state_with_a_range_in_doubt_is_rebuilt_from_the_rows",
    ),
    Defect(
        "resolve --resend counts rows while an insert runs",
        (
            Patch(
                DECIDE,
                "    wait_for_inserts(clickhouse, store, key, record)  # after the claim: ",
                "    # after the claim: ",
            ),
            Patch(
                DECIDE,
                "    raise_all(refused)\n    window =",
                "    raise_all(refused)\n    wait_for_inserts(clickhouse, store, key, record)\n    window =",
            ),
        ),
        test=f"{_SCENES}::test_a_command_waits_for_inserts_that_still_run",
    ),
    Defect(
        "foreign rows are not looked for",
        (Patch(DRIVER, " or self.window.holds_foreign(key, record)", ""),),
        test="tests/unit/batch/test_take_up.py",
    ),
)
