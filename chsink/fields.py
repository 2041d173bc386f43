"""The types of values in the job file: what a user may write, and what the program gets.

Rules:
- A list may be a TOML list or one string with commas, for environment variables.
- A reference, ``{ env = "NAME" }``, ``{ file = "path" }`` or ``{ command = ["program", "argument"] }``, becomes a
  ``SecretStr`` while the file is loaded.  A relative path is taken from the job file's folder, where commands run.
- A validator raises an entry of :mod:`chsink.errors.job_file`.  Its sentence shows a value only if the value cannot be
  a credential.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    PlainSerializer,
    SecretStr,
    ValidationInfo,
)

from chsink.errors import job_file
from chsink.errors.entry import Entry
from chsink.notation.sql import parse_table

_REFERENCE_KEYS = frozenset({"env", "file", "command"})
_COMMAND_LIMIT_S = 60
_HOST_PORT = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})")
_CREDENTIAL = re.compile(
    r"password|secret|^sasl\.jaas\.config$|^ssl\.keystore\.key$|^ssl\.key\.pem$"
    r"|(^|[.-])(token|credential|account-key|connection-string)$"  # of an Iceberg catalog and its storage
    r"|^header\.(?i:authorization|x-api-key)$"
)
_LOGIN_IN_URL = re.compile(r"://[^/@]*:[^/@]+@")
_MAX_PORT = 65_535
_DEFAULT_PORTS = {"http": 8123, "https": 8443}


class Section(BaseModel):
    """Base of the job file's tables: immutable, no unknown keys, no type coercion.  A key's docstring describes it to
    users.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False, hide_input_in_errors=True)

    inline: ClassVar[bool] = False
    """Whether the table is written inline, ``key = { … }``, and gets its own section in the configuration's page."""


