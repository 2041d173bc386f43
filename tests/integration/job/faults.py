"""Failpoints of ``chsink.failpoints``, armed in this process (the driver) and in the workers that its session starts.

A worker looks for them before each task (``tests.support.daemon``).
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from chsink import failpoints
from chsink.errors import UnavailableError
from tests.support.daemon import ARMED, arm
from tests.support.job import Job

LOG = "CHSINK_FAILPOINTS_LOG"


@dataclass(slots=True)
class Failpoints:
    """``arm`` before the crash, ``disarm`` before the new start; ``fired`` tells what happened, and to whom."""

    spark: SparkSession
    folder: Path
    _armed: int = 0

    def arm(self, text: str) -> None:
        """Arm in this process, and in workers when a step of a task is named."""
        self.disarm()
        self._armed += 1
        os.environ[LOG] = str(self.log)
        failpoints._ACTIVE = failpoints._parse(text)
        failpoints._REACHED.clear()
        if "task." in text:
            arm(self._armed_file, text, self.log)

    def disarm(self) -> None:
        """Off, everywhere."""
        failpoints._ACTIVE = None
        os.environ.pop(LOG, None)
        arm(self._armed_file, "", None)

    @property
    def _armed_file(self) -> Path:
        return Path(self.spark.sparkContext.environment[ARMED])

    @property
    def log(self) -> Path:
        """Where the last arming logs."""
        return self.folder / f"fired-{self._armed}.log"

    @property
    def fired(self) -> list[tuple[str, str, int]]:
        """(failpoint, action, pid) since the last arming."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return [(name, action, int(pid)) for name, action, pid in map(str.split, lines)]

    def assert_fired(self, name: str) -> None:
        """A fault that never fired proves nothing."""
        assert name in {fired[0] for fired in self.fired}, f"{name} did not fire: {self.fired}"


def crash_before_after(job: Job, spark: SparkSession, failpoints: Failpoints) -> None:
    """The driver dies once all rows of the batch are there, before it records that."""
    failpoints.arm("driver.before_after=fail")
    with pytest.raises(UnavailableError, match="CHS-708"):
        job.drain(spark)
    failpoints.disarm()
    assert job.in_doubt()
