"""A ZooKeeper as it is run where it matters: TLS on a port of its own, users of SASL, and ``zkCli.sh``."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from chsink.embedded.base.ports import free_port
from chsink.embedded.base.service import local
from chsink.embedded.zookeeper import EmbeddedZooKeeper
from chsink.jvm import jars
from chsink.jvm.java import SMALL_JVM, find_java
from tests.support.certificates import Authority

_LIMIT_S = 60


class SecuredZooKeeper(EmbeddedZooKeeper):
    """``hosts`` is plain, ``tls`` the secure port.  ``users`` are those of SASL, with their passwords; a change takes
    effect at the next start.
    """

    def __init__(self, path: Path, authority: Authority, users: Mapping[str, str]) -> None:
        super().__init__(path)
        self.users = dict(users)
        self._authority, self._server, self._tls = authority, authority.issue("zookeeper"), free_port()

    @property
    def tls(self) -> str:
        """``host:port`` with TLS; a client may show a certificate of the authority."""
        return local(self._tls)

    def shell(self, *commands: str, hosts: str = "") -> str:
        """What ZooKeeper's own shell prints for the commands, which it reads one a line."""
        done = subprocess.run(
            [
                str(find_java()),
                *SMALL_JVM,
                "-cp",
                f"{jars.spark_jars_folder()}/*",
                "org.apache.zookeeper.ZooKeeperMain",
                "-server",
                hosts or self.hosts,
            ],
            input="".join(f"{command}\n" for command in commands),
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
            check=True,
        )
        return done.stdout + done.stderr

    def _prepare(self) -> Sequence[str]:
        java, *rest = super()._prepare()
        config, logins = Path(rest[-1]), self.path / "jaas.conf"
        lines = "".join(f"{key}={value}\n" for key, value in self._security().items())
        config.write_text(config.read_text(encoding="utf-8") + lines, encoding="utf-8")
        users = "".join(f'  user_{name}="{password}"\n' for name, password in self.users.items())
        login = "org.apache.zookeeper.server.auth.DigestLoginModule"
        logins.write_text(f"Server {{\n  {login} required\n{users};\n}};\n", encoding="utf-8")
        return [java, f"-Djava.security.auth.login.config={logins}", *rest]

    def _security(self) -> dict[str, str]:
        host, _, port = self.tls.rpartition(":")
        return {
            "secureClientPort": port,
            "secureClientPortAddress": host,
            "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
            "ssl.keyStore.location": str(self._server.both),
            "ssl.keyStore.type": "PEM",
            "ssl.trustStore.location": str(self._authority.ca),
            "ssl.trustStore.type": "PEM",
            "ssl.clientAuth": "want",
            "authProvider.sasl": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
        }
