"""Code of the loaded engine, read and replaced in memory: what a patch of one build is made of.  x86-64, Linux."""

from __future__ import annotations

import ctypes
import struct
from pathlib import Path
from typing import Final

LIBRARY: Final = "_chdb.abi3.so"
_MAPS: Final = Path("/proc/self/maps")
_PAGE: Final = 4096
_READ, _WRITE, _EXECUTE = 1, 2, 4
_PRIVATE_ANONYMOUS: Final = 0x22
_ROOM: Final = 65_536
_NOTE: Final = 4
_NOTE_HEAD: Final = struct.pack("<III4s", 4, 20, 3, b"GNU\0")
"""Of the note that has the build id: the lengths of its name and of the id, its type, its name."""


class NotThisBuildError(Exception):
    """The library is not the one that the patch was made for."""


def build_id(library: Path) -> str:
    """The id that the linker gave the library, in hex; empty where there is none."""
    with library.open("rb") as file:
        head = file.read(64)
        (table,), (size, count) = struct.unpack_from("<Q", head, 0x20), struct.unpack_from("<HH", head, 0x36)
        for number in range(count):
            file.seek(table + number * size)
            kind, _, at = struct.unpack_from("<IIQ", file.read(size))
            if kind == _NOTE:
                file.seek(at)
                note = file.read(len(_NOTE_HEAD) + 20)
                if note.startswith(_NOTE_HEAD):
                    return note[len(_NOTE_HEAD) :].hex()
    return ""


class Memory:
    """The library's code in this process; addresses are those in its file.  What is made here lives as long as it."""

    def __init__(self, code_at: int, offset: int) -> None:
        """``code_at`` is the first page of its code, at ``offset`` in the file."""
        self._base = _mapped(offset) - code_at
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._libc.mmap.restype = ctypes.c_void_p
        size, flags, no_file, start = map(ctypes.c_long, (_ROOM, _PRIVATE_ANONYMOUS, -1, 0))
        self._free: int = self._libc.mmap(None, size, _READ | _WRITE | _EXECUTE, flags, no_file, start)
        self._end = self._free + _ROOM

    def address(self, at: int) -> int:
        """Where it is in this process."""
        return self._base + at

    def put(self, data: bytes) -> int:
        """Keep data, or code, somewhere; returns where."""
        place, self._free = self._free, self._free + (len(data) + 31) // 16 * 16
        assert self._free <= self._end, "more is put than there is room for"
        ctypes.memmove(place, data, len(data))
        return place

    def check(self, at: int, expected: bytes) -> None:
        """NotThisBuildError if the code is another."""
        found = ctypes.string_at(self.address(at), len(expected))
        if found != expected:
            raise NotThisBuildError(f"at {at:#x}: {found.hex()} instead of {expected.hex()}")

    def divert(self, at: int, expected: bytes, code: bytes) -> None:
        """Let the code at this place, which starts as expected, jump to other code."""
        self.check(at, expected)
        jump, place = to(self.put(code)), self.address(at)
        page = place // _PAGE * _PAGE
        size = (place + len(jump) - page + _PAGE - 1) // _PAGE * _PAGE
        self._protect(page, size, _READ | _WRITE | _EXECUTE)
        ctypes.memmove(place, jump, len(jump))
        self._protect(page, size, _READ | _EXECUTE)

    def _protect(self, page: int, size: int, rights: int) -> None:
        if self._libc.mprotect(ctypes.c_void_p(page), ctypes.c_size_t(size), rights):
            raise OSError(ctypes.get_errno(), "mprotect")


def _mapped(offset: int) -> int:
    """Where the part of the library with this offset is."""
    for line in _MAPS.read_text(encoding="utf-8").splitlines():
        fields = line.split()
        if line.endswith(LIBRARY) and "x" in fields[1] and int(fields[2], 16) == offset:
            return int(fields[0].partition("-")[0], 16)
    raise NotThisBuildError(f"no part of {LIBRARY} at {offset:#x} is loaded")


def to(address: int) -> bytes:
    """A jump that changes no register."""
    return b"\xff\x25\0\0\0\0" + word(address)


def word(value: int) -> bytes:
    """Eight bytes."""
    return struct.pack("<Q", value)


def read_word(address: int) -> int:
    """The eight bytes there."""
    (value,) = struct.unpack("<Q", ctypes.string_at(address, 8))
    return int(value)
