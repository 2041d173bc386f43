"""What an error tells a person to run, and running it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import pytest
from pyspark.sql import SparkSession
from typer.testing import Result

from chsink.errors import ChsinkError, HaltError
from tests.support.doubt import run
from tests.support.job import Job, command
from tests.support.told import words_of


def halted(entry: str, job: Job, spark: SparkSession, overrides: Mapping[str, Any] | None = None) -> ChsinkError:
    """The job halts with this entry of the catalogue and exit code 3, and lands nothing."""
    before = job.landed()
    with pytest.raises(HaltError) as caught:
        job.drain(spark, overrides)
    assert (caught.value.name, caught.value.exit_code) == (entry, 3), str(caught.value)
    assert job.landed() == before
    return caught.value


def command_of(error: ChsinkError, *wanted: str) -> list[str]:
    """The words after ``chsink state``, of the command in the fix that has all the ``wanted`` ones."""
    return words_of(error, "state", *wanted)[1:]


def follow(job: Job, error: ChsinkError, *wanted: str, more: tuple[str, ...] = ()) -> Result:
    """Run the command that the fix names; ``more`` is what the command itself asks for."""
    result = run(job, *command_of(error, *wanted), "--yes", *more)
    assert result.exit_code == 0, result.output
    return result


def settings_of(job: Job) -> list[str]:
    """The settings that its tests gave the job, as options of a command."""
    return [word for name, value in job.settings.items() for word in ("--set", f"{name}={_toml(value, top=True)}")]


def _toml(value: Any, *, top: bool = False) -> str:
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{json.dumps(name)} = {_toml(one)}' for name, one in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return str(value) if top and not isinstance(value, bool) else json.dumps(value)


def recovered(job: Job, error: ChsinkError, *more: str) -> list[str]:
    """Run `chsink state recover` as the error names it, and do what each refusal of it says first: run its statements,
    then add the option that it names.  Returns the options that were added.
    """
    words, added = command_of(error, *more), list[str]()
    for _ in range(5):
        result = run(job, *words, *added, "--yes", *settings_of(job))
        if result.exit_code == 0:
            return added
        assert result.exit_code == 2, result.output
        for fix in re.findall(r"fix: (.+)", result.stderr):
            safe = fix.partition("; only if ")[0]
            for statement in re.findall(r"on each shard: (DELETE FROM [^;]+)", safe):
                for shard in job.shards:
                    command(shard, f"{statement} SETTINGS lightweight_deletes_sync = 2")
            for url, statement in re.findall(r"on (http\S+): (DELETE FROM [^;]+)", safe):
                command(url, f"{statement} SETTINGS lightweight_deletes_sync = 2")
            options = re.findall(r"add `(--[^`]+)` to this command", safe)
            assert options or "run this command again" in safe, fix
            added += [word for option in options for word in option.split() if word not in added]
    raise AssertionError(f"it goes in circles: {added}")
