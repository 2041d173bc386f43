"""Users of an embedded server, each with a settings profile of its own."""

from __future__ import annotations

from collections.abc import Mapping


def users_of(profiles: Mapping[str, Mapping[str, object]]) -> str:
    """The inside of ``<clickhouse>`` in a users' configuration file: for each profile a user of the same name, who has
    no password and all rights.  The user ``default`` is there already.
    """
    settings = {name: "".join(f"<{k}>{v}</{k}>" for k, v in each.items()) for name, each in profiles.items()}
    rights = "<password></password><networks><ip>::/0</ip></networks><quota>default</quota>"
    users = "".join(f"<{name}>{rights}<profile>{name}</profile></{name}>" for name in profiles if name != "default")
    listed = "".join(f"<{name}>{text}</{name}>" for name, text in settings.items())
    return f"<profiles>{listed}</profiles><users>{users}</users>"
