"""Several errors as one: each partition is named, and one command is enough for all that need the same."""

from __future__ import annotations

from chsink.cli.output import error_object
from chsink.errors import HaltError, halts, services
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
    assert error.message.count("is in doubt") == SPELLED_OUT
    assert error.hint.count("chsink state") == 1
    assert "`chsink state resolve t 0 1 2 3 4 5 6 7 8 9 10 11`" in error.hint


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
