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


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[EmbeddedKafka]:
    """A broker with ACLs: what none speaks of is allowed."""
    properties = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
        "auto.create.topics.enable": "true",
    }
    with EmbeddedKafka(tmp_path / "kafka", properties=properties) as kafka:
        yield kafka
