"""A SQL catalog in a file of the test's folder: the real one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog


@pytest.fixture
def open_catalog(tmp_path: Path) -> Callable[[], Catalog]:
    """Each call opens the same catalog once more, as another process would."""

    def opened() -> Catalog:
        return SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/warehouse")

    opened().create_namespace_if_not_exists("shop")
    return opened
