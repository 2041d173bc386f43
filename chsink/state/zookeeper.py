"""State in ZooKeeper: one node for each row, one version-checked multi for each compare-and-set.

Rules:
- A swap reads the nodes, compares their attempts, and sets all of them in one transaction that names the versions just
  read: no other write can come between reading and setting, and a late copy of the transaction finds newer versions.
- A response to a transaction is proof.  A lost one (connection, session, timeout) is *unknown* and is resolved by
  reading back, in a new session if necessary: our attempt everywhere means applied.  Anything else stays unknown,
  because the transaction may still be in flight.
- This store never sends a transaction again.
- Reads follow a ``sync``, so a follower that lags behind is not believed.

- Where ZooKeeper refuses this user, PreflightError is raised at once (:mod:`chsink.state.zookeeper_access`).

Nodes are persistent and lie flat under the root; a node's name is the row's key, percent-encoded, and its data is the
attempt, a line feed and the body.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, TypeVar
from urllib.parse import quote, unquote

from pydantic import SecretStr

from chsink.errors import preflight
from chsink.fields import HostPorts, NodePath, Password, Text
from chsink.findings import Finding, Severity, found, passed
from chsink.ports import StoredRow, StoreUnavailable, Swap
from chsink.state.groups import utf8, write_in_groups
from chsink.state.settings import ClickHouseAccess, StoreSettings
from chsink.state.zookeeper_access import Mechanism, ZooKeeperAccess, ZooKeeperTls, end

if TYPE_CHECKING:
    from kazoo.client import KazooClient
    from kazoo.interfaces import IAsyncResult
    from kazoo.security import ACL

T = TypeVar("T")
NAMED_NODES = 5
"""Of the nodes that everybody may change, how many are named."""


class ZooKeeper(StoreSettings):
    """State in ZooKeeper, without ClickHouse."""

    store: Literal["zookeeper"]
    """Which store."""
    zookeeper: HostPorts
    """Servers of the ensemble: `"host:port,host:port"`, or a list."""
    path: NodePath = "/chsink/state"
    """Node under which the rows are kept."""
    user: Text | None = None
    """User name. The nodes that the job creates then belong to this user only. Default: no login."""
    password: Password = SecretStr("")
    """`{ env = "NAME" }` or `{ file = "path" }`: the user's password."""
    mechanism: Mechanism = "digest"
    """How the user logs in: `digest`, by ZooKeeper's own scheme, in which the servers know no users and the password is
    sent in plain text; or `sasl`, by SASL's DIGEST-MD5, as a user that the servers know."""
    tls: ZooKeeperTls = ZooKeeperTls()
    """TLS to ZooKeeper."""

    @property
    def access(self) -> ZooKeeperAccess:
        """Where the store is, and who opens it."""
        return ZooKeeperAccess(self.zookeeper, self.user, self.password.get_secret_value(), self.mechanism, self.tls)

    def open(self, _clickhouse: ClickHouseAccess, /) -> ZooKeeperStore:
        """The store, not yet connected."""
        return ZooKeeperStore(self.access, root=self.path, timeout_s=self.timeout_s)


@cache
def no_answer() -> tuple[type[Exception], ...]:
    """The exceptions that kazoo raises if it got no answer.  Imports kazoo, which the module itself does not."""
    from kazoo.exceptions import KazooException
    from kazoo.handlers.threading import KazooTimeoutError

    return KazooException, KazooTimeoutError


