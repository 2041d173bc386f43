"""Loading a job file: TOML, then environment variables, then overrides; later ones win."""

from __future__ import annotations

import contextlib
import copy
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from chsink.config.model import OVERRIDE, Config, schema
from chsink.config.options import flat_items
from chsink.config.problems import InvalidConfigError, Problem, problem
from chsink.config.schema import Key
from chsink.errors import ChsinkError, job_file
from chsink.fields import is_credential

VARIABLE_PREFIX = "CHSINK__"


def load(
    path: str | Path, *, environ: Mapping[str, str] | None = None, overrides: Mapping[str, object] | None = None
) -> Config:
    """The configuration in the TOML file at ``path``.

    Variables ``CHSINK__SECTION__KEY`` in ``environ`` (default: the process's) override the file; ``environ`` also
    resolves references.  ``overrides`` maps dotted keys to values, or to strings that are parsed like a variable's; it
    overrides both.

    Raises InvalidConfigError with every problem found, or with CHS-101 alone if the file cannot be read.
    """
    environ = os.environ if environ is None else environ
    layers = _Layers(str(path), _read(Path(path)))
    for name in sorted(environ):
        if name.startswith(VARIABLE_PREFIX):
            layers.override(schema().path_of_variable(name), environ[name], f"environment variable {name}")
    for key, value in (overrides or {}).items():
        layers.override(key, value, OVERRIDE)
    return Config.from_mapping(
        layers.data,
        source=layers.file,
        environ=environ,
        folder=Path(path).parent,
        origins=layers.origins,
        problems=layers.problems,
    )


def _read(path: Path) -> dict[str, Any]:
    wrong: ChsinkError
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        wrong = job_file.NO_JOB_FILE(path=path)
    except OSError as error:
        wrong = job_file.JOB_FILE_UNREADABLE(path=path, reason=error.strerror)
    except UnicodeDecodeError:
        wrong = job_file.JOB_FILE_NOT_UTF8(path=path)
    except tomllib.TOMLDecodeError as error:
        twice = str(error).startswith(("Cannot ", "Duplicate "))  # declare, overwrite or mutate what is there
        wrong = (job_file.JOB_FILE_TWICE if twice else job_file.JOB_FILE_NOT_TOML)(path=path, reason=error)
    raise InvalidConfigError([problem("", wrong)])


class _Layers:
    """The merged mapping, the origin of each of its keys, and the problems found while merging."""

    def __init__(self, file: str, data: dict[str, Any]) -> None:
        self.file = file
        self.data = data
        self.origins: dict[str, str] = {}
        self.problems: list[Problem] = []

    def override(self, path: str, value: object, origin: str) -> None:
        """Set the value at a dotted path, replacing any value there."""
        known = schema().find(path)
        if known is None:
            self.problems.append(problem(path, job_file.UNKNOWN_KEY(advice=schema().advice(path)), origin))
            return
        key, option = known
        *tables, last = [*key.path.split("."), option] if option else key.path.split(".")
        table = self.data
        for name in tables:
            table = table.setdefault(name, {})
            if not isinstance(table, dict):
                return  # not a table: reported when the section is validated
        if option:
            others = [(name, leaf) for name, leaf in flat_items(table) if name != option]
            if len(dict(others)) == len(others):  # else an option is set twice: reported when the section is validated
                table.clear()
                table.update(others)
        table[last] = _parsed(value, key, option) if isinstance(value, str) else copy.deepcopy(value)
        if path == "trigger.mode" and value == "available_now" and "trigger.interval" not in self.origins:
            table.pop("interval", None)  # the file's interval belongs to the mode that is replaced
        self.origins[path] = origin


def _parsed(text: str, key: Key, option: str) -> Any:
    """The value of a text, by the key's type: numbers, booleans, bracketed and quoted values are parsed as TOML."""
    if key.type is SecretStr or (option and is_credential(option)):
        return SecretStr(text)
    quoted = len(text) > 1 and text[0] == text[-1] == '"'
    if quoted or key.type in {int, float, bool} or text.lstrip().startswith(("[", "{")):
        with contextlib.suppress(tomllib.TOMLDecodeError, KeyError):
            return tomllib.loads(f"value = {text}")["value"]
    return text
