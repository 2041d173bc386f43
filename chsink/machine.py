"""What ``chsink doctor --system`` checks: whether this machine can run a job, before there is a job.

Rules:
- No service is asked, and nothing is written or downloaded.
- A limit is the least that counts: of the machine, of the container (its cgroup), of the process.
"""

from __future__ import annotations

import ctypes
import os
import resource
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from chsink.errors import local
from chsink.findings import Finding, Severity, found, passed
from chsink.jvm import jars

FREE_MB: Final = 1_000
FILES: Final = 4_096
PROCESSES: Final = 512
BASE_MB: Final = 1_250
TASK_MB: Final = 250
"""Java and the driver, and each task's Python worker (docs/sizing.md#memory)."""
CGROUP: Final = Path("/sys/fs/cgroup")
MEMORY_LIMITS: Final = ("memory.max", "memory/memory.limit_in_bytes")
PROCESS_LIMITS: Final = ("pids.max", "pids/pids.max")
UNSYNCHRONIZED: Final = 0x40
"""STA_UNSYNC of adjtimex(2)."""
MB: Final = 1_000_000


def machine_findings(folders: Mapping[str, str], tasks: int | None = None) -> Iterator[Finding]:
    """The findings on this machine.  ``folders`` maps what a job writes to where, besides jars and Spark's own files.
    ``tasks`` is how many run at a time, None for one on each core.
    """
    yield from _jars()
    yield from _disks({"jars": str(jars.cache_folder()), "Spark's own files": spark_folder(), **folders})
    yield _clock()
    yield _files()
    yield _processes()
    yield _memory(tasks or _cores())
    yield _host_name()


def spark_folder() -> str:
    """Where Spark keeps its own files, unless the job says otherwise."""
    return os.environ.get("SPARK_LOCAL_DIRS", tempfile.gettempdir()).split(",")[0]


def _jars() -> Iterator[Finding]:
    folder, missing = jars.cache_folder(), jars.missing(jars.SPARK_KAFKA)
    if missing:
        names = ", ".join(jar.file_name for jar in missing)
        yield found(Severity.INFO, local.JARS_NOT_THERE, folder=folder, names=names)
    else:
        yield passed(local.JARS_NOT_THERE, folder=folder)


def _disks(folders: Mapping[str, str]) -> Iterator[Finding]:
    """One finding for each file system."""
    seen: dict[int, None] = {}
    for what, folder in folders.items():
        path = Path(folder).absolute()
        there = next(p for p in (path, *path.parents) if p.exists())
        if (device := there.stat().st_dev) in seen:
            continue
        seen[device] = None
        free_mb = shutil.disk_usage(there).free // MB
        if free_mb < FREE_MB:
            yield found(Severity.WARNING, local.DISK_ALMOST_FULL, folder=folder, what=what, free=free_mb, least=FREE_MB)
        else:
            yield passed(local.DISK_ALMOST_FULL, folder=folder, free=free_mb)


def _clock() -> Finding:
    """What the kernel says of its clock.  ``chsink doctor`` compares it with ClickHouse's servers."""
    if not sys.platform.startswith("linux"):
        return found(Severity.INFO, local.CLOCK_NOT_CHECKED, system=sys.platform)
    buffer = ctypes.create_string_buffer(512)  # struct timex, all zero: only read
    state = ctypes.CDLL(None, use_errno=True).adjtimex(buffer)
    status = int.from_bytes(
        buffer.raw[5 * 8 : 5 * 8 + 4], sys.byteorder
    )  # modes, offset, freq, maxerror, esterror, status
    if state < 0:
        return found(Severity.INFO, local.CLOCK_NOT_CHECKED, system=os.strerror(ctypes.get_errno()))
    if status & UNSYNCHRONIZED:
        return found(Severity.WARNING, local.CLOCK_NOT_SYNCHRONIZED)
    return passed(local.CLOCK_NOT_SYNCHRONIZED)


def _files() -> Finding:
    """The hard limit: Java raises its own to it."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most != resource.RLIM_INFINITY and most < FILES:
        return found(Severity.WARNING, local.FEW_FILES, most=most, least=FILES)
    return passed(local.FEW_FILES, most=_shown(most))


def _processes() -> Finding:
    """Threads count as processes."""
    most = _least([resource.getrlimit(resource.RLIMIT_NPROC)[0], *_of_container(PROCESS_LIMITS)])
    if most is not None and most < PROCESSES:
        return found(Severity.WARNING, local.FEW_PROCESSES, most=most, least=PROCESSES)
    return passed(local.FEW_PROCESSES, most=_shown(most))


def _memory(tasks: int) -> Finding:
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = _least([machine, *_of_container(MEMORY_LIMITS)])
    assert limit is not None
    numbers = {"memory": limit // MB, "tasks": tasks, "needed": BASE_MB + TASK_MB * tasks}
    if numbers["memory"] < numbers["needed"]:
        return found(Severity.WARNING, local.LITTLE_MEMORY, **numbers)
    return passed(local.LITTLE_MEMORY, memory=numbers["memory"], tasks=tasks)


def _cores() -> int:
    """As Java counts them: a container's share of time, rounded up."""
    cores = os.cpu_count() or 1
    try:
        quota, _, period = (CGROUP / "cpu.max").read_text(encoding="ascii").strip().partition(" ")
    except OSError:
        return cores
    return min(cores, -(-int(quota) // int(period))) if quota.isdecimal() else cores


def _host_name() -> Finding:
    """Spark asks for the address of this machine's name when it starts."""
    name = socket.gethostname()
    try:
        address = os.environ.get("SPARK_LOCAL_IP") or socket.getaddrinfo(name, None)[0][4][0]
    except OSError as error:
        return found(Severity.ERROR, local.HOST_NAME_UNKNOWN, name=name, reason=error.strerror or error)
    return passed(local.HOST_NAME_UNKNOWN, name=name, address=address)


def _of_container(names: Iterable[str]) -> Iterator[int]:
    """The limits that the container's own cgroup sets; none on a machine of its own."""
    for name in names:
        try:
            text = (CGROUP / name).read_text(encoding="ascii").strip()
        except OSError:
            continue
        if text.isdecimal():
            yield int(text)


def _least(limits: Iterable[int]) -> int | None:
    """The smallest; None if there is no limit."""
    return min((limit for limit in limits if limit != resource.RLIM_INFINITY), default=None)


def _shown(limit: int | None) -> str:
    return "no limit" if limit in (None, resource.RLIM_INFINITY) else str(limit)
