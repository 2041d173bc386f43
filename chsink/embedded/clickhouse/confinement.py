"""Confines this process to its server's folder, so that no statement reaches another file of the machine.

The embedded engine does not keep ``file()``, ``url('file:…')``, the ``File`` and ``Filesystem`` engines, ``INTO
OUTFILE`` or ``FROM INFILE`` inside ``user_files_path``, and its grants cannot: the front itself feeds data from a file.
So the kernel does it (Landlock, Linux 5.19 or later), for every way to open a file at once.

Rules:

- ``confine`` comes before the engine is loaded: threads that run already, as the engine's do then, are not confined.
- The process may also read its own libraries, what the system says about it and the machine, and time zones.
- That includes its own environment, so ``forget_environment`` comes first.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import chsink

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_ASK_VERSION: Final = 1
_BENEATH_A_PATH: Final = 1
_NO_NEW_PRIVILEGES: Final = 38
_O_PATH: Final = 0o10000000
# Version 1 forbids every renaming from one folder into another, which tables need.
_FIRST_VERSION: Final = 2
# How many rights to files a version knows; 16 since version 5.
_RIGHTS_OF_VERSION: Final = {2: 14, 3: 15, 4: 15}
_EXECUTE: Final = 1 << 0
_READ_FILE: Final = 1 << 2
_READ_FOLDER: Final = 1 << 3
_WRITE_FILE: Final = 1 << 1
_MACHINE: Final = (
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/proc/self",
    "/proc/stat",
    "/proc/sys/vm",
    "/sys/devices/system",
    "/sys/fs/cgroup",
    "/etc/localtime",
    "/etc/hosts",
    "/etc/resolv.conf",
    "/etc/nsswitch.conf",
    "/usr/share/zoneinfo",
    "/dev/urandom",
    "/etc/ssl/certs",
    "/usr/share/ca-certificates",
    "/lib",
    "/lib64",
    "/usr/lib",
    "/usr/lib64",
)
_LIBRARIES: Final = ("stdlib", "platstdlib", "purelib", "platlib")
_KEPT_VARIABLES: Final = ("HOME", "LANG", "LC_ALL", "LC_CTYPE", "LD_LIBRARY_PATH", "PATH", "PYTHONPATH", "TZ")


def forget_environment() -> None:
    """Run this program once more without the variables that it does not need: they may hold secrets."""
    kept = {name: value for name, value in os.environ.items() if name in _KEPT_VARIABLES}
    if kept.keys() != os.environ.keys():
        os.execve(sys.executable, sys.orig_argv, kept)  # noqa: S606  the very command that started this process


def confine(folder: Path) -> bool:
    """Let this process write only below ``folder``, temporary files included; False if the kernel cannot enforce it."""
    temporary = folder / "tmp"
    temporary.mkdir(exist_ok=True)
    os.environ["TMPDIR"] = str(temporary)
    version = _call(_CREATE_RULESET, None, 0, _ASK_VERSION) if sys.platform == "linux" else -1
    if version < _FIRST_VERSION:
        return False
    everything = (1 << _RIGHTS_OF_VERSION.get(version, 16)) - 1
    rules = _checked(_call(_CREATE_RULESET, struct.pack("=Q", everything), ctypes.c_size_t(8), 0))
    try:
        _allow(rules, [folder], everything)
        _allow(rules, [Path("/dev/null")], _READ_FILE | _WRITE_FILE)
        _allow(rules, [path for path in _readable() if path.exists()], _EXECUTE | _READ_FILE | _READ_FOLDER)
        _checked(ctypes.CDLL(None, use_errno=True).prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0))
        _checked(_call(_RESTRICT_SELF, rules, 0))
    finally:
        os.close(rules)
    return True


def _readable() -> Iterator[Path]:
    assert chsink.__file__ is not None, "chsink is a regular package"
    yield Path(chsink.__file__).parent
    yield from map(Path, _MACHINE)
    yield from (Path(sysconfig.get_path(name)) for name in _LIBRARIES)


def _allow(rules: int, paths: Sequence[Path], rights: int) -> None:
    for path in paths:
        allowed = rights if path.is_dir() else rights & ~_READ_FOLDER
        handle = os.open(path, _O_PATH | os.O_CLOEXEC)
        try:
            # The kernel's landlock_path_beneath_attr, which is packed.
            rule = struct.pack("=Qi", allowed, handle)
            _checked(_call(_ADD_RULE, rules, _BENEATH_A_PATH, rule, 0))
        finally:
            os.close(handle)


def _call(number: int, *arguments: object) -> int:
    return int(ctypes.CDLL(None, use_errno=True).syscall(number, *arguments))


def _checked(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result
