"""ClickHouse's own JDBC driver, unmodified, in a JVM of its own: it asks for compressed blocks by default."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from py4j.java_gateway import JavaGateway
from py4j.protocol import Py4JJavaError, get_return_value

from chsink.embedded.clickhouse import EmbeddedClickHouse
from chsink.jvm import jars
from chsink.jvm.java import find_java

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def jvm() -> Iterator[Any]:
    """The Java world, with the driver on its class path."""
    files = [*map(str, jars.ensure("clickhouse-jdbc"))]
    [py4j] = jars.spark_jars_folder().glob("py4j-*.jar")
    gateway = JavaGateway.launch_gateway(
        jarpath=str(py4j), classpath=":".join(files), java_path=str(find_java()), die_on_exit=True
    )
    yield gateway.jvm
    gateway.shutdown()


# The driver reads blocks of LZ4 only, and this version of the server sends ZSTD unless it is told.
LZ4 = "?clickhouse_setting_network_compression_method=LZ4"


@pytest.fixture(params=[LZ4, "?compress=0", "?client.use_http_compression=true"])
def connection(
    jvm: Any,
    server: EmbeddedClickHouse,
    database: str,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Any]:
    """Connected to the module's database: with compressed blocks, with none, with HTTP's compression."""
    # A Spark session of another test in this process leaves a handler that asks any JVM for Spark's classes.
    monkeypatch.setattr("py4j.java_gateway.get_return_value", get_return_value)
    url = f"jdbc:clickhouse:http://{server.host}:{server.port}/{database}{request.param}"
    opened = jvm.java.sql.DriverManager.getConnection(url, "default", "")
    yield opened
    opened.close()


def count(connection: Any, query: str) -> int:
    """Rows of a result, read to its end."""
    rows, found = connection.createStatement().executeQuery(query), 0
    while rows.next():
        found += 1
    return found


def test_it_connects_inserts_and_selects(connection: Any) -> None:
    assert connection.isValid(10)
    statement = connection.createStatement()
    statement.execute("CREATE OR REPLACE TABLE jdbc (a UInt64, b Nullable(String)) ENGINE = MergeTree ORDER BY a")
    insert = connection.prepareStatement("INSERT INTO jdbc (a, b) VALUES (?, ?)")
    for number in range(100):
        insert.setLong(1, number)
        insert.setString(2, f"quote ' and ä {number}" if number else None)
        insert.addBatch()
    assert len(insert.executeBatch()) == 100

    rows = statement.executeQuery("SELECT a, b FROM jdbc ORDER BY a")
    found = []
    while rows.next():
        found.append((rows.getLong(1), rows.getString(2)))
    assert found == [(n, f"quote ' and ä {n}" if n else None) for n in range(100)]


def test_a_large_result_is_complete(connection: Any) -> None:
    assert count(connection, "SELECT number, repeat('x', 1000) FROM numbers(20000)") == 20_000


def test_an_error_has_the_servers_code(connection: Any) -> None:
    with pytest.raises(Py4JJavaError) as raised:
        count(connection, "SELECT nothing")
    assert "Code: 47." in str(raised.value.java_exception.getMessage())


def test_an_error_in_the_middle_of_a_result_is_raised(connection: Any) -> None:
    """Never a shorter result.  The driver may not find the server's message behind the rows that it has read."""
    with pytest.raises(Py4JJavaError) as raised:
        count(connection, "SELECT throwIf(number = 90000) FROM numbers(100000)")
    message = str(raised.value.java_exception.getMessage())
    assert "Code: 395." in message or message.startswith("Failed to read value")
