"""Whether the job's user has the rights of :mod:`chsink.clickhouse.grants`, as a server says."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

from chsink.clickhouse import grants
from chsink.clickhouse.grants import RIGHTS, SYSTEM_TABLES, Needed, On, Right, Use, rights_on, statement
from chsink.clickhouse.table import TargetTable
from chsink.config import Config
from chsink.errors import preflight
from chsink.findings import Finding, Severity, found, passed
from chsink.notation import codes
from chsink.notation.sql import TableName
from chsink.ports import Queries, ServerRefused

AT_ONCE: Final = 50
"""Tables in one question about rights, which names their columns: most often below the default ``max_query_size``."""
_WITHOUT: Final[Mapping[Use, str]] = {
    Use.RUN: "after a crash, chsink reads more of the table than it needs",
    Use.DLQ: "`chsink dlq` and `chsink verify` do not work",
    Use.VERIFY: "`chsink verify` does not work",
}


def grant_findings(
    client: Queries, config: Config, table: TargetTable, on: On, granted: Collection[str] = ()
) -> Iterator[Finding]:
    """Whether the user may do what the job does on a target, or on the table of dead letters; and whether he may do
    far more.  ``granted`` is known already.
    """
    yield from check_grants(client, config, str(table.at), _rights(table, on), granted)
    if (wide := _wide(table)) in granted or may(client, wide):
        yield found(Severity.INFO, preflight.GRANTS_WIDE, url=client.url, table=str(table.at))


def granted_together(client: Queries, tables: Iterable[TargetTable]) -> set[str]:
    """What the user has on all of some targets, each as a question about one of them names it.  Of what is not there,
    nothing is known: one question was about several tables.
    """
    every, granted = list(tables), set()
    for of in (lambda table: _all(str(table.at), _rights(table, On.TABLE)), _wide):
        for at in range(0, len(every), AT_ONCE):
            asked = [of(table) for table in every[at : at + AT_ONCE]]
            with suppress(ServerRefused):  # it may be too long
                granted |= {*asked} if int(client.query(f"CHECK GRANT {', '.join(asked)}")[0][0]) else set()
    return granted


def _rights(table: TargetTable, on: On) -> list[Right]:
    return [
        replace(right, columns=tuple(c.name for c in table.insertable)) if right.privilege == grants.INSERT else right
        for right in rights_on(on, Use.RUN, Use.LETTERS)
        if not right.optional and set(right.columns) <= {c.name for c in table.columns}
    ]


def _wide(table: TargetTable) -> str:
    return f"DROP TABLE, TRUNCATE ON {table.at}"


def _all(name: str, rights: Iterable[Right]) -> str:
    return ", ".join(f"{Needed(right, (), name).privilege} ON {name}" for right in rights)


def system_grant_findings(client: Queries, config: Config) -> Iterator[Finding]:
    """Whether the user may read the system tables that every job reads.  A server may require a grant for each.

    One question for all of them; only if the answer is no, one for each.
    """
    names = [right.on for right in RIGHTS if right.use is Use.RUN and right.on in SYSTEM_TABLES]
    if may(client, ", ".join(f"SELECT ON {name}" for name in names)):
        yield passed(preflight.GRANT_MISSING, url=client.url, privileges="SELECT", table=", ".join(names))
        return
    missing = [right for right in RIGHTS if right.on in names and not may(client, f"SELECT ON {right.on}")]
    grant = "; ".join(statement(config, right.on, [right]) for right in missing)
    listed = ", ".join(right.on for right in missing)
    said = {"url": client.url, "privilege": "SELECT", "table": listed, "grant": grant}
    yield found(Severity.ERROR, preflight.GRANT_MISSING, **said)


def change_findings(client: Queries, config: Config, use: Use, table: TableName) -> Iterator[Finding]:
    """Whether the user may change the table.  A warning: the job lands records until it has to."""
    for one in grants.to_change(config, use, table):
        if not may(client, f"{one.privilege} ON {one.on}"):
            said = {"url": client.url, "privilege": one.privilege, "table": one.on}
            grant = statement(config, one.on, [one.right])
            yield found(Severity.WARNING, preflight.GRANT_MISSING, grant=grant, **said)


def check_grants(
    client: Queries, config: Config, name: str, rights: Sequence[Right], granted: Collection[str] = ()
) -> Iterator[Finding]:
    """An error for each right that the user lacks on one thing, or one ``ok``: one question, unless it is no."""
    asked = [Needed(right, (), name) for right in rights]
    lacking = _all(name, rights) not in granted and not may(client, _all(name, rights))
    missing = [one for one in asked if lacking and not may(client, f"{one.privilege} ON {name}")]
    for one in missing:
        whole = one.right if one.right.privilege != grants.INSERT else replace(one.right, columns=())
        grant = statement(config, name, [whole])
        privilege = one.right.privilege
        yield found(
            Severity.ERROR, preflight.GRANT_MISSING, url=client.url, privilege=privilege, table=name, grant=grant
        )
    if not missing:
        listed = ", ".join(one.right.privilege for one in asked)
        yield passed(preflight.GRANT_MISSING, url=client.url, privileges=listed, table=name)


def unused_findings(client: Queries, config: Config, asked: Sequence[Needed]) -> Iterator[Finding]:
    """What the user lacks for something that the job can do without: one line for each use."""
    if not asked or may(client, ", ".join(f"{one.privilege} ON {one.on}" for one in asked)):
        return
    for use in dict.fromkeys(one.right.use for one in asked):
        missing = [one for one in asked if one.right.use == use and not may(client, f"{one.privilege} ON {one.on}")]
        if missing:
            grant = "; ".join(statement(config, one.on, [one.right]) for one in missing)
            on = ", ".join(one.on for one in missing)
            said = {"url": client.url, "privilege": missing[0].privilege, "table": on, "use": _WITHOUT[use]}
            yield found(Severity.INFO, preflight.GRANT_UNUSED, grant=grant, **said)


def may(client: Queries, privileges: str) -> bool:
    """Whether this user has the privileges.  True where the server is too old to be asked: then the first use tells."""
    try:
        return bool(int(client.query(f"CHECK GRANT {privileges}")[0][0]))
    except ServerRefused as refused:
        if refused.code == codes.SYNTAX_ERROR:
            return True
        raise
