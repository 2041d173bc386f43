"""A checkpoint folder in any file system that the session knows: object stores, HDFS, local disks."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from chsink.errors import preflight
from chsink.findings import Finding, Severity, found
from chsink.spark.checkpoint import PROBE, not_writable
from chsink.spark.java import JavaObject
from chsink.spark.offset_log import Unreadable

NO_FILE_SYSTEM = ("ClassNotFoundException", "NoClassDefFoundError", "UnsupportedFileSystemException")


@dataclass(frozen=True, slots=True)
class SparkFolder:
    """:class:`chsink.spark.checkpoint.Folder`, through Hadoop's file systems."""

    where: str
    spark: SparkSession

    def names(self, part: str) -> list[str]:
        path = self._path(part)
        system = self._system(path)
        return [str(s.getPath().getName()) for s in system.listStatus(path)] if system.exists(path) else []

    def text(self, path: str) -> str | None:
        file = self._path(path)
        system = self._system(file)
        if not system.exists(file):
            return None
        assert self.spark._jvm is not None
        stream = system.open(file)
        try:
            return str(self.spark._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        except Py4JJavaError as error:
            if "ChecksumException" in str(error.java_exception):
                raise Unreadable("its checksum is wrong") from error
            raise
        finally:
            stream.close()

    def write_problem(self) -> Finding | None:
        probe = self._path(f".chsink-{uuid.uuid4().hex}")
        try:
            system = self._system(probe)
            stream = system.create(probe)
            try:
                stream.write(PROBE)
                stream.close()  # some file systems write only now
            finally:
                system.delete(probe, False)
        except Py4JJavaError as error:
            said = str(error.java_exception).splitlines()[0]
            if any(name in said for name in NO_FILE_SYSTEM):
                return found(Severity.ERROR, preflight.NO_FILE_SYSTEM, checkpoint=self.where, reason=said)
            return not_writable(self.where, said)
        return None

    def _path(self, part: str) -> JavaObject:
        assert self.spark._jvm is not None
        return self.spark._jvm.org.apache.hadoop.fs.Path(f"{self.where}/{part}")

    def _system(self, path: JavaObject) -> JavaObject:
        return path.getFileSystem(self.spark._jsc.hadoopConfiguration())
