"""The local stand-in for a Schema Registry: what it keeps, what it refuses, and that a restart loses nothing."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from chsink.embedded.registry import StoredSchemas

AVRO = {"schema": '{"type": "string"}', "schemaType": "AVRO"}


def post(schemas: StoredSchemas, path: str, schema: Any) -> tuple[int, Any]:
    return schemas.answer("POST", path, json.dumps(schema).encode())


def test_a_schema_has_one_id_in_all_subjects_and_survives_a_restart(tmp_path: Path) -> None:
    file = tmp_path / "schemas.jsonl"
    schemas = StoredSchemas(file)
    assert post(schemas, "/subjects/a-value/versions", AVRO) == (200, {"id": 1})
    assert post(schemas, "/subjects/a-value/versions", {"schema": '"int"'}) == (200, {"id": 2})
    assert post(schemas, "/subjects/b%2Fc/versions", {"schema": AVRO["schema"]}) == (200, {"id": 1})
    again = StoredSchemas(file)
    assert (again.schemas, again.subjects) == (schemas.schemas, {"a-value": [1, 2], "b/c": [1]})
    assert again.answer("GET", "/schemas/ids/1?fetchMaxId=false") == (200, {"schema": AVRO["schema"]})
    assert again.answer("GET", "/subjects") == (200, ["a-value", "b/c"])
    assert again.answer("GET", "/subjects/a-value/versions") == (200, [1, 2])
    assert again.answer("GET", "/subjects/a-value/versions/latest")[1]["id"] == 2
    assert post(again, "/subjects/b%2Fc", AVRO)[1]["version"] == 1
    assert post(again, "/subjects/c/versions", {"schema": '"long"'}) == (200, {"id": 3})


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/schemas/ids/7", 404, 40403),
        ("/schemas/ids/x", 404, 40403),
        ("/subjects/none/versions", 404, 40401),
        ("/subjects/a/versions/9", 404, 40402),
        ("/elsewhere", 404, 404),
    ],
)
def test_what_is_not_there_has_the_code_of_a_registry(path: str, status: int, code: int) -> None:
    schemas = StoredSchemas()
    post(schemas, "/subjects/a/versions", AVRO)
    found, body = schemas.answer("GET", path)
    assert (found, body["error_code"]) == (status, code)


@pytest.mark.parametrize(
    "schema",
    [
        {"schema": "{"},
        {"schema": 5},
        {},
        [],
        {"schema": "{}", "schemaType": "XML"},
        {"schema": 'syntax = "proto3";', "schemaType": "PROTOBUF"},
    ],
)
def test_what_is_no_schema_is_refused(schema: Any) -> None:
    status, body = post(StoredSchemas(), "/subjects/a/versions", schema)
    assert (status, body["error_code"]) == (422, 42201)


def test_a_descriptor_of_protobuf_is_kept() -> None:
    descriptor = {"schema": base64.b64encode(b"any").decode(), "schemaType": "PROTOBUF"}
    schemas = StoredSchemas()
    assert post(schemas, "/subjects/a/versions", descriptor) == (200, {"id": 1})
    assert schemas.answer("GET", "/schemas/ids/1") == (200, descriptor)
