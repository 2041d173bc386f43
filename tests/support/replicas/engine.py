"""Replicated tables on the embedded engine: what ClickHouse's server program sets up and the engine alone does not.

chdb has the code of replication, but its start leaves a few things out, so that Replicated tables stay read-only and
``ON CLUSTER`` is refused.  This module adds them in memory, to exactly the build that ``BUILD`` names.  What is added:

- the address that a replica tells the others, and its scheme (the place where their absence would be an error);
- empty credentials between replicas, which mean none;
- the handler of requests between replicas, on the second ``listen_host``;
- the worker that runs ``ON CLUSTER`` statements.

Nothing here touches how data are stored, replicated or deduplicated: that is ClickHouse's own code.
"""

from __future__ import annotations

import ctypes
import importlib.metadata
import platform
import sys
import sysconfig
from pathlib import Path
from typing import Any, Final

from tests.support.replicas.memory import LIBRARY, Memory, build_id, read_word, to, word

PACKAGE, VERSION = "chdb-core", "26.9.0"
BUILD: Final = "bdc4640446f9e58ef835635e38764a5992cd4b3c"

_CODE: Final = (0x9057000, 0x9056000)
_NO_ADDRESS: Final = (0x1472183C, "bf80010000")
"""Where ``Context::getInterserverIOAddress`` would throw, and where it goes on with an address."""
_WITH_ADDRESS: Final = 0x147217CA
_GET_CREDENTIALS: Final = (0x14721740, "41574156534c8b3f")
_CREDENTIALS_OF_REQUEST: Final = 0x190E73AD
"""The return address of the handler's call."""
_CREATE_HANDLER: Final = (0x19097340, "554157415641554154534881ec68010000")
_HANDLER: Final = b"InterserverIOHTTPHandler-factory"
_HOST_AT, _PORT_AT, _SCHEME_AT = 0x150, 0x168, 0x170
_DDL_WORKER_AT, _DDL_ALLOWED_AT = 0xDB8, 0x910
_NEW, _DDL_WORKER, _DDL_STARTUP, _CATALOG = 0xE6E5DC0, 0x14818BC0, 0x1481AB00, 0x14841240
_SHORT: Final = 22
"""The longest text that a C++ string holds in itself."""

DDL_QUEUE: Final = "/clickhouse/task_queue/ddl"
_DDL_REPLICAS: Final = "/clickhouse/task_queue/replicas"


