"""The types of values: what a person may write, and what the program gets.

Rules:
- Lists may be written as TOML lists or, which suits environment variables, as one string with commas.
- A reference, ``{ env = "NAME" }`` or ``{ file = "path" }``, becomes a ``SecretStr`` while the file is loaded.  A
  relative path is taken from the job file's folder.
- An option table may be written with quoted names (``"security.protocol" = "SSL"``) or without the quotes, which TOML
  reads as nested tables.  Both mean the same.
- Messages name values only where they cannot be credentials.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import SplitResult, urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, SecretStr, ValidationInfo

from chsink.config import problems
from chsink.config.problems import refusal
from chsink.config.reserved import kafka_reason, setting_reason, spark_reason

_REFERENCE_KEYS = frozenset({"env", "file"})
_HOST_PORT = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})")
_NAME_PART = re.compile(r"`(?:[^`\\]|``|\\.)+`|[A-Za-z_][A-Za-z0-9_]*")
_CREDENTIAL = re.compile(r"password|secret|^sasl\.jaas\.config$|^ssl\.keystore\.key$|^ssl\.key\.pem$")
_MAX_PORT = 65_535


class Section(BaseModel):
    """Base of all tables: immutable, nothing unknown, no guessing of types."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False, hide_input_in_errors=True)


@dataclass(frozen=True, slots=True)
class TableName:
    """A ClickHouse table by its bare names, unquoted.  ``database`` is empty where the default is meant."""

    database: str
    table: str

    def __str__(self) -> str:
        return f"{self.database}.{self.table}" if self.database else self.table

    def within(self, database: str) -> TableName:
        """The same table, in ``database`` unless it names one itself."""
        return self if self.database else TableName(database, self.table)


# --- lists -----------------------------------------------------------------------------------------------------------


def _as_tuple(value: Any) -> Any:
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return tuple(value) if isinstance(value, list) else value


AsTuple = BeforeValidator(_as_tuple)


def _as_host_ports(value: Any) -> str:
    parts = _as_tuple(value)
    if not isinstance(parts, tuple) or not parts or not all(isinstance(part, str) for part in parts):
        raise refusal(problems.WRONG_VALUE, "it is not a list of addresses", 'write "host:port,host:port"')
    for part in parts:
        match = _HOST_PORT.fullmatch(part)
        if match is None or not 0 < int(match[2]) <= _MAX_PORT:
            hint = 'write "host:port", or several with commas between; an IPv6 host in brackets'
            raise refusal(problems.WRONG_VALUE, f"{part!r} is not host:port", hint)
    return ",".join(parts)


HostPorts = Annotated[str, BeforeValidator(_as_host_ports)]


# --- names -----------------------------------------------------------------------------------------------------------


def parse_table(text: str) -> TableName:
    """``table``, ``db.table`` or either with backticks around names that are not plain words."""
    names = [match[0] for match in _NAME_PART.finditer(text)]
    if not 1 <= len(names) <= 2 or ".".join(names) != text:
        hint = 'write "table" or "database.table"; put backticks around a name with other characters: "`my-db`.events"'
        raise refusal(problems.WRONG_VALUE, f"{text!r} is not a table name", hint)
    bare = [_unquoted(name) for name in names]
    return TableName(bare[0] if len(bare) == 2 else "", bare[-1])


def _unquoted(name: str) -> str:
    if not name.startswith("`"):
        return name
    return re.sub(r"``|\\(.)", lambda match: match[1] or "`", name[1:-1], flags=re.DOTALL)


def _check_table(text: str) -> str:
    parse_table(text)
    return text


def _check_topic(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,249}", text) or text in (".", ".."):
        hint = "Kafka topics have 1 to 249 letters, digits, dots, dashes or underscores; patterns are not supported"
        raise refusal(problems.WRONG_VALUE, f"{text!r} is not a topic name", hint)
    return text


def _check_sink_name(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,100}", text):
        hint = "use 1 to 100 letters, digits, dots, dashes or underscores; the state is kept under this name"
        raise refusal(problems.WRONG_VALUE, f"{text!r} is not a sink name", hint)
    return text


def _check_path(text: str) -> str:
    if not re.fullmatch(r"(/[A-Za-z0-9._-]+){1,20}", text) or {".", ".."} & set(text.split("/")):
        hint = 'write an absolute path such as "/chsink/state", of letters, digits, dots, dashes and underscores'
        raise refusal(problems.WRONG_VALUE, f"{text!r} is not a path of nodes", hint)
    return text


def _check_not_blank(text: str) -> str:
    if not text.strip():
        raise refusal(problems.WRONG_VALUE, "it is empty", "give it a value, or leave the key out")
    return text


SinkName = Annotated[str, AfterValidator(_check_sink_name)]
Topic = Annotated[str, AfterValidator(_check_topic)]
Table = Annotated[str, AfterValidator(_check_table)]
NodePath = Annotated[str, AfterValidator(_check_path)]
Text = Annotated[str, AfterValidator(_check_not_blank)]


# --- URLs ------------------------------------------------------------------------------------------------------------


def _split_url(text: str) -> SplitResult | None:
    """The parts, None where it is no URL of a host (urlsplit raises for a bad port or bracket)."""
    try:
        parts = urlsplit(text)
        return parts if parts.hostname and parts.port != 0 else None
    except ValueError:
        return None


