"""Defects of replays, caught by their own simulator.  See :mod:`tests.mutations.defects`."""

from __future__ import annotations

from functools import partial

from tests.mutations.changes import argument, becomes, drop, instead, moved, never, without
from tests.mutations.defects import Defect

ReplayDefect = partial(Defect, of="replays")

TESTS = "tests/unit/replay/test_in_topic.py"
ROWS = "tests/unit/replay/test_rows_there.py"
SCENES, CHOICES = "tests/replay_sim/test_cases.py", "tests/unit/replay/test_choose.py"

REPLAY_DEFECTS = (
    # --- the order ----------------------------------------------------------------------------------------------------
    ReplayDefect(
        "replay: marks before rows",
        (moved("chsink.replay.land.ListSender.land", "_mark(...)", before="Chunk(...)"),),
        "mark_means_row",
        seed=1,
    ),
    ReplayDefect(
        "replay: what a list has sent is not looked for",
        (argument("chsink.replay.land.ListSender.land", "Assignment", "again", "False"),),
        "mark_means_row",
        seed=58,
    ),
    ReplayDefect(
        "replay: the list is not recorded before the insert",
        (becomes("chsink.replay.run.Replay._announce", "A.write(B)", "A.records.update(B)"),),
        "at_most_once",
        seed=11,
    ),
    ReplayDefect(
        "replay: the nonce of the list before is used again",
        (
            argument(
                "chsink.statemachine.writes.replaying",
                "replace(A, ...)",
                "life",
                "replace(A.life, nonce=record.life.nonce or attempt)",
            ),
        ),
        "mark_means_row",
        seed=9,
    ),
    ReplayDefect(
        "replay: a list in doubt is sent under new tokens",
        (instead("chsink.replay.run.Replay._settle", "_check_same(A, ...)", "_\nself._confirm([A])\nreturn"),),
        "at_most_once",
        seed=26,
    ),
    # --- what is chosen -----------------------------------------------------------------------------------------------
    ReplayDefect(
        "replay: what the job has in doubt is chosen",
        (never("chsink.replay.choose.is_confirmed", "in_doubt"),),
        test="tests/unit/replay/test_choose.py::test_a_list_of_which_the_job_may_land_one_record_waits",
    ),
    ReplayDefect(
        "replay: a dead letter of a range that was sent again is chosen",
        (never("chsink.replay.choose.LetterChooser._fitting", "_can_look(...)"),),
        "at_most_once",
        seed=38,
    ),
    ReplayDefect(
        "replay: rows that are there are not looked for",
        (becomes("chsink.replay.choose.LetterChooser._fitting", "_rows_there(...)", "set()"),),
        "at_most_once",
        seed=14,
    ),
    # --- a reset ------------------------------------------------------------------------------------------------------
    ReplayDefect(
        "replay: a reset does not stop it",
        (
            never("chsink.recovery.change.carry_out", "resets"),
            never("chsink.replay.choose.LetterChooser.overtaken", "... is None"),
        ),
        test="tests/replay_sim/test_cases.py::test_a_replay_that_begins_in_the_middle_of_a_reset_stops_it",
    ),
    ReplayDefect(
        "replay: a reset forgets what it has in doubt",
        (
            never("chsink.recovery.replays._check", "in_doubt"),
            without("chsink.replay.run.Replay._settle", "_was_reset(...)"),
        ),
        "at_most_once",
        seed=5,
    ),
    ReplayDefect(
        "replay: a reset does not look whether a replay has begun meanwhile",
        (drop("chsink.recovery.change.carry_out", "check_owned()"),),
        test=f"{SCENES}::test_a_replay_that_begins_in_the_middle_of_a_reset_stops_it",
    ),
    ReplayDefect(
        "replay: what was reset since it was chosen is sent",
        (becomes("chsink.replay.run.Replay._round", "overtaken(A, B)", "[key for key in A if not B]"),),
        test=f"{SCENES}::test_a_replay_sends_nothing_that_was_reset_since_it_was_chosen",
    ),
    ReplayDefect(
        "replay: a list of which one record was not read again has no row",
        (becomes("chsink.replay.choose.LetterChooser.may_have_row", "any(A)", "all(A)"),),
        test=f"{CHOICES}::test_a_list_of_which_one_record_was_read_again_may_have_a_row",
    ),
    ReplayDefect(
        "replay: a list of which one record is confirmed is confirmed",
        (becomes("chsink.replay.choose.LetterChooser.may_have_row", "all(A)", "any(A)"),),
        test=f"{CHOICES}::test_a_list_of_which_the_job_may_land_one_record_waits",
    ),
    ReplayDefect(
        "replay: a list is sent again without dead letters that are gone",
        (
            becomes("chsink.replay.land._one_each", "len(A) < len(...)", "not A"),
            becomes("chsink.replay.land._one_each", "[A[B] for B in C]", "[A[B] for B in C if B in A]"),
        ),
        test=f"{CHOICES}::test_a_list_is_sent_again_only_as_it_was",
    ),
    ReplayDefect(
        "replay: a list is sent again although one offset has another dead letter, too",
        (becomes("chsink.replay.land._one_each", "any(A)", "all(A)"),),
        test=f"{CHOICES}::test_a_list_is_sent_again_only_as_it_was",
    ),
    ReplayDefect(
        "replay: marks that a person asks for are not announced again",
        (drop("chsink.replay.run.Replay._mark", "_renew_marks(...)"),),
        test=f"{SCENES}::test_marks_that_somebody_deleted_are_missed",
    ),
    ReplayDefect(
        "replay: what lies behind marks is sent again under its old tokens",
        (argument("chsink.replay.run.Replay._give_up", "_renew", 2, "writes.renew"),),
        test=f"{SCENES}::test_rows_of_a_list_with_marks_that_a_person_deleted_land_again",
    ),
    ReplayDefect(
        "replay: marks are believed of a list that a person had sent again",
        (never("chsink.replay.run.Replay._is_landed", "... and _missing(...)"),),
        test=f"{SCENES}::test_rows_of_a_list_with_marks_that_a_person_deleted_land_again",
    ),
    ReplayDefect(
        "replay: a verdict is believed although a server was still inserting",
        (never("chsink.replay.run.Replay._offsets_there", "busy and ..."),),
        test=f"{ROWS}::test_who_decided_while_a_server_inserted_looks_again",
    ),
    # --- a topic ------------------------------------------------------------------------------------------------------
    ReplayDefect(
        "replay: marks of another table are believed",
        (
            becomes(
                "chsink.replay.in_topic._Index.mark",
                "A.marked[B].setdefault(_record(C.offset, D), E)",
                "[A.marked[n].setdefault(_record(C.offset, D), E)"
                " for (t, p, table), n in A.origins.items() if (t, p) == (C.topic, C.partition)]",
            ),
        ),
        "complete_at_rest",
        seed=5,
    ),
    ReplayDefect(
        "replay: marks behind an open transaction are not waited for",
        (argument("chsink.replay.in_topic.InTopic.begin", "held_in", "whole", "False"),),
        "at_most_once",
        seed=233,
    ),
    ReplayDefect(
        "replay: marks that Kafka did not confirm count",
        (becomes("chsink.dlq.marks._flush", "A.flush(B) or C", "A.flush(B)"),),
        "at_most_once",
        seed=133,
    ),
    ReplayDefect(
        "replay: a mark of an earlier list says that this one landed",
        (becomes("chsink.replay.in_topic.InTopic.has_landed", "(A, B) in C", "A in {lane for lane, nonce in C}"),),
        "mark_means_row",
        seed=9,
    ),
    # --- a topic that was created again -------------------------------------------------------------------------------
    ReplayDefect(
        "replay: a mark in a topic names only the place",
        (becomes("chsink.replay.in_topic._record", "A << 60 | B", "A"),),
        test=f"{TESTS}::test_a_mark_names_the_record_not_its_place",
    ),
    ReplayDefect(
        "replay: null and empty have one digest",
        (becomes("chsink.dlq.digest._part", "b'-'", "b'0:'"),),
        test=f"{TESTS}::test_a_mark_names_the_record_not_its_place",
    ),
)
