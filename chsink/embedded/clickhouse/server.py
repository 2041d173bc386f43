"""ClickHouse's own servers on the engine of this process: started, kept, stopped in order.

Two statements wake the servers for HTTP and for the native protocol.  They listen as long as the script that has the
statements runs: its last one reads a named pipe, which this process holds open.  Closing the pipe ends the script;
ClickHouse then takes no new connections, gives running statements five seconds, and shuts down.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

_READY_POLL_S: Final = 0.05
_ALIVE_POLL_S: Final = 1.0
"""How often a running one looks whether its servers ended by themselves.  A signal is seen at once."""


class Servers:
    """The servers of one folder; ``engine`` is the loaded library, ``config`` the folder of ``config.xml``."""

    def __init__(self, engine: Any, data: Path, config: Path) -> None:
        self._engine = engine
        self._data = data
        self._pipe = config / "running"
        self._pipe.unlink(missing_ok=True)
        os.mkfifo(self._pipe, 0o600)
        # For writing too, so that there is never an end to be read.
        self._handle = os.open(self._pipe, os.O_RDWR)
        self._thread = threading.Thread(target=self._serve, name="servers", daemon=True)
        os.chdir(config)  # where the engine looks for config.xml at its start
        engine.set_signal_handlers_enabled(0)

    def run(self, ready: Callable[[], bool], on_ready: Callable[[], None], stop: threading.Event) -> bool:
        """Serve until ``stop``; False if they ended by themselves, the reason printed.  ``on_ready`` is called once."""
        self._thread.start()
        while not stop.wait(_READY_POLL_S) and self._thread.is_alive():
            if not ready():
                continue
            on_ready()
            while not stop.wait(_ALIVE_POLL_S) and self._thread.is_alive():
                pass
            break
        if not stop.is_set():
            return False
        os.close(self._handle)
        # It may end this process instead, when statements are still running then.
        self._thread.join()
        return True

    def _serve(self) -> None:
        # Errors are printed by the engine itself.
        self._engine.query(
            "SYSTEM START LISTEN TCP; SYSTEM START LISTEN HTTP; "
            f"SELECT * FROM file({literal(str(self._pipe))}, LineAsString, 'line String') FORMAT Null",
            "TabSeparated",
            path=str(self._data),
        )


def literal(value: str) -> str:
    """A SQL string literal."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
