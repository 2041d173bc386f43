"""Turns a failure of the mirror's parts into an error of the catalogue."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from chsink.errors import ChsinkError, halts, preflight, services
from chsink.errors.entry import Entry
from chsink.mirror.control import ControlUnanswered, Fenced, Names, NotSent
from chsink.mirror.refusals import refused
from chsink.mirror.stop_reasons import Halted, Hanging, Stuck
from chsink.mirror.tables import CatalogFailed, MissingBranch, UnknownType
from chsink.statemachine.commit.rules import CommitHalt

HALTS: dict[CommitHalt, Entry] = {
    CommitHalt.CHAIN_DAMAGED: halts.MIRROR_CHAIN_DAMAGED,
    CommitHalt.CHAIN_MISSING: halts.MIRROR_CHAIN_MISSING,
    CommitHalt.CHOICE_CHANGED: halts.MIRROR_CHOICE_CHANGED,
    CommitHalt.EVENTS_DAMAGED: halts.MIRROR_EVENTS_DAMAGED,
    CommitHalt.FILES_GONE: halts.MIRROR_FILES_GONE,
    CommitHalt.LOG_SHRANK: halts.MIRROR_LOG_SHRANK,
    CommitHalt.RECORDS_GONE: halts.MIRROR_RECORDS_GONE,
    CommitHalt.ROLLED_BACK: halts.MIRROR_ROLLED_BACK,
    CommitHalt.ROWS_FOUND: halts.MIRROR_ROWS_FOUND,
    CommitHalt.ROWS_GONE: halts.MIRROR_ROWS_GONE,
    CommitHalt.TABLE_GONE: halts.MIRROR_TABLE_GONE,
    CommitHalt.TABLE_RECREATED: halts.MIRROR_TABLE_RECREATED,
    CommitHalt.TOPIC_RECREATED: halts.MIRROR_TOPIC_RECREATED,
}


def as_error(error: Exception, names: Names) -> ChsinkError | None:
    """The error of the catalogue; UnavailableError after an outage, None for a failure of another kind."""
    match error:
        case ChsinkError():
            return error
        case Halted():
            entry = HALTS[error.why]
            known = {
                "tables": error.table,
                "tp": error.detail,
                "detail": error.detail,
                "topic": error.topic,
                "property": error.table_property,
                "range": error.offsets,
            }
            return entry(**{name: known[name] for name in entry.parameters})
        case Stuck():
            return services.MIRROR_COMMITS_FAIL(table=error.table, rounds=error.rounds, reason=error.reason)
        case Hanging():
            return services.MIRROR_TRANSACTION_HANGS(
                topic=names.topic,
                partition=error.partition,
                offset=error.offset,
                minutes=error.minutes,
                producer=error.producer,
            )
        case MissingBranch():
            return preflight.MIRROR_NO_BRANCH(table=error.table, branch=error.branch)
        case UnknownType():
            return preflight.MIRROR_TABLE_COLUMNS(table=error.table, columns=error.kind)
        case CatalogFailed():
            return services.MIRROR_CATALOG_UNAVAILABLE(reason=error)
        case Fenced() | NotSent() | ControlUnanswered():
            return refused(error, names) or services.MIRROR_KAFKA_UNANSWERED(
                topic=names.topic, group=names.group, reason=error
            )
        case _:
            return None


@contextmanager
def in_words(names: Names) -> Iterator[None]:
    """Raise failures inside the block as errors of the catalogue."""
    try:
        yield
    except Exception as error:
        known = as_error(error, names)
        if known is None or known is error:
            raise
        raise known from error