def _check_url(text: str) -> str:
    parts = _split_url(text)
    if parts is not None and "@" in parts.netloc:
        hint = "use `clickhouse.user` and `clickhouse.password`, the same for all endpoints"
        raise refusal(problems.PLAIN_CREDENTIAL, "the URL holds a credential", hint)
    shaped = parts is not None and parts.scheme in ("http", "https") and not parts.query and not parts.fragment
    if parts is None or not shaped or parts.path not in ("", "/"):
        hint = 'write "http://host:8123" or "https://host:8443": ClickHouse\'s HTTP interface, no path'
        raise refusal(problems.WRONG_VALUE, "it is not the URL of an HTTP endpoint", hint)
    default = 8123 if parts.scheme == "http" else 8443
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return f"{parts.scheme}://{host}:{parts.port or default}"


Url = Annotated[str, AfterValidator(_check_url)]


# --- credentials and option tables -----------------------------------------------------------------------------------


def is_credential(option: str) -> bool:
    """Whether the value of a Kafka client property is one that must never be printed."""
    return _CREDENTIAL.search(option) is not None


def reveal(value: str | SecretStr) -> str:
    """The text itself."""
    return value.get_secret_value() if isinstance(value, SecretStr) else value


def is_reference(value: Any) -> bool:
    """Whether a raw value is ``{ env = … }`` or ``{ file = … }``."""
    return isinstance(value, Mapping) and bool(value) and set(value) <= _REFERENCE_KEYS


def _resolve(value: Mapping[str, Any], info: ValidationInfo) -> SecretStr:
    if not is_reference(value) or len(value) != 1 or not all(isinstance(name, str) for name in value.values()):
        hint = 'write { env = "NAME" } or { file = "path" }'
        raise refusal(problems.WRONG_VALUE, "it is not a reference to one environment variable or file", hint)
    context: Mapping[str, Any] = info.context or {}
    if "env" in value:
        text = context.get("environ", os.environ).get(value["env"])
        if text is None:
            message = f"the environment variable {value['env']} is not set"
            raise refusal(problems.UNRESOLVED_REFERENCE, message, f"export {value['env']} where the driver starts")
        return SecretStr(text)
    path = Path(context.get("folder", "."), value["file"])
    try:
        return SecretStr(path.read_text(encoding="utf-8").rstrip("\r\n"))
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        hint = "a relative path is taken from the job file's folder; the file must be readable where the driver starts"
        raise refusal(problems.UNRESOLVED_REFERENCE, f"the file {path} cannot be read: {reason}", hint) from error


def _as_password(value: Any, info: ValidationInfo) -> Any:
    if isinstance(value, str):
        hint = 'write { env = "NAME" } or { file = "path" }, or set the variable CHSINK__CLICKHOUSE__PASSWORD'
        raise refusal(problems.PLAIN_CREDENTIAL, "a password does not belong in a job file", hint)
    return _resolve(value, info) if isinstance(value, Mapping) else value


def _as_option(value: Any, info: ValidationInfo) -> Any:
    if isinstance(value, Mapping):
        return _resolve(value, info)
    return value if isinstance(value, SecretStr) else _as_text(value)


def _as_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, int, float)):
        return str(value)
    raise refusal(problems.WRONG_VALUE, "it is not a text, number or boolean", "write one value")


def _as_setting(value: Any) -> str:
    return str(int(value)) if isinstance(value, bool) else _as_text(value)


def _flatten(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    flat: dict[str, Any] = {}
    for name, leaf in flat_items(value):
        if name in flat:
            raise refusal(problems.CONTRADICTION, f"{name!r} is given twice", "keep one of the two spellings")
        flat[name] = leaf
    return flat


def flat_items(value: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The options of a table, nested tables written out with dots."""
    for name, inner in value.items():
        if isinstance(inner, Mapping) and inner and not is_reference(inner):
            yield from ((f"{name}.{rest}", leaf) for rest, leaf in flat_items(inner))
        else:
            yield name, inner


def _not_reserved(reason_of: Callable[[str], str | None]) -> AfterValidator:
    def check(name: str) -> str:
        reason = reason_of(name)
        if reason is None:
            return name
        if reason.startswith("set `"):
            raise refusal(problems.RESERVED, "it cannot be set here", reason)
        raise refusal(problems.RESERVED, f"it cannot be set here: {reason}", "remove it")

    return AfterValidator(check)


Password = Annotated[SecretStr, BeforeValidator(_as_password)]
_Option = Annotated[str | SecretStr, BeforeValidator(_as_option)]
KafkaOptions = Annotated[dict[Annotated[str, _not_reserved(kafka_reason)], _Option], BeforeValidator(_flatten)]
ClientOptions = Annotated[dict[str, _Option], BeforeValidator(_flatten)]
Settings = dict[Annotated[str, _not_reserved(setting_reason)], Annotated[str, BeforeValidator(_as_setting)]]
SparkConf = Annotated[
    dict[Annotated[str, _not_reserved(spark_reason)], Annotated[str, BeforeValidator(_as_text)]],
    BeforeValidator(_flatten),
]
