"""Tables that records name by ``others`` (``table_by``), and that do not exist yet.

Rules:
- Nothing of a range is handed over whose records name such a table: so no record of it was handed over before.
- The table is created first, and then listed in a table of its topic that the job file names, with its uuid: a table of
  another uuid was created again, and does not begin by itself.  A start takes what is listed as if the job file named
  it.
- The topic's choice stays the same: which table a record names depends on the record alone.  So the table begins where
  the others lack nothing, and whatever is read again is divided as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from chsink.config import Config
from chsink.config.mirror import MirrorRoute
from chsink.errors import ChsinkError, halts
from chsink.mirror.failures import in_words
from chsink.mirror.known_tables import ATTEMPTS, KnownTables
from chsink.mirror.lacking import Wanted, tables_named_by
from chsink.mirror.opening import OpenMirror, named_in
from chsink.mirror.stop_reasons import Stuck
from chsink.notation.table_template import value_pattern_of

Create = Callable[[Config, str, Wanted], str]
"""Creates a table of this configuration, with these columns at least, unless it exists; gives its uuid."""
SHOWN = 5
"""How many tables an error names."""


def begin_tables(mirror: OpenMirror, begins: ChsinkError, create: Create) -> None:
    """Create and list the tables that ``begins``, MIRROR_TABLES_BEGIN, names.

    Raises HaltError CHS-360 if a topic would have too many, InvalidConfigError if another route of the topic leads to
    one of them, UnavailableError, and as ``create``.
    """
    for topic, wanted in sorted(tables_named_by(begins).items()):
        for route in mirror.config.mirror.naming:
            assert route.choice is not None, route
            mine = {n: columns for n, columns in wanted.items() if value_pattern_of(route.choice.others, n)}
            if route.topic == topic and mine:
                _begin(mirror, route, mine, create)


def _begin(mirror: OpenMirror, route: MirrorRoute, mine: Mapping[str, Wanted], create: Create) -> None:
    by = route.section.table_by
    assert by is not None, route
    with in_words(mirror.names):
        names = {*named_in(mirror.targets[route.table].table), *mine}
    if len(names) > by.max_tables:
        shown = ", ".join([*sorted(mine)[:SHOWN], *(["…"] if len(mine) > SHOWN else [])])
        raise halts.MIRROR_TOO_MANY_TABLES(topic=route.topic, most=by.max_tables, tables=shown)
    config = mirror.config.with_named({route.table: names})
    uuids = {name: create(config, name, columns) for name, columns in sorted(mine.items())}
    with in_words(mirror.names):
        list_tables(KnownTables(mirror.targets, mirror.names.topic), route.table, uuids)


def list_tables(tables: KnownTables, holder: str, uuids: Mapping[str, str]) -> None:
    """List these tables in the table ``holder``.  Raises as :meth:`KnownTables.read`, and :class:`Stuck`."""
    table = tables.targets[holder].table
    for _ in range(ATTEMPTS):
        read, _ = tables.read(holder)
        listed = table.keys.names(read.table.metadata.properties)
        new = {name: found for name, found in uuids.items() if name not in listed}
        if not new:
            return
        table.name_tables(read, new)
    raise Stuck(holder, 1, "others keep changing the table")
