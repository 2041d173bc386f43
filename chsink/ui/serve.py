"""Serves the page: in a thread beside the job, or as a program of its own."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Final, Protocol

import structlog
import uvicorn

from chsink.config import Config
from chsink.errors import preflight
from chsink.ui.access import LOCAL, Access
from chsink.ui.app import application
from chsink.ui.board import Board
from chsink.ui.document import document
from chsink.ui.picture import JobView, Picture

DEFAULT: Final = ("127.0.0.1", 8686)
START_S: Final = 10.0
GOODBYE_S: Final = 2
"""How long open pages may take to receive the last frame."""


class Looks(Protocol):
    """Who looks: :class:`chsink.ui.eyes.Eyes`."""

    def look(self) -> Picture:
        """One look."""

    def rest(self) -> None:
        """Nobody watches any more."""


class StatusPage:
    """One page of one job.  ``job`` says what a job in this process says of itself, None without one."""

    def __init__(
        self,
        config: Config,
        log: structlog.typing.FilteringBoundLogger,
        eyes: Looks,
        job: Callable[[], JobView | None] = lambda: None,
    ) -> None:
        self._config, self._eyes, self._job = config, eyes, job
        self._picture: Picture | None = None
        self.board = Board(self._look, eyes.rest, config.observe.ui_interval_s, log)
        self.socket = _listening(*(config.observe.ui_place or DEFAULT))
        host, port = self.socket.getsockname()[:2]
        self.url = f"http://{f'[{host}]' if ':' in host else host}:{port}/"
        self.server = _Server(self._settings(), self.board)

    def run(self) -> None:
        """Serve it until the server is told to end: by a signal, in the main thread."""
        try:
            self.server.run(sockets=[self.socket])
        finally:  # uvicorn raises the signal again
            self.board.join(GOODBYE_S)

    def end(self) -> None:
        """Show the end of the job to those who watch, and stop serving."""
        picture = self._picture
        self.board.end(None if picture is None else self._document(replace(picture, job=self._job())))
        self.server.should_exit = True

    def _look(self) -> str:
        self._picture = self._eyes.look()
        return self._document(self._picture)

    def _document(self, picture: Picture) -> str:
        return json.dumps(
            document(picture, job_words=self._config.job_words, interval_s=self._config.observe.ui_interval_s)
        )

    def _settings(self) -> uvicorn.Config:
        observe = self._config.observe
        token = None if observe.ui_token is None else observe.ui_token.get_secret_value()
        host = (observe.ui_place or DEFAULT)[0]
        access = Access(LOCAL | {host.lower()} if observe.ui_is_local else None, token)
        return uvicorn.Config(
            application(self.board, access),
            loop="asyncio",
            http="h11",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            limit_concurrency=200,
            timeout_graceful_shutdown=GOODBYE_S,
        )


@contextmanager
def served(page: StatusPage) -> Iterator[StatusPage]:
    """Serve the page in a thread until the block ends."""
    thread = threading.Thread(target=page.run, name="status page server", daemon=True)
    thread.start()
    until = time.monotonic() + START_S
    while not page.server.started and thread.is_alive() and time.monotonic() < until:
        time.sleep(0.01)
    try:
        yield page
    finally:
        page.end()
        thread.join(START_S)


class _Server(uvicorn.Server):
    """Lets open pages go before it waits for them."""

    def __init__(self, config: uvicorn.Config, board: Board) -> None:
        super().__init__(config)
        self._board = board

    async def shutdown(self, sockets: Sequence[socket.socket] | None = None) -> None:
        """See uvicorn."""
        self._board.end()
        await super().shutdown(None if sockets is None else list(sockets))


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise preflight.PAGE_NOT_SERVED(address=f"{host}:{port}", reason=error.strerror or error) from error
