"""What stops the mirror, or would surprise its owner: found by ``chsink doctor`` and at every start."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from pyiceberg.table import Table

from chsink.config import Config
from chsink.errors import preflight, services
from chsink.findings import Finding, Severity, found, guarded, passed
from chsink.mirror.coordinator import Source, Target
from chsink.mirror.opening import Mirror, open_mirror
from chsink.mirror.tables import CatalogFailed
from chsink.mirror.topic import kafka_findings
from chsink.mirror.types import unsupported

VERSION = 2
FORMAT = "write.format.default"


def mirror_findings(config: Config, kafka: Source) -> Iterator[Finding]:
    """Every check of the mirror that a configuration describes."""
    opened: list[Mirror] = []

    def opening() -> Iterator[Finding]:
        opened.append(open_mirror(config, kafka))
        return iter(())

    yield from guarded("the Iceberg catalog", opening)
    for mirror in opened:
        yield from findings_of(mirror)


def findings_of(mirror: Mirror) -> Iterator[Finding]:
    """Every check of an opened mirror."""
    yield from guarded("the control topic", partial(kafka_findings, mirror.names))
    for target in mirror.targets.values():
        findings = list(guarded("an Iceberg table", partial(_table, target)))
        yield from findings
        if any(finding.id == services.MIRROR_CATALOG_UNAVAILABLE.id for finding in findings):
            return  # once it does not answer, it is not asked again


def _table(target: Target) -> Iterator[Finding]:
    name = target.table.identifier
    try:
        table = target.table.load()
    except CatalogFailed as error:
        raise services.MIRROR_CATALOG_UNAVAILABLE(reason=error) from error
    if table is None:
        yield found(Severity.ERROR, preflight.MIRROR_NO_TABLE, table=name, catalog=target.reference.catalog)
    else:
        yield from table_findings(name, table)


def table_findings(name: str, table: Table) -> Iterator[Finding]:
    """What the mirror does not write is refused by name."""
    fine = True
    for finding in _refusals(name, table):
        fine = False
        yield finding
    if fine:
        yield passed(preflight.MIRROR_NO_TABLE, table=name, columns=len(table.schema().fields))


def _refusals(name: str, table: Table) -> Iterator[Finding]:
    error = Severity.ERROR
    if fields := ", ".join(field.name for field in table.spec().fields):
        yield found(error, preflight.MIRROR_TABLE_PARTITIONED, table=name, fields=fields)
    if table.format_version != VERSION:
        yield found(error, preflight.MIRROR_TABLE_VERSION, table=name, version=table.format_version)
    if (said := table.properties.get(FORMAT, "parquet")).lower() != "parquet":
        yield found(error, preflight.MIRROR_TABLE_FORMAT, table=name, format=said)
    if columns := "; ".join(unsupported(table.schema())):
        yield found(error, preflight.MIRROR_TABLE_COLUMNS, table=name, columns=columns)
