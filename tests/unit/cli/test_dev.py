"""``chsink dev`` where nothing runs; that it starts and ends services is the integration tests' business."""

from __future__ import annotations

import json
import textwrap
import threading
import tomllib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from typer.testing import CliRunner

from chsink.cli.example import next_steps
from chsink.cli.main import app
from chsink.config import Config
from chsink.embedded.base.owned import OwnedProcess
from chsink.embedded.dev import DevService, DevStack
from chsink.embedded.feed import run_sql
from chsink.errors import PreflightError, UnavailableError


def test_status_of_an_empty_folder(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["dev", "status", "--root", str(tmp_path)])

    assert (result.exit_code, result.stdout) == (1, "nothing was started here\n")


def test_down_where_nothing_runs(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["dev", "down", "--root", str(tmp_path / "none"), "--json"])

    assert result.exit_code == 0
    assert json.loads(result.stdout) == {"running": False, "services": []}


def test_a_folder_that_is_something_else(tmp_path: Path) -> None:
    (tmp_path / "dev.json").write_text("{", encoding="utf-8")

    result = CliRunner().invoke(app, ["dev", "status", "--root", str(tmp_path), "--json"])

    assert result.exit_code == 5
    assert json.loads(result.stdout)["error"]["id"] == "CHS-906"


def a_stack(servers: int) -> DevStack:
    names = ["kafka", "zookeeper", *(f"clickhouse-{n}" for n in range(servers))]
    nobody = OwnedProcess(1, born="never")
    return DevStack(tuple(DevService(n, "127.0.0.1", 9000 + at, "log", nobody) for at, n in enumerate(names)))


@pytest.mark.parametrize("servers", [1, 3])
def test_up_prints_a_whole_job_file_and_the_next_commands(servers: int) -> None:
    said = next_steps(a_stack(servers), Path("some where"))

    job = textwrap.dedent(said[said.index("  # The example job") : said.index("`chsink init")])
    config = Config.from_mapping(tomllib.loads(job))
    assert config.kafka.bootstrap == "127.0.0.1:9000"
    assert len(config.clickhouse.endpoints) == servers
    assert config.sink.checkpoint == str(Path("some where/checkpoint").absolute())
    assert "  chsink dev sql --root 'some where' < flights.sql " in said


@pytest.mark.parametrize("command", [["sql", "SELECT 1"], ["produce", "t", __file__]])
def test_a_command_where_no_stack_runs(tmp_path: Path, command: list[str]) -> None:
    result = CliRunner().invoke(app, ["dev", *command, "--root", str(tmp_path)])

    assert result.exit_code == 2
    assert result.stderr.startswith(f"error CHS-908 no development stack is running in {tmp_path}")


def test_sql_is_answered_or_refused_in_the_server_s_words() -> None:
    class Server(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            sql = self.rfile.read(int(self.headers["Content-Length"])).decode()
            self.send_response(200 if sql == "SELECT 1" else 404)
            self.end_headers()
            self.wfile.write(b"1\n" if sql == "SELECT 1" else b"Code: 60. DB::Exception: no such table")

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        threading.Thread(target=server.serve_forever).start()
        address = f"127.0.0.1:{server.server_port}"
        try:
            assert run_sql(address, "SELECT 1") == "1\n"
            with pytest.raises(PreflightError, match="CHS-910.*Code: 60"):
                run_sql(address, "SELECT 1 FROM t")
        finally:
            server.shutdown()
    with pytest.raises(UnavailableError, match="CHS-905.*does not answer"):
        run_sql(address, "SELECT 1")
