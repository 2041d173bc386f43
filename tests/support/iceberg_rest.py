"""Apache Iceberg's own reference server of the REST catalog, over a SQLite file; it listens on 127.0.0.1 only.

Its main class listens on all addresses, so the parts of it are put together here, through py4j: the same catalog, the
same adapter, the same servlet.
"""

from __future__ import annotations

import base64
import http.client
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from email.message import Message
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from py4j.java_gateway import GatewayParameters, JavaGateway

from chsink.embedded.base.ports import HOST, free_port
from chsink.embedded.base.service import Service
from chsink.jvm import jars
from chsink.jvm.java import SMALL_JVM, find_java
from tests.support.http_proxy import HttpProxy

PINS: Final = Path(__file__).with_name("iceberg_jars.toml")
# the server's share of what Spark ships
_SPARKS: Final = ("hadoop-client-*", "jackson-core-*", "jackson-annotations-*", "jackson-databind-*", "slf4j-api-*",
                  "avro-1*", "commons-codec-*", "guava-*", "failureaccess-*")  # fmt: skip
_STARTED: Final = re.compile(r"^(\d+)\s+(\S+)$", re.MULTILINE)
_NO_SESSIONS: Final = 0


class IcebergRest(Service):
    """``with IcebergRest(path) as server: ... server.url``.  ``settings`` are catalog properties of the server, such as
    ``io-impl``; ``sets`` are more sets of jars that they need.
    """

    def __init__(self, path: Path, settings: Mapping[str, str] | None = None, sets: Sequence[str] = ()) -> None:
        super().__init__("iceberg-rest", path, 0, detach=False, start_limit_s=60, stop_limit_s=10)
        self._gateway_port, self._sets = free_port(), sets
        self._settings = {
            "catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
            "uri": f"jdbc:sqlite:{self.path}/catalog.db?busy_timeout=20000",
            "clients": "1",
            "jdbc.schema-version": "V1",
            "warehouse": f"file://{self.path}/warehouse",
            **(settings or {}),
        }

    @property
    def url(self) -> str:
        """What a client names as ``uri``."""
        return f"http://{self.address}"

    def _prepare(self) -> Sequence[str]:
        self.log.unlink(missing_ok=True)
        files = [file for name in ("rest-server", *self._sets) for file in jars.ensure(name, file=PINS)]
        files += [file for pattern in (*_SPARKS, "py4j-*") for file in jars.spark_jars_folder().glob(f"{pattern}.jar")]
        run = [str(find_java()), *SMALL_JVM, "-Xmx512m", "-cp", ":".join(map(str, files))]
        return [*run, "py4j.GatewayServer", "--enable-auth", str(self._gateway_port)]

    def _is_ready(self) -> bool:
        """Whether the gateway has said where it listens, and its password."""
        said = self.log.read_text(encoding="utf-8") if self.log.exists() else ""
        return _STARTED.search(said) is not None

    def start(self) -> IcebergRest:
        """Start the process, and the server in it."""
        if not self.running:
            super().start()
            try:
                self._serve()
            except BaseException:
                self.kill()
                raise
        return self

    def cherrypick(self, namespace: str, name: str, snapshot_id: int) -> None:
        """What Spark's procedure of this name does to a table, by the same code."""
        with self._java({"type": "rest", "uri": self.url}) as (gateway, _, catalog):
            identifier: Any = gateway.jvm.org.apache.iceberg.catalog.TableIdentifier
            table = catalog.loadTable(identifier.parse(f"{namespace}.{name}"))
            table.manageSnapshots().cherrypick(gateway.jvm.java.lang.Long.valueOf(str(snapshot_id))).commit()

    @contextmanager
    def _java(self, properties: Mapping[str, str]) -> Iterator[tuple[JavaGateway, Any, Any]]:
        """The process, from here; these properties as Java has them; and a catalog with them."""
        found = _STARTED.search(self.log.read_text(encoding="utf-8"))
        assert found is not None
        kept = {"enable_memory_management": False}  # the server's parts, which nobody here names any more
        gateway = JavaGateway(gateway_parameters=GatewayParameters(HOST, int(found[1]), auth_token=found[2], **kept))
        try:
            java: Any = gateway.jvm
            settings = java.java.util.HashMap()
            for name, value in properties.items():
                settings.put(name, value)
            conf = java.org.apache.hadoop.conf.Configuration()
            yield gateway, settings, java.org.apache.iceberg.CatalogUtil.buildIcebergCatalog("backend", settings, conf)
        finally:
            gateway.close()

    def _serve(self) -> None:
        with self._java(self._settings) as (gateway, settings, catalog):
            java: Any = gateway.jvm
            iceberg, jetty = java.org.apache.iceberg, java.org.eclipse.jetty
            context = _hidden(gateway, "org.apache.iceberg.rest.RESTCatalogServer$CatalogContext", catalog, settings)
            adapter = _hidden(gateway, "org.apache.iceberg.rest.RESTServerCatalogAdapter", context)
            handler = jetty.servlet.ServletContextHandler(_NO_SESSIONS)
            handler.addServlet(jetty.servlet.ServletHolder(iceberg.rest.RESTCatalogServlet(adapter)), "/*")
            server = jetty.server.Server()
            connector = jetty.server.ServerConnector(server)
            connector.setHost(HOST)
            connector.setPort(self.port)
            server.addConnector(connector)
            server.setHandler(handler)
            server.start()


