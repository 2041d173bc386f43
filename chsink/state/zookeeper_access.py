"""Who the ZooKeeper store is: its login, TLS, the ACL of what it creates, and what to say where ZooKeeper refuses it.

Rules:
- With a login or a client certificate, each new node belongs to whoever logged in, and to nobody else.
- A refusal is raised at once, as a PreflightError: waiting does not help.
- kazoo keeps why it did not get a connection to its log, so the session has a log of its own, which is read here.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from chsink.errors import ChsinkError, preflight, tls
from chsink.fields import Section, Text
from chsink.ports import StoreUnavailable

if TYPE_CHECKING:
    from kazoo.client import KazooClient
    from kazoo.exceptions import KazooException

Mechanism = Literal["digest", "sasl"]
_LOOK_S = 0.05
_REFUSED = "AUTH_FAILED"
"""How kazoo's warning of a refused login begins: the session may have been live for a moment only."""


class ZooKeeperTls(Section):
    """TLS to ZooKeeper, on the port that the servers call `secureClientPort`."""

    enabled: bool = False
    """Whether to use TLS."""
    ca_file: Text | None = None
    """CA certificates to trust besides the system's, as a PEM file."""
    cert_file: Text | None = None
    """Client certificate chain, as a PEM file. ZooKeeper takes its subject as a login."""
    key_file: Text | None = None
    """Private key of the client certificate, as a PEM file."""
    verify: bool = True
    """Whether to verify the server's certificate and host name."""


@dataclass(frozen=True, slots=True)
class ZooKeeperAccess:
    """How to reach ``hosts`` (``host:port,host:port``), and as whom; ``user`` is None without a login."""

    hosts: str
    user: str | None = None
    password: str = field(default="", repr=False)
    mechanism: Mechanism = "digest"
    tls: ZooKeeperTls = field(default_factory=ZooKeeperTls)

    @property
    def logs_in(self) -> bool:
        """Whether the session has an identity that nodes can belong to."""
        return self.user is not None or self.tls.cert_file is not None

    @property
    def who(self) -> str:
        """The identity, in words."""
        if self.user is not None:
            return f"user '{self.user}'"
        return "the owner of the client certificate" if self.logs_in else "a client without a login"

    @property
    def keys(self) -> str:
        """The keys of the job file that the identity comes from."""
        user = "state.user, state.password and state.mechanism"
        return "state.tls.cert_file" if self.user is None and self.logs_in else user

    def connected(self, session_s: float, deadline: float) -> KazooClient:
        """A client with a session.  Raises StoreUnavailable if there is none by the deadline, or if TLS fails."""
        files = {f"state.tls.{key}": getattr(self.tls, key) for key in ("ca_file", "cert_file", "key_file")}
        if wrong := tls.unreadable(files):
            raise StoreUnavailable(wrong)
        log = _LastWords()
        client = self._client(session_s, log)
        live = client.start_async()
        while not live.wait(_LOOK_S) and not log.said.startswith(_REFUSED):  # the first question fails then
            meant = tls.meaning(log.said, "state.tls", "state.zookeeper") if self.tls.enabled else ""
            if meant or time.monotonic() >= deadline:
                end(client)
                raise StoreUnavailable(f"ZooKeeper at {self.hosts}: {meant or log.said or 'connection time-out'}")
        return client

    def _client(self, session_s: float, log: _LastWords) -> KazooClient:
        from kazoo.client import KazooClient
        from kazoo.security import CREATOR_ALL_ACL

        logins: dict[str, Any] = {}
        if self.user is not None and self.mechanism == "digest":
            logins["auth_data"] = [("digest", f"{self.user}:{self.password}")]
        elif self.user is not None:
            logins["sasl_options"] = {"mechanism": "DIGEST-MD5", "username": self.user, "password": self.password}
        return KazooClient(
            self.hosts,
            timeout=session_s,
            connection_retry={"max_tries": -1, "delay": 0.05, "max_delay": 1.0},
            command_retry={"max_tries": 0},
            logger=log.logger,
            default_acl=CREATOR_ALL_ACL if self.logs_in else None,
            use_ssl=self.tls.enabled,
            ca=self.tls.ca_file,
            certfile=self.tls.cert_file,
            keyfile=self.tls.key_file,
            verify_certs=self.tls.verify,
            check_hostname=self.tls.verify,
            **logins,
        )

    def refusal(self, error: KazooException, action: str, path: str) -> ChsinkError | None:
        """The error to raise if ZooKeeper refuses this identity, or its right to ``action`` (a verb) at ``path``."""
        from kazoo.exceptions import AuthFailedError, InvalidACLError, NoAuthError

        place = {"hosts": self.hosts, "who": self.who, "keys": self.keys}
        if isinstance(error, NoAuthError):
            return preflight.STATE_NODE_FORBIDDEN(action=action, path=path, **place)
        if isinstance(error, AuthFailedError | InvalidACLError):
            return preflight.ZOOKEEPER_LOGIN_REFUSED(**place)
        return None


class _LastWords(logging.Handler):
    """Keeps the last warning of kazoo's ``logger``, which prints nothing."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.said = ""
        self.logger = logging.Logger("chsink.kazoo", logging.WARNING)  # noqa: LOG001 - each session has its own
        self.logger.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        self.said = record.getMessage()


def end(client: KazooClient) -> None:
    """End the session."""
    client.stop()
    client.close()
