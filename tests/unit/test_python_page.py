"""The page of the Python API."""

from __future__ import annotations

from pathlib import Path

import chsink
from docs.site import api

WRITTEN = Path(__file__).parents[2] / "docs" / "python.md"


def test_the_page_is_up_to_date() -> None:
    assert WRITTEN.read_text(encoding="utf-8") == f"{api.page()}\n", "run: python -m docs.site.api > docs/python.md"


def test_it_has_every_public_name_and_error() -> None:
    text = api.page()
    for name in ("load", "spark_jars", "Sink"):
        assert name in chsink.__all__ and f"\n## `{name}`\n" in text
    assert "### `sink.start`\n\n```python\nsink.start(stream: DataFrame) -> StreamingQuery\n" in text
    assert "| `HaltError` | 3 |" in text
    assert ":class:" not in text and "``" not in text.replace("```", "")
