"""Defects of replays, caught by their own simulator.  See :mod:`tests.mutations.defects`."""

from __future__ import annotations

from functools import partial

from tests.mutations.defects import Defect
from tests.mutations.patching import Patch

ReplayDefect = partial(Defect, of="replays")

RUN, LAND, CHOOSE = "chsink/replay/run.py", "chsink/replay/land.py", "chsink/replay/choose.py"
IN_TOPIC, SEARCH, MARKS = "chsink/replay/in_topic.py", "chsink/dlq/search.py", "chsink/dlq/marks.py"
DIGEST, TESTS = "chsink/dlq/digest.py", "tests/unit/replay/test_in_topic.py"
CHANGE, REPLAYS, WRITES = "chsink/recovery/change.py", "chsink/recovery/replays.py", "statemachine/writes.py"
SCENES, CHOICES = "tests/replay_sim/test_cases.py", "tests/unit/replay/test_choose.py"

_LAND = "        ack = lander(Chunk(key.topic_partition, 0, record.range, [records]))\n        lander.finish()\n"
_MARK = "        if not ack.unproven:\n            self._mark(assignment, letters, writer, len(shards))\n"
_LIVES = "        return [own for own, key in keys.items() if now.get(key) is None or now[key] != before.get(key)]\n"
REPLAY_DEFECTS = (
    # --- the order ----------------------------------------------------------------------------------------------------
    ReplayDefect(
        "replay: marks before rows",
        (Patch(LAND, _LAND + _MARK, "        self._mark(assignment, letters, writer, len(shards))\n" + _LAND),),
        "mark_means_row",
        seed=1,
    ),
    ReplayDefect(
        "replay: a list in doubt is sent as if it were new",
        (Patch(RUN, "            self._land(key, again=True)\n", "            self._land(key)\n"),),
        "mark_means_row",
        seed=6,
    ),
    ReplayDefect(
        "replay: the list is not recorded before the insert",
        (
            Patch(
                RUN,
                "        self.ledger.write(changes)\n",
                "        self.ledger.records.update(changes)\n",
            ),
        ),
        "at_most_once",
        seed=11,
    ),
    ReplayDefect(
        "replay: the nonce of the list before is used again",
        (
            Patch(
                WRITES,
                "    return replace(announced, doubt=Unsettled(only=offsets))\n",
                "    life = replace(announced.life, nonce=record.life.nonce or attempt)\n"
                "    return replace(announced, life=life, doubt=Unsettled(only=offsets))\n",
            ),
        ),
        "mark_means_row",
        seed=16,
    ),
    ReplayDefect(
        "replay: a list in doubt is sent under new tokens",
        (
            Patch(
                RUN,
                "            self._check_same(key, record)\n",
                "            self._check_same(key, record)\n            self._confirm([key])\n            return\n",
            ),
        ),
        "at_most_once",
        seed=20,
    ),
    # --- what is chosen -----------------------------------------------------------------------------------------------
    ReplayDefect(
        "replay: what the job has in doubt is chosen",
        (
            Patch(
                CHOOSE,
                "    return offset < (record.start if record.in_doubt else record.end)\n",
                "    return offset < record.end\n",
            ),
        ),
        test="tests/unit/replay/test_choose.py::test_a_list_of_which_the_job_may_land_one_record_waits",
    ),
    ReplayDefect(
        "replay: a dead letter of a range that was sent again is chosen",
        (
            Patch(
                CHOOSE,
                "            if why is None and all(one.nonce not in",
                "            if False and all(one.nonce not in",
            ),
        ),
        "at_most_once",
        seed=38,
    ),
    ReplayDefect(
        "replay: rows that are there are not looked for",
        (Patch(CHOOSE, "            there = self._rows_there(key, offsets)\n", "            there = set[int]()\n"),),
        "at_most_once",
        seed=14,
    ),
    # --- a reset ------------------------------------------------------------------------------------------------------
    ReplayDefect(
        "replay: a reset does not stop it",
        (
            Patch(
                CHANGE,
                "    replays = stop_replays(clickhouse, store, change.found) if change.resets else None\n",
                "    replays: Ledger | None = None\n",
            ),
            Patch(CHOOSE, _LIVES, "        return []\n"),
        ),
        test="tests/replay_sim/test_cases.py::test_a_replay_that_begins_in_the_middle_of_a_reset_stops_it",
    ),
    ReplayDefect(
        "replay: a reset forgets what it has in doubt",
        (
            Patch(
                REPLAYS,
                "            if record.in_doubt and key in of_replays\n",
                "            if record.in_doubt and not of_replays\n",
            ),
            Patch(RUN, "            if self._was_reset(key, record) or probing:\n", "            if probing:\n"),
        ),
        "at_most_once",
        seed=93,
    ),
    ReplayDefect(
        "replay: a reset does not look whether a replay has begun meanwhile",
        (Patch(CHANGE, "    if replays is not None:\n        replays.check_owned()\n", ""),),
        test=f"{SCENES}::test_a_replay_that_begins_in_the_middle_of_a_reset_stops_it",
    ),
    ReplayDefect(
        "replay: what was reset since it was chosen is sent",
        (
            Patch(
                RUN,
                "withdrawn = self.chooser.overtaken(chosen, lives)",
                "withdrawn = [key for key in chosen if not lives]",
            ),
        ),
        test=f"{SCENES}::test_a_replay_sends_nothing_that_was_reset_since_it_was_chosen",
    ),
    ReplayDefect(
        "replay: a list of which one record was not read again has no row",
        (
            Patch(
                CHOOSE,
                "        return any(record.life.first <= offset < record.life.older_end",
                "        return all(record.life.first <= offset < record.life.older_end",
            ),
        ),
        test=f"{CHOICES}::test_a_list_of_which_one_record_was_read_again_may_have_a_row",
    ),
    ReplayDefect(
        "replay: a list of which one record is confirmed is confirmed",
        (Patch(CHOOSE, "not all(is_confirmed(record, offset)", "not any(is_confirmed(record, offset)"),),
        test=f"{CHOICES}::test_a_list_of_which_the_job_may_land_one_record_waits",
    ),
    ReplayDefect(
        "replay: a list is sent again without dead letters that are gone",
        (
            Patch(LAND, "    if len(by_offset) < len(record.doubt.only):\n", "    if not by_offset:\n"),
            Patch(
                LAND,
                "    return [by_offset[offset] for offset in record.doubt.only]\n",
                "    return [by_offset[offset] for offset in record.doubt.only if offset in by_offset]\n",
            ),
        ),
        test=f"{CHOICES}::test_a_list_is_sent_again_only_as_it_was",
    ),
    ReplayDefect(
        "replay: a list is sent again although one offset has another dead letter, too",
        (Patch(LAND, "    if any(one.digest != by_offset", "    if all(one.digest != by_offset"),),
        test=f"{CHOICES}::test_a_list_is_sent_again_only_as_it_was",
    ),
    ReplayDefect(
        "replay: marks that a person asks for are not announced again",
        (Patch(RUN, "            self._renew_marks(key, record, mark)\n", "            pass\n"),),
        test=f"{SCENES}::test_marks_that_somebody_deleted_are_missed",
    ),
    # --- a topic ------------------------------------------------------------------------------------------------------
    ReplayDefect(
        "replay: marks of another table are believed",
        (
            Patch(
                IN_TOPIC,
                "        return self.lanes.setdefault((topic, partition, table), len(self.lanes))\n",
                "        return self.lanes.setdefault((topic, partition, table), len(self.lanes))\n\n"
                "    def others(self, at: LetterPlace) -> list[int]:\n"
                "        return [n for (t, p, _), n in self.lanes.items() if (t, p) == (at.topic, at.partition)]\n",
            ),
            Patch(
                IN_TOPIC,
                "        self.marked[lane].setdefault(_record(at.offset, short(digest)), number)\n",
                "        for one in self.others(at):\n"
                "            self.marked[one].setdefault(_record(at.offset, short(digest)), number)\n",
            ),
        ),
        "complete_at_rest",
        seed=5,
    ),
    ReplayDefect(
        "replay: marks behind an open transaction are not waited for",
        (Patch(IN_TOPIC, "held_in(self._place, whole=True, heard", "held_in(self._place, heard"),),
        "at_most_once",
        seed=57,
    ),
    ReplayDefect(
        "replay: marks that Kafka did not confirm count",
        (
            Patch(
                MARKS,
                "    if producer.flush(place.timeout_s) or refused:\n",
                "    if producer.flush(place.timeout_s):\n",
            ),
        ),
        "at_most_once",
        seed=133,
    ),
    ReplayDefect(
        "replay: a mark of an earlier list says that this one landed",
        (
            Patch(
                IN_TOPIC,
                "        return (self._lane(key), record.life.nonce) in self._index.lists\n",
                "        return self._lane(key) in {lane for lane, _ in self._index.lists}\n",
            ),
        ),
        "mark_means_row",
        seed=16,
    ),
    # --- a topic that was created again -------------------------------------------------------------------------------
    ReplayDefect(
        "replay: a mark in a topic names only the place",
        (Patch(IN_TOPIC, "    return offset << 60 | digest\n", "    return offset\n"),),
        test=f"{TESTS}::test_a_mark_names_the_record_not_its_place",
    ),
    ReplayDefect(
        "replay: null and empty have one digest",
        (Patch(DIGEST, 'b"-" if content is None else', 'b"0:" if content is None else'),),
        test=f"{TESTS}::test_a_mark_names_the_record_not_its_place",
    ),
)
