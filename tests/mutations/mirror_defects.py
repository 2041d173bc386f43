"""The mirror's defects, caught by its own simulator.  See :mod:`tests.mutations.defects`."""

from __future__ import annotations

from functools import partial

from tests.mutations.changes import answers, argument, becomes, drop, instead, moved, never, without
from tests.mutations.defects import Defect

MirrorDefect = partial(Defect, of="mirror")
TakenDefect = partial(Defect, of="taken")

FITTING = "tests/unit/mirror/test_fitting_events.py"

MIRROR_DEFECTS = (
    # --- handing over -------------------------------------------------------------------------------------------------
    MirrorDefect(
        "mirror: the group is read before older attempts are fenced",
        (
            instead(
                "chsink.mirror.worker.Worker.run",
                "names.sender(...)",
                "early = self.names.offsets().committed([self.tp])[self.tp]\n_",
            ),
            argument("chsink.mirror.worker.Worker.run", "hand_over", 1, "early"),
        ),
        "group_follows",
        seed=1,
    ),
    MirrorDefect(
        "mirror: what was handed over is not cropped",
        (becomes("chsink.statemachine.commit.handover.hand_over", "OffsetRange(A, B.end)", "B"),),
        "group_follows",
        seed=45,
        often={"checkpoint lost": 30.0, "driver killed": 10.0},
    ),
    MirrorDefect(
        "mirror: events and offset in two transactions",
        (becomes("chsink.mirror.worker.Worker.run", "A.send(B, C, D)", "(A.send(B, [], D), A.send(B, C, {}))"),),
        "group_follows",
        seed=1,
    ),
    MirrorDefect(
        "mirror: records that Kafka deleted count as read",
        (never("chsink.mirror.task.Feeds.check_held", "A > max(...)"),),
        "chain_is_content",
        seed=19,
    ),
    MirrorDefect(
        "mirror: offsets that were passed over while reading count as read",
        (becomes("chsink.mirror.task._Unbroken.watch", "int(np.count_nonzero(A == B + ...))", "int(A[-1]) + 1 - B"),),
        "chain_is_content",
        seed=62,
    ),
    MirrorDefect(
        "mirror: a halt counts although the group was set back",
        (never("chsink.mirror.lander.MirrorLander._check_set_back", "min(...) < ..."),),
        test="tests/mirror_sim/test_cases.py::test_a_group_that_is_set_back_below_what_kafka_deleted_halts_nothing",
    ),
    MirrorDefect(
        "mirror: a group beyond the log's end counts as handed over",
        (becomes("chsink.mirror.coordinator.Coordinator._reached", "min(A, ...)", "A"),),
        test="tests/mirror_sim/test_cases.py::test_a_group_that_is_set_beyond_the_end_of_the_log_loses_nothing",
    ),
    MirrorDefect(
        "mirror: rows that no chain covers are not looked for",
        (answers("chsink.statemachine.commit.handover.START.ROWS_FOUND", "False"),),
        test="tests/mirror_sim/test_cases.py::test_a_table_that_lost_its_chain_and_the_group_halts",
    ),
    MirrorDefect(
        "mirror: records that Kafka deleted before a checkpoint are not missed",
        (answers("chsink.statemachine.commit.handover.START.RECORDS_GONE", "False"),),
        test="tests/mirror_sim/test_cases.py::test_records_that_kafka_deletes_before_a_checkpoint_that_begins_behind_them_halt",
    ),
    MirrorDefect(
        "mirror: a worker that has read what Kafka deletes is fenced",
        (without("chsink.mirror.beginnings.Beginnings.settle", "A not in busy"),),
        test="tests/mirror_sim/test_cases.py::test_records_that_kafka_deletes_after_a_worker_has_read_them_land",
    ),
    MirrorDefect(
        "mirror: a table that was made again is committed to as if it were the old one",
        (never("chsink.mirror.known_tables.KnownTables.read", "A != B"),),
        test="tests/mirror_sim/test_cases.py::test_a_table_that_is_made_again_while_the_mirror_runs_halts",
    ),
    MirrorDefect(
        "mirror: events of an earlier table count",
        (without("chsink.mirror.coordinator.Coordinator._fits", "tag.table_uuid != A"),),
        test=f"{FITTING}::test_what_was_written_for_another_table_or_topic_is_ignored",
    ),
    MirrorDefect(
        "mirror: a range is read again for an earlier table",
        (drop("chsink.mirror.lander.MirrorLander._reread", "_check_written_for(...)"),),
        test=f"{FITTING}::test_nothing_is_read_again_for_a_table_that_is_another_now",
    ),
    # --- tables -------------------------------------------------------------------------------------------------------
    MirrorDefect(
        "mirror: main moves to the branch whatever others committed to it",
        (never("chsink.mirror.publish.publish", "rule.verdict is Publish.REFUSE"),),
        "main_moves_forward",
        seed=21,
    ),
    MirrorDefect(
        "mirror: a commit does not require the head that was read",
        (without("chsink.mirror.tables.MirrorTable._commit", "AssertRefSnapshotId(...)"),),
        "at_most_once",
        seed=2,
    ),
    MirrorDefect(
        "mirror: the chain is not checked",
        (becomes("chsink.statemachine.commit.plan.Eligibility.until", "A.link.until", "min(_, A.unit.range.start)"),),
        "at_most_once",
        seed=6,
    ),
    MirrorDefect(
        "mirror: part of a split unit is committed",
        (answers("chsink.statemachine.commit.plan.UNITS.PARTS_MISSING", "False"),),
        "chain_is_content",
        seed=122,
        often={"marker slow": 15.0, "brokers away": 5.0},
    ),
    MirrorDefect(
        "mirror: an unknown outcome is taken for refused",
        (
            becomes(
                "chsink.mirror.table_commits.TableCommits._commit", "plan_commit(...)", "_ if not offered else plan"
            ),
        ),
        "at_most_once",
        seed=6,
    ),
    MirrorDefect(
        "mirror: an unknown outcome is taken for applied",
        (
            becomes(
                "chsink.mirror.table_commits.TableCommits._commit", "A is Outcome.APPLIED", "A is not Outcome.REFUSED"
            ),
        ),
        "what_is_said_is_so",
        seed=2,
    ),
    MirrorDefect(
        "mirror: the uuid of a commit is reused in a retry",
        (argument("chsink.mirror.tables.MirrorTable.append", "_appended", 2, "commit_id"),),
        "manifests_stay",
        seed=25,
    ),
    MirrorDefect(
        "mirror: the last attempt is announced, whichever was applied",
        (
            becomes(
                "chsink.mirror.table_commits.TableCommits._commit",
                "A if A in B else None",
                "max(B) if A in B else None",
            ),
        ),
        "what_is_said_is_so",
        seed=61,
    ),
    MirrorDefect(
        "mirror: an origin is not stored",
        (drop("chsink.mirror.beginnings.Beginnings._begin", "_store_all(...)"),),
        "halt_justified",
        seed=1,
    ),
    MirrorDefect(
        "mirror: an origin is stored in the chain alone",
        (without("chsink.mirror.tables.MirrorTable.begin", "SetPropertiesUpdate(...)"),),
        "complete_at_rest",
        seed=1,
        often={"table commit late": 25.0},
    ),
    MirrorDefect(
        "mirror: an idle round makes a snapshot",
        (becomes("chsink.statemachine.commit.plan.TablePlan.kind", "Kind.MOVE", "Kind.APPEND"),),
        "snapshot_has_files",
        seed=3,
    ),
    MirrorDefect(
        "mirror: files of a partition spec that is gone are committed",
        (answers("chsink.statemachine.commit.plan.UNITS.SPEC_GONE", "False"),),
        "specs_are_known",
        seed=1,
        often={"partition spec changed": 20.0},
    ),
    MirrorDefect(
        "mirror: what is read again is written for the spec as it was",
        (drop("chsink.mirror.lander.MirrorLander._reread", "self._renewed(...)"),),
        test=f"{FITTING}::test_what_is_read_again_is_written_for_the_table_as_it_is",
    ),
    # --- rounds -------------------------------------------------------------------------------------------------------
    MirrorDefect(
        "mirror: the control offset is stored before the tables",
        (
            argument(
                "chsink.mirror.coordinator.Coordinator._start_round",
                "send",
                2,
                "{TopicPartition(self.names.topic, p): at for p, at in self.positions.items()}",
            ),
        ),
        "nothing_forgotten",
        seed=3,
    ),
    MirrorDefect(
        "mirror: a new coordinator reads from the largest offset that a table stored",
        (
            becomes(
                "chsink.mirror.coordinator.Coordinator._where_to_read",
                "min(A, default=0) if B is None else B",
                "max(A, default=0) if B is None else B",
            ),
        ),
        "nothing_forgotten",
        seed=22,
    ),
    MirrorDefect(
        "mirror: the low watermark ignores what waits",
        (argument("chsink.mirror.coordinator.Coordinator._commit_round", "low_watermark", 1, "[]"),),
        "nothing_forgotten",
        seed=8,
    ),
    MirrorDefect(
        "mirror: a start that halts passes over what waits for tables of another map",
        (never("chsink.mirror.unrouted.Unrouted.add", "written.tag is not None and ..."),),
        test="tests/mirror_sim/test_cases.py::test_two_changes_of_table_by_are_undone_and_made_one_by_one",
    ),
    MirrorDefect(
        "mirror: late events are dropped with their round",
        (
            instead(
                "chsink.mirror.coordinator.Coordinator._commit_round", "(None, now_ms())", "_\nself.buffer.__init__()"
            ),
        ),
        "repair_justified",
        seed=26,
    ),
    MirrorDefect(
        "mirror: holes are looked for before all events are read",
        (never("chsink.mirror.coordinator.Coordinator._find_holes", "positions"),),
        "repair_justified",
        seed=26,
    ),
    MirrorDefect(
        "mirror: the control topic's ends are read before the group's offsets",
        (moved("chsink.mirror.coordinator.Coordinator._start_round", "_followed(...)", before="_reached(...)"),),
        test="tests/unit/mirror/test_round.py::test_the_group_is_asked_before_the_control_topic",
    ),
    MirrorDefect(
        "mirror: files that were deleted are committed",
        (drop("chsink.mirror.table_commits.TableCommits._commit", "_without_deleted(...)"),),
        "chain_is_content",
        seed=25,
    ),
    MirrorDefect(
        "mirror: what a failed table has not taken yet is a hole",
        (becomes("chsink.statemachine.commit.plan.holes", "A >= B.until", "A > B.until"),),
        "repair_justified",
        seed=237,
    ),
    # --- tables of a Kafka Connect sink -------------------------------------------------------------------------------
    TakenDefect(
        "takeover: files that a table has are committed again",
        (answers("chsink.statemachine.commit.takeover.FILES.IN_TABLE", "False"),),
        "at_most_once",
        seed=1,
    ),
    TakenDefect(
        "takeover: files that were replaced are committed again",
        (
            answers("chsink.statemachine.commit.takeover.FILES.STORED", "False"),
            answers("chsink.statemachine.commit.takeover.FILES.PASSED", "False"),
        ),
        "at_most_once",
        seed=56,
    ),
    TakenDefect(
        "takeover: files that the sink passed over are left",
        (answers("chsink.statemachine.commit.takeover.FILES.PASSED_OVER", "False"),),
        "chain_is_content",
        seed=1,
    ),
    TakenDefect(
        "takeover: only the newest snapshot of the sink counts",
        (becomes("chsink.mirror.connector.marks", "_furthest(A, B)", "A or B"),),
        "halt_justified",
        seed=19,
    ),
    TakenDefect(
        "takeover: what nothing tells of a file is guessed",
        (becomes("chsink.mirror.takeover._Look.at", "self.landed.get(name)", "False"),),
        "at_most_once",
        seed=75,
    ),
    TakenDefect(
        "takeover: a group that was set back is believed",
        (answers("chsink.statemachine.commit.takeover.LEFT.SET_BACK", "False"),),
        "chain_is_content",
        seed=16,
    ),
    TakenDefect(
        "takeover: the sink is not told that its files were committed",
        (argument("chsink.mirror.takeover.carry_out", "append", "more", "{}"),),
        "at_most_once",
        seed=14,
    ),
    TakenDefect(
        "takeover: tables of which no snapshot names the sink bear no mark",
        (drop("chsink.mirror.takeover.carry_out", "set_property(...)"),),
        "halt_justified",
        seed=66,
    ),
    TakenDefect(
        "takeover: events that arrive in another order count as changed",
        (becomes("chsink.mirror.connector.remains", "sorted(reports, ...)", "reports"),),
        "halt_justified",
        seed=11,
    ),
    TakenDefect(
        "takeover: the mirror starts before it",
        (answers("chsink.mirror.checks._connectors", "iter(())"),),
        "halt_justified",
        seed=2,
    ),
)
