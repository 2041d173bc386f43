"""``chsink dev up|status|down``: services that stay after the command, and end when told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import clickhouse_connect
import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from typer.testing import CliRunner

from chsink.cli.main import app


def dev(*arguments: str) -> tuple[int, Any]:
    result = CliRunner().invoke(app, ["dev", *arguments, "--json"])
    return result.exit_code, json.loads(result.stdout)


@pytest.mark.soak
def test_up_status_down(tmp_path: Path) -> None:
    root = ("--root", str(tmp_path / "dev"))
    try:
        code, up = dev("up", "--clickhouse", "1", *root)
        assert (code, up["running"]) == (0, True)
        assert [s["name"] for s in up["services"]] == ["kafka", "zookeeper", "clickhouse-0", "registry"]
        host, port = up["services"][2]["address"].split(":")
        with clickhouse_connect.get_client(host=host, port=int(port)) as client:
            assert client.command("SELECT 1") == 1
        url = f"http://{up['services'][3]['address']}"
        schemas = SchemaRegistryClient({"url": url})
        assert schemas.register_schema("flights-value", Schema('"string"', "AVRO")) == 1
        assert dev("status", *root) == (0, up)
        again = CliRunner().invoke(app, ["dev", "up", "--clickhouse", "1", *root])
        assert f'bootstrap = "{up["services"][0]["address"]}"' in again.stdout
        assert f'[schema_registry]\n  url = "{url}"' in again.stdout
        assert dev("down", *root)[0] == 0
        assert dev("up", "--clickhouse", "1", *root)[0] == 0
        assert schemas.get_schema(1).schema_str == '"string"'
        schemas.close()
    finally:
        code, _ = dev("down", *root)
    assert code == 0
    code, after = dev("status", *root)
    assert (code, after["running"]) == (1, False)
