"""Apache Iceberg's own reference server of the REST catalog, for the mirror's tables."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator

import pytest
from pyiceberg.catalog import Catalog

from chsink.mirror.rest import open_catalog as open_with
from tests.support.iceberg_rest import IcebergRest

KEYS = {"s3.access-key-id": "vended", "s3.secret-access-key": "vended-secret", "s3.session-token": "vended-token"}
"""What the server hands out to those who read or write files of its tables."""


@pytest.fixture(scope="session")
def rest_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[IcebergRest]:
    """A running server."""
    with IcebergRest(tmp_path_factory.mktemp("rest"), {"include-credentials": "true", **KEYS}) as running:
        yield running


@pytest.fixture
def open_catalog(rest_server: IcebergRest) -> Iterator[Callable[[], Catalog]]:
    """Each call opens the same catalog once more, as another process would; its tables go with the test."""

    def opened() -> Catalog:
        return open_with("lake", {"type": "rest", "uri": rest_server.url})

    opened().create_namespace("shop")
    yield opened
    for identifier in opened().list_tables("shop"):
        opened().drop_table(identifier)
    opened().drop_namespace("shop")
    shutil.rmtree(rest_server.path / "warehouse", ignore_errors=True)
