"""Free TCP ports on 127.0.0.1 that stay free until their service listens.

Asking the kernel for "any" port gives one of the range it also takes for outgoing connections: while a service
restarts, a client that keeps trying to reach it can be given that very port and connect to itself.  So ports are drawn
at random from below that range, and one drawn is reserved for this process through an abstract socket name, which no
other process using this module can bind and which the kernel frees when this process ends, however it ends.
"""

from __future__ import annotations

import errno
import random
import socket
import sys
from typing import Final

from chsink.errors import local

HOST: Final = "127.0.0.1"
_FIRST: Final = 20_000
_END: Final = 32_000
_ATTEMPTS: Final = 2_000

_reserved: set[int] = set()
_random = random.SystemRandom()


def free_port() -> int:
    """A port on 127.0.0.1 on which no process listens, reserved for this process; never returned twice.

    Raises CHS-904 when none is found within a bounded number of draws.
    """
    for _ in range(_ATTEMPTS):
        port = _random.randrange(_FIRST, _END)
        if port not in _reserved and is_free(port) and _reserve(port):
            _reserved.add(port)
            return port
    raise local.NO_FREE_PORT(first=_FIRST, end=_END, host=HOST)


def is_free(port: int) -> bool:
    """Whether a server could listen on the port now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            if error.errno in (errno.EADDRINUSE, errno.EACCES):
                return False
            raise
    return True


def accepts(port: int, timeout_s: float = 0.5) -> bool:
    """Whether somebody accepts connections on the port now."""
    try:
        with socket.create_connection((HOST, port), timeout=timeout_s):
            return True
    except OSError:
        return False


def _reserve(port: int) -> bool:
    """Take the port's name among processes; only Linux has names that free themselves, elsewhere chance must do."""
    if sys.platform != "linux":
        return True
    name = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        name.bind(f"\0chsink-port-{port}")
    except OSError as error:
        name.close()
        if error.errno == errno.EADDRINUSE:
            return False
        raise
    name.detach()  # the name is kept until this process ends: no object is to close it, or to be missed at the end
    return True
