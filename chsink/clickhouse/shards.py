"""A target table on its shards: one value per shard holds all that is known of it there."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from itertools import chain
from typing import TypeVar

from chsink.clickhouse.replicas import current
from chsink.clickhouse.table import TargetTable
from chsink.notation.sql import TableName
from chsink.ports import Clock, Queries, Replicas, SqlClient
from chsink.statemachine.parts import Mark

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ShardTable:
    """The table on one shard, and the client that reaches it; ``replicas`` are the URLs that the layout lists."""

    client: Replicas
    table: TargetTable
    replicas: tuple[str, ...] = ()

    @property
    def url(self) -> str:
        """The replica in use."""
        return self.client.url

    def reader(self, clock: Clock, *, copies: int = 1, since_ms: int | None = None) -> Replicas:
        """A client of a replica that is :func:`chsink.clickhouse.replicas.current`."""
        return current(self.client, self.table, clock, copies=copies, since_ms=since_ms)

    @property
    def source(self) -> int:
        """Identifies the server among the others in this process: two clients may have the same URL for a while."""
        return id(self.client)


def asked(places: Iterable[Iterable[ShardTable]], ask: Callable[[Queries, Collection[TargetTable]], T]) -> dict[int, T]:
    """What each server says of its tables, by :attr:`ShardTable.source`: one question for all of them."""
    found: dict[int, tuple[Queries, dict[TableName, TargetTable]]] = {}
    for shard in chain.from_iterable(places):
        found.setdefault(shard.source, (shard.client, {}))[1][shard.table.at] = shard.table
    return {source: ask(client, tables.values()) for source, (client, tables) in found.items()}


@dataclass(frozen=True, slots=True)
class InsertShard:
    """The table on one shard as a task sends to it; ``mark`` is what it held when the range was announced.  ``only`` is
    the condition under which rows of the table are of this sink, where others write to it, too.
    """

    client: SqlClient
    table: TargetTable
    mark: Mark
    only: str = ""

    @property
    def url(self) -> str:
        """The replica in use."""
        return self.client.url


@dataclass(frozen=True, slots=True)
class RoutedTable:
    """A routed table on each shard, in the shards' order, and the key that chooses the shard.

    ``table`` describes it once: doctor refuses tables that differ between shards in what this is used for.
    """

    topic: str
    name: str
    shards: tuple[ShardTable, ...]
    shard_key: tuple[str, ...] = ()

    @property
    def table(self) -> TargetTable:
        """The table on the first shard."""
        return self.shards[0].table
