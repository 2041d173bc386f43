"""A terminal for programs that write otherwise to one."""

from __future__ import annotations

import os
import pty
import subprocess


def on_a_terminal(*command: str) -> str:
    """What a program prints when its outputs are a terminal of 200 columns."""
    leader, follower = pty.openpty()
    environ = os.environ | {"SECRET": "hush", "TERM": "xterm", "COLUMNS": "200"}
    environ.pop("NO_COLOR", None)
    process = subprocess.Popen(command, stdout=follower, stderr=follower, env=environ)
    os.close(follower)
    chunks = []
    while chunk := _read(leader):
        chunks.append(chunk)
    process.wait(10)
    os.close(leader)
    return b"".join(chunks).decode()


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError:  # a terminal whose other side is closed
        return b""
