"""A Spark session for tests: local, quiet, with the Kafka source, and an end that leaves no JVM."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from pyspark import SparkContext
from pyspark.sql import SparkSession

from chsink.jvm import jars
from tests.support.classes import SHORT_LIVED
from tests.support.daemon import ARMED

_FILES: Final = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
_JVM_LIMIT_S: Final = 30
FOR_MOMENTS: Final = {
    "spark.driver.extraJavaOptions": SHORT_LIVED,
    # Each query is planned anew and runs for moments: to compile its plan costs more than to interpret it.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""For a session of seconds or minutes, also of a job in a process of its own."""


def local_session(folder: Path, cores: int = 2, **settings: str) -> SparkSession:
    """A session on ``local[cores]`` that writes only below ``folder``.

    ``settings`` are Spark's own with ``_`` for ``.``; they override what is set here.
    """
    defaults = {
        "spark.jars": jars.spark_jars(),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.sql.shuffle.partitions": "2",
        **FOR_MOMENTS,
        # Without Hadoop's native library, the default one starts twenty programs for each micro-batch (readlink).
        "spark.sql.streaming.checkpointFileManagerClass": _FILES,
        "spark.python.daemon.module": "tests.support.daemon",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.local.dir": str(folder / "scratch"),
        "spark.sql.session.timeZone": "UTC",
    }
    builder = SparkSession.builder.master(f"local[{cores}]").appName("chsink-tests")
    for name, value in {**defaults, **{name.replace("_", "."): value for name, value in settings.items()}}.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    session.sparkContext.environment[ARMED] = str(folder / "armed.json")
    return session


def stop_with_jvm(session: SparkSession, limit_s: float = _JVM_LIMIT_S) -> None:
    """Stop the session and end its JVM, so that nothing of this run stays."""
    session.stop()
    gateway = SparkContext._gateway
    assert gateway is not None
    process = gateway.proc
    if process.stdin is not None:
        process.stdin.close()  # the JVM ends with its parent's pipe
    process.wait(limit_s)
    gateway.shutdown()  # not before: it would wait for ever for a callback's thread that still reads from the JVM
    SparkContext._gateway = SparkContext._jvm = None
