"""Samples a topic, and proposes the job file and the table for it.  Only :func:`create` changes anything.

Names and counts may be shown; a value never is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa

from chsink.clickhouse.table import read_columns
from chsink.config import Config, Route, load
from chsink.connect import Services, connected
from chsink.errors import preflight
from chsink.findings import Finding
from chsink.formats.raw_and_string import as_binary
from chsink.kafka.sample import open_sampler
from chsink.notation.metadata_columns import METADATA_COLUMNS
from chsink.refusals import asking_target
from chsink.registry.client import registry_of
from chsink.sample import Misfits, sampled
from chsink.starter.guess import Guess, guess
from chsink.starter.job import StartingPoint, job_text
from chsink.starter.nested import nested_notes, trial
from chsink.starter.outliers import outliers
from chsink.tables.create import inferred, run_statement
from chsink.tables.statements import METADATA, Statement, create_table, servers

_UNKNOWN = Guess("raw", 0, "")


@dataclass(frozen=True, slots=True)
class Proposal:
    """``records`` were sampled, of which ``values`` have a value.  ``misfits`` are the findings about those that the
    table would not take, and about those for which a column became text.
    """

    guess: Guess
    records: int
    values: int
    job: str
    statement: Statement
    misfits: tuple[Finding, ...]


def propose(start: StartingPoint, count: int) -> Proposal:
    """A job file and a table for the topic, from the first and last ``count`` records of each partition.

    Raises PreflightError CHS-296 if there is no record, or none with a value, CHS-297 if the records name schemas of a
    registry that is not given or does not know them.
    """
    with connected(_loaded(job_text(start, _UNKNOWN))) as services:
        records = _sample(services, start.topic, count)
        values = [v for batch in records for v in as_binary(batch.column("value")).to_pylist() if v]
        if not any(batch.num_rows for batch in records):
            raise preflight.NO_RECORD_TO_GUESS_FROM(topic=start.topic)
        if not values:
            raise preflight.NOTHING_TO_GUESS_FROM(topic=start.topic)
        found = guess(values, _kinds(start, services.config))
    text = job_text(start if found.registered else replace(start, registry=None), found)
    with connected(_loaded(text)) as services:
        config, route = services.config, services.config.routes[0]
        columns = inferred(config, services.kafka, [route])
        sql = create_table(config, route, config.table_of(route).database, columns)
        statement = Statement(sql, servers(config, config.clickhouse.endpoints))
        misfits = tuple(_misfits(config, route, columns, records))
        inferred_from = _sample(services, route.topic, config.tables.sample_records)
        misfits += tuple(outliers(config, route, columns, inferred_from))
        found = replace(found, notes=(*found.notes, *nested_notes(config, route, columns, inferred_from)))
    return Proposal(found, sum(b.num_rows for b in records), len(values), text, statement, misfits)


def check_new(start: StartingPoint) -> None:
    """PreflightError CHS-298 if the table exists on any server."""
    with connected(_loaded(job_text(start, _UNKNOWN))) as services, asking_target():
        name = services.config.table_of(services.config.routes[0])
        for url in start.endpoints:
            if read_columns(services.clickhouse.client((url,)), name.database, name.table):
                raise preflight.TABLE_THERE(table=name.canonical, url=url)


def create(config: Config, statement: Statement) -> None:
    """Run the statement on each of its servers.  Raises PreflightError CHS-286 if one refuses."""
    with connected(config) as services, asking_target():
        table = config.table_of(config.routes[0])
        for url in statement.urls:
            run_statement(config, services.clickhouse.client((url,)), table, statement.sql)


def _loaded(text: str) -> Config:
    """The job file's configuration, with what the environment adds (credentials, for instance)."""
    with TemporaryDirectory(prefix="chsink-init-") as folder:
        path = Path(folder) / "job.toml"
        path.write_text(text, encoding="utf-8")
        return load(path)


def _sample(services: Services, topic: str, count: int) -> list[pa.RecordBatch]:
    with closing(open_sampler(services.config)) as sampler:
        return list(sampled(services.kafka, sampler, topic, count))


def _kinds(start: StartingPoint, config: Config) -> Callable[[int], str]:
    """The kind of a schema id that records begin with."""

    def kind_of(schema_id: int) -> str:
        if start.registry is None:
            raise preflight.REGISTRY_NOT_NAMED(topic=start.topic, schema=schema_id)
        found = registry_of(config.schema_registry).schema(schema_id)
        if found is None:
            raise preflight.SCHEMA_NOT_REGISTERED(topic=start.topic, schema=schema_id, urls=start.registry)
        return found.kind

    return kind_of


def _misfits(
    config: Config, route: Route, columns: dict[str, str], records: Sequence[pa.RecordBatch]
) -> Iterator[Finding]:
    """What ``chsink doctor --sample`` would find if the table had these columns."""
    decoder = trial(config, route, {**columns, **{name: METADATA_COLUMNS[name].declare for name in METADATA}})
    seen = Misfits(skip_tombstones=config.errors.on_tombstone not in {"bad", "delete"})
    for batch in records:
        seen.add(decoder.decode(batch).bad, batch)
    place = {"topic": route.topic, "table": config.table_of(route).canonical}
    yield from seen.findings(sum(b.num_rows for b in records), place, policy=config.errors.on_bad_value)
