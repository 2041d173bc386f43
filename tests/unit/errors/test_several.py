"""Several errors as one: each partition is named, and one command is enough for all that need the same."""

from __future__ import annotations

from chsink.cli.output import error_object
from chsink.errors import HaltError, halts, services, values
from chsink.errors.several import SPELLED_OUT, several


def blind(tp: str) -> HaltError:
    error = halts.CANNOT_PROBE(tp=tp, range="[0, 9)", reason="it is old", table="db.t")
    assert isinstance(error, HaltError)
    return error


def foreign(tp: str) -> HaltError:
    error = halts.FOREIGN_ROWS(tp=tp, detail="why")
    assert isinstance(error, HaltError)
    return error


def test_one_error_stays_as_it_is() -> None:
    error = blind("a-b-1")
    assert several([error]) is error
    assert "`chsink state resolve a-b 1`" in error.hint


def test_errors_of_one_kind_name_all_partitions_in_one_command() -> None:
    tps = [f"t-{n}" for n in range(SPELLED_OUT + 7)]

    error = several([blind(tp) for tp in reversed(tps)])

    assert (error.id, error.exit_code, error.parts) == ("CHS-317", 3, ())
    assert all(tp in error.message for tp in tps)
    assert error.message.count("is in doubt") == 1
    assert error.hint.count("chsink state") == 1
    assert "`chsink state resolve t 0 1 2 3 4 5 6 7 8 9 10 11`" in error.hint


def test_a_sentence_is_said_once_whatever_differs_in_it() -> None:
    """CHS-501 and CHS-309 repeated theirs for each partition."""
    changed = [
        halts.PIPELINE_CHANGED(tp=f"t-{n}", detail=why) for n, why in enumerate(["columns", "columns", "filter"])
    ]
    error = several(changed)
    assert error.message == f"{changed[0].message.replace('t-0', 't-0, t-1')}; the same for t-2: filter"

    bad = [values.BAD_VALUE(tp=f"t-{n}", first=f"partition {n} offset 5: why") for n in range(SPELLED_OUT + 2)]
    error = several(bad)
    assert error.message == (
        "a record does not fit its table: partition 0 offset 5: why; partition 1 offset 5: why; "
        "partition 2 offset 5: why; partition 3 offset 5: why; partition 4 offset 5: why; "
        "also: t-5, t-6"
    )


def test_what_differs_in_two_ways_is_said_in_full() -> None:
    one = halts.CHOICE_CHANGED(tp="t-0", topic="t", range="[0, 9)", ahead="a", behind="b")
    two = halts.CHOICE_CHANGED(tp="t-1", topic="t", range="[3, 9)", ahead="c", behind="b")
    assert several([one, two]).message == f"{one.message}; {two.message}"


def test_what_needs_different_commands_is_said_apart() -> None:
    error = several([blind("t-0"), foreign("t-1"), blind("u-0"), blind("t-2")])

    assert (error.id, error.exit_code) == ("CHS-317", 3)
    commands = ["`chsink state resolve t 0 2`", "`chsink state resolve t 1 --landed`", "`chsink state resolve u 0`"]
    problems = error_object(error)["problems"]
    assert [p["id"] for p in problems] == ["CHS-317", "CHS-318", "CHS-317"]
    assert sorted(c for c in commands for p in problems if c in p["hint"]) == commands
    assert all(c in str(error) and c in error.hint for c in commands)


def test_errors_without_a_partition() -> None:
    refused = halts.INSERT_REFUSED(url="u", table="t", code=1, reason="why")
    assert several([refused, refused]).message == refused.message
    assert several([refused, services.KAFKA_UNAVAILABLE(bootstrap="b", reason="r")]).exit_code == 3
