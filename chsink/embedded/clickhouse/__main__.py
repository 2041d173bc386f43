"""``python -m chsink.embedded.clickhouse``: one embedded ClickHouse server in the foreground, until SIGTERM."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

from chsink.embedded.base.ports import HOST, free_port
from chsink.embedded.clickhouse import configuration, library, users
from chsink.embedded.clickhouse.configuration import Ports
from chsink.embedded.clickhouse.confinement import confine, forget_environment
from chsink.embedded.clickhouse.server import Servers
from chsink.embedded.clickhouse.service import answers

_log: Final = logging.getLogger(__name__)


def serve(add: Callable[[Ports], Callable[[], None]] | None = None) -> None:
    """Load the engine, wake its servers, print their addresses when clients are served.

    ``add`` may add to the engine once it is loaded; what it returns is called when clients are served.
    """
    arguments = _arguments()
    forget_environment()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    path = arguments.path.resolve()
    ports = Ports(arguments.port or free_port(), arguments.native_port or free_port())
    folders = configuration.write(
        path,
        ports,
        arguments.zookeeper,
        arguments.keeper_map_prefix,
        users.load(arguments.users) if arguments.users else (),
        _text(arguments.config),
        _text(arguments.users_config),
    )
    if not confine(path):
        _log.warning("this system has no Landlock: statements can reach any file that this user can")
    servers = Servers(library.load(), folders.data, folders.config)
    added = add(ports) if add is not None else None
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())

    def say_ready() -> None:
        os.chdir(folders.user_files)  # where statements find relative paths
        if added is not None:
            added()
        print(f"ready http://{HOST}:{ports.http} native {HOST}:{ports.native}", flush=True)  # noqa: T201

    served = servers.run(lambda: answers(ports.http), say_ready, stop)
    sys.stdout.flush()
    # The engine's own exit handlers have nothing left to do, and at interpreter exit they would race with its threads.
    os._exit(0 if served else 1)


def _text(path: Path | None) -> str | None:
    return None if path is None else path.read_text(encoding="utf-8")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m chsink.embedded.clickhouse", description=__doc__)
    parser.add_argument("--path", type=Path, required=True, help="folder of the server; one server at a time")
    parser.add_argument("--port", type=int, default=0, help="HTTP port on 127.0.0.1; 0 takes a free one")
    parser.add_argument("--native-port", type=int, default=0, help="port of the native protocol; 0 takes a free one")
    parser.add_argument("--zookeeper", help="host:port[,host:port…] of ZooKeeper, for KeeperMap")
    parser.add_argument("--keeper-map-prefix", default="/keeper_map", help="ZooKeeper folder of KeeperMap tables")
    parser.add_argument("--config", type=Path, help="XML to be merged into the server's configuration")
    parser.add_argument("--users-config", type=Path, help="XML to be merged into the users' configuration")
    parser.add_argument("--users", type=Path, help="JSON list of users: name, password, grants")
    return parser.parse_args()


if __name__ == "__main__":
    serve()
