"""The mirror's defects, caught by its own simulator.  See :mod:`tests.mutations.defects`."""

from __future__ import annotations

from functools import partial

from tests.mutations.defects import Defect
from tests.mutations.patching import Patch

MirrorDefect = partial(Defect, of="mirror")

WORKER, TASK, TABLES = "chsink/mirror/worker.py", "chsink/mirror/task.py", "chsink/mirror/tables.py"
COORDINATOR = "chsink/mirror/coordinator.py"
TABLE_COMMITS = "chsink/mirror/table_commits.py"
KNOWN_TABLES, FITTING = "chsink/mirror/known_tables.py", "tests/unit/mirror/test_fitting_events.py"
BEGINNINGS, LANDER = "chsink/mirror/beginnings.py", "chsink/mirror/lander.py"
HANDOVER, PLAN = "statemachine/commit/handover.py", "statemachine/commit/plan.py"

_OPEN = "        with self.names.sender(self.names.worker_id(self.tp), self.names.group) as sender:\n"
_READ = "            decision = hand_over(planned, sender.committed([self.tp])[self.tp])\n"
_SEND = "                sender.send(str(self.tp), events, {self.tp: piece.end})\n"
_PLAN = "            plan = plan_commit(read.view, chain, self.units(name))\n"
_QUIET = dict.fromkeys(
    (
        "driver killed", "driver frozen", "second driver", "executor killed", "executor frozen",
        "control topic lost", "control topic truncated", "control topic gains a partition", "event damaged",
        "group lost", "group set back", "group set forward", "control group lost", "control group set forward",
        "brokers away", "foreign append", "snapshots expired", "property lost", "catalog away", "files deleted",
        "rolled back", "table recreated", "retention", "records lost", "topic recreated", "partition added",
        "checkpoint lost", "checkpoint restored",
    ),
    0.0,
)  # fmt: skip
"""Nothing from outside: most of it is a reason to read a range again."""
MIRROR_DEFECTS = (
    # --- handing over -------------------------------------------------------------------------------------------------
    MirrorDefect(
        "mirror: the group is read before older attempts are fenced",
        (
            Patch(
                WORKER,
                _OPEN + _READ,
                "        early = self.names.offsets().committed([self.tp])[self.tp]\n"
                + _OPEN
                + "            decision = hand_over(planned, early)\n",
            ),
        ),
        "group_follows",
        seed=1,
    ),
    MirrorDefect(
        "mirror: what was handed over is not cropped",
        (
            Patch(
                HANDOVER,
                "            return HandOver(rule.name, (OffsetRange(committed, planned.end),))\n",
                "            return HandOver(rule.name, (planned,))\n",
            ),
        ),
        "group_follows",
        seed=20,
    ),
    MirrorDefect(
        "mirror: events and offset in two transactions",
        (
            Patch(
                WORKER,
                _SEND,
                "                sender.send(str(self.tp), [], {self.tp: piece.end})\n"
                "                sender.send(str(self.tp), events, {})\n",
            ),
        ),
        "group_follows",
        seed=1,
    ),
    MirrorDefect(
        "mirror: records that Kafka deleted count as read",
        (
            Patch(
                TASK,
                "        if start > max(piece.start, read_until) and read_until < piece.end:\n",
                "        if False:\n",
            ),
        ),
        "chain_is_content",
        seed=11,
    ),
    MirrorDefect(
        "mirror: offsets that were passed over while reading count as read",
        (
            Patch(
                TASK,
                "            self.until += int(np.count_nonzero(offsets == self.until + np.arange(len(offsets))))\n",
                "            self.until = int(offsets[-1]) + 1\n",
            ),
        ),
        "chain_is_content",
        seed=167,
    ),
    MirrorDefect(
        "mirror: a halt counts although the group was set back",
        (Patch(LANDER, "if held is None or (at or 0) < held", "if False"),),
        test="tests/mirror_sim/test_cases.py::test_a_group_that_is_set_back_below_what_kafka_deleted_halts_nothing",
    ),
    MirrorDefect(
        "mirror: a group beyond the log's end counts as handed over",
        (Patch(COORDINATOR, "None if at is None else min(at, ends[tp])", "at"),),
        test="tests/mirror_sim/test_cases.py::test_a_group_that_is_set_beyond_the_end_of_the_log_loses_nothing",
    ),
    MirrorDefect(
        "mirror: rows that no chain covers are not looked for",
        (Patch(HANDOVER, "lambda x: x.committed is None and x.rows", "lambda x: False"),),
        test="tests/mirror_sim/test_cases.py::test_a_table_that_lost_its_chain_and_the_group_halts",
    ),
    MirrorDefect(
        "mirror: a table that was made again is committed to as if it were the old one",
        (Patch(KNOWN_TABLES, "        if now != before:\n", "        if False:\n"),),
        test="tests/mirror_sim/test_cases.py::test_a_table_that_is_made_again_while_the_mirror_runs_halts",
    ),
    MirrorDefect(
        "mirror: events of an earlier table count",
        (
            Patch(
                COORDINATOR,
                "            Identity(tag.table_uuid, tag.spec_id if written.files else self.tables.identities[name].spec_id)\n"
                "            == self.tables.identities[name]\n"
                "            and tag.topic_id == topic_id\n",
                "            tag.topic_id == topic_id\n",
            ),
        ),
        test=f"{FITTING}::test_what_was_written_for_another_table_or_topic_is_ignored",
    ),
    MirrorDefect(
        "mirror: a range is read again for an earlier table",
        (Patch(LANDER, "        self._check_written_for(hole)\n", ""),),
        test=f"{FITTING}::test_nothing_is_read_again_for_a_table_that_is_another_now",
    ),
    # --- tables -------------------------------------------------------------------------------------------------------
    MirrorDefect(
        "mirror: a commit does not require the head that was read",
        (
            Patch(
                TABLES,
                "            AssertRefSnapshotId(ref=MAIN_BRANCH, snapshot_id=read.view.head),"
                "  # type: ignore[call-arg] # by name\n",
                "",
            ),
        ),
        "at_most_once",
        seed=48,
    ),
    MirrorDefect(
        "mirror: the chain is not checked",
        (
            Patch(
                PLAN, "        return self.link.until\n", "        return min(self.link.until, self.unit.range.start)\n"
            ),
        ),
        "at_most_once",
        seed=5,
    ),
    MirrorDefect(
        "mirror: part of a split unit is committed",
        (Patch(PLAN, "lambda x: not x.unit.whole,", "lambda x: False,"),),
        "chain_is_content",
        seed=54,
        often={"marker slow": 15.0, "brokers away": 5.0},
    ),
    MirrorDefect(
        "mirror: an unknown outcome is taken for refused",
        (
            Patch(
                TABLE_COMMITS,
                _PLAN,
                "            plan = plan_commit(read.view, chain, self.units(name)) if not offered else plan\n",
            ),
        ),
        "at_most_once",
        seed=5,
    ),
    MirrorDefect(
        "mirror: an unknown outcome is taken for applied",
        (
            Patch(
                TABLE_COMMITS,
                "            if done.outcome is Outcome.APPLIED:\n                self._buffer.forget",
                "            if done.outcome is not Outcome.REFUSED:\n                self._buffer.forget",
            ),
        ),
        "what_is_said_is_so",
        seed=16,
    ),
    MirrorDefect(
        "mirror: the uuid of a commit is reused in a retry",
        (
            Patch(
                TABLES,
                "self._appended(read.table, files, uuid.uuid4(), summary)",
                "self._appended(read.table, files, commit_id, summary)",
            ),
        ),
        "manifests_stay",
        seed=19,
    ),
    MirrorDefect(
        "mirror: the last attempt is announced, whichever was applied",
        (
            Patch(
                TABLE_COMMITS,
                "                mine = chain.snapshot_id if chain.snapshot_id in offered else None\n",
                "                mine = max(offered) if chain.snapshot_id in offered else None\n",
            ),
        ),
        "what_is_said_is_so",
        seed=163,
    ),
    MirrorDefect(
        "mirror: an origin is not stored",
        (
            Patch(
                BEGINNINGS,
                "                if mine:\n",
                "                if False:\n",
            ),
        ),
        "halt_justified",
        seed=1,
    ),
    MirrorDefect(
        "mirror: an origin is stored in the chain alone",
        (
            Patch(
                TABLES,
                "        return self._commit(read, (SetPropertiesUpdate(updates=origins), self._property(chain)))\n",
                "        return self._commit(read, (self._property(chain),))\n",
            ),
        ),
        "halt_justified",
        seed=36,
        often={"table commit late": 25.0},
    ),
    MirrorDefect(
        "mirror: an idle round makes a snapshot",
        (Patch(PLAN, "        return Kind.MOVE if self.taken", "        return Kind.APPEND if self.taken"),),
        "snapshot_has_files",
        seed=4,
    ),
    # --- rounds -------------------------------------------------------------------------------------------------------
    MirrorDefect(
        "mirror: the control offset is stored before the tables",
        (
            Patch(
                COORDINATOR,
                "self._event(DataComplete(commit_id, answers))], {})\n",
                "self._event(DataComplete(commit_id, answers))],"
                " {TopicPartition(self.names.topic, p): at for p, at in self.positions.items()})\n",
            ),
        ),
        "nothing_forgotten",
        seed=1,
    ),
    MirrorDefect(
        "mirror: a new coordinator reads from the largest offset that a table stored",
        (Patch(COORDINATOR, "at = min(stored) if at is None else at", "at = max(stored) if at is None else at"),),
        "nothing_forgotten",
        seed=108,
    ),
    MirrorDefect(
        "mirror: the low watermark ignores what waits",
        (Patch(COORDINATOR, "self.buffer.all_units(), self.stored)", "[], self.stored)"),),
        "nothing_forgotten",
        seed=13,
    ),
    MirrorDefect(
        "mirror: late events are dropped with their round",
        (
            Patch(
                COORDINATOR,
                "        self._open, self._last_ms = None, self.clock.now_ms()\n",
                "        self._open, self._last_ms = None, self.clock.now_ms()\n        self.buffer.__init__()\n",
            ),
        ),
        "repair_justified",
        seed=58,
    ),
    MirrorDefect(
        "mirror: holes are looked for before all events are read",
        (
            Patch(
                COORDINATOR,
                "        if any(self.positions[p] < end for p, end in opened.ends.items()):\n            return\n",
                "",
            ),
        ),
        "repair_justified",
        seed=19,
    ),
    MirrorDefect(
        "mirror: the control topic's ends are read before the group's offsets",
        (
            Patch(
                COORDINATOR,
                "        handed_over = self._reached()\n        ends = self._followed(self.reader.logs())\n",
                "        ends = self._followed(self.reader.logs())\n        handed_over = self._reached()\n",
            ),
        ),
        "repair_justified",
        seed=69,
        often=_QUIET | {"marker slow": 15.0},
    ),
    MirrorDefect(
        "mirror: files that were deleted are committed",
        (
            Patch(
                TABLE_COMMITS, "            if reason := self._deleted(name, read, plan):\n                break\n", ""
            ),
        ),
        "chain_is_content",
        seed=25,
    ),
    MirrorDefect(
        "mirror: what a failed table has not taken yet is a hole",
        (Patch(PLAN, "if start >= link.until)])", "if start > link.until)])"),),
        "repair_justified",
        seed=58,
    ),
)
