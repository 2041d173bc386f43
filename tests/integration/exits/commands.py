"""What an error tells a person to run, and running it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Any

import pytest
from pyspark.sql import SparkSession
from typer.testing import Result

from chsink.errors import ChsinkError, HaltError
from tests.support.doubt import run
from tests.support.job import Job


def halted(entry: str, job: Job, spark: SparkSession, overrides: Mapping[str, Any] | None = None) -> ChsinkError:
    """The job halts with this entry of the catalogue and exit code 3, and lands nothing."""
    before = job.landed()
    with pytest.raises(HaltError) as caught:
        job.drain(spark, overrides)
    assert (caught.value.name, caught.value.exit_code) == (entry, 3), str(caught.value)
    assert job.landed() == before
    return caught.value


def command_of(error: ChsinkError, *wanted: str) -> list[str]:
    """The words after ``chsink state`` of the command in the fix that has all the ``wanted`` options and arguments.

    Options that the fix offers behind the command (``with --landed, --resend or --lost``) belong to it.
    """
    for part in error.parts or (error,):
        for found in re.finditer(r"`chsink state ([^`]+)`([^`]*)", part.hint):
            words, offered = shlex.split(found[1]), re.findall(r"--[a-z]+", found[2])
            chosen = [w for w in wanted if w not in words]
            if all(w in offered for w in chosen):
                return [*words, *chosen]
    raise AssertionError(f"no command with {wanted} in: {error}")


def follow(job: Job, error: ChsinkError, *wanted: str, more: tuple[str, ...] = ()) -> Result:
    """Run the command that the fix names; ``more`` is what the command itself asks for."""
    result = run(job, *command_of(error, *wanted), "--yes", *more)
    assert result.exit_code == 0, result.output
    return result
