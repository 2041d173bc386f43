"""Opens an Iceberg catalog as pyiceberg does, but for two differences of a REST catalog.

- Each request ends.  pyiceberg waits without end for an answer: a catalog that accepts connections and says nothing
  would stop all commits.  A commit whose answer does not come in time has an unknown outcome, as any other lost answer.
- Its login stays with the driver.  pyiceberg puts it into what reads and writes the tables' files, which is sent to
  Spark's tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyiceberg.catalog import AVAILABLE_CATALOGS, Catalog, CatalogType, load_catalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.catalog.rest.auth import AUTH_MANAGER
from pyiceberg.io import S3_SIGNER, FileIO
from pyiceberg.typedef import EMPTY_DICT, Properties
from requests import PreparedRequest, Response, Session

CONNECT_S, ANSWER_S = 10.0, 60.0
"""The longest wait for a connection, and for each part of an answer."""
TABLES = ("auth", "ssl")
"""Properties that pyiceberg's REST catalog wants as tables."""
SECONDS = frozenset(("expires_in", "refresh_margin"))
"""Keys of such tables that it wants as numbers."""
LOGIN = (AUTH_MANAGER, "auth", "credential", "token")
"""Properties with which pyiceberg logs in to a REST catalog."""


class BoundedRestCatalog(RestCatalog):
    """pyiceberg's, with a limit on each wait.  The first request is for a token, while the session is made."""

    def _config_headers(self, session: Session) -> None:
        super()._config_headers(session)
        session.send = _bounded(session.send)  # type: ignore[method-assign]

    def _load_file_io(self, properties: Properties = EMPTY_DICT, location: str | None = None) -> FileIO:
        io = super()._load_file_io(properties, location)
        if S3_SIGNER not in io.properties:  # that one asks the catalog itself
            io.properties = {name: value for name, value in io.properties.items() if name not in LOGIN}
        return io


def _bounded(send: Callable[..., Response]) -> Callable[..., Response]:
    def bounded(request: PreparedRequest, **options: Any) -> Response:
        return send(request, **{**options, "timeout": options.get("timeout") or (CONNECT_S, ANSWER_S)})

    return bounded


def open_catalog(name: str, properties: Mapping[str, str]) -> Catalog:
    """The catalog with these properties, whose dotted names stand for tables.  Raises what pyiceberg raises."""
    AVAILABLE_CATALOGS[CatalogType.REST] = lambda name, found: BoundedRestCatalog(name, **found)
    flat = {key: value for key, value in properties.items() if key.partition(".")[0] not in TABLES}
    tables: dict[str, Any] = {}
    for key in properties.keys() - flat.keys():
        *outer, last = key.split(".")
        inner = tables
        for part in outer:
            inner = inner.setdefault(part, {})
        inner[last] = int(properties[key]) if last in SECONDS else properties[key]
    return load_catalog(name, **flat, **tables)
