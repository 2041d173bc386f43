"""The settings that all state stores share, and the job's ClickHouse that a store may use."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

from pydantic import Field

from chsink.fields import Section
from chsink.ports import SqlClient, StateStore


@dataclass(frozen=True, slots=True)
class ClickHouseAccess:
    """The job's ClickHouse.  ``connect`` opens a client for a URL, or for the first shard if None, and closes it later;
    ``database`` is the default of table names without a database.
    """

    connect: Callable[[str | None], SqlClient]
    database: str


class StoreSettings(Section):
    """Base of the section ``[state]``: one subclass for each store, which adds its own keys."""

    store: str
    timeout_s: float = Field(default=30, gt=0, le=3600)
    """Seconds that one read or write of the state may take."""

    @abstractmethod
    def open(self, clickhouse: ClickHouseAccess, /) -> StateStore:
        """The store, not yet prepared."""
