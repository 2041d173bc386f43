"""The definition of a new Iceberg table, from what its records show and what the job file says."""

from __future__ import annotations

from typing import Any

import pytest
from pyiceberg.types import LongType

from chsink.config import Config
from chsink.errors import PreflightError
from chsink.mirror.nested_types import NewColumns, list_of, struct_of
from chsink.tables import iceberg


def config(create: dict[str, Any], most: int = 1_000) -> Config:
    route = {"topic": "t", "table": "shop.orders", "create": create}
    return Config.from_mapping(
        {
            "sink": {"name": "s"},
            "kafka": {"bootstrap": "k:9092"},
            "schema": {"max_columns": most},
            "mirror": {"enabled": True, "catalog": {"name": "lake"}, "route": [route]},
        }
    )


@pytest.fixture(autouse=True)
def columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """The records show an id, and objects in arrays."""
    wide = struct_of({f"m{n}": LongType() for n in range(20)})
    assert wide is not None
    shown: NewColumns = {"id": LongType(), "wide": list_of(wide)}
    monkeypatch.setattr(iceberg, "columns_for", lambda *_, found: {**shown, **found})


def types(create: dict[str, Any], most: int = 1_000) -> dict[str, str]:
    kafka: Any = None
    made = iceberg.definition(config(create, most), kafka, "shop.orders")
    return {field.name: str(field.field_type) for field in made.schema.fields if not field.name.startswith("_kafka")}


def test_types_that_the_job_file_names() -> None:
    """⚑ In the place of those that were found, or behind them."""
    found = types({"types": {"more": "list<uuid>", "wide": "string"}, "sort": ["wide"]})
    assert list(found) == ["id", "wide", "more"]
    assert (found["wide"], found["more"]) == ("string", "list<uuid>")


def test_fields_of_structs_count() -> None:
    assert len(types({}, 22)) == 2
    with pytest.raises(PreflightError, match=r"CHS-289.*wide \(20 fields\)"):
        types({}, 21)
    assert types({"types": {"wide": "map<string, long>"}}, 2)["wide"] == "map<string, long>"


def test_what_records_showed_already_is_a_column_of_the_new_table() -> None:
    """⚑ Other records of the topic may not show it: those that name the table do."""
    kafka: Any = None
    made = iceberg.definition(config({}), kafka, "shop.orders", {"seen": LongType()})
    assert {"id", "seen"} <= {field.name for field in made.schema.fields}
