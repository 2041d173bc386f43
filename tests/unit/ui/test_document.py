"""The JSON of the page, and the commands that it offers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from chsink.errors.catalogue import CATALOGUE
from chsink.ui.app import frame
from chsink.ui.document import LONGEST, commands, document
from chsink.ui.picture import Letters, Picture
from tests.support import pictures
from tests.support.pictures import CLICKS, HOSTILE, partitions, picture, sink


def made(what: Picture) -> dict[str, Any]:
    """As a browser gets it."""
    return dict(json.loads(json.dumps(document(what, job_words=["-c", "my job.toml"], interval_s=5))))


@pytest.mark.parametrize("state", pictures.STATES)
def test_every_picture_becomes_one_event(state: str) -> None:
    """Whatever names hold: neither a line end nor another event can begin inside."""
    text = json.dumps(document(pictures.STATES[state](), job_words=[], interval_s=5))
    lines = frame(text).split("\n")
    assert lines[0] == "event: status"
    assert lines[2:] == ["", ""]
    assert json.loads(lines[1].removeprefix("data: "))["sink"] == "web"


def test_routes_and_partitions() -> None:
    found = made(pictures.landing())
    assert [(r["topic"], r["table"], r["partitions"]) for r in found["routes"]] == [
        ("clicks", "web.clicks", 24),
        ("flights", "air.flights", 6),
    ]
    assert found["routes"][0]["speed"]["landed_per_s"] == 41_200.0
    assert found["routes"][1]["dead_letters"] == 12
    assert found["partitions"][24] == [1, 0, "AFTER", 43_210, 48_210, 0, 0.0, 8.0]
    assert found["batch"]["phases"]["insert"] == 3.482
    assert found["sums"]["lag"] == sum(row[5] for row in found["partitions"])


def test_the_last_result_of_verify() -> None:
    assert made(pictures.landing())["sums"]["verified"] is None
    assert made(pictures.idle())["sums"]["verified"]["offsets"] == 810_413


def test_names_arrive_as_they_are() -> None:
    found = made(pictures.hostile())
    assert found["routes"][0]["topic"] == HOSTILE
    assert found["problems"][0]["message"] == HOSTILE
    assert found["letters"]["groups"][0]["letters"][0]["value"] == "<script>alert(1)</script>"


def test_problems_name_their_place_and_the_most_urgent_comes_first() -> None:
    assert [(p["where"], p["id"]) for p in made(pictures.halted())["problems"]] == [
        ("ended", "CHS-309"),
        ("ahead", "CHS-308"),
    ]
    [mirror] = made(pictures.mirrored())["problems"]
    assert (mirror["where"], mirror["id"]) == ("mirror", "CHS-340")
    assert mirror["commands"] == ["chsink mirror resolve lake.flights -c 'my job.toml'"]
    assert mirror["message"].startswith("Iceberg table lake.flights was rolled back")


@pytest.mark.parametrize(
    ("fix", "offered"),
    [
        (
            "run `chsink state resolve t 3 5 --resend`, then `chsink doctor`",
            ["chsink state resolve t 3 5 --resend", "chsink doctor"],
        ),
        ("run `chsink state reset TOPIC PARTITION`", []),
        ("run `chsink jars`; run `chsink jars`", ["chsink jars"]),
        ("delete rows: `DELETE FROM t`", []),
        ("nothing", []),
    ],
)
def test_commands_that_can_be_run_as_they_are(fix: str, offered: list[str]) -> None:
    assert commands(fix, []) == offered
    job = "" if "jars" in fix else " -c 'A BC.toml' --set sink.name=s"
    words = ["-c", "A BC.toml", "--set", "sink.name=s"]
    assert commands(fix, words) == [command + job for command in offered]


def test_no_command_of_the_catalogue_is_offered_with_a_placeholder() -> None:
    fixes = [entry.hint for entry in CATALOGUE.values()]
    offered = [command for fix in fixes for command in commands(fix, [])]
    assert offered
    assert not [command for command in offered if "TOPIC" in command or "…" in command]


def test_numbers_of_64_bits_keep_their_digits() -> None:
    """A browser's number has 53."""
    assert made(pictures.mirrored())["mirror"]["tables"][0]["snapshot"] == "5126883402117345921"


def test_records_are_shown_only_if_they_were_read_and_never_as_a_whole() -> None:
    def letters(value: bytes | None) -> Any:
        shown = Letters("dead", [pictures.group(1, None, value)])
        return made(picture(sink(*partitions(CLICKS, 1)), letters=shown))["letters"]["groups"][0]["letters"][0]

    assert letters(None).keys() == {"topic", "partition", "offset", "reason", "replayed"}
    assert letters(b"\xff\x00")["value"] == "hex ff00"
    assert len(letters(b"x" * 10_000)["value"]) < LONGEST + 40


def test_a_producer_may_send_any_time() -> None:
    group = pictures.group(1, 0)
    for ms in (2**62, -1, 0):
        far = type(group)(group.table, group.column, group.error_id, 1, 0, ms, group.letters)
        assert made(picture(sink(), letters=Letters("dead", [far])))["letters"]["groups"][0]["count"] == 1
