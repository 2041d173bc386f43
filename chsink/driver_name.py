"""The name of a driver: it stands in claims, and in the error messages of the drivers that it fences."""

from __future__ import annotations

import os
import socket
import uuid


def driver_name() -> str:
    """A name that is unique to this process and start."""
    return f"{socket.gethostname()} pid {os.getpid()} {uuid.uuid4().hex[:6]}"