def _hidden(gateway: JavaGateway, name: str, *arguments: Any) -> Any:
    """An object of a class that is not public, by its only constructor."""
    java: Any = gateway.jvm
    (constructor,) = java.java.lang.Class.forName(name).getDeclaredConstructors()
    constructor.setAccessible(True)
    array = gateway.new_array(java.java.lang.Object, len(arguments))
    for number, argument in enumerate(arguments):
        array[number] = argument
    return constructor.newInstance(array)


class CatalogGate(HttpProxy):
    """What the reference server lacks and real ones have: it knows one client by its secret, refuses requests without
    a token, lets tokens expire, and knows one warehouse.
    """

    client, secret, warehouse = "chsink", "a-secret-of-the-tests", "lake"

    def __init__(self, upstream: str) -> None:
        super().__init__(upstream)
        self.logins, self.expired = 0, 0
        self.seen: list[str] = []

    @property
    def properties(self) -> dict[str, str]:
        """pyiceberg's, of a client that is let in."""
        login = {"credential": f"{self.client}:{self.secret}", "oauth2-server-uri": f"{self.url}/v1/oauth/tokens"}
        return {"type": "rest", "uri": self.url, "warehouse": self.warehouse, **login}

    def expire(self) -> None:
        """The token that clients have is refused, until they fetch another one."""
        self.expired = self.logins

    def refusal(self, path: str, headers: Message, body: bytes) -> tuple[int, bytes] | None:
        """Wrong secrets, tokens and warehouses."""
        parts = urlsplit(path)
        self.seen.append(headers.get("X-Iceberg-Access-Delegation", ""))
        if parts.path == "/v1/oauth/tokens":
            basic = "Basic " + base64.b64encode(f"{self.client}:{self.secret}".encode()).decode()
            if headers.get("Authorization") != basic and parse_qs(body.decode()).get("client_secret") != [self.secret]:
                return 401, b'{"error": "invalid_client", "error_description": "wrong secret"}'
            self.logins += 1
            return None
        if not headers.get("Authorization", "").startswith("Bearer client-credentials-token:sub="):
            return 401, _error(401, "NotAuthorizedException", "no such token")
        if self.logins == self.expired:
            return 401, _error(401, "NotAuthorizedException", "the token expired")
        if parts.path == "/v1/config" and parse_qs(parts.query).get("warehouse") != [self.warehouse]:
            return 404, _error(404, "NoSuchWarehouseException", "no such warehouse")
        return None


def _error(code: int, kind: str, message: str) -> bytes:
    return f'{{"error": {{"message": "{message}", "type": "{kind}", "code": {code}}}}}'.encode()


def answers(url: str) -> bool:
    """Whether a catalog answers there."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=2)
    try:
        connection.request("GET", "/v1/config")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()
