"""Mirrors of their own for each test, on the shared broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from chsink.embedded.kafka import EmbeddedKafka
from tests.integration.mirror.bench import Bench

MakeBench = Callable[..., Bench]


@pytest.fixture
def make_bench(kafka: EmbeddedKafka, tmp_path: Path) -> Iterator[MakeBench]:
    """``make_bench(partitions=2, tables=("a", "b"))``; ``folder`` holds the catalog and the tables."""
    made: list[Bench] = []

    def make(folder: Path | None = None, **fields: Any) -> Bench:
        folder = folder or tmp_path / f"mirror-{len(made)}"
        folder.mkdir()
        made.append(Bench(kafka, folder, **fields))
        return made[-1]

    yield make
    for bench in made:
        bench.close()
