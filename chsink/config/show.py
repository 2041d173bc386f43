"""The configuration as a flat list, each value with its origin; credentials as ``***``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from pydantic import BaseModel, SecretStr

from chsink.config import schema
from chsink.config.model import Config
from chsink.config.values import is_credential

HIDDEN = "***"


@dataclass(frozen=True, slots=True)
class Setting:
    """One value: ``key`` is dotted; ``value`` is what JSON can hold."""

    key: str
    value: Any
    origin: str

    def as_dict(self) -> dict[str, Any]:
        """The setting for a machine."""
        return asdict(self)


def settings(config: Config) -> list[Setting]:
    """Every value of the configuration, in the order of the model, defaults included."""
    return [Setting(key, value, config.origin(origin)) for key, value, origin in _leaves(config, "")]


def _leaves(model: BaseModel, prefix: str) -> Iterator[tuple[str, Any, str]]:
    """Key, printable value, and the key by which the origin is known."""
    for name, field in type(model).model_fields.items():
        path = prefix + schema.name_of(name, field)
        value = getattr(model, name)
        if isinstance(value, BaseModel):
            yield from _leaves(value, f"{path}.")
        elif isinstance(value, dict):
            for option, inner in value.items():
                yield f"{path}.{option}", HIDDEN if is_credential(option) else _plain(inner), f"{path}.{option}"
        else:
            yield path, _plain(value), path


def _plain(value: Any) -> Any:
    if isinstance(value, SecretStr):
        return HIDDEN if value.get_secret_value() else ""
    if isinstance(value, tuple):
        return [_plain(element) for element in value]
    if isinstance(value, BaseModel):
        fields = type(value).model_fields
        return {
            schema.name_of(name, field): _plain(getattr(value, name))
            for name, field in fields.items()
            if getattr(value, name) != field.default
        }
    return value
