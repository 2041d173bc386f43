"""Q-7: brokers before Kafka 2.5 are refused by name: by ``chsink doctor``, and by every start."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from chsink.cli.main import app
from chsink.mirror.brokers import NEEDED, api_versions
from tests.integration.mirror.conftest import MakeBench
from tests.support.old_kafka import OldKafka
from tests.support.told import says

pytestmark = pytest.mark.slow


def test_a_present_broker(make_bench: MakeBench) -> None:
    """The client logs what the check reads."""
    bench = make_bench()
    [versions] = api_versions(bench.names).values()
    assert versions.keys() == NEEDED.keys()
    assert all(versions[api] >= needed for api, needed in NEEDED.items())


@pytest.fixture(scope="module")
def old_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OldKafka]:
    with OldKafka(tmp_path_factory.mktemp("old-kafka")) as broker:
        yield broker


@pytest.mark.soak
@pytest.mark.exit_of("MIRROR_OLD_BROKER")
def test_a_broker_of_kafka_2_4(old_kafka: OldKafka, make_bench: MakeBench, tmp_path: Path) -> None:
    """Nothing is written to it."""
    bench = make_bench()
    job = bench.job_file()
    job.write_text(job.read_text().replace(bench.kafka.bootstrap, old_kafka.bootstrap))
    looked = CliRunner().invoke(app, ["doctor", "--json", "-c", str(job)])
    findings = json.loads(looked.stdout)["findings"]
    [old] = [each for each in findings if each["id"] == "CHS-354"]
    assert (looked.exit_code, old["severity"]) == (1, "error") and old_kafka.bootstrap in old["sentence"]
    says(old["fix"], "upgrade all brokers to Kafka 2.5 or later")

    own = ["--set", "mirror.coordinator=apart"]
    started = CliRunner().invoke(app, ["mirror", "coordinator", "-c", str(job), *own])
    assert started.exit_code == 2 and "CHS-354" in started.output

    upgraded = CliRunner().invoke(app, ["doctor", "--json", "-c", str(bench.job_file())])
    assert all(each["severity"] == "ok" for each in json.loads(upgraded.stdout)["findings"] if each["id"] == "CHS-354")