def matching(pattern: str, *, otherwise: Entry) -> AfterValidator:
    """Accept only a text that fully matches ``pattern``; else raise ``otherwise`` with the text as ``value``."""

    def check(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise otherwise(value=repr(text))
        return text

    return AfterValidator(check)


def _not_blank(text: str) -> str:
    if not text.strip():
        raise job_file.BLANK()
    return text


Text = Annotated[str, AfterValidator(_not_blank)]
Topic = Annotated[str, matching(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}", otherwise=job_file.NOT_A_TOPIC)]
NodePath = Annotated[str, matching(r"(/(?!\.{1,2}(/|$))[A-Za-z0-9._-]+){1,20}", otherwise=job_file.NOT_A_NODE_PATH)]


def _as_tuple(value: object) -> object:
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return tuple(value) if isinstance(value, list) else value


AsTuple = BeforeValidator(_as_tuple)


def _as_host_ports(value: object) -> str:
    parts = _as_tuple(value)
    if not isinstance(parts, tuple) or not parts or not all(isinstance(part, str) for part in parts):
        raise job_file.NOT_ADDRESSES()
    for part in parts:
        match = _HOST_PORT.fullmatch(part)
        if match is None or not 0 < int(match[1]) <= _MAX_PORT:
            raise job_file.NOT_HOST_PORT(value=repr(part))
    return ",".join(parts)


HostPorts = Annotated[str, BeforeValidator(_as_host_ports)]


def _check_table(text: str) -> str:
    try:
        parse_table(text)
    except ValueError as error:
        raise job_file.NOT_A_TABLE(value=repr(text)) from error
    return text


GivenTable = Annotated[str, AfterValidator(_check_table)]


def _check_url(text: str) -> str:
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:  # a bad port or bracket
        raise job_file.NOT_A_URL() from error
    if "@" in parts.netloc:
        raise job_file.CREDENTIAL_IN_URL()
    more = parts.path not in ("", "/") or parts.query or parts.fragment
    if parts.scheme not in _DEFAULT_PORTS or not parts.hostname or port == 0 or more:
        raise job_file.NOT_A_URL()
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}:{port or _DEFAULT_PORTS[parts.scheme]}"


Url = Annotated[str, AfterValidator(_check_url)]


def is_credential(option: str) -> bool:
    """Whether the value of a property of Kafka's client or of a catalog must never be printed."""
    return _CREDENTIAL.search(option) is not None


def has_login(url: str) -> bool:
    """Whether a URL contains a password."""
    return _LOGIN_IN_URL.search(url) is not None


def reveal(value: str | SecretStr) -> str:
    """The plain text, of a secret too."""
    return value.get_secret_value() if isinstance(value, SecretStr) else value


def is_reference(value: object) -> bool:
    """Whether a raw value is ``{ env = … }``, ``{ file = … }`` or ``{ command = … }``."""
    return isinstance(value, Mapping) and bool(value) and set(value) <= _REFERENCE_KEYS


def resolved(value: Mapping[str, Any], info: ValidationInfo) -> SecretStr:
    """The text that a reference points to, looked up in the validation context's ``environ`` or ``folder``."""
    if not is_reference(value) or len(value) != 1:
        raise job_file.NOT_A_REFERENCE()
    [(kind, name)] = value.items()
    context: Mapping[str, Any] = info.context or {"environ": os.environ, "folder": Path()}
    if kind == "command":
        return SecretStr(_printed(name, context))
    if not isinstance(name, str):
        raise job_file.NOT_A_REFERENCE()
    if kind == "env":
        if name not in context["environ"]:
            raise job_file.VARIABLE_NOT_SET(variable=name)
        return SecretStr(context["environ"][name])
    path = Path(context["folder"], name)
    try:
        return SecretStr(path.read_text(encoding="utf-8").rstrip("\r\n"))
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise job_file.REFERENCED_FILE_UNREADABLE(path=path, reason=reason) from error


def _printed(words: object, context: Mapping[str, Any]) -> str:
    """What a command prints.  No shell reads it, and nothing that it says is shown: it may be the credential."""
    if not isinstance(words, list) or not words or not all(isinstance(word, str) and word for word in words):
        raise job_file.NOT_A_COMMAND()
    try:
        done = subprocess.run(
            words, cwd=context["folder"], env=dict(context["environ"]), stdin=subprocess.DEVNULL, capture_output=True,
            check=True, timeout=_COMMAND_LIMIT_S,
        )  # fmt: skip
        text = done.stdout.decode("utf-8").rstrip("\r\n")
    except subprocess.CalledProcessError as error:
        reason = f"it ended with {error.returncode}"
    except subprocess.TimeoutExpired:
        reason = f"it ran for {_COMMAND_LIMIT_S} s"
    except UnicodeDecodeError:
        reason = "it did not print UTF-8 text"
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it cannot be run"
    else:
        reason = "" if text else "it printed nothing"
    if reason:
        raise job_file.COMMAND_FAILED(program=words[0], reason=reason)
    return text


def _as_password(value: object, info: ValidationInfo) -> object:
    if isinstance(value, str):
        raise job_file.PASSWORD_IN_FILE()
    return resolved(value, info) if isinstance(value, Mapping) else value


Password = Annotated[SecretStr, BeforeValidator(_as_password)]


def _as_token(value: object, info: ValidationInfo) -> object:
    if isinstance(value, str):
        raise job_file.CREDENTIAL_IN_FILE()
    token = resolved(value, info) if isinstance(value, Mapping) else value
    if isinstance(token, SecretStr) and len(token.get_secret_value()) < MIN_TOKEN:
        raise job_file.TOKEN_TOO_SHORT(least=MIN_TOKEN)
    return token


MIN_TOKEN = 16
"""Characters of a token, so that nobody finds it by trying."""
Token = Annotated[SecretStr, BeforeValidator(_as_token)]


@dataclass(frozen=True, slots=True)
class TextFile:
    """A file that the job file names: the path as written there, and the content at the time the job file was read."""

    path: str
    content: bytes = field(repr=False)


def _as_file(value: object, info: ValidationInfo) -> object:
    if not isinstance(value, str):
        return value
    path = Path((info.context or {}).get("folder", Path()), value)
    try:
        return TextFile(value, path.read_bytes())
    except OSError as error:
        raise job_file.REFERENCED_FILE_UNREADABLE(path=path, reason=error.strerror) from error


NamedFile = Annotated[TextFile, BeforeValidator(_as_file), PlainSerializer(lambda file: file.path, return_type=str)]
