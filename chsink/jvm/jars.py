"""Jars that no Python package ships: pinned by checksum, fetched once, kept for every checkout and installation.

Rules:

- ``jars.toml`` names each file and its SHA-256.  Nothing is resolved: what is listed is fetched, and nothing else.
- A file in the cache was checked before it got its name (rename is atomic), and is checked again at each use.
- One process fetches at a time; the others wait for it and find the files there.
- Ivy, which ships with Spark, does the fetching with its own default settings.  Where those do not reach a repository,
  ``CHSINK_IVY_SETTINGS`` names an Ivy settings file, for instance of a company's mirror.

The cache is ``$CHSINK_CACHE``, else ``$XDG_CACHE_HOME/chsink``, else ``~/.cache/chsink``.  ``python -m
chsink.jvm.jars [SET…]`` fetches and prints the paths.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import importlib.util
import os
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from chsink.errors import ChsinkError, local
from chsink.jvm import ivy

SPARK_KAFKA: Final = "spark-kafka"
_PINS: Final = Path(__file__).with_name("jars.toml")


@dataclass(frozen=True, slots=True)
class Jar:
    """One pinned file of a Maven repository."""

    organisation: str
    name: str
    version: str
    sha256: str
    classifier: str = ""

    @property
    def file_name(self) -> str:
        return f"{'-'.join(self._parts[1:])}.jar"

    @property
    def _parts(self) -> list[str]:
        return [part for part in (self.organisation, self.name, self.version, self.classifier) if part]

    def __str__(self) -> str:
        return ":".join(self._parts)


def ensure(set_name: str, progress: ivy.DownloadProgress | None = None, *, file: Path | None = None) -> list[Path]:
    """The files of a set of ``jars.toml``, fetched if they are not there; all of them checked against their SHA-256.
    ``file`` is another such list.
    A fetch tells ``progress`` how far it is; without one, standard error.

    Raises CHS-902 when a file cannot be fetched, CHS-903 when it is not the pinned one.
    """
    jars = pins(file)[set_name]
    folder = cache_folder()
    if _missing(jars, folder):
        with one_process(folder):
            if absent := _missing(jars, folder):
                _fetch(set_name, absent, folder, progress, (file or _PINS).name)
    return [folder / jar.file_name for jar in jars]


def spark_jars(progress: ivy.DownloadProgress | None = None) -> str:
    """The jars of Spark's Kafka source as ``spark.jars`` and ``spark-submit --jars`` take them: paths joined by commas.

    Missing ones are fetched first: ``progress`` is called with the number of jars fetched so far and the number of
    all; without it, standard error shows both.  Raises ChsinkError if one cannot be fetched.
    """
    return ",".join(map(str, ensure(SPARK_KAFKA, progress)))


def missing(set_name: str) -> list[Jar]:
    """The files of a set that are not in the cache, or are not the pinned ones."""
    return _missing(pins()[set_name], cache_folder())


@functools.cache
def pins(file: Path | None = None) -> dict[str, tuple[Jar, ...]]:
    """Every set of ``jars.toml``, or of another such list, in the order of the file."""
    sets = tomllib.loads((file or _PINS).read_text(encoding="utf-8"))
    return {name: tuple(_jar(*pin) for pin in files.items()) for name, files in sets.items()}


def _jar(coordinate: str, sha256: str) -> Jar:
    organisation, name, version, *classifier = coordinate.split(":")
    return Jar(organisation, name, version, sha256, *classifier)


def cache_folder() -> Path:
    """Where fetched jars are kept."""
    if own := os.environ.get("CHSINK_CACHE"):
        return Path(own).resolve() / "jars"
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "chsink" / "jars"


def spark_jars_folder() -> Path:
    """The folder of the jars that ship inside the pyspark package; raises CHS-907 when pyspark is not installed."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise local.NO_PYSPARK(python=sys.executable)
    return Path(spec.submodule_search_locations[0]) / "jars"


def _missing(jars: Sequence[Jar], folder: Path) -> list[Jar]:
    return [jar for jar in jars if sha256_of(folder / jar.file_name) != jar.sha256]


def sha256_of(path: Path) -> str | None:
    """A file's digest, or None where there is no file."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        return None


@contextlib.contextmanager
def one_process(folder: Path) -> Iterator[None]:
    """Make the folder if it is not there; one process at a time works in it."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _fetch(
    set_name: str, jars: Sequence[Jar], folder: Path, progress: ivy.DownloadProgress | None, pins_name: str
) -> None:
    """Fetch into a scratch folder beside the cache, check, then give each file its name."""
    with (
        tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder) as scratch,
        shown(set_name, folder) if progress is None else contextlib.nullcontext(progress) as show,
    ):
        fetched = ivy.retrieve(set_name, [str(jar) for jar in jars], Path(scratch), spark_jars_folder(), show)
        for jar in jars:
            path = fetched / jar.file_name
            found = sha256_of(path)
            if found != jar.sha256:
                raise local.JAR_CHECKSUM(jar=jar, found=found, pinned=jar.sha256, pins=pins_name)
            path.replace(folder / jar.file_name)


@contextlib.contextmanager
def shown(set_name: str, folder: Path) -> Iterator[ivy.DownloadProgress]:
    """Progress on standard error: one line that is rewritten on a terminal; elsewhere the first and the last state."""
    on_terminal = sys.stderr.isatty()

    def show(fetched: int, total: int) -> None:
        line = f"downloading {set_name} to {folder} (once): {fetched} of {total} jars"
        if on_terminal:
            sys.stderr.write(f"\r{line}")
        elif fetched in (0, total):
            sys.stderr.write(f"{line}\n")
        sys.stderr.flush()

    try:
        yield show
    finally:
        if on_terminal:
            sys.stderr.write("\n")


def main(set_names: Sequence[str]) -> None:
    """Fetch the named sets, or all, and print one path a line."""
    for name in set_names or pins():
        if name not in pins():
            raise SystemExit(f"no such set: {name}; there are {', '.join(pins())}")
        sys.stdout.writelines(f"{path}\n" for path in ensure(name))


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except ChsinkError as error:
        raise SystemExit(str(error)) from None
