"""Where the recorded ranges are kept: stores behind :class:`chsink.ports.StateStore`, with one contract suite.

==============  ==========  ================================================================================
store           durable     where
==============  ==========  ================================================================================
``keepermap``   yes         a ClickHouse table of the engine KeeperMap, through any ClickHouse endpoint
``zookeeper``   yes         ZooKeeper itself, without ClickHouse
``memory``      **no**      this process: for tests and evaluation only
==============  ==========  ================================================================================

Rules:
- A store is one file: its settings (a :class:`chsink.state.settings.StoreSettings`, the keys of ``[state]``) and its
  class.  Add it to :data:`AnyStore`; ``tests/contract/benches.py`` then asks for a bench of it.
- Importing this package imports no client library: a store imports its own when it connects, because the configuration
  is also read where no service is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import BeforeValidator, Field

from chsink.errors import services
from chsink.ports import StateStore, StoreUnavailable
from chsink.state.keepermap import KeeperMap
from chsink.state.memory import Memory
from chsink.state.settings import ClickHouseAccess, StoreSettings
from chsink.state.zookeeper import ZooKeeper

__all__ = ["AnyStore", "ClickHouseAccess", "KeeperMap", "Memory", "StoreSettings", "ZooKeeper", "open_store"]

DEFAULT = "keepermap"


def _with_store(value: object) -> object:
    return {"store": DEFAULT, **value} if isinstance(value, Mapping) else value


AnyStore = Annotated[KeeperMap | ZooKeeper | Memory, Field(discriminator="store"), BeforeValidator(_with_store)]
"""The settings of any store: what ``[state]`` holds."""


def open_store(settings: StoreSettings, clickhouse: ClickHouseAccess) -> StateStore:
    """The configured store, ready for use.

    Raises PreflightError when it cannot be used as it is, UnavailableError CHS-701 when it does not respond.
    """
    store = settings.open(clickhouse)
    try:
        store.prepare()
    except StoreUnavailable as error:
        store.close()
        raise services.STATE_STORE_UNAVAILABLE(store=store.name, reason=error) from error
    return store
