"""Spark's Python daemon, which has imported what chsink's tasks need before it forks a worker.

Spark's own has not, so each new worker imports for more than a second: at a job's first batch, and again after a
minute without work, in which Spark ends its workers.

Rules:
- ``chsink run`` uses it on this machine only, where the workers' Python is the driver's own.  On a cluster it may be a
  task that brings chsink (``--py-files``), and a daemon that cannot be imported ends the job.
- What is imported opens nothing, and has only threads that come again after a fork: those of Arrow's allocator and of
  NumPy's algebra.
- No module of the user's is imported: nobody knows what it opens.
- Workers share no random numbers.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
from pathlib import Path
from typing import Final

MODULES: Final = "CHSINK_TASKS_MODULES"
"""The variable that names the modules of the tasks' functions, separated by blanks."""
CLICKHOUSE: Final = "chsink.clickhouse.pieces"
MIRROR: Final = "chsink.mirror.task"


def serve(*modules: str) -> None:
    """Be the daemon, until Spark ends."""
    for name in ("pyspark.worker", "chsink.spark.executor", "chsink.kafka.admin", *modules):
        importlib.import_module(name)
    import numpy as np
    from pyspark.daemon import manager

    daemon, seed = os.getpid(), np.random.seed
    os.register_at_fork(after_in_child=lambda: seed() if os.getppid() == daemon else None)
    gc.freeze()  # a worker looks for garbage after each task: what was imported is none, and stays shared
    manager()


def prefer_folders() -> None:
    """Import an installed pyspark from its folder: Spark puts its archive first, which Python has to compile."""
    home = Path(os.environ.get("SPARK_HOME", "")).resolve()
    if home.name == "pyspark" and home.parent in (Path(entry).resolve() for entry in sys.path):
        sys.path.sort(key=lambda entry: home in Path(entry).resolve().parents)


if __name__ == "__main__":
    prefer_folders()
    serve(*os.environ.get(MODULES, CLICKHOUSE).split())
