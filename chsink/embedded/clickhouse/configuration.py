"""The server's configuration files, written before each start.

- ``default`` is a plain Atomic database, as in any server.  The embedded engine's own would overlay it with the files
  of the working directory: that one gets another name, and no user uses it.
- The profile takes back what an embedded engine changes for use inside a program, so that statements mean what they
  mean in a server (no implicit SELECT, no introspection functions, no memory-mapped files).
- Further settings of the server or of users are XML fragments, merged by ClickHouse's own ``config.d`` rules: limits,
  ``<merge_tree>``, ``<macros>``, ``<remote_servers>``, a profile's ``<constraints>``, ``<query_log>``.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple
from xml.sax.saxutils import escape

from chsink.embedded.base.ports import HOST
from chsink.embedded.clickhouse.users import DEFAULT, ClickHouseUser

_PROFILE: Final = {
    "allow_introspection_functions": "0",
    "implicit_select": "0",
    "storage_file_read_method": "pread",
}
# The embedded engine starts with one thread, and a server with hundreds: Replicated tables need several each.
_SCHEDULE_THREADS: Final = 32
_SCRIPT: Final = ("GRANT SYSTEM LISTEN, FILE, CREATE TEMPORARY TABLE ON *.*",)


class Folders(NamedTuple):
    """Where a server keeps what: its data, its configuration, and the files that statements name."""

    data: Path
    config: Path
    user_files: Path


class Ports(NamedTuple):
    """On 127.0.0.1: HTTP, and the native protocol."""

    http: int
    native: int


def write(  # noqa: PLR0917 - all that a server is given
    path: Path,
    ports: Ports,
    zookeeper: str | None,
    keeper_map_prefix: str,
    users: Sequence[ClickHouseUser],
    extra_xml: str | None,
    users_xml: str | None,
) -> Folders:
    """Write the files below ``path``.

    ``zookeeper`` is ``host:port[,host:port…]``; the XML arguments are a file with the root ``<clickhouse>``, or what is
    inside it.
    """
    folders = Folders(path / "data", path / "conf", path / "user_files")
    config, merged = folders.config, ("config.d", "users.d")
    for folder in (folders.data / "metadata", *(config / name for name in merged), folders.user_files):
        folder.mkdir(parents=True, exist_ok=True)
    default = folders.data / "metadata" / "default.sql"
    if not default.exists():
        default.write_text(f"ATTACH DATABASE default UUID '{uuid.uuid4()}'\nENGINE = Atomic\n", encoding="utf-8")
    # The engine would take the folder behind this link for its overlay too, and load each table twice.  It creates
    # the link again when it loads the database.
    (folders.data / "metadata" / "default").unlink(missing_ok=True)
    _write(config / "config.xml", _server(path, folders, ports, zookeeper, keeper_map_prefix))
    _write(config / "users.xml", _users(users))
    for name, text in zip(merged, (extra_xml, users_xml), strict=True):
        _write(config / name / "given.xml", text or "")
    return folders


def _write(path: Path, inside: str) -> None:
    """Where only the owner reads it: users have passwords, and so may a fragment."""
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)
    whole = "<clickhouse>" in inside  # a file of the usual form: its root inside another would be ignored silently
    path.write_text(inside if whole else f"<clickhouse>{inside}</clickhouse>\n", encoding="utf-8")


def _server(path: Path, folders: Folders, ports: Ports, zookeeper: str | None, keeper_map_prefix: str) -> str:
    users_file = folders.config / "users.xml"
    parts = [
        f"<listen_host>{HOST}</listen_host><http_port>{ports.http}</http_port><tcp_port>{ports.native}</tcp_port>",
        "<default_database>_overlay</default_database>",
        f"<background_schedule_pool_size>{_SCHEDULE_THREADS}</background_schedule_pool_size>",
        "<log-level>warning</log-level>",
        f"<user_files_path>{escape(str(folders.user_files))}/</user_files_path>",
        # A server that nobody asks wakes 20 times a second for the first of these, and again for the second.
        "<memory_worker_period_ms>1000</memory_worker_period_ms>",
        f"<logger><async>false</async><log>{escape(str(path / 'engine.log'))}</log></logger>",
        f"<user_directories><users_xml><path>{escape(str(users_file))}</path></users_xml></user_directories>",
    ]
    if zookeeper is not None:
        nodes = "".join(_node(address) for address in zookeeper.split(","))
        # Every chdb has the same server id: on a common path, servers would end each other's sessions.
        sessions = f"<sessions_path>/clickhouse/sessions/{uuid.uuid4().hex}</sessions_path>"
        parts.append(f"<zookeeper>{nodes}{sessions}</zookeeper>")
        parts.append(f"<keeper_map_path_prefix>{escape(keeper_map_prefix)}</keeper_map_path_prefix>")
    return "".join(parts)


def _node(address: str) -> str:
    host, _, port = address.strip().rpartition(":")
    return f"<node><host>{escape(host)}</host><port>{int(port)}</port></node>"


def _users(users: Sequence[ClickHouseUser]) -> str:
    """The script that keeps the servers awake runs as ``default``, so he is always there, with what it needs."""
    profile = "".join(f"<{name}>{value}</{name}>" for name, value in _PROFILE.items())
    named = users or (ClickHouseUser(DEFAULT),)
    own = () if any(user.name == DEFAULT for user in named) else (ClickHouseUser(DEFAULT, grants=_SCRIPT),)
    known = "".join(map(_user, (*named, *own)))
    return f"<profiles><default>{profile}</default></profiles><quotas><default/></quotas><users>{known}</users>"


def _user(user: ClickHouseUser) -> str:
    grants = "".join(f"<query>{escape(grant)}</query>" for grant in user.grants)
    return (
        f"<{user.name}><password>{escape(user.password)}</password><networks><ip>::/0</ip></networks>"
        "<profile>default</profile><quota>default</quota><default_database>default</default_database>"
        f"<grants>{grants}</grants></{user.name}>"
    )
