"""``SHOW CREATE TABLE`` of a system table, which a server answers and the embedded engine does not."""

from __future__ import annotations

from chsink.embedded.clickhouse.engine import literal
from chsink.embedded.clickhouse.statement import named_in_show_create

_CREATE = """
SELECT concat('CREATE TABLE system.', any(table), '\\n(\\n    ',
    arrayStringConcat(
        arrayMap(c -> concat('`', c.2, '`', ' ', c.3), arraySort(groupArray((position, name, type)))), ',\\n    '),
    '\\n)\\nENGINE = ', any(engine)) AS statement
FROM system.columns
INNER JOIN (SELECT name AS table, engine FROM system.tables WHERE database = 'system') AS t USING (table)
WHERE database = 'system' AND table = {name}
GROUP BY table
"""


def show_create(text: bytes) -> bytes | None:
    """The statement to run instead of ``SHOW CREATE TABLE`` of a system table; None for any other statement.

    It has no rows when there is no such table.
    """
    name = named_in_show_create(text.decode("latin-1"), "system")
    return None if name is None else _CREATE.replace("{name}", literal(name)).encode("latin-1")
