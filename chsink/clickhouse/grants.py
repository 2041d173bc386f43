"""The grants with which the job's user may change tables: create them, and add columns."""

from __future__ import annotations

from chsink.config import Config
from chsink.notation.sql import TableName, quote_identifier

CREATE, ADD_COLUMNS = "CREATE TABLE", "ALTER ADD COLUMN"


def grants(config: Config, privilege: str, table: TableName) -> dict[str, str]:
    """By privilege, with what it is on: the statement that grants it.  ON CLUSTER needs one of its own."""
    user = quote_identifier(config.clickhouse.user)
    needed = [f"{privilege} ON {table}"]
    if config.tables.cluster:
        needed.append("CLUSTER ON *.*")
    return {one: f"GRANT {one} TO {user}" for one in needed}


def statement(config: Config, privilege: str, table: TableName) -> str:
    """All of them, for a message."""
    return "; ".join(grants(config, privilege, table).values())
