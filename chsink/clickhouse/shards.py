"""A target table on its shards: one value per shard holds all that is known of it there."""

from __future__ import annotations

from dataclasses import dataclass

from chsink.clickhouse.table import TargetTable
from chsink.ports import Queries, SqlClient
from chsink.statemachine.records import Mark


@dataclass(frozen=True, slots=True)
class ShardTable:
    """The table on one shard, and the client that reaches it; ``replicas`` are the URLs that the layout lists."""

    client: Queries
    table: TargetTable
    replicas: tuple[str, ...] = ()

    @property
    def url(self) -> str:
        """The replica in use."""
        return self.client.url


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
