"""The engine's configuration files, written before each start.

- ``default`` is a plain Atomic database, as in a server; the embedded engine's own would overlay it with the files of
  the working directory. It is put into the metadata before the engine's first start.
- The profile takes back what an embedded engine changes for use inside a program, so that statements mean what they
  mean in a server (no implicit SELECT, no introspection functions, no memory-mapped files).
- Further server or user settings are XML fragments, merged by the engine's own ``config.d`` rules: limits,
  ``<merge_tree>``, ``<macros>``, a profile's ``<constraints>``.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

from chsink.embedded.clickhouse.users import ALL, ClickHouseUser

_PROFILE: Final = {
    "allow_introspection_functions": "0",
    "implicit_select": "0",
    "storage_file_read_method": "pread",
}


def write(
    path: Path,
    *,
    zookeeper: str | None,
    keeper_map_prefix: str,
    users: Sequence[ClickHouseUser],
    extra_xml: str | None,
    users_xml: str | None,
) -> tuple[Path, Path, Path]:
    """Write the files below ``path``; returns the engine's data folder, its configuration file, and a folder for pipes.

    ``zookeeper`` is ``host:port[,host:port…]``; the XML arguments are the inside of ``<clickhouse>``.
    """
    data, config, pipes = path / "data", path / "conf" / "config.xml", path / "pipes"
    for folder in (data / "metadata", path / "conf" / "config.d", path / "conf" / "users.d", user_files(path)):
        folder.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(pipes, ignore_errors=True)
    pipes.mkdir()
    default = data / "metadata" / "default.sql"
    if not default.exists():
        default.write_text(f"ATTACH DATABASE default UUID '{uuid.uuid4()}'\nENGINE = Atomic\n", encoding="utf-8")
    # The engine would take the folder behind this link for its overlay too, and load each table twice.  It creates
    # the link again when it loads the database.
    (data / "metadata" / "default").unlink(missing_ok=True)
    users_file = path / "conf" / "users.xml"
    _write(config, _server(path, users_file, zookeeper, keeper_map_prefix))
    _write(users_file, _users(users))
    _write(path / "conf" / "config.d" / "extra.xml", extra_xml or "")
    _write(path / "conf" / "users.d" / "extra.xml", users_xml or "")
    return data, config, pipes


def user_files(path: Path) -> Path:
    """The folder for files that statements name."""
    return path / "user_files"


def _write(path: Path, inside: str) -> None:
    path.write_text(f"<clickhouse>{inside}</clickhouse>\n", encoding="utf-8")


def _server(path: Path, users_file: Path, zookeeper: str | None, keeper_map_prefix: str) -> str:
    parts = [
        "<default_database>_overlay</default_database>",
        "<log-level>warning</log-level>",
        f"<user_files_path>{escape(str(user_files(path)))}/</user_files_path>",
        f"<logger><log>{escape(str(path / 'engine.log'))}</log></logger>",
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
    profile = "".join(f"<{name}>{value}</{name}>" for name, value in _PROFILE.items())
    roles = "".join(f"<{user.role}>{_grants(user.grants)}</{user.role}>" for user in users)
    own = _grants([f"GRANT {user.role}" for user in users] or ALL)
    return (
        f"<profiles><default>{profile}</default></profiles><quotas><default/></quotas><roles>{roles}</roles>"
        "<users><default><password></password><networks><ip>::/0</ip></networks>"
        f"<profile>default</profile><quota>default</quota>{own}</default></users>"
    )


def _grants(grants: Sequence[str]) -> str:
    return f"<grants>{''.join(f'<query>{escape(grant)}</query>' for grant in grants)}</grants>"
