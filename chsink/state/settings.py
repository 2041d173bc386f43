"""What every state store is configured with, and what it may use of the job."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

from pydantic import Field

from chsink.fields import Section
from chsink.ports import SqlClient, StateStore


@dataclass(frozen=True, slots=True)
class ClickHouseAccess:
    """The job's ClickHouse.  ``connect`` opens a client of a URL, or of the first shard for None, and closes it later;
    ``database`` is that of tables that name none.
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
