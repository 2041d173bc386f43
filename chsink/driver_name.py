"""How a driver is called in claims, and in the errors of the drivers that it fences."""

from __future__ import annotations

import os
import socket
import uuid


def driver_name() -> str:
    """A name for this process and start that no other has."""
    return f"{socket.gethostname()} pid {os.getpid()} {uuid.uuid4().hex[:6]}"
