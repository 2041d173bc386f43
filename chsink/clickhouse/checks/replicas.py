"""The replicas of a Replicated table, each asked by its own URL: whether they take inserts, and hold what they should.

What passes by itself (a lag, a server that is away) is a warning: the job waits for it, or uses another replica.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from chsink.clickhouse.checks.rules import memory
from chsink.clickhouse.table import WINDOW, TargetTable, read_settings
from chsink.errors import preflight
from chsink.findings import Finding, Severity, found, passed
from chsink.ports import Clock, Queries

LAG_S: Final = 5
"""A replica that needs longer for an insert of another one lags."""
PAUSE_S, LOOKS = 0.2, 5
_STATUS: Final = (
    "SELECT zookeeper_path, replica_name, timezone(), is_readonly, is_session_expired, toInt64(absolute_delay), "
    "toInt64(queue_size), toInt64(log_max_index), toInt64(log_pointer), toInt64(lost_part_count), "
    "toInt64(active_replicas), toInt64(total_replicas), mapKeys(replica_is_active) "
    "FROM system.replicas WHERE database = {database:String} AND table = {name:String}"
)


@dataclass(frozen=True, slots=True)
class Status:
    """A row of ``system.replicas``.  ``log_pointer`` is the first entry of the replication log that the replica has not
    taken into its queue; ``log_last`` is the last one there is, and 0 where there is none.
    """

    path: str
    name: str
    zone: str
    readonly: bool
    session_expired: bool
    delay_s: int
    queue: int
    log_last: int
    log_pointer: int
    lost_parts: int
    active: int
    total: int
    names: tuple[str, ...]


def status(client: Queries, table: TargetTable) -> Status | None:
    """None where the server has no such Replicated table."""
    rows = client.query(_STATUS, {"database": table.database, "name": table.name})
    if not rows:
        return None
    path, name, zone, readonly, expired, *numbers, names = rows[0]
    delay_s, queue, last, pointer, lost, active, total = numbers
    whole = tuple(sorted(names))
    states = bool(readonly), bool(expired)
    return Status(path, name, zone, *states, delay_s, queue, last, pointer, lost, active, total, whole)


def log_end(seen: Iterable[Status]) -> int:
    """How many entries the replication log has had.  While it is empty, no replica has taken one."""
    replicas = list(seen)
    return max(one.log_last for one in replicas) + 1 if any(one.log_pointer for one in replicas) else 0


def replica_findings(client: Queries, table: TargetTable, seen: Status, end: int, clock: Clock) -> Iterator[Finding]:
    """What is wrong with one replica; ``end``: :func:`log_end`."""
    at = {"table": table.canonical, "url": client.url}
    if seen.readonly or seen.session_expired:
        why = "it has no session with its Keeper" if seen.session_expired else "it is read-only"
        yield found(Severity.WARNING, preflight.REPLICA_READONLY, **at, why=why)
    elif seen.delay_s >= LAG_S:
        yield found(Severity.WARNING, preflight.REPLICA_LAGS, **at, seconds=seen.delay_s, queue=seen.queue)
    elif not _takes_log(client, table, seen, end, clock):
        yield found(Severity.WARNING, preflight.REPLICA_STANDS, **at, entries=end - seen.log_pointer)
    if seen.lost_parts:
        yield found(Severity.WARNING, preflight.REPLICA_LOST_PARTS, **at, parts=seen.lost_parts)


def _takes_log(client: Queries, table: TargetTable, seen: Status, end: int, clock: Clock) -> bool:
    """Whether it soon takes the entries of the log that were there at first."""
    now: Status | None = seen
    for _ in range(LOOKS):
        if now is None or now.log_pointer >= end:
            return True
        clock.sleep(PAUSE_S)
        now = status(client, table)
    return False


def forgetting(table: TargetTable, clients: Iterable[Queries]) -> Iterator[Finding]:
    """Replicas that remember less than another one.  Each has settings of its own, and also removes the tokens of the
    others.  If one did not answer when the ``table`` was described, to remember less is an error.
    """
    read = ((client.url, read_settings(client, [table]).get(table.at)) for client in clients)
    theirs = {url: replace(table, merge_tree=settings) for url, settings in read if settings is not None}
    blocks, seconds = [own.window_blocks for own in theirs.values()], [own.window_s or 0 for own in theirs.values()]
    for url, own in theirs.items():
        at = {"table": table.canonical, "url": url}
        if own.window_blocks == 0 < table.window_blocks:
            yield found(Severity.ERROR, preflight.NO_DEDUPLICATION, **at, setting=WINDOW[0])
        elif own.window_blocks < max(blocks) or (own.window_s or 0) < max(seconds):
            said = {"theirs": memory(own.window_blocks, own.window_s), "least": memory(min(blocks), min(seconds))}
            most = {"blocks": max(blocks), "window": max(seconds)}
            relied_on = own.window_blocks < table.window_blocks or (own.window_s or 0) < (table.window_s or 0)
            severity = Severity.ERROR if relied_on else Severity.WARNING
            yield found(severity, preflight.REPLICA_FORGETS, **at, **said, **most)


def together(table: TargetTable, by_url: Mapping[str, Status], quorum: str, *, all_answer: bool) -> Iterator[Finding]:
    """What is wrong with the replicas as a whole; ``by_url`` are those that the job file lists and that answer."""
    [*_, any_of_them] = by_url.values()
    active, total = any_of_them.active, any_of_them.total
    if active < total:
        needed = total // 2 + 1 if quorum == "auto" else max(1, int(quorum or 0))
        said = {"table": table.canonical, "active": active, "total": total, "needed": needed}
        yield found(Severity.WARNING, preflight.REPLICAS_INACTIVE, **said)
    elif (quorum == "auto" and total == 1) or (quorum.isdecimal() and int(quorum) > total):
        said = {"table": table.canonical, "total": total, "quorum": quorum, "possible": "1" if total == 1 else '"auto"'}
        yield found(Severity.ERROR, preflight.QUORUM_TOO_LARGE, **said)
    unlisted = sorted(set(any_of_them.names) - {one.name for one in by_url.values()})
    if unlisted and all_answer:
        names = ", ".join(unlisted)
        yield found(Severity.WARNING, preflight.REPLICAS_UNLISTED, table=table.canonical, names=names)
    if table.partition_key and len({one.zone.removeprefix("Etc/") for one in by_url.values()}) > 1:  # of UTC
        zones = ", ".join(f"{url}: {one.zone}" for url, one in by_url.items())
        yield found(Severity.ERROR, preflight.REPLICA_ZONES, table=table.canonical, zones=zones)


def memory_findings(table: TargetTable, url: str, needed_s: int, longest_s: int) -> Iterator[Finding]:
    """Whether the table remembers tokens for long enough; nothing where it has no limit by time.

    ``needed_s``: for one send; ``longest_s``: for a send with all its retries.  A settle of many pieces may take longer
    than both: each send looks at the server's clock, and what would be sent too late is probed by the next start.
    """
    if table.window_s is None:
        return
    at = {"table": table.canonical, "url": url, "window": table.window_s}
    kept = {**at, "blocks": table.window_blocks, "longest": longest_s}
    if table.window_s <= needed_s:
        yield found(Severity.ERROR, preflight.WINDOW_TOO_SHORT, **at, needed=needed_s, enough=2 * needed_s)
    elif table.window_s < longest_s:
        yield found(Severity.WARNING, preflight.WINDOW_SHORT, **kept)
    else:
        yield passed(preflight.WINDOW_TOO_SHORT, **kept, latest=table.window_s - needed_s)
