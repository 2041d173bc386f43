"""An archive of the classes that Spark loads, for the JVMs of the tests: mapping it costs half of loading them.

``make test`` and ``make chaos`` have it made once for each virtual environment (``python -m tests.support.classes``).  A
JVM ignores an archive that was made by another Java or from other jars, and tests run without one too, only slower.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Final

ARCHIVE: Final = Path(sys.prefix) / "spark.jsa"
# Which classes could not be archived, or that none are: of no use to anybody, and on standard output.
_QUIET: Final = "-Xlog:disable -Xlog:all=error:stderr"
_DUMP_LIMIT_S: Final = 300
_FAST: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def _shared() -> str:
    """Flags for a JVM of Spark: use the archive, if there is one."""
    usable = ARCHIVE.is_file() and ARCHIVE.stat().st_size > 0 and " " not in str(ARCHIVE)
    return f"-XX:SharedArchiveFile={ARCHIVE} {_QUIET}" if usable else ""


SHORT_LIVED: Final = f"{_FAST} {_shared()}".rstrip()
"""For a JVM that lives for seconds or minutes: no second compiler, and fast loading of classes."""


def make() -> None:
    """Run a small streaming job and archive what its JVM loaded; an empty file where this Java makes no archive."""
    from chsink.jvm.java import java_home
    from tests.support.spark import local_session, stop_with_jvm

    os.environ |= {"JAVA_HOME": str(java_home()), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    os.environ["PYTHONPATH"] = str(Path(__file__).parents[2])
    new = ARCHIVE.with_suffix(".new")
    new.unlink(missing_ok=True)
    options = f"{_FAST} -XX:ArchiveClassesAtExit={new} {_QUIET}"
    with tempfile.TemporaryDirectory() as folder:
        spark = local_session(Path(folder), spark_driver_extraJavaOptions=options)
        stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 4).load()
        rows = stream.select("value").mapInArrow(lambda batches: batches, "value long").writeStream
        query = rows.foreachBatch(lambda batch, _: print(batch.count())).trigger(once=True)  # noqa: T201
        query.option("checkpointLocation", f"{folder}/checkpoint").start().awaitTermination()
        stop_with_jvm(spark, _DUMP_LIMIT_S)
    new.touch()
    new.replace(ARCHIVE)


if __name__ == "__main__":
    make()
