"""State in ZooKeeper: one node for each row, one version-checked multi for each compare-and-set.

Rules:
- A swap reads the nodes, compares their attempts, and sets all of them in one transaction that names the versions just
  read: no other write can come between reading and setting, and a late copy of the transaction finds newer versions.
- A response to a transaction is proof.  A lost one (connection, session, timeout) is *unknown* and is resolved by
  reading back, in a new session if necessary: our attempt everywhere means applied.  Anything else stays unknown,
  because the transaction may still be in flight.
- This store never sends a transaction again.
- Reads follow a ``sync``, so a follower that lags behind is not believed.

Nodes are persistent and lie flat under the root; a node's name is the row's key, percent-encoded, and its data is the
attempt, a line feed and the body.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, TypeVar
from urllib.parse import quote, unquote

from chsink.fields import HostPorts, NodePath
from chsink.ports import StoredRow, StoreUnavailable, Swap
from chsink.state.groups import utf8, write_in_groups
from chsink.state.settings import ClickHouseAccess, StoreSettings

if TYPE_CHECKING:
    from kazoo.client import KazooClient
    from kazoo.interfaces import IAsyncResult

T = TypeVar("T")
_quiet = logging.getLogger("chsink.kazoo")
_quiet.setLevel(logging.CRITICAL)


class ZooKeeper(StoreSettings):
    """State in ZooKeeper, without ClickHouse."""

    store: Literal["zookeeper"]
    """Which store."""
    zookeeper: HostPorts
    """Servers of the ensemble: `"host:port,host:port"`, or a list."""
    path: NodePath = "/chsink/state"
    """Node under which the rows are kept."""

    def open(self, _clickhouse: ClickHouseAccess, /) -> ZooKeeperStore:
        """The store, not yet connected."""
        return ZooKeeperStore(self.zookeeper, root=self.path, timeout_s=self.timeout_s)


@cache
def no_answer() -> tuple[type[Exception], ...]:
    """The exceptions that kazoo raises if it got no answer.  Imports kazoo, which the module itself does not."""
    from kazoo.exceptions import KazooException
    from kazoo.handlers.threading import KazooTimeoutError

    return KazooException, KazooTimeoutError


class ZooKeeperStore:
    """:class:`chsink.ports.StateStore` under the node ``root`` of ``hosts`` (``host:port,host:port``).

    ``timeout_s`` bounds a read, a write, and the read-back after it, reconnecting included; a silent session ends
    after ``session_s``.  Threads may share the store.
    """

    name = "zookeeper"
    durable = True

    def __init__(
        self, hosts: str, *, root: str = "/chsink/state", timeout_s: float = 30, session_s: float = 10
    ) -> None:
        assert root.startswith("/") and not root.endswith("/"), root
        self._hosts = hosts
        self._root = root
        self.timeout_s = timeout_s
        self._session_s = session_s
        self._lock = threading.Lock()
        self._client: KazooClient | None = None

    @property
    def session_id(self) -> int | None:
        """The session's id, None before the first use."""
        client_id = None if self._client is None else self._client.client_id
        return None if client_id is None else client_id[0]

    def prepare(self) -> None:
        """Connect, and create the root node."""
        self._connected(self._deadline())

    def load(self, sink: str) -> dict[str, StoredRow]:
        """All rows of the sink."""
        deadline = self._deadline()
        return _until(deadline, lambda: self._load(sink, deadline))

    def create(self, rows: Sequence[StoredRow]) -> bool:
        """Create rows that must not exist."""
        assert len({r.key for r in rows}) == len(rows), "keys are unique"
        return write_in_groups(rows, self._bytes, self._create)

    def swap(self, swaps: Sequence[Swap]) -> bool:
        """Compare-and-set of all rows."""
        assert len({s.row.key for s in swaps}) == len(swaps), "keys are unique"
        return write_in_groups(swaps, lambda s: self._bytes(s.row), self._swap)

    def close(self) -> None:
        """End the session."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            _end(client)

    # --- one transaction ------------------------------------------------------------------------------------------

    def _create(self, rows: Sequence[StoredRow]) -> bool:
        deadline = self._deadline()
        try:
            transaction = self._connected(deadline).transaction()
        except StoreUnavailable:
            return False
        for row in rows:
            transaction.create(self._path(row.key), _encode(row))
        return self._commit(transaction, rows, deadline)

    def _swap(self, swaps: Sequence[Swap]) -> bool:
        deadline = self._deadline()
        try:
            stored = _until(deadline, lambda: self._get([s.row.key for s in swaps], deadline))
            transaction = self._connected(deadline).transaction()
        except StoreUnavailable:
            return False
        if _ours([s.row for s in swaps], stored):
            return True
        for swap in swaps:
            found = stored.get(swap.row.key)
            if found is None or found[0].attempt != swap.expected:
                return False
            transaction.set_data(self._path(swap.row.key), _encode(swap.row), version=found[1])
        return self._commit(transaction, [s.row for s in swaps], deadline)

    def _commit(self, transaction: Any, rows: Sequence[StoredRow], deadline: float) -> bool:
        try:
            results = transaction.commit_async().get(timeout=_left(deadline))
        except no_answer():
            return self._read_back(rows)
        return not any(isinstance(r, Exception) for r in results) or self._read_back(rows)

    def _read_back(self, rows: Sequence[StoredRow]) -> bool:
        """Our attempt everywhere means applied, now or by an earlier copy of this write."""
        deadline = self._deadline()
        try:
            stored = _until(deadline, lambda: self._get([r.key for r in rows], deadline))
        except StoreUnavailable:
            return False
        return _ours(rows, stored)

    # --- reading --------------------------------------------------------------------------------------------------

    def _load(self, sink: str, deadline: float) -> dict[str, StoredRow]:
        client = self._connected(deadline)
        client.sync_async(self._root).get(timeout=_left(deadline))
        keys = map(unquote, client.get_children_async(self._root).get(timeout=_left(deadline)))
        mine = [k for k in keys if k == sink or k.startswith(f"{sink}/")]
        return {key: row for key, (row, _) in self._fetch(client, mine, deadline).items()}

    def _get(self, keys: Sequence[str], deadline: float) -> dict[str, tuple[StoredRow, int]]:
        """Rows and node versions of the keys that exist."""
        client = self._connected(deadline)
        client.sync_async(self._root).get(timeout=_left(deadline))
        return self._fetch(client, keys, deadline)

    def _fetch(self, client: KazooClient, keys: Iterable[str], deadline: float) -> dict[str, tuple[StoredRow, int]]:
        from kazoo.exceptions import NoNodeError

        asked: list[tuple[str, IAsyncResult]] = [(k, client.get_async(self._path(k))) for k in keys]
        found: dict[str, tuple[StoredRow, int]] = {}
        for key, answer in asked:
            try:
                data, stat = answer.get(timeout=_left(deadline))
            except NoNodeError:
                continue
            attempt, _, body = data.decode().partition("\n")
            found[key] = (StoredRow(key, attempt, body), stat.version)
        return found

    # --- the session ----------------------------------------------------------------------------------------------

    def _connected(self, deadline: float) -> KazooClient:
        """The session's client, with the root node created.  StoreUnavailable if there is none by the deadline."""
        with self._lock:
            if self._client is None:
                self._client = self._connect(deadline)
            return self._client

    def _connect(self, deadline: float) -> KazooClient:
        from kazoo.client import KazooClient

        client = KazooClient(
            self._hosts,
            timeout=self._session_s,
            connection_retry={"max_tries": -1, "delay": 0.05, "max_delay": 1.0},
            command_retry={"max_tries": 0},
            logger=_quiet,
        )
        try:
            client.start(timeout=_left(deadline))
            client.ensure_path_async(self._root).get(timeout=_left(deadline))
        except no_answer() as error:
            _end(client)
            raise StoreUnavailable(f"ZooKeeper at {self._hosts}: {error or type(error).__name__}") from error
        return client

    def _path(self, key: str) -> str:
        name = quote(key, safe="")
        return f"{self._root}/{name.replace('.', '%2E') if name in ('.', '..') else name}"

    def _bytes(self, row: StoredRow) -> int:
        """Bytes of a row in the transaction."""
        return utf8(self._path(row.key)) + utf8(row.attempt) + utf8(row.body) + 50

    def _deadline(self) -> float:
        return time.monotonic() + self.timeout_s


def _ours(rows: Sequence[StoredRow], stored: Mapping[str, tuple[StoredRow, int]]) -> bool:
    """Whether every row is stored as this write made it."""
    return all(r.key in stored and stored[r.key][0].attempt == r.attempt for r in rows)


def _encode(row: StoredRow) -> bytes:
    assert "\n" not in row.attempt, row.attempt
    return f"{row.attempt}\n{row.body}".encode()


def _left(deadline: float) -> float:
    return max(0.001, deadline - time.monotonic())


def _end(client: KazooClient) -> None:
    client.stop()
    client.close()


def _until(deadline: float, read: Callable[[], T]) -> T:
    """Read again after a lost connection or session, until the deadline."""
    while True:
        try:
            return read()
        except no_answer() as error:
            if time.monotonic() + 0.05 >= deadline:
                raise StoreUnavailable(f"ZooKeeper does not answer: {error or type(error).__name__}") from error
            time.sleep(0.05)
