"""From a mapping to a :class:`Config`, or to every problem it has.

Sections are validated one by one, so one broken section does not hide what is wrong in the others, nor the
contradictions between those that are right.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from chsink.config import problems, schema
from chsink.config.checks import contradictions
from chsink.config.model import Config
from chsink.config.problems import InvalidConfigError, Problem, closest
from chsink.config.values import flat_items, is_reference

Place = tuple[int | str, ...]

_WRONG_TYPES = {
    "string_type": "it is not a text",
    "int_type": "it is not a whole number",
    "float_type": "it is not a number",
    "bool_type": "it is not true or false",
    "tuple_type": "it is not a list",
    "dict_type": "it is not a table",
    "model_type": "it is not a table",
    "model_attributes_type": "it is not a table",
    "finite_number": "it is not a finite number",
}


def build(
    data: Mapping[str, Any], origins: Mapping[str, str], *, environ: Mapping[str, str], folder: Path | None = None
) -> Config:
    """The configuration in ``data``, with the origin of each dotted key.

    References to files are taken from ``folder``.  Raises InvalidConfigError with every problem found.
    """
    context = {"environ": environ, "folder": folder or Path()}
    found: list[Problem] = [_unknown_section(name) for name in data if name not in schema.names_in("")]
    sections: dict[str, Any] = {}
    for field_name, field in Config.model_fields.items():
        name = schema.name_of(field_name, field)
        if name not in data:
            found.extend([_missing((name,))] if field.is_required() else [])
            continue
        try:
            raw = _tuple_of(data[name]) if name == "route" else data[name]
            sections[name] = _adapter(field_name).validate_python(raw, context=context)
        except ValidationError as error:
            found.extend(_problems_of(error, name))
    found.extend(_contradictions(sections, data))
    if found:
        raise InvalidConfigError(_with_origin(problem, origins) for problem in found)
    config = Config(**sections)
    config._origins = dict(origins)
    return config


def origins_in(data: Mapping[str, Any], source: str) -> dict[str, str]:
    """The origin of each key of a mapping: ``source``, or what a reference in it names."""
    return dict(_origins_of(data, source, ""))


def _origins_of(data: Mapping[str, Any], source: str, prefix: str) -> Iterator[tuple[str, str]]:
    for name, value in data.items():
        path = f"{prefix}{name}"
        key = schema.keys().get(path)
        if isinstance(value, Mapping) and value and not is_reference(value):
            if key is not None and key.kind == "map":
                for option, leaf in flat_items(value):
                    yield f"{path}.{option}", _origin_of(leaf, source)
            else:
                yield from _origins_of(value, source, f"{path}.")
        else:
            yield path, _origin_of(value, source)


def _origin_of(value: Any, source: str) -> str:
    if is_reference(value):
        return (
            " and ".join(
                f"{'environment variable' if kind == 'env' else 'file'} {target}" for kind, target in value.items()
            )
            + f", named in {source}"
        )
    return source


@cache
def _adapter(field_name: str) -> TypeAdapter[Any]:
    annotation: Any = Config.model_fields[field_name].annotation
    return TypeAdapter(annotation)


def _tuple_of(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _contradictions(sections: Mapping[str, Any], data: Mapping[str, Any]) -> list[Problem]:
    partial = Config.model_construct(**sections)
    readable = {
        name
        for name, field in Config.model_fields.items()
        if (key := schema.name_of(name, field)) in sections or (key not in data and not field.is_required())
    }
    return contradictions(partial, frozenset(readable))


def _problems_of(error: ValidationError, section: str) -> Iterator[Problem]:
    for details in error.errors(include_url=False):
        yield _problem_of(details, (section, *details["loc"]))


def _problem_of(details: ErrorDetails, place: Place) -> Problem:
    kind, key = details["type"], _key_text(place)
    context = details.get("ctx", {})
    if kind in problems.MEANINGS:
        return Problem(kind, key, context["message"], context["hint"])
    if kind == "missing":
        return _missing(place)
    if kind == "extra_forbidden":
        path, table = _path(place), _path(place[:-1])
        return Problem(problems.UNKNOWN_KEY, key, "there is no such key", schema.advice(path, table))
    if kind == "literal_error":
        message = f"{details['input']!r} is not allowed" if isinstance(details["input"], str) else "it is not a text"
        meant = _meant(details["input"], _choices(place)) if isinstance(details["input"], str) else None
        hint = f'did you mean "{meant}"?' if meant else f"use {context['expected'].replace(chr(39), chr(34))}"
        return Problem(problems.WRONG_VALUE, key, message, hint)
    message = _WRONG_TYPES.get(kind) or details["msg"].replace("Input", "it", 1)
    return Problem(problems.WRONG_VALUE, key, message, _hint_by_type(place))


def _meant(given: str, choices: tuple[str, ...]) -> str | None:
    """The one choice that was probably meant; none where what is given is a part of several."""
    return None if sum(given in choice for choice in choices) > 1 else closest(given, choices)


def _choices(place: Place) -> tuple[str, ...]:
    return tuple(schema.keys()[_path(place)].annotation.__args__)


def _hint_by_type(place: Place) -> str:
    if place == ("route",):
        return "write [[route]], with two brackets, once for each topic"
    known = schema.keys() | schema.element_keys()
    for length in range(len(place), 0, -1):
        key = known.get(_path(place[:length]))
        if key is not None:
            return f"`{key.path}` takes: {key.type_text}. {key.field.description or ''}".rstrip()
    return f"write a table [{_path(place)}]"


def _missing(place: Place) -> Problem:
    key = _key_text(place)
    path = _path(place)
    missing = (schema.keys() | schema.element_keys()).get(path)
    if path == "route":
        hint = 'add a table [[route]] with topic = "…" and table = "…" for each topic'
    elif missing is None:
        hint = f"add a section [{path}]"
    else:
        hint = f"set it: {missing.field.description}"
    return Problem(problems.MISSING_KEY, key, "it is missing", hint)


def _unknown_section(name: str) -> Problem:
    return Problem(problems.UNKNOWN_KEY, name, "there is no such section", schema.advice(name, ""))


def _with_origin(problem: Problem, origins: Mapping[str, str]) -> Problem:
    """The problem with the origin of its key: the list's for an element, the first inner key's for a table."""
    path = problem.key.partition("[")[0]
    inner = (origin for key, origin in origins.items() if key.startswith(f"{path}."))
    return replace(problem, origin=origins.get(path) or next(inner, ""))


def _path(place: Place) -> str:
    """The dotted path without indices: what the schema knows."""
    return ".".join(part for part in place if isinstance(part, str) and part != "[key]")


def _key_text(place: Place) -> str:
    """The dotted path with indices: what a person reads."""
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in place if part != "[key]")
    return "".join(parts).removeprefix(".")
