"""The mirror and a REST catalog: logins, what the catalog refuses, answers that do not come, credentials that it hands
out; and some of tests/unit/mirror, which are all in test_tables_on_rest.py.  The catalog is Apache Iceberg's own
reference server.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from uuid import uuid4

import pytest
from pyiceberg.catalog import Catalog

from chsink.config import load
from chsink.errors import ConfigError, PreflightError, UnavailableError
from chsink.mirror import rest
from chsink.mirror.opening import OpenMirror, open_mirror
from chsink.mirror.rest import open_catalog as open_with
from chsink.ports import Outcome
from tests.contract.conftest import KEYS
from tests.support.http_proxy import HttpFault
from tests.support.iceberg_rest import CatalogGate, IcebergRest
from tests.unit.config.conftest import LEAST
from tests.unit.mirror import test_tables
from tests.unit.mirror.test_growing import test_one_change_for_all
from tests.unit.mirror.test_new_tables import test_a_table_is_what_the_job_file_says
from tests.unit.mirror.test_tables import (
    table,
    test_a_commit_after_the_spec_changed_keeps_the_files_spec,
    test_a_stale_commit_is_refused_whatever_the_table_says,
    test_an_append_is_one_snapshot_with_its_chain_in_both_places,
)

__all__ = [
    "table",
    "test_a_commit_after_the_spec_changed_keeps_the_files_spec",
    "test_a_stale_commit_is_refused_whatever_the_table_says",
    "test_a_table_is_what_the_job_file_says",
    "test_an_append_is_one_snapshot_with_its_chain_in_both_places",
    "test_one_change_for_all",
]

SCHEMA = test_tables.SCHEMA
Open = Callable[[], Catalog]


@pytest.fixture
def gate(rest_server: IcebergRest) -> Iterator[CatalogGate]:
    """A catalog that asks for a login."""
    with CatalogGate(rest_server.url) as proxy:
        yield proxy


def job_file(folder: Path, properties: Mapping[str, str]) -> Path:
    """A mirror in this catalog.  Secrets are in the environment."""
    job = folder / "job.toml"
    login = '{ env = "CATALOG_LOGIN" }'
    values = {name: login if name == "credential" else json.dumps(value) for name, value in properties.items()}
    lines = "".join(f'"{name}" = {value}\n' for name, value in values.items())
    route = '[[mirror.route]]\ntopic = "orders"\ntable = "shop.orders"\n'
    job.write_text(
        f'{LEAST}\n{route}[mirror]\nenabled = true\n[mirror.catalog]\nname = "lake"\n{lines}', encoding="utf-8"
    )
    return job


def opened(folder: Path, properties: Mapping[str, str]) -> OpenMirror:
    """As every command does."""
    environ = {"CATALOG_LOGIN": properties.get("credential", "")}
    return open_mirror(load(job_file(folder, properties), environ=environ), cast("Any", SimpleNamespace(topics=list)))


def test_a_login_lets_the_mirror_in(gate: CatalogGate, open_catalog: Open, tmp_path: Path) -> None:
    """The token is fetched with the login, and fetched again once it has expired."""
    open_catalog().create_table("shop.orders", SCHEMA)
    orders = opened(tmp_path, gate.properties).targets["shop.orders"].table
    assert orders.read() is not None
    logins = gate.logins
    gate.expire()
    assert orders.read() is not None and gate.logins == logins + 1
    assert set(gate.seen) == {"vended-credentials"}


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"credential": "chsink:wrong"}, "OAuthError: invalid_client: wrong secret"),
        ({"credential": ""}, "OAuthError"),
        ({"warehouse": "lakes"}, "no such warehouse"),
        ({"uri": "{url}/nothing/here"}, "RESTError|BadRequestError|NotAuthorized"),
        ({"oauth2-server-uri": "{url}/v1/namespaces"}, "Unauthorized|OAuthError|no such token"),
    ],
)
def test_what_the_catalog_refuses_is_the_job_files_fault(
    gate: CatalogGate, tmp_path: Path, wrong: dict[str, str], words: str
) -> None:
    """⚑ No restart helps.  The secret is in no message."""
    properties = {**gate.properties, **{name: value.format(url=gate.url) for name, value in wrong.items()}}
    with pytest.raises(PreflightError, match=f"CHS-264.*({words})") as raised:
        opened(tmp_path, properties)
    assert gate.secret not in str(raised.value)


def test_a_secret_in_the_job_file_is_refused(gate: CatalogGate, tmp_path: Path) -> None:
    job = job_file(tmp_path, {"credential": "x"})
    job.write_text(job.read_text().replace('{ env = "CATALOG_LOGIN" }', f'"chsink:{gate.secret}"'), encoding="utf-8")
    with pytest.raises(ConfigError, match="mirror.catalog.credential") as raised:
        load(job, environ={})
    assert gate.secret not in str(raised.value)


@pytest.mark.parametrize("how", ["gone", "busy", "silent"])
def test_a_catalog_that_does_not_answer(
    gate: CatalogGate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """⚑ pyiceberg waits without end for a catalog that says nothing."""
    monkeypatch.setattr(rest, "ANSWER_S", 0.3)
    properties = gate.properties
    if how == "gone":
        gate.leave()
    elif how == "busy":
        gate.inject(HttpFault.STATUS_503, times=9)
    else:
        gate.inject(HttpFault.DELAY_ANSWER, times=9, delay_s=1)
    with pytest.raises(UnavailableError, match="CHS-715"):
        opened(tmp_path, properties)


def test_a_commit_whose_answer_does_not_come_is_unknown(
    gate: CatalogGate, open_catalog: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """⚑ K-9: it was applied, and the chain tells."""
    open_catalog().create_table("shop.orders", SCHEMA)
    monkeypatch.setattr(rest, "ANSWER_S", 0.3)
    orders = opened(tmp_path, gate.properties).targets["shop.orders"].table
    now = test_tables.read(orders)
    gate.inject(HttpFault.DELAY_ANSWER, match="add-snapshot", delay_s=1)
    chain = test_tables.until(test_tables.BEGUN, 9)
    assert orders.append(now, test_tables.files(now, 1), chain, uuid4(), None).outcome is Outcome.UNKNOWN
    assert test_tables.held(orders) == [1]
    later = test_tables.chain_of(orders).chain
    assert later is not None and later.links == chain.links


def test_the_login_of_rfc_6749(gate: CatalogGate, open_catalog: Open) -> None:
    """``auth.…`` reaches pyiceberg as the table that it wants.  The login goes to no task of Spark."""
    open_catalog().create_table("shop.orders", SCHEMA)
    login = {"client_id": gate.client, "client_secret": gate.secret, "token_url": f"{gate.url}/v1/oauth/tokens"}
    keys = {f"auth.oauth2.{name}": value for name, value in {**login, "expires_in": "3600"}.items()}
    where = {"type": "rest", "uri": gate.url, "warehouse": gate.warehouse}
    orders = open_with("lake", {**where, "auth.type": "oauth2", **keys}).load_table("shop.orders")
    assert gate.logins > 0
    assert gate.secret.encode() not in pickle.dumps(orders.io)


def test_credentials_that_the_catalog_hands_out(rest_server: IcebergRest, open_catalog: Open, tmp_path: Path) -> None:
    """They are those of the table's files; nothing of them is in the job file."""
    open_catalog().create_table("shop.orders", SCHEMA)
    properties = {"type": "rest", "uri": rest_server.url}
    orders = opened(tmp_path, properties).targets["shop.orders"].table.load()
    assert orders is not None
    sent = pickle.loads(pickle.dumps(orders.io))
    assert {name: sent.properties[name] for name in KEYS} == KEYS
