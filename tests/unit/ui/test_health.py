"""The sentence of health, for each state of a sink."""

from __future__ import annotations

from dataclasses import replace

import pytest

from chsink.errors import services
from chsink.status.model import SinkStatus
from chsink.ui.health import LONG_S, STILL_S, Level, duration, health
from chsink.ui.picture import JobView, MirrorPicture, Picture, failure_of
from tests.support import pictures
from tests.support.pictures import CLICKS, partitions, picture, sink, speed
from tests.support.statuses import status


@pytest.mark.parametrize(
    ("state", "level", "sentence"),
    [
        ("idle", "good", "Up to date: everything that Kafka holds has landed."),
        ("landing", "busy", "Landing 41,520 offsets per second, 163,732 behind: caught up in 55 s."),
        ("in_doubt", "warn", "3 ranges are in doubt, for 2 h 5 min now. Starting the job settles them."),
        ("halted", "bad", "The job ended with CHS-309: see the fix below."),
        (
            "differing",
            "warn",
            f"chsink verify found differences, {pictures.verified().at} (--topic clicks): 810,413 offsets judged, 3 missing, 1 unexpected.",
        ),
        ("mirrored", "bad", "The mirror cannot continue with lake.flights: see the fix below."),
        ("many", "busy", "Landing 212,000 offsets per second, 4,361,513 behind: caught up in 2 min 20 s."),
        ("hostile", "bad", "The next start will halt with CHS-301: see the fix below."),
    ],
)
def test_a_state_in_a_sentence(state: str, level: Level, sentence: str) -> None:
    said = health(pictures.STATES[state]())
    assert (said.level, said.sentence) == (level, sentence)


def test_what_was_left_out_is_said() -> None:
    said = health(picture(sink(*partitions(CLICKS, 2, dead_letters=2, skipped=1))))
    assert said.sentence == "Up to date: everything that Kafka holds has landed (4 kept as dead letters, 2 skipped)."


def test_differences_that_verify_found() -> None:
    found = pictures.verified(ok=False, differences={"missing": 3})
    said = health(picture(sink(*partitions(CLICKS, 1), verified=found)))
    assert said.level == "warn"
    assert said.sentence == f"chsink verify found differences, {found.at}: 810,413 offsets judged, 3 missing."
    assert health(picture(sink(*partitions(CLICKS, 1), verified=pictures.verified()))).level == "good"


NEVER = "This sink has not run yet, or its state was lost."


def test_a_sink_that_never_ran() -> None:
    assert health(picture(_empty(lag=12))).sentence == f"{NEVER} 12 offsets wait in Kafka."
    assert health(picture(_empty(lag=0))).sentence == f"{NEVER} Kafka holds nothing for it."


def test_services_that_do_not_answer() -> None:
    away = health(picture(sink(*partitions(CLICKS, 1, lag=None), lag=None, lag_unknown="no answer")))
    assert (away.level, away.sentence) == ("warn", "Kafka does not answer, so the lag is not known.")
    lost = failure_of(services.KAFKA_UNAVAILABLE(bootstrap="k:1", reason="refused"))
    first = health(picture(None, failure=lost))
    later = health(picture(sink(), failure=lost))
    assert first.level == later.level == "bad"
    assert first.sentence.startswith("The state cannot be read: CHS-702: Kafka at k:1")
    assert later.sentence.endswith("The figures below were read before that.")


@pytest.mark.parametrize(("watched_s", "level"), [(None, "busy"), (STILL_S - 1, "busy"), (STILL_S, "warn")])
def test_a_lag_that_nobody_lands(watched_s: float | None, level: Level) -> None:
    """One look says nothing about speed, and a batch takes some seconds."""
    behind = sink(*partitions(CLICKS, 1, lag=1, lag_s=90.0))
    said = health(picture(behind, speeds=[speed(CLICKS, lag=1, left_s=None)], watched_s=watched_s))
    assert said.level == level
    assert said.sentence.startswith("1 offset waits in Kafka, the oldest record for 1 min 30 s.")
    assert ("is the job running?" in said.sentence) is (level == "warn")


def test_a_lag_that_grows() -> None:
    behind = sink(*partitions(CLICKS, 1, lag=500))
    said = health(picture(behind, speeds=[speed(CLICKS, landed_per_s=10.0, lag=500, left_s=None)]))
    assert said.sentence == "Landing 10 offsets per second, 500 behind: not catching up at this speed."


