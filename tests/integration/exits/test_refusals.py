"""Each refusal of ``chsink state`` is met, what its fix names is done, and the command, or the job, goes on."""

from __future__ import annotations

from functools import partial

import pytest
from pyspark.sql import SparkSession
from typer.testing import Result

from chsink.errors import PreflightError
from chsink.recovery.accepted import Accepted
from chsink.recovery.change import carry_out
from chsink.recovery.decide import plan_resolve
from chsink.recovery.recover import survey, write
from tests.integration.job.conftest import MakeJob
from tests.support.doubt import announce, edit, insert, quietly_connected, run
from tests.support.job import Job, command

pytestmark = pytest.mark.slow


@pytest.fixture
def doubtful(make_job: MakeJob) -> Job:
    """[0, 10) landed; [10, 25) was announced, and nothing of it is in the table."""
    job = make_job(partitions=1)
    job.send(0, 25)
    insert(job, 0, range(10))
    announce(job, {0: (10, 25)})
    return job


def resolve(job: Job, *more: str) -> Result:
    return run(job, "resolve", job.topic, "0", "--yes", *more)


def refused(result: Result, *said: str) -> None:
    assert result.exit_code == 2, result.output
    for words in said:
        assert words in result.stderr.replace("\n", " ")


def done(result: Result) -> None:
    assert result.exit_code == 0, result.output


@pytest.mark.exit_of("NO_STATE")
def test_a_sink_without_state(doubtful: Job) -> None:
    name, doubtful.name = doubtful.name, "another"
    refused(resolve(doubtful, "--landed"), "CHS-320", "sink 'another' has no state", "sink.name")
    doubtful.name = name
    done(resolve(doubtful, "--landed"))


@pytest.mark.exit_of("SENDERS_MAY_LIVE")
@pytest.mark.exit_of("RESEND_NOT_ROUTED")
def test_resend_without_a_route_and_without_a_word_on_senders(doubtful: Job, spark: SparkSession) -> None:
    table = doubtful.tables[doubtful.topic]
    doubtful.make_table(doubtful.topic, suffix="_other")
    refused(resolve(doubtful, "--resend", "--senders-gone"), "CHS-322", f"no route leads to {table}", "[[route]]")
    doubtful.tables[doubtful.topic] = table
    refused(resolve(doubtful, "--resend"), "CHS-321", f"{doubtful.topic}-0 [10, 25)", "--senders-gone")
    done(resolve(doubtful, "--resend", "--senders-gone"))
    doubtful.drain(spark)
    doubtful.check()


def test_a_table_that_forgot_all_tokens(doubtful: Job, spark: SparkSession) -> None:
    """⚑ With its window set again, it looks as if it remembered them: the range is resolved before."""
    setting = f"ALTER TABLE {doubtful.tables[doubtful.topic]} MODIFY SETTING non_replicated_deduplication_window = "
    insert(doubtful, 0, range(10, 25))
    command(doubtful.shards[0], f"{setting}0")
    with pytest.raises(PreflightError, match=r"CHS-210(?s:.*)chsink state resolve"):
        doubtful.drain(spark)
    done(resolve(doubtful, "--landed"))
    command(doubtful.shards[0], f"{setting}10000")
    doubtful.send(0, 5)
    doubtful.drain(spark)
    doubtful.check()


@pytest.mark.exit_of("SEVERAL_IN_DOUBT")
def test_ranges_for_several_tables(doubtful: Job) -> None:
    first = doubtful.tables[doubtful.topic]
    second = doubtful.make_table(doubtful.topic, suffix="_other")
    announce(doubtful, {0: (0, 25)})
    refused(resolve(doubtful, "--landed"), "CHS-320", first, second, "--table TABLE")
    done(resolve(doubtful, "--landed", "--table", first))
    done(resolve(doubtful, "--landed", "--table", second))
    assert not doubtful.in_doubt()


@pytest.mark.exit_of("CHANGED_MEANWHILE")
def test_a_record_that_changed_after_it_was_shown(doubtful: Job) -> None:
    with quietly_connected(doubtful) as opened:
        decide = partial(plan_resolve, opened, doubtful.topic, [0], "landed", pipeline=str)
        change = decide()
        edit(doubtful, start=5)
        with pytest.raises(PreflightError, match="CHS-323.*changed before the decision was written") as caught:
            carry_out(opened, change, "resolve")
        assert "run the command again" in caught.value.hint
        assert doubtful.in_doubt() == {0}
        carry_out(opened, decide(), "resolve")
    assert not doubtful.in_doubt()


@pytest.mark.exit_of("RECORDED_MEANWHILE")
def test_state_that_was_recorded_after_the_survey(make_job: MakeJob, spark: SparkSession) -> None:
    job = make_job(partitions=1)
    job.send(0, 25)
    insert(job, 0, range(20))
    with quietly_connected(job) as opened:
        found = survey(opened, lambda _: None, Accepted())
        announce(job, {0: (20, 20)})
        with pytest.raises(PreflightError, match="CHS-323") as caught:
            write(opened, found)
    assert "run the command again" in caught.value.hint
    assert "nothing to recover" in run(job, "recover", "--yes").stdout
    job.drain(spark)
    job.check()
