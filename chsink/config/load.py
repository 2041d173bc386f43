"""Loading a job file: TOML, then environment variables, then overrides; later ones win."""

from __future__ import annotations

import contextlib
import copy
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from chsink.config import problems, schema
from chsink.config.build import build, origins_in
from chsink.config.model import Config
from chsink.config.problems import InvalidConfigError, Problem
from chsink.config.values import is_credential

VARIABLE_PREFIX = "CHSINK__"


def load(
    path: str | Path, *, environ: Mapping[str, str] | None = None, overrides: Mapping[str, Any] | None = None
) -> Config:
    """The configuration in the TOML file at ``path``.

    ``environ`` (default: the process's) overrides it by variables ``CHSINK__SECTION__KEY`` and resolves references.
    ``overrides`` maps dotted keys to values (or to texts, read as a variable's would be) and has the last word.
    Raises InvalidConfigError with every problem found; CHS-101 alone when the file cannot be read.
    """
    environ = os.environ if environ is None else environ
    data = _read(Path(path))
    layers = _Layers(data, origins_in(data, str(path)))
    for name in sorted(environ):
        if name.startswith(VARIABLE_PREFIX):
            layers.override(schema.path_of_variable(name), environ[name], f"environment variable {name}")
    for key, value in (overrides or {}).items():
        layers.override(key, value, "override")
    try:
        config = build(layers.data, layers.origins, environ=environ, folder=Path(path).parent)
    except InvalidConfigError as error:
        raise InvalidConfigError([*layers.found, *error.problems]) from None
    if layers.found:
        raise InvalidConfigError(layers.found)
    return config


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        message, hint = f"there is no file {path}", "name the job file with -c; docs/examples/job.toml is a first one"
    except OSError as error:
        message, hint = f"{path} cannot be read: {error.strerror}", "check the path and its permissions"
    except UnicodeDecodeError:
        message, hint = f"{path} is not UTF-8 text", "save it as UTF-8"
    except tomllib.TOMLDecodeError as error:
        hint = "correct the line; texts need quotes, and so do names of which one begins with another (a.b and a.b.c)"
        message = f"{path} is not TOML: {error}"
    raise InvalidConfigError([Problem(problems.UNREADABLE, "", message, hint)])


@dataclass(slots=True)
class _Layers:
    """The mapping so far, the origin of each key in it, and the problems met on the way."""

    data: dict[str, Any]
    origins: dict[str, str]
    found: list[Problem] = field(default_factory=list)

    def override(self, path: str, value: Any, origin: str) -> None:
        """Put ``value`` at a dotted path, over whatever is there."""
        resolved = schema.resolve(path)
        if resolved is None:
            problem = Problem(problems.UNKNOWN_KEY, path, "there is no such key", _advice(path), origin)
            self.found.append(problem)
            return
        key, option = resolved
        *tables, last = [*key.path.split("."), option] if option else key.path.split(".")
        table = self.data
        for name in tables:
            table = table.setdefault(name, {})
            if not isinstance(table, dict):
                return  # reported with the section: it is not a table
        if option:
            _remove(table, option.split("."))
        table[last] = _parsed(value, key, option) if isinstance(value, str) else copy.deepcopy(value)
        self.origins[path] = origin


def _remove(table: dict[str, Any], parts: list[str]) -> None:
    """Drop an option however the file spells it: with quotes, or as nested tables."""
    table.pop(".".join(parts), None)
    for length in range(1, len(parts)):
        inner = table.get(".".join(parts[:length]))
        if isinstance(inner, dict):
            _remove(inner, parts[length:])
            if not inner:
                del table[".".join(parts[:length])]


def _advice(path: str) -> str:
    table = path.rpartition(".")[0]
    while table and not schema.is_table(table):
        table = table.rpartition(".")[0]
    return schema.advice(path, table)


def _parsed(text: str, key: schema.Key, option: str) -> Any:
    """What a text stands for: by the key's type, TOML for numbers, booleans and bracketed values."""
    if key.kind == "secret" or (option and is_credential(option)):
        return SecretStr(text)
    if key.kind == "number" or text.lstrip().startswith(("[", "{")):
        with contextlib.suppress(tomllib.TOMLDecodeError, KeyError):
            return tomllib.loads(f"value = {text}")["value"]
    return text
