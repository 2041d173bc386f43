"""Judgements that need no service: numbers that were asked for, to findings."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from chsink.clickhouse.dedup_mark import round_of
from chsink.errors import preflight
from chsink.findings import Finding, Severity, found, passed

OLDEST_SERVER = (24, 8)
"""Older servers lack what is pinned on every insert, or guard KeeperMap writes less."""

A_WEEK_S = 604_800
"""What a view's table should remember where its source has no limit by time."""

PLAIN_ENTRIES = 2
"""How many entries of its token log a plain table uses up for one block, at most: ClickHouse 26.2 to 26.6 keep two."""


def server_version(url: str, version: str) -> Finding:
    """A server that is older than anything chsink was made for."""
    number = tuple(int(n) for n in re.findall(r"\d+", version)[:2])
    if number < OLDEST_SERVER:
        oldest = ".".join(map(str, OLDEST_SERVER))
        return found(Severity.WARNING, preflight.SERVER_OLD, url=url, version=version, oldest=oldest)
    return passed(preflight.SERVER_OLD, url=url, version=version)


def clocks(ahead: Mapping[str, tuple[int, int]], margin_s: int) -> Finding:
    """``ahead``: by how many ms each server's clock is ahead of one and the same clock, at least and at most."""
    allowed = max(margin_s, 1)
    first, last = max(ahead, key=lambda url: ahead[url][0]), min(ahead, key=lambda url: ahead[url][1])
    if (differ_ms := ahead[first][0] - ahead[last][1]) > allowed * 1000:
        differ = {"seconds": f"{differ_ms / 1000:.1f}", "margin": margin_s}
        return found(Severity.ERROR, preflight.CLOCKS_DIFFER, url=first, other=last, **differ)
    return passed(preflight.CLOCKS_DIFFER, urls=", ".join(ahead), seconds=allowed)


@dataclass(frozen=True, slots=True)
class Replication:
    """A target table's replicas.

    ``listed`` are the URLs of the endpoint, ``paths`` their Keeper paths as far as known, ``quorum`` is the effective
    ``insert_quorum``.
    """

    replicated: bool
    listed: tuple[str, ...]
    total: int
    quorum: str
    paths: Mapping[str, str]


def replication(name: str, replicas: Replication) -> Finding | None:
    """Deduplication across replicas needs one log of tokens, and an insert that a lost replica does not take along."""
    if not replicas.replicated:
        if len(replicas.listed) == 1:
            return None
        return found(Severity.ERROR, preflight.NOT_REPLICATED, table=name, urls=", ".join(replicas.listed))
    if len(set(replicas.paths.values())) > 1:
        places = ", ".join(f"{url}: {path}" for url, path in replicas.paths.items())
        return found(Severity.ERROR, preflight.REPLICAS_DIFFER, table=name, places=places)
    if replicas.total > 1 and replicas.quorum in ("0", "1"):
        return found(Severity.ERROR, preflight.NO_QUORUM, table=name, total=replicas.total, quorum=replicas.quorum)
    return passed(preflight.NOT_REPLICATED, table=name, total=replicas.total, quorum=replicas.quorum)


@dataclass(frozen=True, slots=True)
class View:
    """A materialized view behind the target: ``engine`` and the window are those of the table it fills, which may have
    no limit by time.  ``volatile`` is what of that table's partition key changes from insert to insert.
    """

    name: str
    fills: str
    engine: str
    window_blocks: int | None
    window_s: int | None = None
    volatile: tuple[str, ...] = ()