@pytest.mark.parametrize(("age_s", "level"), [(LONG_S, "busy"), (LONG_S + 1, "warn")])
def test_a_range_in_doubt_is_usual_for_a_while(age_s: float, level: Level) -> None:
    assert health(picture(sink(*partitions(CLICKS, 1, phase="BEFORE", age_s=age_s)))).level == level


@pytest.mark.parametrize(
    ("count", "job", "sentence"),
    [
        (4, None, "4 ranges are in doubt: a running job is landing them, or the next start does."),
        (1, None, "1 range is in doubt: a running job is landing it, or the next start does."),
        (1, JobView(), "Landing the last range that Kafka holds."),
        (4, JobView(), "Landing the last 4 ranges that Kafka holds."),
    ],
)
def test_what_is_in_doubt_has_not_landed(count: int, job: JobView | None, sentence: str) -> None:
    """⚑ After a kill all offsets may be announced: without a lag, the page must not say that everything has landed."""
    said = health(picture(sink(*partitions(CLICKS, count, phase="BEFORE")), job=job))
    assert (said.level, said.sentence) == ("busy", sentence)


def test_beside_a_job() -> None:
    halting = pictures.hostile()
    assert "batch or start will halt" in health(replace(halting, job=JobView())).sentence
    said = health(picture(sink(), job=JobView(ending=True))).sentence
    assert said == "The job has ended, and this page is no longer updated."
    ended = replace(pictures.halted().job or JobView(), ending=False)
    assert health(picture(sink(), job=ended)).sentence.endswith("The mirror goes on.")


def test_a_mirror_that_is_behind_or_alone() -> None:
    found = pictures.mirrored().mirror
    assert found is not None and found.status is not None
    well = MirrorPicture(replace(found.status, tables=(replace(found.status.tables[0], problem=""),)))
    assert health(picture(sink(), mirror=well)).sentence.endswith("landed. The mirror is 60,210 offsets behind.")
    assert health(picture(None, mirror=well)).sentence == "The mirror is 60,210 offsets behind."
    done = health(pictures.mirror_alone())
    assert (done.level, done.sentence) == ("good", "Up to date: the mirror has all that Kafka holds.")


@pytest.mark.parametrize(
    ("oldest_s", "last_commit", "seconds"),
    [
        (900.0, pictures.at(-800), 800),
        (900.0, None, 900),
        (900.0, pictures.at(-30), None),
        (20.0, pictures.at(-800), None),
    ],
)
def test_a_mirror_that_does_not_commit(oldest_s: float, last_commit: str | None, seconds: float | None) -> None:
    """It hands over, so ClickHouse's side is well.  A table that was idle is no reason, nor are old records."""
    found = pictures.mirrored().mirror
    assert found is not None and found.status is not None
    table = replace(found.status.tables[0], problem="", lag_s=oldest_s, last_commit=last_commit)
    for beside in (None, sink()):
        said = health(picture(beside, mirror=MirrorPicture(replace(found.status, tables=(table,)))))
        assert (said.level == "warn") is (seconds is not None)
        assert seconds is None or said.sentence == (
            f"The mirror is 60,210 offsets behind. Nothing was committed for {duration(seconds)}: does the mirror run, and "
            "commit?"
        )


def test_a_mirror_that_cannot_be_read() -> None:
    lost = MirrorPicture(failure=failure_of(services.KAFKA_UNAVAILABLE(bootstrap="k:1", reason="refused")))
    for found in (None, sink()):
        said = health(picture(found, mirror=lost))
        assert said.level == "bad"
        assert said.sentence.startswith("The mirror's tables cannot be read: CHS-702: Kafka at k:1")


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0 s"), (0.4, "0 s"), (59, "59 s"), (60, "1 min"), (200, "3 min 20 s"), (3600, "1 h"), (7_500, "2 h 5 min")],
)
def test_durations(seconds: float, words: str) -> None:
    assert duration(seconds) == words
    assert duration(3 * 86_400 + 59) == "3 d"


def _empty(**given: object) -> SinkStatus:
    return status(owner=None, **given)


def test_every_state_has_a_picture_of_its_own() -> None:
    made = [make() for make in pictures.STATES.values()]
    assert all(isinstance(one, Picture) for one in made)
    assert len({health(one).sentence for one in made}) == len(made)
