"""``chsink dlq replay`` where the table of dead letters is a Replicated one."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from chsink.cli.main import app
from tests.chaos.letters import Letters
from tests.integration.job.conftest import MakeJob
from tests.replicated.test_sql import run_printed
from tests.support.doubt import announce
from tests.support.job import select

pytestmark = pytest.mark.slow


def test_a_replay_begins_on_an_empty_table_of_dead_letters(make_job: MakeJob) -> None:
    """⚑ Its replication log is empty, too, and looked like one that no replica has read: CHS-736 after a minute."""
    job = make_job(partitions=1)
    letters = Letters(table=f"{job.tables[job.name]}_dead")
    job.settings = letters.settings
    run_printed(job, "dead-letters")
    log = "SELECT log_max_index, log_pointer FROM system.replicas WHERE concat(database, '.', table) = '{table}'"
    assert select(job.shards[0], log.replace("{table}", letters.table)).split() == ["0", "0"]
    announce(job, {0: (0, 0)})
    chosen = [f"--set={name}={value}" for name, value in job.settings.items()]
    replayed = CliRunner().invoke(app, ["dlq", "replay", "--yes", "--json", "-c", str(job.file()), *chosen])
    assert replayed.exit_code == 0, replayed.output
    assert json.loads(replayed.stdout)["landed"] == 0
