"""An archive of the classes that Spark loads, made by ``chsink jars``: to map it is cheaper than to load them.

Its name tells what it was made by, and its digest: Java looks whether an archive fits, but a damaged one can end it.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

from pyspark import SparkContext
from pyspark.sql import SparkSession

from chsink.jvm.jars import cache_folder, one_process, sha256_of, spark_jars, spark_jars_folder
from chsink.jvm.java import find_java, java_home

JAVA_OPTIONS, DIGITS = "SPARK_SUBMIT_OPTS", 12
"""The variable for options of the driver's Java that come before those of the job."""


def use() -> None:
    """Let the Java that starts next use the archive, if there is one.  Java is to say nothing of it on its output."""
    given = os.environ.get(JAVA_OPTIONS, "")
    if (archive := _found()) and archive.name not in given:
        os.environ[JAVA_OPTIONS] = f'"-XX:SharedArchiveFile={archive}" -Xlog:cds*=off,class+path*=off {given}'


def make() -> Iterator[str]:
    """Make the archive unless it is there.  Says what it does, for people."""
    folder = cache_folder()
    with one_process(folder):
        if _found():
            return
        yield f"archiving Spark's classes in {folder} (once, takes a minute or two)"
        with tempfile.TemporaryDirectory(prefix=".classes-", dir=folder) as scratch:
            new = Path(scratch, "new.jsa")
            command = [sys.executable, "-m", __name__, str(new)]
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
            if done.returncode or not (digest := sha256_of(new)):
                yield "no archive was made (--no-archive skips it):\n" + "\n".join(done.stdout.splitlines()[-8:])
                return
            archive = new.replace(folder / f"{_fitting()}-{digest[:DIGITS]}.jsa")
        yield f"archived Spark's classes: {archive.name}, {archive.stat().st_size >> 20} MiB"


def _found() -> Path | None:
    for archive in cache_folder().glob(f"{_fitting()}-*.jsa"):
        with contextlib.suppress(OSError):  # such as one that only another user may read
            if (sha256_of(archive) or "")[:DIGITS] == archive.stem[-DIGITS:]:
                return archive
    return None


def _fitting() -> str:
    """How a name begins.  Java wants the jars of the archive in the same order, which is that of their folder."""
    files = [find_java().resolve(), *spark_jars_folder().iterdir()]
    seen = [(str(file), file.stat().st_size, int(file.stat().st_mtime)) for file in files]
    return f"spark-{sha256(repr(seen).encode()).hexdigest()[:DIGITS]}"


def _load(archive: Path) -> None:
    """Run a small streaming job in a Java that archives at its end what it loaded.  SystemExit if that Java failed."""
    os.environ |= {"JAVA_HOME": str(java_home()), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    os.environ[JAVA_OPTIONS] = f'"-XX:ArchiveClassesAtExit={archive}" -XX:TieredStopAtLevel=1'
    builder = SparkSession.builder.master("local[1]").config("spark.jars", spark_jars())
    spark = builder.config("spark.local.dir", f"{archive}.spark").getOrCreate()
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load().select("value")
    once = rows.mapInArrow(lambda batches: batches, "value long").writeStream.trigger(once=True)
    once = once.foreachBatch(lambda batch, _: batch.write.format("noop").mode("append").save())
    once.option("checkpointLocation", f"{archive}.checkpoint").start().awaitTermination()
    gateway = SparkContext._gateway
    spark.stop()
    gateway.proc.stdin.close()  # type: ignore[union-attr] # Java ends with its parent's pipe
    sys.exit(gateway.proc.wait())  # type: ignore[union-attr]


if __name__ == "__main__":
    _load(Path(sys.argv[1]))
