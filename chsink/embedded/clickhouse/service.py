"""The embedded server as a service: a process of its own, with the API that Kafka and ZooKeeper have too."""

from __future__ import annotations

import http.client
import importlib.util
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import chsink
from chsink.embedded.base.ports import HOST, free_port
from chsink.embedded.base.service import Service
from chsink.embedded.clickhouse import users as user_files
from chsink.embedded.clickhouse.users import ClickHouseUser
from chsink.errors import local as errors

EXTRA = ("chdb",)
"""What the server loads at its start, of the extra ``chsink[dev]``.  Packages are named like their modules."""


class EmbeddedClickHouse(Service):
    """``with EmbeddedClickHouse(path, zookeeper=z.hosts) as c: get_client(host=c.host, port=c.port)``.

    ``extra_xml`` and ``users_xml`` are the inside of ``<clickhouse>`` in a server's and a users' configuration file;
    without ``users`` there is ``default`` with no password and all rights.  Several servers may share one ZooKeeper and
    one ``keeper_map_prefix``, and then see each other's KeeperMap tables made with the same path.
    """

    program = "chsink.embedded.clickhouse"
    """The module that serves."""

    def __init__(
        self,
        path: Path | str,
        *,
        zookeeper: str | None = None,
        keeper_map_prefix: str = "/keeper_map",
        users: Sequence[ClickHouseUser] = (),
        extra_xml: str | None = None,
        users_xml: str | None = None,
        port: int = 0,
        native_port: int = 0,
        detach: bool = False,
    ) -> None:
        missing = [name for name in EXTRA if importlib.util.find_spec(name) is None]
        if missing:
            raise errors.NO_DEV_EXTRA(missing=" ".join(missing), python=sys.executable)
        super().__init__("clickhouse", path, port, detach=detach, start_limit_s=60, stop_limit_s=20)
        self.native_port = native_port or free_port()
        self.zookeeper = zookeeper
        self.keeper_map_prefix = keeper_map_prefix
        self.users = tuple(users)
        self.extra_xml = extra_xml
        self.users_xml = users_xml

    @property
    def url(self) -> str:
        """The HTTP interface."""
        return f"http://{self.address}"

    def _prepare(self) -> Sequence[str]:
        argv = [sys.executable, "-m", self.program, "--path", str(self.path), "--port", str(self.port)]
        argv += ["--native-port", str(self.native_port), "--keeper-map-prefix", self.keeper_map_prefix]
        if self.zookeeper is not None:
            argv += ["--zookeeper", self.zookeeper]
        if self.users:
            user_files.save(self.users, self.path / "users.json")
            argv += ["--users", str(self.path / "users.json")]
        for option, text in (("--config", self.extra_xml), ("--users-config", self.users_xml)):
            if text is not None:
                file = self.path / f"given{option[1:]}.xml"
                file.write_text(text, encoding="utf-8")
                argv += [option, str(file)]
        return argv

    def _environment(self) -> Mapping[str, str]:
        """The child imports this very package, from the place where this process found it."""
        assert chsink.__file__ is not None, "chsink is a regular package"
        found = [str(Path(chsink.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
        return {"PYTHONPATH": os.pathsep.join(filter(None, found))}

    def _is_ready(self) -> bool:
        return answers(self.port)


def answers(port: int) -> bool:
    """Whether a server answers on the port now."""
    connection = http.client.HTTPConnection(HOST, port, timeout=1)
    try:
        connection.request("GET", "/ping")
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
