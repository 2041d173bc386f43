"""``python -m chsink.embedded.clickhouse``: one embedded ClickHouse server in the foreground, until SIGTERM."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
from pathlib import Path
from typing import Final

from chsink.embedded.clickhouse import configuration, users
from chsink.embedded.clickhouse.confinement import confine, forget_environment
from chsink.embedded.clickhouse.engine import Engine
from chsink.embedded.clickhouse.server import Front, serve
from chsink.embedded.ports import HOST

_log: Final = logging.getLogger(__name__)


def main() -> None:
    """Start the engine, then the front; print the port when clients are served."""
    arguments = _arguments()
    forget_environment()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    path = arguments.path.resolve()
    known = users.load(arguments.users) if arguments.users else ()
    data, config, pipes = configuration.write(
        path,
        zookeeper=arguments.zookeeper,
        keeper_map_prefix=arguments.keeper_map_prefix,
        users=known,
        extra_xml=arguments.config.read_text(encoding="utf-8") if arguments.config else None,
        users_xml=arguments.users_config.read_text(encoding="utf-8") if arguments.users_config else None,
    )
    if not confine(path):
        _log.warning("this system has no Landlock: statements can reach any file that this user can")
    # Where statements find relative paths.
    os.chdir(configuration.user_files(path))
    engine = Engine(data, config, pipes)
    asyncio.run(_serve(engine, users.Users(known), arguments))
    engine.close()
    # The engine's own exit handlers have nothing left to do, and at interpreter exit they would race with its threads.
    os._exit(0)


async def _serve(engine: Engine, known: users.Users, arguments: argparse.Namespace) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)

    def ready(port: int) -> None:
        print(f"ready http://{HOST}:{port}", flush=True)  # noqa: T201  what a person or a script waits for

    front = Front(engine, known, f"embedded-{arguments.path.name}")
    await serve(front, (HOST, arguments.port), ready, stop)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m chsink.embedded.clickhouse", description=__doc__)
    parser.add_argument("--path", type=Path, required=True, help="folder of the server; one server at a time")
    parser.add_argument("--port", type=int, default=0, help="port on 127.0.0.1; 0 takes a free one")
    parser.add_argument("--zookeeper", help="host:port[,host:port…] of ZooKeeper, for KeeperMap")
    parser.add_argument("--keeper-map-prefix", default="/keeper_map", help="ZooKeeper folder of KeeperMap tables")
    parser.add_argument("--config", type=Path, help="XML to be merged into the server's configuration")
    parser.add_argument("--users-config", type=Path, help="XML to be merged into the users' configuration")
    parser.add_argument("--users", type=Path, help="JSON list of users: name, password, grants")
    return parser.parse_args()


if __name__ == "__main__":
    main()
