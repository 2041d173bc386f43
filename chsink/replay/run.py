"""A replay from its claim to its report: settle what is in doubt, then round after round.

Every change of the recorded state is one of ``statemachine.writes``.  A crash anywhere leaves each list unannounced, in
doubt, or done.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from chsink import failpoints
from chsink.clickhouse.cluster import Cluster
from chsink.clickhouse.probe import rows_by_offset
from chsink.clickhouse.replicas import TWICE
from chsink.clickhouse.shards import ShardTable
from chsink.clickhouse.window import DedupWindow
from chsink.dlq.place import LetterPlace
from chsink.dlq.table import offsets_in
from chsink.dlq.where import Where
from chsink.driver.halts import Halts
from chsink.driver.ledger import Ledger, read_records
from chsink.errors import ChsinkError, HaltError, PreflightError, UnavailableError, halts, services, values
from chsink.notation.sql import quote_string
from chsink.ports import StateStore
from chsink.refusals import asking_target
from chsink.replay.choose import ChosenOffsets, LetterChooser, UnconfirmedError
from chsink.replay.cutting import rounds_of
from chsink.replay.land import ListSender, UnclearListError
from chsink.replay.report import KeepReason, Left, ReplayReport
from chsink.replay.routes import LetterRoutes
from chsink.replay.source import LetterSource
from chsink.statemachine import writes
from chsink.statemachine.parts import Mark, Seen, Sending
from chsink.statemachine.records import StateKey, StateRecord
from chsink.statemachine.table import forbidden_changes
from chsink.statemachine.tokens import token_head

ReplayVerdict = Literal["landed", "resend"]
"""What a person says of a list in doubt: all of its rows are there, or none is."""
_DOUBTFUL = (
    halts.CANNOT_PROBE,
    halts.PIECE_INCOMPLETE,
    halts.PIECE_DROPPED,
    halts.PIECE_STORED_AGAIN,
    halts.DEAD_LETTERS_INCOMPLETE,
    values.BAD_VALUE,
)
"""Of these, a replay's own halt says what to do."""


