"""What a statement cannot reach: files outside the server's folder, and the environment of its process."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import pytest

from chsink.embedded.clickhouse import EmbeddedClickHouse
from tests.support.clickhouse_http import ask, send

CANNOT_OPEN_FILE: Final = 76
INTO_OUTFILE_NOT_ALLOWED: Final = 358


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can confine a process to a folder")
def test_no_statement_reaches_a_file_outside_the_servers_folder(server: EmbeddedClickHouse, tmp_path: Path) -> None:
    (tmp_path / "secret.csv").write_text("1\n")
    for outside in (tmp_path / "secret.csv", Path("/etc/passwd")):
        for query in (
            f"SELECT * FROM file('{outside}', 'LineAsString')",
            f"SELECT file('{outside}')",
            f"SELECT * FROM url('file://{outside}', 'LineAsString')",
        ):
            assert send(server, query).code == CANNOT_OPEN_FILE, query
    new = tmp_path / "new.csv"
    assert send(server, f"INSERT INTO FUNCTION file('{new}', 'CSV', 'a UInt8') VALUES (1)").code == CANNOT_OPEN_FILE
    assert send(server, f"SELECT 1 INTO OUTFILE '{new}'").code == INTO_OUTFILE_NOT_ALLOWED
    assert not new.exists()
    assert "PYTEST" not in ask(server, "SELECT * FROM file('/proc/self/environ', 'LineAsString')")


def test_a_file_inside_the_servers_folder_is_written_and_read(server: EmbeddedClickHouse) -> None:
    inside = server.path / "user_files" / "own.csv"
    ask(server, "INSERT INTO FUNCTION file('own.csv', 'CSV', 'a UInt8') VALUES (1)")
    assert ask(server, f"SELECT a FROM file('{inside}', 'CSV', 'a UInt8')") == "1"
    assert inside.read_text() == "1\n"
    inside.unlink()
