"""Each job file of ``docs/least-privilege.md`` is one: its blocks, put together, are read without a problem."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from chsink.config import load

PAGE = (Path(__file__).parents[2] / "docs" / "least-privilege.md").read_text(encoding="utf-8")
CREDENTIALS, *BLOCKS = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
OF_KAFKA = [block for block in BLOCKS if block.startswith("[kafka.options]")]
OTHERS = "".join(block for block in BLOCKS if block not in OF_KAFKA)
LOGINS = re.findall(r"org\.apache\.kafka\.common\.security[^;]*;", PAGE)
LEAST = '[sink]\nname = "s"\n[kafka]\nbootstrap = "k:1"\n[[route]]\ntopic = "t"\ntable = "t"\nformat = "avro"\n'


def test_the_page_has_all_logins() -> None:
    assert (len(OF_KAFKA), len(LOGINS)) == (3, 2)


@pytest.mark.parametrize("number", range(3), ids=["scram", "certificate", "token"])
def test_its_job_file_is_right(number: int, tmp_path: Path) -> None:
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "clickhouse").write_text("hush")
    file = tmp_path / "job.toml"
    file.write_text(LEAST + OF_KAFKA[number] + OTHERS, encoding="utf-8")
    environ = {"KAFKA_LOGIN": LOGINS[number // 2], "REGISTRY_PASSWORD": "hush", "ZOOKEEPER_PASSWORD": "hush"}
    kafka = load(file, environ=environ).kafka
    assert kafka.client_options()["ssl.ca.location"] == "/etc/chsink/kafka-ca.pem"


@pytest.mark.parametrize("line", CREDENTIALS.splitlines())
def test_each_credential_is_a_reference(line: str) -> None:
    [kind] = tomllib.loads(line)["password"]
    assert kind in {"env", "file", "command"}