def views(name: str, attached: Sequence[View], blocks: int = 0, seconds: int | None = None) -> list[Finding]:
    """A view's table gets every block again when a piece is sent again: it must deduplicate by itself, and remember as
    much as the table, which remembers ``blocks``, and for ``seconds`` where it has a limit by time.
    """
    findings: list[Finding] = []
    most = blocks or 10_000
    for view in attached:
        place = {"view": view.name, "table": name, "fills": view.fills}
        if view.window_blocks is None:
            place |= {"engine": view.engine or "table that cannot be seen", "blocks": str(most * PLAIN_ENTRIES)}
            findings.append(found(Severity.WARNING, preflight.VIEW_MAY_DOUBLE, **place))
        elif view.window_blocks == 0:
            settings = _as_much(view, most, seconds)
            findings.append(found(Severity.WARNING, preflight.VIEW_DOUBLES, settings=settings, **place))
        elif _forgets_sooner(view, blocks, seconds):
            of = {"theirs": memory(view.window_blocks, view.window_s), "ours": memory(blocks, seconds)}
            settings = _as_much(view, blocks, seconds)
            findings.append(found(Severity.WARNING, preflight.VIEW_FORGETS, settings=settings, **of, **place))
        if view.volatile:
            columns = ", ".join(view.volatile)
            findings.append(found(Severity.WARNING, preflight.VIEW_PARTITION, columns=columns, **place))
    if attached and not findings:
        findings.append(passed(preflight.VIEW_MAY_DOUBLE, count=len(attached), table=name))
    return findings


def _forgets_sooner(view: View, blocks: int, seconds: int | None) -> bool:
    assert view.window_blocks is not None, "the table deduplicates"
    by_time = view.window_s is not None and (seconds is None or view.window_s < seconds)
    return view.window_blocks < blocks or by_time


def _as_much(view: View, blocks: int, seconds: int | None) -> str:
    """The settings with which the view's table remembers as much."""
    window = max(blocks, view.window_blocks or 0)
    if not view.engine.startswith(("Replicated", "Shared")):
        return f"non_replicated_deduplication_window = {window * PLAIN_ENTRIES}"
    longest_s = max(seconds or A_WEEK_S, view.window_s or 0)
    return f"replicated_deduplication_window = {window}, replicated_deduplication_window_seconds = {longest_s}"


def memory(blocks: int, seconds: int | None) -> str:
    """How much a table remembers."""
    return f"{blocks} blocks" + (f" for {seconds} s" if seconds is not None else "")


@dataclass(frozen=True, slots=True)
class Load:
    """What one batch may insert into one table of one shard.

    ``chunks`` bounds the pieces, None when nothing bounds a batch; then ``backlog_chunks`` is what waits in Kafka now.
    ``touched`` is how many table partitions hold data now, ``per_block`` the server's limit for one insert, ``rows``
    how many rows a chunk has at most, None where that is not known.
    """

    chunks: int | None
    backlog_chunks: int
    partitioned: bool
    touched: int
    per_block: int
    rows: int | None = None


def window(name: str, url: str, remembered: int, usable: int, load: Load) -> list[Finding]:
    """A round whose blocks exceed what the table surely remembers could not be sent again under its tokens.  Of the
    ``remembered`` blocks, ``usable`` ones are relied on.
    """
    batch = load.backlog_chunks if load.chunks is None else load.chunks
    room = round_of(usable)
    chunks = min(batch, room)
    reached = min(load.touched, load.rows or load.touched)  # by one chunk
    spread = min(reached, load.per_block) if load.partitioned and reached else 1
    blocks = chunks * spread
    findings: list[Finding] = []
    place = {"table": name, "url": url}
    fits = {"window": f"{remembered:,}", "usable": f"{usable:,}", "blocks": f"{blocks:,}"}
    if batch > room:
        findings.append(found(Severity.INFO, preflight.BATCH_TOO_LARGE, chunks=batch, room=room, **place))
    if blocks > usable:
        cut = {"chunks": f"{chunks:,}", "spread": str(spread)}
        findings.append(found(Severity.WARNING, preflight.BATCH_MAY_BE_PROBED, **cut, **fits, **place))
    if load.partitioned and reached > load.per_block > 0:
        limit = {"touched": load.touched, "limit": load.per_block}
        findings.append(found(Severity.WARNING, preflight.TOO_MANY_PARTITIONS, **limit, **place))
    return findings or [passed(preflight.BATCH_MAY_BE_PROBED, **fits, **place)]
