"""The mirror beside ClickHouse's side: the process ends, whatever the mirror waits for."""

from __future__ import annotations

import socket
from threading import Thread
from typing import Any, cast

import pytest
import structlog

from chsink.config import Config
from chsink.observe.metrics import MirrorMetrics
from chsink.spark import mirror_thread
from chsink.spark.mirror_thread import MirrorBeside
from chsink.stop import StopSignals


def test_a_catalog_that_never_answers_does_not_keep_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """⚑ A supervisor starts ClickHouse's side again only after the process has ended."""
    monkeypatch.setattr(mirror_thread, "END_S", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        catalog = {"name": "lake", "type": "rest", "uri": f"http://127.0.0.1:{silent.getsockname()[1]}"}
        config = Config.from_mapping(
            {
                "sink": {"name": "orders"},
                "kafka": {"bootstrap": "127.0.0.1:1"},
                "route": [{"topic": "orders", "table": "t"}],
                "clickhouse": {"endpoints": ["http://127.0.0.1:8123"]},
                "mirror": {"enabled": True, "catalog": catalog, "route": [{"topic": "orders", "table": "a.b"}]},
            }
        )

        taken: list[socket.socket] = []

        def both() -> None:
            log = structlog.get_logger("beside")
            with MirrorBeside(config, cast("Any", None), StopSignals(), log, MirrorMetrics("orders")) as mirror:
                taken.append(silent.accept()[0])
                mirror.end()

        process = Thread(target=both, daemon=True)
        process.start()
        process.join(30)
        assert taken and not process.is_alive()
        taken[0].close()
