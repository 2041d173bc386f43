"""One broker with TLS, logins and ACLs, an authority, and tokens, for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.certificates import Authority
from tests.support.secured_kafka import PASSWORD, USER, SecuredKafka
from tests.support.secured_zookeeper import SecuredZooKeeper
from tests.support.token_server import TokenServer

SECRET = "token secret"
ZOOKEEPER_PASSWORD = "a pass:word; it's # ours"


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Whom servers and clients trust."""
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="session")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Whom nobody trusts."""
    return Authority(tmp_path_factory.mktemp("stranger"), "stranger")


@pytest.fixture(scope="session")
def tokens() -> Iterator[TokenServer]:
    """Gives out tokens of ``USER``."""
    with TokenServer(USER, SECRET) as server:
        yield server


@pytest.fixture(scope="session")
def secured(
    tmp_path_factory: pytest.TempPathFactory, authority: Authority, tokens: TokenServer
) -> Iterator[SecuredKafka]:
    """A broker that knows ``USER``, who may do nothing yet."""
    with SecuredKafka(tmp_path_factory.mktemp("secured"), authority, f"{tokens.url}/keys") as broker:
        broker.add_user(USER, PASSWORD)
        yield broker


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Iterator[SecuredZooKeeper]:
    """A ZooKeeper that knows two users."""
    users = {"lander": ZOOKEEPER_PASSWORD, "other": ZOOKEEPER_PASSWORD}
    with SecuredZooKeeper(tmp_path_factory.mktemp("zookeeper"), authority, users) as running:
        yield running
