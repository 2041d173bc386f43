"""A broker as it is run where it matters: TLS, logins and ACLs, on listeners of their own beside the plain one.

On the plain listener everybody is the administrator: the tests create topics and grant ACLs there.  On ``tls`` a client
needs a certificate, and its common name is its user; on ``sasl`` it needs a user of ``USERS``, or a token.  Nobody but
the administrator may do anything that no ACL allows.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from chsink.embedded.base.ports import free_port
from chsink.embedded.base.service import local
from chsink.embedded.kafka import EmbeddedKafka
from tests.support.acl_lines import Allowed
from tests.support.certificates import Authority

USER: Final = "lander"
PASSWORD: Final = "a pass;word='with' everything"
"""Of each user, in each mechanism."""
_MODULES: Final = "org.apache.kafka.common.security"
_LIMIT_S: Final = 30


class SecuredKafka(EmbeddedKafka):
    """``tokens`` is the URL of the keys with which tokens are signed; without it, nobody logs in by a token."""

    def __init__(self, path: Path, authority: Authority, tokens: str = "") -> None:
        super().__init__(path)
        self.authority = authority
        self._tls, self._sasl = free_port(), free_port()
        self._tokens = tokens
        self.properties = self._security()

    @property
    def tls(self) -> str:
        """Bootstrap of the listener that asks for a certificate."""
        return local(self._tls)

    @property
    def sasl(self) -> str:
        """Bootstrap of the listener that asks for a login."""
        return local(self._sasl)

    def add_user(self, name: str = USER, password: str = PASSWORD) -> None:
        """A user of SCRAM; PLAIN knows only ``USER``."""
        admin = self._admin()  # it must outlive the answers
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            change = UserScramCredentialUpsertion(name, ScramCredentialInfo(mechanism, 4096), password.encode())
            for future in admin.alter_user_scram_credentials([change]).values():
                future.result(_LIMIT_S)

    def allow(self, *every: Allowed) -> None:
        """Create ACLs."""
        allow(self.bootstrap, *every)

    def take_back(self, one: Allowed) -> None:
        """Remove an ACL that is there."""
        admin, kind = self._admin(), _binding(one)
        exact = AclBindingFilter(
            kind.restype,
            kind.name,
            kind.resource_pattern_type,
            kind.principal,
            kind.host,
            kind.operation,
            kind.permission_type,
        )
        [future] = admin.delete_acls([exact]).values()
        assert len(future.result(_LIMIT_S)) == 1, one

    def _admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap})

    def _addresses(self) -> dict[str, str]:
        found = super()._addresses()
        more = f",TLS://{self.tls},LOGIN://{self.sasl}"
        kinds = ",TLS:SSL,LOGIN:SASL_SSL"
        return found | {
            "listeners": found["listeners"] + more,
            "advertised.listeners": found["advertised.listeners"] + more,
            "listener.security.protocol.map": found["listener.security.protocol.map"] + kinds,
            "inter.broker.listener.name": "PLAINTEXT",
        }

    def _security(self) -> dict[str, str]:
        mine = "listener.name.login"
        server = self.authority.issue("broker")
        plain = f'required user_{USER}="{PASSWORD}";'
        settings = {
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(server.both),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority.ca),
            "listener.name.tls.ssl.client.auth": "required",
            "listener.name.tls.ssl.principal.mapping.rules": "RULE:^CN=([^,]+).*$/$1/",
            f"{mine}.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            f"{mine}.plain.sasl.jaas.config": f"{_MODULES}.plain.PlainLoginModule {plain}",
        }
        for scram in ("scram-sha-256", "scram-sha-512"):
            settings[f"{mine}.{scram}.sasl.jaas.config"] = f"{_MODULES}.scram.ScramLoginModule required;"
        return settings | (self._by_token() if self._tokens else {})

    def _by_token(self) -> dict[str, str]:
        mine, bearer = "listener.name.login", f"{_MODULES}.oauthbearer"
        return {
            f"{mine}.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
            f"{mine}.oauthbearer.sasl.jaas.config": f"{bearer}.OAuthBearerLoginModule required;",
            f"{mine}.oauthbearer.sasl.server.callback.handler.class": f"{bearer}.OAuthBearerValidatorCallbackHandler",
            f"{mine}.oauthbearer.sasl.oauthbearer.jwks.endpoint.url": self._tokens,
            f"{mine}.oauthbearer.sasl.oauthbearer.expected.audience": "kafka",
        }

    def _prepare(self) -> Sequence[str]:
        java, *rest = super()._prepare()
        return [java, f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={self._tokens}", *rest]


def allow(bootstrap: str, *every: Allowed) -> None:
    """Create ACLs on a broker where everybody may do that."""
    admin = AdminClient({"bootstrap.servers": bootstrap})  # it must outlive the answers
    for future in admin.create_acls([_binding(each) for each in every]).values():
        future.result(_LIMIT_S)


def _binding(one: Allowed) -> AclBinding:
    kinds = {"topic": ResourceType.TOPIC, "group": ResourceType.GROUP}
    pattern = ResourcePatternType.PREFIXED if one.prefixed else ResourcePatternType.LITERAL
    operation = AclOperation[re.sub(r"(?<!^)(?=[A-Z])", "_", one.operation).upper()]
    kind = kinds.get(one.kind, ResourceType.TRANSACTIONAL_ID)
    return AclBinding(kind, one.name, pattern, f"User:{one.user}", "*", operation, AclPermissionType.ALLOW)
