"""The registry as a service of the local stack."""

from __future__ import annotations

import socket
import sys
from collections.abc import Sequence
from pathlib import Path

from chsink.embedded.base.ports import HOST
from chsink.embedded.base.service import Service


class EmbeddedRegistry(Service):
    """``with EmbeddedRegistry(path) as r: SchemaRegistryClient({"url": r.url})``; ``port=0`` takes a free one."""

    def __init__(self, path: Path | str, port: int = 0, *, detach: bool = False) -> None:
        super().__init__("registry", path, port, detach=detach, start_limit_s=60, stop_limit_s=5)

    @property
    def url(self) -> str:
        """What ``schema_registry.url`` takes."""
        return f"http://{self.address}"

    def _prepare(self) -> Sequence[str]:
        return [
            sys.executable,
            "-m",
            "chsink.embedded.registry.server",
            str(self.port),
            str(self.path / "schemas.jsonl"),
        ]

    def _is_ready(self) -> bool:
        try:
            socket.create_connection((HOST, self.port), timeout=1).close()
        except OSError:
            return False
        return True
