"""Feeds a statement's data to the engine through a named pipe.

Why a pipe: the engine's own streaming insert reports success when the insert failed in its table (too many parts, no
space, a key that exists), so it cannot be used.  ``INSERT … FROM INFILE`` reports every error, parses in parallel where
that is asked for, and reads a pipe, which leaves no copy of the data behind when the process is killed.

The data are complete in memory before the statement starts, so the end of the pipe is the end of the data.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

_PIPE_BYTES: Final = 1 << 20
_STEP_S: Final = 0.01


@contextlib.contextmanager
def piped(folder: Path, pieces: Sequence[bytes]) -> Iterator[Path]:
    """The path of a pipe that yields ``pieces`` to one reader; what was not read is dropped at the end."""
    path = folder / uuid.uuid4().hex
    os.mkfifo(path, 0o600)
    writer = threading.Thread(target=_write, args=(path, pieces), name="feed", daemon=True)
    writer.start()
    try:
        yield path
    finally:
        while writer.is_alive():
            # A statement refused before it read leaves the writer waiting for a reader: be one, and leave.
            reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
            writer.join(_STEP_S)
            os.close(reader)
        path.unlink()


def _write(path: Path, pieces: Sequence[bytes]) -> None:
    pipe = os.open(path, os.O_WRONLY)
    try:
        with contextlib.suppress(OSError):  # a smaller pipe does it too
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        for piece in pieces:
            view = memoryview(piece)
            while view:
                view = view[os.write(pipe, view) :]
    except BrokenPipeError:
        return  # the engine wants no more of it; its answer says why
    finally:
        os.close(pipe)