def why_not() -> str:
    """Why Replicated tables cannot be run here; empty where they can."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return "NOT RUN: Replicated tables need x86-64 Linux, since the patch is machine code"
    library = Path(sysconfig.get_path("platlib")) / "chdb" / LIBRARY
    found = build_id(library) if library.exists() else "none"
    if found != BUILD:
        installed = importlib.metadata.version(PACKAGE)
        return (
            f"NOT RUN: Replicated tables need {PACKAGE} {VERSION} (build {BUILD}); installed is {installed} ({found}). "
            "Pin that version, or find the places of tests/support/replicas/engine.py in the new one"
        )
    return ""


class Replication:
    """Adds to the loaded engine what replication needs.  ``host`` and ``port`` are the second ``listen_host`` and the
    HTTP port: there the other replicas reach this one.
    """

    def __init__(self, host: str, port: int) -> None:
        self._memory = Memory(*_CODE)
        # How many handlers were created, and the address of the server object.
        self._handlers = self._memory.put(word(0) + word(0))
        self._set_address(host, port)
        self._set_credentials()
        self._add_handler()

    def start_ddl_worker(self) -> None:
        """What the server program does once it listens: make the worker, give it to the context, start it."""
        # The engine's objects: a virtual method returns a shared pointer in two registers.
        out = self._memory.put(bytes(16))
        # push rbx; mov rbx, rdx; mov rax, rdi; mov rdi, rsi; call rax; mov [rbx], rax; mov [rbx+8], rdx; pop rbx; ret
        thunk = self._memory.put(bytes.fromhex("534889d34889f84889f7ffd0488903488953085bc3"))
        call = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3)(thunk)
        server = read_word(self._handlers + 8)
        methods = read_word(server)
        call(read_word(methods), server, out)
        config = read_word(out)
        call(read_word(methods + 16), server, out)
        context, counter = read_word(out), read_word(out + 8)
        shared = read_word(context)
        assert read_word(shared + _DDL_WORKER_AT) == 0, "there is a worker already"
        worker = self._function(_NEW, ctypes.c_void_p, ctypes.c_size_t)(_PAGE)
        ctypes.memset(worker, 0, _PAGE)
        construct = self._function(_DDL_WORKER, None, *[ctypes.c_void_p] * 12)
        queue, replicas, prefix, profile, name = map(
            self._text, (DDL_QUEUE, _DDL_REPLICAS, "distributed_ddl", "default", "DDLWorker")
        )
        one_at_a_time = 1
        construct(worker, one_at_a_time, queue, replicas, context, counter, config, prefix, profile, name, None, None)
        ctypes.memmove(shared + _DDL_WORKER_AT, word(worker), 8)
        self._function(_DDL_STARTUP, None, ctypes.c_void_p)(worker)
        catalog = self._function(_CATALOG, ctypes.c_void_p)()
        ctypes.memset(catalog + _DDL_ALLOWED_AT, 1, 1)

    def _set_address(self, host: str, port: int) -> None:
        cell = self._memory.put(word(0) + word(0) + _short(host) + word(port) + _short("http"))
        code = b"\x48\xb8" + word(cell)  # mov rax, cell
        code += bytes.fromhex("4889304c897008")  # mov [rax], rsi; mov [rax+8], r14
        for number, place in enumerate((_HOST_AT, _HOST_AT + 8, _HOST_AT + 16)):
            code += _copy(16 + 8 * number, place)
        code += b"\x66\x8b\x48\x28\x66\x41\x89\x8e" + _offset(_PORT_AT)  # mov cx, [rax+40]; mov [r14+…], cx
        for number, place in enumerate((_SCHEME_AT, _SCHEME_AT + 8, _SCHEME_AT + 16)):
            code += _copy(48 + 8 * number, place)
        at, expected = _NO_ADDRESS
        self._memory.divert(at, bytes.fromhex(expected), code + to(self._memory.address(_WITH_ADDRESS)))

    def _set_credentials(self) -> None:
        """A replica that asks has empty ones; the handler has none, which is `no authentication`."""
        empty = self._memory.put(bytes(512))
        code = b"\x48\xb9" + word(self._memory.address(_CREDENTIALS_OF_REQUEST))  # mov rcx, …
        code += bytes.fromhex("31c031d248390c24740a")  # xor eax, eax; xor edx, edx; cmp [rsp], rcx; je the end
        code += b"\x48\xb8" + word(empty) + b"\xc3"  # mov rax, empty; the end: ret
        at, expected = _GET_CREDENTIALS
        self._memory.divert(at, bytes.fromhex(expected), code)

    def _add_handler(self) -> None:
        """The handler that is created second gets the name of the one for replicas."""
        name = self._text(_HANDLER.decode())
        code = b"\x50\x48\xb8" + word(self._handlers)  # push rax; mov rax, cell
        code += bytes.fromhex("48897808ff00833802750a")  # mov [rax+8], rdi; inc; cmp 2; jne
        code += b"\x48\xb9" + word(name) + b"\x58"  # mov rcx, name; pop rax
        at, text = _CREATE_HANDLER
        begin = bytes.fromhex(text)
        self._memory.divert(at, begin, code + begin + to(self._memory.address(at) + len(begin)))

    def _text(self, text: str) -> int:
        """A C++ string."""
        if len(text) <= _SHORT:
            return self._memory.put(_short(text))
        data = text.encode()
        capacity = 1 << 63 | len(data) + 16 & ~15
        return self._memory.put(word(self._memory.put(data + b"\0")) + word(len(data)) + word(capacity))

    def _function(self, at: int, result: Any, *arguments: Any) -> Any:
        return ctypes.CFUNCTYPE(result, *arguments)(self._memory.address(at))


_PAGE: Final = 4096


def _short(text: str) -> bytes:
    """A C++ string that holds its text itself."""
    data = text.encode()
    assert len(data) <= _SHORT, text
    return data.ljust(_SHORT + 1, b"\0") + bytes([len(data)])


def _copy(cell: int, place: int) -> bytes:
    """Through a register: mov rcx, [rax+cell]; mov [r14+place], rcx."""
    return b"\x48\x8b\x48" + bytes([cell]) + b"\x49\x89\x8e" + _offset(place)


def _offset(value: int) -> bytes:
    return value.to_bytes(4, "little", signed=True)
