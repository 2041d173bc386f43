"""A least configuration, and a way to load TOML text with an environment of one's own."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from chsink.config import Config, InvalidConfigError, Problem, load

LEAST = """
[sink]
name = "flights"
[kafka]
bootstrap = "localhost:9092"
[[route]]
topic = "flights"
table = "flights"
[clickhouse]
endpoints = ["http://localhost:8123"]
"""

Load = Callable[..., Config]
Problems = Callable[..., dict[str, Problem]]


def merged(changes: str) -> dict[str, Any]:
    """The least configuration with the tables of ``changes`` laid over it."""
    data = tomllib.loads(LEAST)
    for name, value in tomllib.loads(changes).items():
        data[name] = {**data.get(name, {}), **value} if isinstance(value, dict) and name != "route" else value
    return data


@pytest.fixture
def build() -> Load:
    """Build a configuration from changes to the least one."""

    def _build(changes: str = "", environ: Mapping[str, str] | None = None) -> Config:
        return Config.from_mapping(merged(changes), source="job.toml", environ=environ or {})

    return _build


@pytest.fixture
def problems(build: Load) -> Problems:
    """The problems of changes to the least configuration, by key."""

    def _problems(changes: str, environ: Mapping[str, str] | None = None) -> dict[str, Problem]:
        with pytest.raises(InvalidConfigError) as caught:
            build(changes, environ)
        found = {problem.key: problem for problem in caught.value.problems}
        assert len(found) == len(caught.value.problems), f"a key twice: {caught.value}"
        return found

    return _problems


@pytest.fixture
def load_text(tmp_path: Path) -> Load:
    """Load TOML text as a file ``job.toml`` in an empty folder."""

    def _load(text: str = LEAST, environ: Mapping[str, str] | None = None, **overrides: Any) -> Config:
        path = tmp_path / "job.toml"
        path.write_text(text, encoding="utf-8")
        return load(path, environ=environ or {}, overrides={k.replace("__", "."): v for k, v in overrides.items()})

    return _load
