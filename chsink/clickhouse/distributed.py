"""The `Distributed` tables that read what a job writes: their DDL, and the cluster definition that they need.

Both are made from the job file alone.  The cluster has the job's shards in the same order with the same weights: so the
sharding expression leads queries, and inserts through the table, to the shard that chsink chose.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit
from xml.sax.saxutils import escape

from chsink.config import Config, Route
from chsink.config.sections import Endpoint
from chsink.notation.hash_functions import hash_function
from chsink.notation.metadata_columns import SHARD_TYPES
from chsink.notation.sql import TableName, quote_string


@dataclass(frozen=True, slots=True)
class Naming:
    """``cluster`` is the cluster's name, ``suffix`` what the table's name ends with, ``ports`` the native protocol's,
    without and with TLS.
    """

    cluster: str = "chsink"
    suffix: str = "_all"
    ports: tuple[int, int] = (9000, 9440)


def sharding_expression(config: Config, route: Route) -> str | None:
    """The sharding expression of the route's table, None where one shard needs none."""
    if len(config.clickhouse.endpoints) == 1:
        return None
    return hash_function(config.clickhouse.hash_function).expression(config.shard_key_of(route))


def on_cluster(config: Config) -> str:
    """The clause ``ON CLUSTER`` of the statements; "" where they may differ between servers, or none is configured."""
    return "" if any(endpoint.database for endpoint in config.clickhouse.endpoints) else config.tables.on_cluster


def distributed_tables(config: Config, naming: Naming) -> str:
    """One CREATE TABLE for each target table."""
    routes = {config.table_of(route): route for route in config.routes}
    return "\n".join(_statement(config, table, route, naming) for table, route in routes.items())


def _statement(config: Config, table: TableName, route: Route, naming: Naming) -> str:
    expression = sharding_expression(config, route)
    databases = [database or table.database for database in config.databases_of(route)]
    database = "" if any(config.databases_of(route)) else table.database
    arguments = [quote_string(text) for text in (naming.cluster, database, table.table)]
    new, first = TableName(table.database, table.table + naming.suffix), TableName(databases[0], table.table)
    fields = sorted(SHARD_TYPES.keys() & set(config.shard_key_of(route)))
    notes = ""
    if fields and expression:
        notes += (
            f"-- If {table.canonical} has no column {' or '.join(fields)}, write rand() instead of the expression.\n"
        )
    if len(set(databases)) > 1:
        notes += f"-- On a server without {first}, name its own shard's table after AS.\n"
    if expression is not None:
        arguments.append(expression)
    return f"{notes}CREATE TABLE {new}{on_cluster(config)} AS {first}\nENGINE = Distributed({', '.join(arguments)});"


def cluster_definition(config: Config, naming: Naming) -> str:
    """The cluster, as a file for a server's `config.d`."""
    own = any(endpoint.database for endpoint in config.clickhouse.endpoints)
    database = config.clickhouse.database if own else ""
    shards = "".join(_shard(e, naming, e.database or database) for e in config.clickhouse.endpoints)
    name = escape(naming.cluster)
    return f"<clickhouse>\n  <remote_servers>\n    <{name}>\n{shards}    </{name}>\n  </remote_servers>\n</clickhouse>"


def _shard(endpoint: Endpoint, naming: Naming, database: str) -> str:
    replicas = "".join(_replica(url, naming, database) for url in endpoint.urls)
    return (
        f"      <shard>\n        <weight>{endpoint.weight}</weight>\n"
        f"        <internal_replication>true</internal_replication>\n{replicas}      </shard>\n"
    )


def _replica(url: str, naming: Naming, database: str) -> str:
    return f"        <replica>{''.join(_fields(url, naming, database))}</replica>\n"


def _fields(url: str, naming: Naming, database: str) -> Iterator[str]:
    parts = urlsplit(url)
    secure = parts.scheme == "https"
    yield f"<host>{escape(parts.hostname or '')}</host><port>{naming.ports[secure]}</port>"
    if secure:
        yield "<secure>1</secure>"
    if database:
        yield f"<default_database>{escape(database)}</default_database>"
