"""The section ``[clickhouse]``: the shards, how to reach them, and how inserts are cut and bounded."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, SecretStr, model_validator

from chsink.config.options import Settings
from chsink.fields import AsTuple, Password, Section, Text, Url

_MIB = 1024 * 1024


class Endpoint(Section):
    """One shard: its URL, further replicas, its weight. A plain text is short for `{ url = "…" }`."""

    url: Url = Field(description="URL of ClickHouse's HTTP interface, `http[s]://host[:port]` (8123, 8443).")
    weight: int = Field(default=1, ge=1, le=1_000_000, description="Share of the rows, as in a `Distributed` table.")
    replicas: Annotated[tuple[Url, ...], AsTuple] = Field(
        default=(), description="URLs of further replicas of the shard, tried in this order."
    )
    name: str = Field(
        default="", max_length=100, description="A name that identifies the shard even if its URLs change."
    )

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

    ca_file: Text | None = Field(
        default=None, description="CA certificates to trust, as a PEM file. Default: the system's."
    )
    cert_file: Text | None = Field(default=None, description="Client certificate chain, as a PEM file.")
    key_file: Text | None = Field(default=None, description="Private key of the client certificate, as a PEM file.")
    verify: bool = Field(default=True, description="Whether to verify the server's certificate and host name.")


class ClickHouse(Section):
    """Where the rows land: one endpoint for each shard."""

    endpoints: Annotated[tuple[Endpoint, ...], AsTuple] = Field(
        description=(
            "The shards, each a URL or a table `{ url, weight, replicas, name }`. "
            "Use the order and the weights of the `Distributed` table over them."
        ),
    )
    user: Text = Field(default="default", description="User name, the same for all endpoints.")
    password: Password = Field(
        default=SecretStr(""), description='`{ env = "NAME" }` or `{ file = "path" }`. Default: no password.'
    )
    database: Text = Field(default="default", description="Database of tables whose name has none.")
    tls: Tls = Field(default=Tls(), description="TLS to ClickHouse.")
    hash_function: Literal["xxHash64", "intHash64"] = Field(
        default="xxHash64", description="Hash function of the sharding expression of the `Distributed` table."
    )
    shard_key: Annotated[tuple[Text, ...], AsTuple] = Field(
        default=(), description="Columns that choose the shard. Required with more than one endpoint."
    )
    compression: Literal["none", "lz4", "zstd"] = Field(default="lz4", description="Compression of inserts.")
    chunk_offsets: int = Field(
        default=100_000,
        ge=1,
        le=10_000_000,
        description="Offsets per chunk. chsink sends one insert per chunk and shard.",
    )
    max_chunk_bytes: int = Field(
        default=256 * _MIB, ge=_MIB, le=2047 * _MIB, description="Maximum size of one insert in memory, in bytes."
    )
    connect_timeout_s: float = Field(default=10, gt=0, le=3600, description="Timeout of a connection, in seconds.")
    insert_timeout_s: float = Field(
        default=120, gt=0, le=86_400, description="Timeout of one attempt of an insert, in seconds."
    )
    retry_for_s: float = Field(
        default=300, ge=0, le=86_400, description="How long to retry an insert or a query, in seconds, pauses included."
    )
    settings: Settings = Field(default_factory=dict, description="Further ClickHouse settings for every insert.")

    @property
    def total_weight(self) -> int:
        """Sum of the shards' weights: what the hash is divided by."""
        return sum(endpoint.weight for endpoint in self.endpoints)
