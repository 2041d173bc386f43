"""The Python daemon of the tests' session: the one of ``chsink run``, and failpoints reach workers that run already.

Without it, other failpoints need other workers: Spark keeps a daemon per environment.  It runs in ``local_session``
only: jobs that are processes of their own use chsink's daemon, or pyspark's.
"""

from __future__ import annotations

import importlib
import json
import os
from pathlib import Path
from typing import Any, Final

from chsink.spark.daemon import MIRROR, serve

ARMED: Final = "CHSINK_TESTS_ARMED"
"""The variable that names the file of :func:`arm`."""
_LOG: Final = "CHSINK_FAILPOINTS_LOG"
_seen = ""


def arm(file: Path, traps: str, log: Path | None) -> None:
    """From its next task on, a worker has these failpoints; it counts from zero each time that others are armed."""
    new = file.with_suffix(".new")
    new.write_text(json.dumps({"traps": traps, "log": str(log or "")}), encoding="utf-8")
    new.replace(file)


def _look() -> None:
    """In a worker, before a task."""
    global _seen
    from chsink import failpoints

    file = Path(os.environ[ARMED])
    now = file.read_text(encoding="utf-8") if file.exists() else ""
    if now in {_seen, ""}:
        return
    _seen, armed = now, json.loads(now)
    os.environ[_LOG] = armed["log"]
    failpoints._ACTIVE = failpoints._parse(armed["traps"]) or None
    failpoints._REACHED.clear()


def _serve() -> None:
    worker: Any = importlib.import_module("pyspark.worker")
    check = worker.check_python_version

    def started(infile: Any) -> None:
        """The first thing that a worker does once it has a task: until then it waits, perhaps for long."""
        _look()
        check(infile)

    worker.check_python_version = started
    serve("chsink.clickhouse.landing", MIRROR)


if __name__ == "__main__":
    _serve()
