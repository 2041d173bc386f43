"""The examples of formats with schemas: what their ``produce.py`` writes is what their job files read."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pyarrow as pa
import pytest

from chsink.config import load
from chsink.decode.columns import Column
from chsink.formats.metadata import Columns
from chsink.formats.records import Records
from chsink.registry.client import registry_of
from tests.support.registry import RegistryService

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples" / "schemas"
NAMES = sorted(folder.name for folder in EXAMPLES.iterdir() if folder.is_dir())


def script(folder: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"produce_{folder.name}", folder / "produce.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def columns(folder: Path) -> list[Column]:
    declared = re.findall(
        r"(\w+) ((?:\w+)(?:\([^()]*(?:\([^()]*\))?\))?)[,)]", (folder / "table.sql").read_text("utf-8")
    )
    return [Column(name, kind) for name, kind in declared if name != "BY"]


@pytest.mark.parametrize("name", NAMES)
def test_an_examples_records_become_its_rows(name: str) -> None:
    with RegistryService() as service:
        config = load(EXAMPLES / name / "job.toml", environ={}, overrides={"schema_registry.url": service.url})
        [route] = config.routes
        assert route.topic == route.table == f"{name}_orders"
        values = script(EXAMPLES / name).values(service.url)
        table = Columns(tuple(columns(EXAMPLES / name)), (), "UTC")
        decoded = Records(route.format, table).decode(pa.record_batch([pa.array(values, pa.binary())], names=["value"]))
        registry_of(config.schema_registry).close()
    assert decoded.bad == []
    rows = [{k: str(v) for k, v in row.items()} for row in decoded.batch.to_pylist()]
    assert rows == [
        {
            "id": "1",
            "customer": "b'Ada'",
            "price": "12.50",
            "sent": "2026-01-31 12:00:00+00:00",
            "tags": "[b'new', b'gift']",
        },
        {"id": "2", "customer": "b'Zo\\xc3\\xab'", "price": "7.00", "sent": "None", "tags": "[]"},
    ]
