"""What a Schema Registry knows, and how it answers: requests in, a status and a JSON value out."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

RegistryAnswer = tuple[int, Any]
"""An HTTP status, and the body as a JSON value."""
NO_SUBJECT: Final = (404, {"error_code": 40401, "message": "Subject not found"})
NO_VERSION: Final = (404, {"error_code": 40402, "message": "Version not found"})
NO_SCHEMA: Final = (404, {"error_code": 40403, "message": "Schema not found"})
NO_PATH: Final = (404, {"error_code": 404, "message": "HTTP 404 Not Found"})
INVALID: Final = (
    422,
    {"error_code": 42201, "message": "Invalid schema: this stand-in takes JSON, and Protobuf descriptors in base64"},
)
TYPES: Final = ("AVRO", "JSON", "PROTOBUF")


class StoredSchemas:
    """Schemas by id, and the ids of each subject's versions.  With a ``file``, they survive a restart: it has one line
    for each version.  Threads may share it.
    """

    def __init__(self, file: Path | None = None) -> None:
        self.schemas: dict[int, dict[str, Any]] = {}
        self.subjects: dict[str, list[int]] = {}
        self._lock = threading.Lock()
        self._file = file
        if file is not None and file.exists():
            for line in file.read_text(encoding="utf-8").splitlines():
                version = json.loads(line)
                self.schemas[version["id"]] = version["schema"]
                self.subjects.setdefault(version["subject"], []).append(version["id"])

    def answer(self, method: str, target: str, body: bytes = b"") -> RegistryAnswer:
        """The answer to a request."""
        parts = [unquote(part) for part in urlsplit(target).path.strip("/").split("/")]
        with self._lock:
            if method == "GET":
                return self._get(parts)
            match parts:
                case ["subjects", subject]:
                    return self._looked_up(subject, _read(body))
                case ["subjects", subject, "versions"]:
                    return self._registered(subject, _read(body))
            return NO_PATH

    def _get(self, parts: Sequence[str]) -> RegistryAnswer:
        match parts:
            case [""]:
                return 200, {}
            case ["subjects"]:
                return 200, sorted(self.subjects)
            case ["schemas", "types"]:
                return 200, list(TYPES)
            case ["config"]:
                return 200, {"compatibilityLevel": "NONE"}
            case ["schemas", "ids", number]:
                found = self.schemas.get(int(number)) if number.isdecimal() else None
                return NO_SCHEMA if found is None else (200, found)
            case ["subjects", subject, "versions", *rest] if subject not in self.subjects:
                return NO_SUBJECT if len(rest) < 2 else NO_PATH
            case ["subjects", subject, "versions"]:
                return 200, list(range(1, len(self.subjects[subject]) + 1))
            case ["subjects", subject, "versions", given]:
                return self._version(subject, given)
        return NO_PATH

    def _version(self, subject: str, given: str) -> RegistryAnswer:
        known = self.subjects[subject]
        version = len(known) if given in {"latest", "-1"} else int(given) if given.isdecimal() else 0
        if not 1 <= version <= len(known):
            return NO_VERSION
        number = known[version - 1]
        return 200, {"subject": subject, "version": version, "id": number, **self.schemas[number]}

    def _registered(self, subject: str, schema: dict[str, Any] | None) -> RegistryAnswer:
        if schema is None:
            return INVALID
        found = next(
            (number for number, known in self.schemas.items() if known == schema), max(self.schemas, default=0) + 1
        )
        versions = self.subjects.get(subject, [])
        if found not in versions:
            if self._file is not None:
                with self._file.open("a", encoding="utf-8") as file:
                    file.write(json.dumps({"subject": subject, "id": found, "schema": schema}) + "\n")
            self.schemas[found] = schema
            self.subjects[subject] = [*versions, found]
        return 200, {"id": found}

    def _looked_up(self, subject: str, schema: dict[str, Any] | None) -> RegistryAnswer:
        for version, number in enumerate(self.subjects.get(subject, []), 1):
            if self.schemas[number] == schema:
                return self._version(subject, str(version))
        return NO_SCHEMA if subject in self.subjects else NO_SUBJECT


def _read(body: bytes) -> dict[str, Any] | None:
    """The fields of a schema that a registry keeps; None if it is none.  The type is Avro unless it names another."""
    try:
        given = json.loads(body)
        kept = {name: given[name] for name in ("schema", "schemaType", "references") if given.get(name)}
        kind = kept.get("schemaType", "AVRO")
        if kind == "PROTOBUF":
            base64.b64decode(kept["schema"], validate=True)
        elif kind in TYPES:
            json.loads(kept["schema"])
        else:
            return None
    except (ValueError, TypeError, AttributeError, KeyError):
        return None
    if kind == "AVRO":
        kept.pop("schemaType", None)
    return kept
