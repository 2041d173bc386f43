"""Which replica is asked for rows: one that holds all that any replica took before the question.

A replica that lags answers with its old rows, and without an error.  A row that it does not show may be late, not
missing: whoever takes it for missing lands it twice.

Rules:
- A Replicated table: the listed replicas are asked, each by its own URL, until one has worked off the table's log.  Its
  rows are read through the same URL.
- A row that only one replica has may still be given up by the others, if its insert waits for a quorum.  Who goes by
  rows that are there asks for a second replica that has all of them.
- A Shared table: a replica reads what the Keeper knows before it answers, if a setting says so.
- No replica that is current is an error, never "no rows".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, TypeVar

from chsink.clickhouse.table import TargetTable, in_keeper
from chsink.errors import services
from chsink.ports import Clock, Queries, Replicas, ServerRefused, Unanswered, is_away

E = TypeVar("E", bound=Replicas)
T = TypeVar("T")

CATCH_UP_S: Final = 60
PAUSE_S: Final = 0.5
EMPTY_LOG_S: Final = 2
"""``system.replicas`` shows an empty log as it shows a log whose only entry was not read yet.  A replica that cannot
read the log says so by its delay in seconds: this long after the question it has read the entry, or it has a delay.
"""
TWICE: Final = 2
"""How many replicas hold a row that the others will not give up: chsink demands a quorum of at least two."""
_STATE = (
    "SELECT is_readonly OR is_session_expired OR zookeeper_exception != '', toInt64(log_max_index), "
    "toInt64(log_pointer), toInt64(queue_size) - toInt64(merges_in_queue) - toInt64(part_mutations_in_queue), "
    "toInt64(absolute_delay), total_replicas "
    "FROM system.replicas WHERE database = {database:String} AND table = {name:String}"
)


def current(client: E, table: TargetTable, clock: Clock, *, copies: int = 1, since_ms: int | None = None) -> E:
    """A client of a replica that holds all rows that any replica took before this call, or ``since_ms`` (steady).

    As many listed replicas as ``copies``, or all if there are fewer, hold these rows.  UnavailableError CHS-736 if that
    is not so in time; Unanswered and ServerRefused as the client.
    """
    if table.engine.startswith("Shared"):
        return client.newest()
    if not in_keeper(table.engine):
        return client
    asked_ms, give_up_ms = since_ms or clock.steady_ms(), clock.steady_ms() + CATCH_UP_S * 1000
    replicas = client.each_replica()
    while True:
        behind, there = dict[str, str](), list[E]()
        for replica in replicas:
            empty = clock.steady_ms() - asked_ms >= EMPTY_LOG_S * 1000
            # Twice: the server counts its queue before it says how far it has read the log.  What it read in between is
            # in the queue that it counts next.
            why = _why_behind(replica, table, empty=empty) or _why_behind(replica, table, empty=empty)
            if why is None:
                there.append(replica)
            else:
                behind[replica.url] = why
            if len(there) >= min(copies, len(replicas)):
                return there[0]
        if clock.steady_ms() >= give_up_ms:
            states = "; ".join(f"{url}: {why}" for url, why in behind.items())
            raise services.REPLICA_BEHIND(table=table.canonical, seconds=CATCH_UP_S, states=states)
        clock.sleep(PAUSE_S)


def _why_behind(replica: Replicas, table: TargetTable, *, empty: bool) -> str | None:
    """What the replica has not done yet; None if it is current.  ``empty``: an empty log may be believed by now."""
    try:
        rows = replica.once().query(_STATE, {"database": table.database, "name": table.name})
    except Unanswered as error:
        return f"no answer ({error})"
    if not rows:
        return "no Replicated table of this name"
    cut_off, newest, pointer, waiting, delay_s, replicas = rows[0]
    if cut_off:
        return "read-only, or without a session with its Keeper"
    if waiting > 0:
        return f"{waiting} entries in its replication queue"
    if pointer > newest or int(replicas) == 1:
        return None
    if newest or pointer:
        return f"{newest + 1 - pointer} entries of the replication log not read"
    return None if empty and delay_s == 0 else "it has not read the replication log"


def said_by_each(client: Replicas, away: set[str], ask: Callable[[Queries], T]) -> Iterator[T]:
    """What each of several replicas says, of those that answer.  Nobody waits twice for one that does not: ``away``."""
    replicas = client.each_replica()
    for replica in replicas if len(replicas) > 1 else ():
        if replica.url not in away:
            try:
                yield ask(replica.once())
            except (Unanswered, ServerRefused) as error:
                if not is_away(error):
                    raise
                away.add(replica.url)
