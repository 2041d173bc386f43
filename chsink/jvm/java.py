"""The Java that the services and Spark run on: which one, and with what flags.

Spark 4 supports Java 17 and 21.  Later ones lack an interface (``Subject.getSubject``) that Hadoop still calls, so the
newest Java on a machine is often the wrong one: the version is asked for, never assumed.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from chsink.errors import local

SUPPORTED: Final = (17, 21)
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_INSTALL_ROOTS: Final = ("/usr/lib/jvm", "/opt/java", "/Library/Java/JavaVirtualMachines")

# A service of ours shares a small machine with Spark, the engine and other services: the first compiler alone halves
# what a start costs.
SMALL_JVM: Final = (
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
    "-Xms32m",
    "-Djava.awt.headless=true",
)
CONSOLE_LOGGING: Final = """\
status = error
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{ISO8601} %p %c{1}: %m%n
rootLogger.level = info
rootLogger.appenderRef.console.ref = console
"""


def find_java() -> Path:
    """The first supported ``java``: of ``JAVA_HOME``, of ``PATH``, of the usual folders.

    Raises CHS-901, which lists what was found instead.
    """
    return _first_supported(os.environ.get("JAVA_HOME", ""), os.environ.get("PATH", ""))


def ignored_java_home() -> str:
    """Why the Java of ``JAVA_HOME`` is not the one that ``find_java`` chose; "" if it is, or if there is none."""
    home = os.environ.get("JAVA_HOME", "")
    java = Path(home) / "bin" / "java"
    if not home or find_java() == java:
        return ""
    if not java.is_file():
        return f"it has no {java.relative_to(home)}"
    return f"its version is {_major_version(java) or 'unknown'}, and Spark supports {' and '.join(map(str, SUPPORTED))}"


def java_home() -> Path:
    """The folder for ``JAVA_HOME`` of the Java that ``find_java`` chose."""
    return find_java().resolve().parent.parent


@functools.cache
def _first_supported(home: str, path: str) -> Path:
    """Cached by the two variables it reads: asking a Java for its version costs about 50 ms."""
    seen: list[str] = []
    for java in _candidates(home, path):
        version = _major_version(java)
        if version in SUPPORTED:
            return java
        seen.append(f"{java} (version {version or 'unknown'})")
    wanted = " or ".join(map(str, SUPPORTED))
    raise local.NO_SUPPORTED_JAVA(
        wanted=wanted, seen=", ".join(seen) or "JAVA_HOME, PATH and the usual folders", install=SUPPORTED[0]
    )


def _candidates(home: str, path: str) -> Iterator[Path]:
    if home and (java := Path(home) / "bin" / "java").is_file():
        yield java
    if found := shutil.which("java", path=path):
        yield Path(found)
    for root in _INSTALL_ROOTS:
        for pattern in ("*/bin/java", "*/Contents/Home/bin/java"):
            yield from sorted(Path(root).glob(pattern))


def _major_version(java: Path) -> int | None:
    """The major version that ``java -version`` prints (on standard error), or None if it cannot be run."""
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = _VERSION.search(done.stderr)
    return int(match[1]) if match else None
