"""Archives of the classes that Spark and Kafka load, for the JVMs of the tests: mapping one costs half of loading them.

``make test`` and ``make chaos`` have them made once for each virtual environment (``python -m tests.support.classes``).
A JVM ignores an archive that was made by another Java or from other jars; tests run without one too, only slower.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

SPARK: Final = Path(sys.prefix) / "spark.jsa"
KAFKA: Final = Path(sys.prefix) / "kafka.jsa"
# Which classes could not be archived, or that none are: of no use to anybody, and on standard output.
_QUIET: Final = "-Xlog:disable -Xlog:all=error:stderr"
_DUMP_LIMIT_S: Final = 300
_FAST: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def shared(archive: Path) -> str:
    """Flags for a JVM: use the archive, if there is one."""
    usable = archive.is_file() and archive.stat().st_size > 0 and " " not in str(archive)
    return f"-XX:SharedArchiveFile={archive} {_QUIET}" if usable else ""


SHORT_LIVED: Final = f"{_FAST} {shared(SPARK)}".rstrip()
"""For a JVM that lives for seconds or minutes: no second compiler, and fast loading of classes."""


@contextmanager
def _made(archive: Path) -> Iterator[str]:
    """Flags for the JVM that archives what it loaded; an empty file where this Java makes no archive."""
    new = archive.with_suffix(".new")
    new.unlink(missing_ok=True)
    yield f"-XX:ArchiveClassesAtExit={new} {_QUIET}"
    new.touch()
    new.replace(archive)


def make_kafka() -> None:
    """Archive what a broker loads that takes a transaction and is read."""
    from chsink.embedded.kafka import EmbeddedKafka
    from tests.support.kafka import produce, read_all

    with tempfile.TemporaryDirectory() as folder, _made(KAFKA) as options:
        broker = EmbeddedKafka(folder)
        broker.start()
        broker.stop()  # it has formatted its folder, which loads other classes
        os.environ["KAFKA_OPTS"] = options
        with broker:
            broker.create_topic("t", 2)
            produce(broker.bootstrap, "t", 0, [{"id": 1}], transactional="x")
            read_all(broker.bootstrap, "t")


def make_spark() -> None:
    """Archive what a small streaming job loads."""
    from chsink.jvm.java import java_home
    from tests.support.spark import local_session, stop_with_jvm

    os.environ |= {"JAVA_HOME": str(java_home()), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    os.environ["PYTHONPATH"] = str(Path(__file__).parents[2])
    with tempfile.TemporaryDirectory() as folder, _made(SPARK) as options:
        spark = local_session(Path(folder), spark_driver_extraJavaOptions=f"{_FAST} {options}")
        stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 4).load()
        rows = stream.select("value").mapInArrow(lambda batches: batches, "value long").writeStream
        query = rows.foreachBatch(lambda batch, _: print(batch.count())).trigger(once=True)  # noqa: T201
        query.option("checkpointLocation", f"{folder}/checkpoint").start().awaitTermination()
        stop_with_jvm(spark, _DUMP_LIMIT_S)


if __name__ == "__main__":
    make_kafka()
    make_spark()
