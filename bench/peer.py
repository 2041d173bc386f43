"""Spark's own Iceberg sink, in an environment of its own: the newest Spark that Iceberg's runtime loads in.

``ensure`` makes the environment once, beside the cache of jars: about 500 MB.  Jars are pinned by checksum.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.measured import MeasuredError
from chsink.jvm import ivy, jars

PYSPARK = "4.0.1"
ICEBERG = "1.11.0"
PINS = {
    f"org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:{ICEBERG}": (
        "63c3b812549dc232c1920865ff42436df8604a9bbacd693930985c06bd97e6dc"
    ),
    f"org.apache.spark:spark-sql-kafka-0-10_2.13:{PYSPARK}": (
        "a9c5366a61087e7e7ff903c3dc160e80b33d2ea04d365e0795cc4a58befc3a16"
    ),
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0": (
        "f2be3b76f9e6cbe63379d4e4e0dc14f59dbf056ae2ad16ff15ac108004c86767"
    ),
    "org.apache.kafka:kafka-clients:3.9.2": "014b4ef36884478a932641818b080c36a8f8e2e92dc771e800c9d2694f4f83d8",
    "org.apache.commons:commons-pool2:2.13.1": "f77a5060d6936a9144023584232f9de3f2248f1abfe156e9d31795f18770674f",
}


@dataclass(frozen=True)
class Peer:
    """The interpreter of the environment, and its ``spark.jars``."""

    python: str
    jars: str


def ensure(say: Callable[[str], None]) -> Peer:
    """The environment, made if it is not there.  Raises MeasuredError, and CHS-902 where a jar cannot be fetched."""
    folder = jars.cache_folder().parent / f"bench-pyspark-{PYSPARK}-iceberg-{ICEBERG}"
    folder.mkdir(parents=True, exist_ok=True)
    python, stamp = folder / "venv" / "bin" / "python", folder / "complete"
    if not stamp.exists():
        say(f"mirror: installing pyspark {PYSPARK} for Spark's own Iceberg sink, once")
        _run([sys.executable, "-m", "venv", str(folder / "venv")])
        _run([str(python), "-m", "pip", "install", "--quiet", f"pyspark=={PYSPARK}"])
        stamp.touch()
    return Peer(str(python), ",".join(str(path) for path in _jars(folder)))


def _run(argv: list[str]) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        raise MeasuredError(f"{' '.join(argv)} failed:\n{done.stderr[-2000:]}")


def _jars(folder: Path) -> list[Path]:
    found = {coordinate: folder / "{1}-{2}.jar".format(*coordinate.split(":")) for coordinate in PINS}
    missing = [coordinate for coordinate, path in found.items() if not _is_pinned(path, PINS[coordinate])]
    if missing:
        with tempfile.TemporaryDirectory(dir=folder) as scratch, jars.shown("iceberg", folder) as show:
            fetched = ivy.retrieve("iceberg", missing, Path(scratch), jars.spark_jars_folder(), show)
            for coordinate in missing:
                path = fetched / found[coordinate].name
                if not _is_pinned(path, PINS[coordinate]):
                    raise MeasuredError(f"{path.name} is not the pinned file")
                path.replace(found[coordinate])
    return [*found.values()]


def _is_pinned(path: Path, digest: str) -> bool:
    return path.exists() and hashlib.sha256(path.read_bytes()).hexdigest() == digest
