"""The section ``[clickhouse]``: the shards, how to reach them, and how inserts are cut and bounded."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, SecretStr, model_validator

from chsink.config.options import Settings
from chsink.fields import AsTuple, Password, Section, Text, Url

_MIB = 1024 * 1024


class Endpoint(Section):
    """One shard: its URL, further replicas, its weight. A plain text is short for `{ url = "…" }`."""

    url: Url
    """URL of ClickHouse's HTTP interface, `http[s]://host[:port]` (8123, 8443)."""
    weight: int = Field(default=1, ge=1, le=1_000_000)
    """Share of the rows, as in a `Distributed` table."""
    replicas: Annotated[tuple[Url, ...], AsTuple] = ()
    """URLs of further replicas of the shard, tried in this order."""
    name: str = Field(default="", max_length=100)
    """A name that identifies the shard even if its URLs change."""

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: Any) -> Any:
        return {"url": value} if isinstance(value, str) else value

    @property
    def urls(self) -> tuple[str, ...]:
        """All replicas, the first one first."""
        return (self.url, *self.replicas)


class Tls(Section):
    """TLS to ClickHouse, for `https://` endpoints. The files must exist on the driver and on every executor."""

    ca_file: Text | None = None
    """CA certificates to trust, as a PEM file. Default: the system's."""
    cert_file: Text | None = None
    """Client certificate chain, as a PEM file."""
    key_file: Text | None = None
    """Private key of the client certificate, as a PEM file."""
    verify: bool = True
    """Whether to verify the server's certificate and host name."""


class ClickHouse(Section):
    """Where the rows land: one endpoint for each shard."""

    endpoints: Annotated[tuple[Endpoint, ...], AsTuple]
    """The shards, each a URL or a table `{ url, weight, replicas, name }`. Use the order and the weights of the
    `Distributed` table over them."""
    user: Text = "default"
    """User name, the same for all endpoints."""
    password: Password = SecretStr("")
    """`{ env = "NAME" }` or `{ file = "path" }`. Default: no password."""
    database: Text = "default"
    """Database of tables whose name has none."""
    tls: Tls = Tls()
    """TLS to ClickHouse."""
    hash_function: Literal["xxHash64", "intHash64"] = "xxHash64"
    """Hash function of the sharding expression of the `Distributed` table."""
    shard_key: Annotated[tuple[Text, ...], AsTuple] = ()
    """Columns that choose the shard. Required with more than one endpoint."""
    compression: Literal["none", "lz4", "zstd"] = "lz4"
    """Compression of inserts."""
    chunk_offsets: int = Field(default=100_000, ge=1, le=10_000_000)
    """Offsets per chunk. chsink sends one insert per chunk and shard."""
    max_chunk_bytes: int = Field(default=256 * _MIB, ge=_MIB, le=2047 * _MIB)
    """Maximum size of one insert in memory, in bytes."""
    connect_timeout_s: float = Field(default=10, gt=0, le=3600)
    """Timeout of a connection, in seconds."""
    insert_timeout_s: float = Field(default=120, gt=0, le=86_400)
    """Timeout of one attempt of an insert, in seconds."""
    retry_for_s: float = Field(default=300, ge=0, le=86_400)
    """How long to retry an insert or a query, in seconds, pauses included."""
    settings: Settings = Field(default_factory=dict)
    """Further ClickHouse settings for every insert."""

    @property
    def total_weight(self) -> int:
        """Sum of the shards' weights: what the hash is divided by."""
        return sum(endpoint.weight for endpoint in self.endpoints)