@dataclass(slots=True)
class Replay:
    """One replay, made by :mod:`chsink.replay.opening`.  ``ledger`` holds the state of the sink's replays."""

    clickhouse: Cluster
    store: StateStore
    ledger: Ledger
    routes: LetterRoutes
    source: LetterSource
    window: DedupWindow
    chooser: LetterChooser
    sender: ListSender

    # --- the command ------------------------------------------------------------------------------------------------

    def survey(self, where: Where) -> ReplayReport:
        """What :meth:`run` would do.  Claims nothing and changes nothing."""
        report = ReplayReport(self.source.sink, dry_run=True)
        recorded = read_records(self.store, self.ledger.sink)
        pending = {k: r for k, r in recorded.items() if r.in_doubt}
        report.in_doubt = sum(len(r.doubt.only) for r in pending.values())
        self.source.begin()
        for page in self.source.pages(where):
            chosen = self.chooser.choose(page, report, pending)
            report.landed += sum(map(len, chosen.values()))
        return report

    def run(self, where: Where, verdict: ReplayVerdict | None = None) -> ReplayReport:
        """Settle what an earlier replay left in doubt, by a person's ``verdict`` where there is one; then replay.

        Raises HaltError CHS-336 for a list that a person must decide about, PreflightError CHS-337 for a verdict that
        the table contradicts, FencedError when another replay of the sink has begun.
        """
        report = ReplayReport(self.source.sink)
        self.ledger.claim([], self.clickhouse.layouts)
        self.source.begin()
        report.settled = report.landed = self._settle_all(verdict)
        for page in self.source.pages(where):
            lives = self.chooser.lives()
            for chosen in self._rounds(self.chooser.choose(page, report, {})):
                withdrawn = self._round(chosen, lives)
                for key in withdrawn:
                    for offset in chosen[key]:
                        report.leave(
                            Left(LetterPlace(key.topic, key.partition, offset, key.table), KeepReason.NOT_CONFIRMED)
                        )
                report.landed += sum(len(offsets) for key, offsets in chosen.items() if key not in withdrawn)
        return report

    def _settle_all(self, verdict: ReplayVerdict | None) -> int:
        """Settle every list in doubt, then raise all halts as one.  Returns how many dead letters landed."""
        landed, halted = 0, Halts()
        for key, record in sorted(self.ledger.records.items()):
            if not record.in_doubt:
                continue
            with halted.of(key), _together(key, halted):
                if verdict == "resend":
                    self._give_up(key, record)
                    continue
                if verdict == "landed":
                    self._mark(key, record)
                else:
                    self._settle(key, record)
                landed += len(record.doubt.only)
        halted.raise_all()
        return landed

    def _rounds(self, chosen: ChosenOffsets) -> Iterator[ChosenOffsets]:
        if not chosen:
            return
        tables = sorted({key.table for key in chosen})
        with asking_target():
            limit = min(self.window.limit(table).chunks for table in tables)
            partitioned = {t: any(s.table.partition_key for s in self.window.places(t, None)) for t in tables}
        yield from rounds_of(chosen, limit, partitioned)

    def _round(self, chosen: ChosenOffsets, lives: Mapping[StateKey, str]) -> list[StateKey]:
        """BEFORE, insert, AFTER for one list a topic-partition and table.  ``lives`` are those in which the lists were
        chosen.  Lists whose partition was reset since are withdrawn, and returned: nothing of them was sent.
        """
        self.ledger.ensure(chosen)
        with asking_target():
            self.window.check_unchanged(sorted({key.table for key in chosen}))
        failpoints.reach("driver.before_before")
        self._announce(chosen)
        failpoints.reach("driver.after_before")
        withdrawn = self.chooser.overtaken(chosen, lives)  # a reset that comes later finds the lists in doubt
        self._confirm(withdrawn)
        halted, rest = Halts(), [key for key in chosen if key not in withdrawn]
        for key in rest:
            with halted.of(key):
                self._land(key)
        self._confirm([key for key in rest if key not in halted])
        halted.raise_all()
        self.source.wait()
        return withdrawn

    def _announce(self, chosen: ChosenOffsets) -> None:
        attempt, now, changes = self.ledger.attempt(), self.clickhouse.clock.now_ms(), {}
        with asking_target():
            marks = self.window.marks(sorted({key.table for key in chosen}))
        for key, offsets in chosen.items():
            layout, pipeline = self.routes.present(key.topic_table)
            length = offsets[-1] + 1 - offsets[0]
            said = writes.Announcement(None, Sending(length, layout, pipeline), Seen(now, marks[key.table]))
            record = self.ledger.records[key]
            changes[key] = writes.replaying(record, offsets, said, epoch=self.ledger.epoch, attempt=attempt)
        self.ledger.write(changes)

    def _land(self, key: StateKey) -> None:
        record = self.ledger.records[key]
        layout = self.ledger.layout(record.sent.layout)
        if layout is None:
            raise _doubt(
                key, record, f"the shard layout {record.sent.layout} under which it was announced is not stored"
            )
        with _in_doubt_where_unclear(key, record):
            unproven = self.sender.land(key, record, layout)
        if unproven:
            views = ", ".join(unproven)
            raise _doubt(key, record, f"the table has the rows, but these dependent views may lack them: {views}")

    def _confirm(self, keys: Sequence[StateKey]) -> None:
        if not keys:
            return
        failpoints.reach("driver.before_after")
        attempt, epoch = self.ledger.attempt(), self.ledger.epoch
        self.ledger.write({k: writes.after(self.ledger.records[k], epoch=epoch, attempt=attempt) for k in keys})
        failpoints.reach("driver.after_after")

    # --- in doubt ---------------------------------------------------------------------------------------------------

    def _settle(self, key: StateKey, record: StateRecord) -> None:
        """Send the list again, unless marks say that all of it is there: they come last."""
        if not self._is_landed(key, record):
            self._check_same(key, record)
            with _in_doubt_where_unclear(key, record), asking_target():
                probing = self.window.must_probe(key, record)
            if self._was_reset(key, record) or probing:
                self._renew(key, record)
            self._land(key)
        self._confirm([key])

    def _is_landed(self, key: StateKey, record: StateRecord) -> bool:
        """Whether marks say that all of the list is there; then the others are sent, too.  They prove nothing of a list
        that was announced again, of which the table shows that rows are missing: somebody deleted these.
        """
        if not self.source.has_landed(key, record):
            return False
        if record.doubt.probe and self._missing(key, record, self._offsets_there(key, record)):
            return False
        if not self.source.are_marked(key, record):
            self.sender.mark(key, record, None)
        return True

    def _check_same(self, key: StateKey, record: StateRecord) -> None:
        """CHS-336 where the list would not become the rows that it was announced for."""
        if not self.clickhouse.is_routed(key):
            raise _doubt(key, record, "no route of the job file leads the topic to this table")
        with asking_target():
            pipeline = self.routes.pipelines.fingerprint(key.topic_table, record.sent.layout, record.sent.pipeline)
        changed = ", ".join(forbidden_changes(record.sent.pipeline, pipeline))
        if changed:
            reason = f"the pipeline has changed since ({changed}); undo the change and replay again, or follow the fix"
            raise _doubt(key, record, reason)

    def _was_reset(self, key: StateKey, record: StateRecord) -> bool:
        """Whether the job's partition was reset since, so that the job may have landed records of the list.  CHS-336
        where it still may, or where the table cannot show whether it did.
        """
        try:
            may_have_row = self.chooser.may_have_row(key, record.doubt.only)
        except UnconfirmedError:
            reason = (
                "the partition was reset, and the job has not confirmed these offsets since; start the job, then "
                "replay again"
            )
            raise _doubt(key, record, reason) from None
        if may_have_row and not all(s.table.can_probe for s in self.window.shards(key.table, record.sent.layout)):
            reason = "the partition was reset, and the table cannot show which of the records have landed"
            raise _doubt(key, record, reason)
        return may_have_row

    def _renew(self, key: StateKey, record: StateRecord, renew: Callable[..., StateRecord] = writes.renew) -> None:
        """The list's tokens may be forgotten: from now on, look for its rows before sending them."""
        with asking_target():
            self.window.wait_for_inserts(key, record)
            marks = self.window.marks([key.table], record.sent.layout)[key.table]
        now = self.clickhouse.clock.now_ms()
        attempt, epoch = self.ledger.attempt(), self.ledger.epoch
        self.ledger.write({key: renew(record, Seen(now, marks), epoch=epoch, attempt=attempt)})

    def _mark(self, key: StateKey, record: StateRecord) -> None:
        """All rows of the list are there, as a person says: CHS-337 where the table shows that some are not.  The
        person's word holds where a server of the list is gone.
        """
        try:
            there = self._offsets_there(key, record)
        except UnavailableError as error:
            if error.name != services.TARGET_UNANSWERED.name:
                raise
            there = None
        if missing := self._missing(key, record, there):
            raise halts.REPLAY_ROWS_MISSING(missing=missing, **self._named(key, record, there))
        with asking_target():
            mark = self.window.letters_mark()
        if mark is not None:
            self._renew_marks(key, record, mark)
        try:
            self.sender.mark(key, self.ledger.records[key], mark)
        except HaltError as error:
            if error.name != halts.DEAD_LETTERS_INCOMPLETE.name or not self.clickhouse.is_routed(key):
                raise
            raise halts.REPLAY_MARKS_DROPPED(**self._named(key, record, there)) from error
        self._confirm([key])

    def _renew_marks(self, key: StateKey, record: StateRecord, mark: Mark) -> None:
        """The token of the replay marks may be forgotten, too: from now on, look for the marks before sending them."""
        assert self.window.letters is not None
        with asking_target():
            self.window.wait_for_inserts(key, record, [self.window.letters.client])
        now = self.clickhouse.clock.now_ms()
        attempt, epoch = self.ledger.attempt(), self.ledger.epoch
        self.ledger.write({key: writes.renew(record, Seen(now, (mark,)), epoch=epoch, attempt=attempt)})

    def _give_up(self, key: StateKey, record: StateRecord) -> None:
        """None of its rows is there, as a person says: what is chosen next may hold its dead letters again.  Those that
        have marks are never chosen again, so the rows that are missing of them are sent now, under new tokens: the
        table may remember the old ones of rows that somebody deleted.
        """
        there = self._offsets_there(key, record)
        if self.source.has_landed(key, record) and self._missing(key, record, there):
            self._renew(key, record, writes.renew_tokens)
            self._land(key)
        elif not self._is_landed(key, record) and there:
            raise halts.REPLAY_ROWS_THERE(rows=sum(there.values()), **self._named(key, record, there))
        elif marks := self.source.some_marks(key, record):
            letters = len(record.doubt.only)
            raise halts.REPLAY_MARKS_THERE(tp=key.topic_partition, table=key.table, letters=letters, delete=marks)
        self._confirm([key])

    def _offsets_there(self, key: StateKey, record: StateRecord) -> dict[int, int] | None:
        """How many rows each of the list's records has, of those that have any, once no server inserts the list; None
        if the table does not show it.  CHS-336 if it does not, and a server was inserting the list: a person who looked
        earlier may have seen too few.  UnavailableError where a server does not answer.
        """
        only, clock, there = f"AND {offsets_in(record.doubt.only)}", self.clickhouse.clock, Counter[int]()
        with asking_target():
            layout = self.ledger.layout(record.sent.layout)
            head, what = token_head(key, record), f"{key.topic_partition} {record.range}"
            busy = self.window.wait_where_answered(head, what, self.clickhouse.former_servers(layout))
            servers = self.clickhouse.every_server(layout)
            busy += [server.url for server in servers if self.window.wait_for_tokens(head, what, server)]
            shards = self._shards(key, record)
            shown = [shard for shard in shards if shard.table.takes_places]
            for shard in shown:
                reader, table = shard.reader(clock, copies=TWICE), shard.table.canonical
                there.update(rows_by_offset(reader, table, key.topic_partition, record.range, only))
        if busy and (not shown or len(shown) < len(shards)):
            raise _doubt(key, record, f"{', '.join(busy)} was still inserting their rows when you decided")
        return dict(there) if shown else None

    def _shards(self, key: StateKey, record: StateRecord) -> list[ShardTable]:
        """The table on the recorded shards and on the present ones, each once; none where no route leads to it."""
        if not self.clickhouse.is_routed(key):
            return []
        with asking_target():
            return self.window.everywhere(key.table, record.sent.layout)

    def _missing(self, key: StateKey, record: StateRecord, there: Mapping[int, int] | None) -> int:
        """How many records of the list have no row, if ``there`` tells: then a row that the table does not show never
        landed, or was removed by somebody.
        """
        if there is None or not all(shard.table.can_probe for shard in self._shards(key, record)):
            return 0
        return len(record.doubt.only) - len(there)

    def _named(self, key: StateKey, record: StateRecord, there: Collection[int] | None) -> dict[str, object]:
        """The list, and the statement that removes from a shard what is ``there`` of it: all, where nobody knows."""
        of = f"_kafka_topic = {quote_string(key.topic)} AND _kafka_partition = {key.partition}"
        table, offsets = self.clickhouse.targets[key.topic_table].table, offsets_in(sorted(there or record.doubt.only))
        delete = table.deleting(f"{of} AND {offsets}") if table.takes_places else "find them by their other columns"
        return {"tp": key.topic_partition, "table": key.table, "letters": len(record.doubt.only), "delete": delete}


@contextmanager
def _together(key: StateKey, halted: Halts) -> Iterator[None]:
    """A verdict that the table contradicts is told with those of the other lists."""
    try:
        yield
    except PreflightError as error:
        if error.id != halts.REPLAY_ROWS_THERE.id:
            raise
        halted.add(key, error)


@contextmanager
def _in_doubt_where_unclear(key: StateKey, record: StateRecord) -> Iterator[None]:
    """Turn what keeps a list from being sent again into CHS-336: a person decides."""
    try:
        yield
    except UnclearListError as error:
        raise _doubt(key, record, str(error)) from error
    except ChsinkError as error:
        if error.name not in {entry.name for entry in _DOUBTFUL}:
            raise
        raise _doubt(key, record, error.message) from error


def _doubt(key: StateKey, record: StateRecord, reason: str) -> ChsinkError:
    return halts.REPLAY_IN_DOUBT(
        tp=key.topic_partition, table=key.table, letters=len(record.doubt.only), offsets=record.range, reason=reason
    )
