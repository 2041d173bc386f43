"""The page of all commands."""

from __future__ import annotations

from pathlib import Path

from chsink.cli import page

WRITTEN = Path(__file__).parents[3] / "docs" / "commands.md"


def test_the_page_is_up_to_date() -> None:
    text = WRITTEN.read_text(encoding="utf-8")
    assert text == f"{page.page()}\n", "run: python -m chsink.cli.page > docs/commands.md"


def test_it_has_every_command_once_with_its_options() -> None:
    text = page.page()
    assert text.count("\n### `chsink mirror resolve`\n") == 1
    assert "| `--show-values` | Show the keys and values of dead letters to all who open the page. |" in text
