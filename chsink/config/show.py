"""The configuration as a flat list, each value with its origin; credentials as ``***``."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from pydantic import SecretStr

from chsink.config.model import Config, schema
from chsink.config.options import flat_items
from chsink.fields import is_credential

HIDDEN = "***"


@dataclass(frozen=True, slots=True)
class Setting:
    """One value: ``key`` is dotted; ``value`` can be written as JSON."""

    key: str
    value: Any
    origin: str

    def as_dict(self) -> dict[str, object]:
        """The setting as a JSON object, for programs."""
        return asdict(self)


def settings(config: Config) -> list[Setting]:
    """Every value of the configuration, in the order of the model, defaults included."""
    whole = flat_items(config.model_dump(by_alias=True))
    brief = dict(flat_items(config.model_dump(by_alias=True, exclude_defaults=True)))  # for the tables in lists
    shown = [(key, value) for key, value in whole if value != {} and (value is not None or _is_scalar(key))]
    return [Setting(key, _plain(brief.get(key, value), key), config.origin(key)) for key, value in shown]


def _is_scalar(key: str) -> bool:
    """Whether a key without a value is one that is shown: not a table."""
    known = schema().keys.get(key)
    return known is not None and not known.options


def _plain(value: object, key: str) -> Any:
    if isinstance(value, SecretStr):
        return HIDDEN if value.get_secret_value() else ""
    if isinstance(value, tuple):
        return list(value)
    known = schema().find(key)
    return HIDDEN if known and is_credential(known[1]) else value