class ZooKeeperStore:
    """:class:`chsink.ports.StateStore` under the node ``root`` of the servers of ``access``.

    ``timeout_s`` bounds a read, a write, and the read-back after it, reconnecting included; a silent session ends
    after ``session_s``.  Threads may share the store.
    """

    name = "zookeeper"
    durable = True

    def __init__(
        self, access: ZooKeeperAccess, *, root: str = "/chsink/state", timeout_s: float = 30, session_s: float = 10
    ) -> None:
        assert root.startswith("/") and not root.endswith("/"), root
        self._access = access
        self._root = root
        self.timeout_s = timeout_s
        self._session_s = session_s
        self._lock = threading.Lock()
        self._client: KazooClient | None = None

    def prepare(self) -> None:
        """Connect, and create the root node."""
        self._connected(self._deadline())

    def load(self, sink: str) -> dict[str, StoredRow]:
        """All rows of the sink."""
        deadline = self._deadline()
        return self._until(deadline, lambda: self._load(sink, deadline))

    def catch_up(self, row: StoredRow) -> None:
        """Nothing to do: every read follows a ``sync``."""

    def open_nodes(self, sink: str) -> Iterator[Finding]:
        """Whether somebody without a login may change the root or the sink's rows."""
        deadline = self._deadline()
        acls = self._until(deadline, lambda: self._acls(sink, deadline))
        if nodes := [node for node, acl in acls.items() if any(map(_lets_anyone_write, acl))]:
            entry = preflight.STATE_NODES_OPEN if self._access.logs_in else preflight.STATE_NODES_WITHOUT_OWNER
            named = ", ".join(nodes[:NAMED_NODES]) + (", …" if len(nodes) > NAMED_NODES else "")
            of = {"hosts": self._access.hosts, "count": len(nodes), "nodes": named, "root": self._root}
            yield found(Severity.WARNING, entry, **{name: of[name] for name in entry.parameters})
        else:
            yield passed(preflight.STATE_NODES_OPEN, hosts=self._access.hosts, root=self._root)

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
            end(client)

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
            stored = self._until(deadline, lambda: self._get([s.row.key for s in swaps], deadline))
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
        errors = [(r, row) for r, row in zip(results, rows, strict=True) if isinstance(r, Exception)]
        for error, row in errors:
            if refusal := self._access.refusal(error, "write", self._path(row.key)):
                raise refusal
        return not errors or self._read_back(rows)

    def _read_back(self, rows: Sequence[StoredRow]) -> bool:
        """Our attempt everywhere means applied, now or by an earlier copy of this write."""
        deadline = self._deadline()
        try:
            stored = self._until(deadline, lambda: self._get([r.key for r in rows], deadline))
        except StoreUnavailable:
            return False
        return _ours(rows, stored)

    # --- reading --------------------------------------------------------------------------------------------------

    def _load(self, sink: str, deadline: float) -> dict[str, StoredRow]:
        client = self._connected(deadline)
        client.sync_async(self._root).get(timeout=_left(deadline))
        mine = self._keys(client, sink, deadline)
        return {key: row for key, (row, _) in self._fetch(client, mine, deadline).items()}

    def _keys(self, client: KazooClient, sink: str, deadline: float) -> list[str]:
        keys = map(unquote, client.get_children_async(self._root).get(timeout=_left(deadline)))
        return [k for k in keys if k == sink or k.startswith(f"{sink}/")]

    def _acls(self, sink: str, deadline: float) -> dict[str, Sequence[ACL]]:
        """The ACLs of the root and of the sink's rows, by their nodes."""
        client = self._connected(deadline)
        nodes = [self._root, *map(self._path, self._keys(client, sink, deadline))]
        asked = [(node, client.get_acls_async(node)) for node in nodes]
        return {node: answer.get(timeout=_left(deadline))[0] for node, answer in asked}

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
        from kazoo.protocol.states import KeeperState

        with self._lock:
            if self._client is not None and self._client.client_state == KeeperState.CLOSED:  # its login was refused
                end(self._client)
                self._client = None
            if self._client is None:
                self._client = self._connect(deadline)
            return self._client

    def _connect(self, deadline: float) -> KazooClient:
        from kazoo.exceptions import AuthFailedError, ConnectionClosedError

        client = self._access.connected(self._session_s, deadline)
        try:
            client.ensure_path_async(self._root).get(timeout=_left(deadline))
        except no_answer() as error:
            end(client)
            # kazoo itself closes a client only if its login was refused
            why = AuthFailedError() if isinstance(error, ConnectionClosedError) else error
            if refusal := self._access.refusal(why, "open or create", self._root):
                raise refusal from error
            raise StoreUnavailable(f"ZooKeeper at {self._access.hosts}: {error or type(error).__name__}") from error
        return client

    def _until(self, deadline: float, read: Callable[[], T]) -> T:
        """Read again after a lost connection or session, until the deadline."""
        while True:
            try:
                return read()
            except no_answer() as error:
                if refusal := self._access.refusal(error, "read", self._root):
                    raise refusal from error
                if time.monotonic() + 0.05 >= deadline:
                    raise StoreUnavailable(f"ZooKeeper does not answer: {error or type(error).__name__}") from error
                time.sleep(0.05)

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


def _lets_anyone_write(acl: ACL) -> bool:
    """Whether the entry lets everybody change the node, its children or its ACL."""
    from kazoo.security import Permissions

    return bool(acl.id.scheme == "world" and acl.perms & ~Permissions.READ)
