"""Runs the Ivy that ships inside pyspark: exact files by coordinate into a folder, with progress and retries.

Each coordinate is fetched without its dependencies, so the result is exactly the requested list.  If a registry fails,
Ivy runs again; files that have arrived are in its scratch cache.
"""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final
from xml.sax.saxutils import quoteattr

from chsink.errors import local
from chsink.jvm.java import find_java

_ATTEMPTS: Final = 4
_FIRST_PAUSE_S: Final = 2.0
_ATTEMPT_LIMIT_S: Final = 600
DownloadProgress = Callable[[int, int], None]
"""Called with the number of fetched files and the number of all files: before the first one, then after each."""


def retrieve(label: str, coordinates: Sequence[str], scratch: Path, ivy_jars: Path, progress: DownloadProgress) -> Path:
    """Fetch ``organisation:name:version[:classifier]`` coordinates into a folder below ``scratch``; returns the folder.

    Files are named ``name-version[-classifier].jar``.  Raises CHS-902 after the last attempt.
    """
    assert coordinates, "nothing to fetch"
    target = scratch / "jars"
    request = scratch / "ivy.xml"
    request.write_text(_request(coordinates), encoding="utf-8")
    argv = _argv(request, scratch / "ivy-cache", target, ivy_jars)
    log = ""
    for attempt in range(_ATTEMPTS):
        if attempt:
            time.sleep(_FIRST_PAUSE_S * 2 ** (attempt - 1))
        done, log = _run(argv, len(coordinates), progress)
        if done and all((target / _file_name(coordinate)).is_file() for coordinate in coordinates):
            return target
    raise local.JARS_NOT_FETCHED(set_name=label, count=len(coordinates), attempts=_ATTEMPTS, log=log)


def _file_name(coordinate: str) -> str:
    return f"{'-'.join(coordinate.split(':')[1:])}.jar"


def _request(coordinates: Sequence[str]) -> str:
    modules: dict[tuple[str, str, str], list[str]] = {}
    for coordinate in coordinates:
        organisation, name, version, *classifier = coordinate.split(":")
        modules.setdefault((organisation, name, version), []).append("".join(classifier))
    wanted = "".join(_dependency(*module, classifiers) for module, classifiers in modules.items())
    return (
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">'
        '<info organisation="chsink" module="fetch"/>'
        '<configurations><conf name="default"/></configurations>\n'
        f"<dependencies>\n{wanted}</dependencies></ivy-module>\n"
    )


def _dependency(organisation: str, name: str, version: str, classifiers: Sequence[str]) -> str:
    """One module, of which the file without a classifier is the default."""
    files = "".join(
        f'<artifact name={quoteattr(name)} type="jar"' + (f" m:classifier={quoteattr(each)}/>" if each else "/>")
        for each in classifiers
        if any(classifiers)
    )
    return (
        f"<dependency org={quoteattr(organisation)} name={quoteattr(name)} rev={quoteattr(version)} "
        f'transitive="false" conf="default->default">{files}</dependency>\n'
    )


def _argv(request: Path, cache: Path, target: Path, ivy_jars: Path) -> list[str]:
    argv = [str(find_java()), "-cp", f"{ivy_jars}/*", "org.apache.ivy.Main"]
    if settings := os.environ.get("CHSINK_IVY_SETTINGS"):
        argv += ["-settings", settings]
    argv += ["-ivy", str(request), "-cache", str(cache), "-confs", "default", "-m2compatible"]
    # Some Maven jars are published with the packaging "bundle".
    return [*argv, "-types", "jar", "bundle", "-retrieve", f"{target}/[artifact]-[revision](-[classifier]).[ext]"]


def _run(argv: Sequence[str], total: int, progress: DownloadProgress) -> tuple[bool, str]:
    """One attempt: whether Ivy ended well, and the end of what it printed."""
    lines: list[str] = []
    fetched = 0
    progress(fetched, total)
    with subprocess.Popen(
        argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as process:
        assert process.stdout is not None
        # Ivy itself waits for a silent registry without end.
        limit = threading.Timer(_ATTEMPT_LIMIT_S, process.kill)
        limit.start()
        try:
            for line in process.stdout:
                lines.append(line.rstrip())
                if "[SUCCESSFUL ]" in line:
                    fetched += 1
                    progress(fetched, total)
        except BaseException:
            process.kill()
            raise
        finally:
            limit.cancel()
    return process.returncode == 0, "\n".join(line for line in lines[-25:] if line.strip())
