"""What the pages tell their reader to type exists; ``tests/integration`` runs the tutorial and the how-to guides."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from chsink.cli.main import app
from chsink.config import load
from tests.support.walkthrough import BLOCK, Step, follow, printed, steps

CHECKOUT = Path(__file__).parents[2]
PAGES = sorted([CHECKOUT / "README.md", *(CHECKOUT / "docs").rglob("*.md")])
GUIDES = sorted((CHECKOUT / "docs" / "how-to").glob("[!R]*.md"))
COMMAND: Any = typer.main.get_command(app)
ENVIRON = {"CLICKHOUSE_PASSWORD": "x", "CATALOG_URI": "sqlite:////x", "WAREHOUSE": "file:///x"}


def commands(line: str) -> Iterator[list[str]]:
    """The words behind each ``chsink`` of a command line."""
    parser = shlex.shlex(line.replace("\\\n", " "), posix=True, punctuation_chars=True)
    parser.whitespace_split = True
    words = list(parser)
    for start in (n for n, word in enumerate(words) if word == "chsink"):
        rest = words[start + 1 :]
        yield list(itertools.takewhile(lambda word: not set(word) <= set("();<>|&"), rest))


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(CHECKOUT)))
def test_the_commands_of_a_page_exist_with_their_options(page: Path) -> None:
    for step in steps(page.read_text(encoding="utf-8")):
        for words in [] if step.name else commands(step.text):
            command: Any = COMMAND
            while hasattr(command, "commands") and words and not words[0].startswith("-"):
                assert words[0] in command.commands, step.text
                command = command.commands[words.pop(0)]
            known = {option for given in command.params for option in (*given.opts, *given.secondary_opts)}
            assert [word for word in words if word.startswith("--") and word not in {*known, "--help"}] == [], step.text


@pytest.mark.parametrize("guide", GUIDES, ids=lambda path: path.stem)
def test_the_job_file_of_a_guide_is_valid(guide: Path, tmp_path: Path) -> None:
    [job] = [text for _, name, text in BLOCK.findall(guide.read_text(encoding="utf-8")) if name == "job.toml"]
    (tmp_path / "job.toml").write_text(job, encoding="utf-8")
    config = load(tmp_path / "job.toml", environ=ENVIRON)
    assert config.routes


@pytest.mark.parametrize("guide", GUIDES, ids=lambda path: path.stem)
def test_a_guide_leads_to_what_it_takes_for_granted(guide: Path) -> None:
    assert "(README.md#before-you-begin)" in guide.read_text(encoding="utf-8")


def test_every_guide_is_named_by_the_index_and_by_the_reading_order() -> None:
    for page in (CHECKOUT / "docs" / "how-to" / "README.md", CHECKOUT / "docs" / "README.md"):
        text = page.read_text(encoding="utf-8")
        assert [guide.name for guide in GUIDES if f"{guide.name})" not in text] == [], page


@pytest.mark.parametrize(
    ("said", "shown", "expected"),
    [
        ("sent 6 records\n", "sent 6 records\n", True),
        ("sent 6 records\nand more\n", "sent 6 records\n", True),
        ("sent 7 records\n", "sent 6 records\n", False),
        ("pid 17 runs\n", "pid … runs\n", True),
        ("pid 17 ended\n", "pid … runs\n", False),
    ],
)
def test_what_a_page_shows_is_compared(said: str, shown: str, expected: bool) -> None:
    assert printed(said, shown) is expected


def test_a_page_is_read_as_its_reader_does() -> None:
    page = '```toml title="job.toml"\na = 1\n```\nThen\n```console\n$ one \\\n    --more\nsaid\n$ two\n```\n```sql\nSELECT\n```\n'
    assert list(steps(page)) == [
        Step("a = 1\n", name="job.toml"),
        Step("one \\\n    --more", "said\n"),
        Step("two"),
    ]


def test_a_reader_looks_again_until_the_page_is_right(tmp_path: Path) -> None:
    answers = iter(["0\n", "6\n"])
    said = follow('```console\n$ chsink dev sql "SELECT 6"\n6\n```\n', lambda _: next(answers), tmp_path)
    assert list(said.values()) == ["6\n"]
    with pytest.raises(AssertionError, match="shown:\n6"):
        follow("```console\n$ chsink run\n6\n```\n", lambda _: "7\n", tmp_path)
