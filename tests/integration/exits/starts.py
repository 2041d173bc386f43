"""What a start refuses, or warns of: ``chsink doctor`` says it, and no longer says it once its fix was carried out."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import pytest
from pyspark.sql import SparkSession
from typer.testing import Result

from chsink.errors import ChsinkError
from tests.integration.exits.looked import Finding, Looked, cli, look
from tests.support.job import Job, command
from tests.support.told import Said, statements_of, words_of


def chsink(job: Job, *words: str, code: int = 0) -> Result:
    """A command on the job, which a message may name with its job file."""
    result = cli(job, *words)
    assert result.exit_code == code, result.output
    return result


def run_named(job: Job, said: Said, *wanted: str, code: int = 0) -> Result:
    """Run the command that the message names."""
    return chsink(job, *words_of(said, *wanted), code=code)


def run_printed(job: Job, said: Said, *wanted: str) -> None:
    """Run the command that the message names, and on each server the statement that it prints for it."""
    printed = run_named(job, said, *wanted).stdout
    found = re.findall(r"^-- Run this on (.*):\n([^-][^;]*);\n", printed, re.MULTILINE)
    assert found, printed
    for where, statement in found:
        for url in job.shards if where.startswith("each server") else where.split(" and on "):
            command(url, statement)


def alter(job: Job, said: Said) -> None:
    """Run each ALTER TABLE of the message, on every server."""
    for statement in statements_of(said, "ALTER TABLE"):
        job.everywhere(statement)


def findings(job: Job) -> Sequence[Finding]:
    """What ``chsink doctor`` finds, besides what is well."""
    return [one for one in look(job).findings if one["severity"] != "ok"]


def is_of(entry: str, finding: Finding) -> bool:
    """Whether the finding is this entry of the catalogue."""
    return bool(Looked([finding]).of(entry))


def found(entry: str, job: Job) -> str:
    """The fix of the entry, which doctor names; it may find it several times."""
    every = findings(job)
    [fix, *_] = [one["fix"] for one in every if is_of(entry, one)] or [""]
    assert fix, every
    return fix


def gone(entry: str, job: Job, *still: str) -> None:
    """Doctor no longer finds it, and nothing else that is wrong but these ids."""
    wrong = {"error", "warning"}
    left = [one for one in findings(job) if is_of(entry, one) or (one["severity"] in wrong and one["id"] not in still)]
    assert not left, left


def refused(entry: str, start: Callable[[], object]) -> ChsinkError:
    """It ends with this entry of the catalogue and exit code 2."""
    with pytest.raises(ChsinkError) as caught:
        start()
    assert (caught.value.name, caught.value.exit_code) == (entry, 2), str(caught.value)
    return caught.value


def lands(job: Job, spark: SparkSession) -> None:
    """The job starts, and each record is there once."""
    job.drain(spark)
    job.check()
