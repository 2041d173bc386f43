"""The section ``[clickhouse]``: the shards, how to reach them, and how inserts are cut and bounded."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, SecretStr, model_validator

from chsink.config.values import AsTuple, Password, Section, Settings, Text, Url

_MIB = 1024 * 1024


class Endpoint(Section):
    """One shard: its URL, further replicas, its weight. A plain text is short for `{ url = "…" }`."""

    url: Url = Field(description="ClickHouse's HTTP interface, `http[s]://host[:port]` (8123, 8443).")
    weight: int = Field(default=1, ge=1, le=1_000_000, description="Share of the rows, as in `Distributed`.")
    replicas: Annotated[tuple[Url, ...], AsTuple] = Field(
        default=(), description="URLs of further replicas of the same shard, tried in order."
    )
    name: str = Field(
        default="", max_length=100, description="A name that lets the shard stay the same when its URLs change."
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
    """TLS to ClickHouse, where the endpoints are `https://`. Paths hold on the driver and on every executor."""

    ca_file: Text | None = Field(default=None, description="Certificates to trust, PEM; left out, the system's.")
    cert_file: Text | None = Field(default=None, description="Client certificate chain, PEM.")
    key_file: Text | None = Field(default=None, description="Key of the client certificate, PEM.")
    verify: bool = Field(default=True, description="Check the server's certificate and name.")


class ClickHouse(Section):
    """Where the rows land: one endpoint for each shard."""

    endpoints: Annotated[tuple[Endpoint, ...], AsTuple] = Field(
        description=(
            "The shards in order, each a URL or a table `{ url, weight, replicas, name }`. "
            "Order and weights are those of the `Distributed` table over them."
        ),
    )
    user: Text = Field(default="default", description="User on all endpoints.")
    password: Password = Field(
        default=SecretStr(""), description='`{ env = "NAME" }` or `{ file = "path" }`; left out, none.'
    )
    database: Text = Field(default="default", description="Database of tables that name none.")
    tls: Tls = Field(default=Tls(), description="TLS to ClickHouse.")
    hash_function: Literal["xxHash64", "intHash64"] = Field(
        default="xxHash64", description="Of the shard key, as in the sharding expression of `Distributed`."
    )
    shard_key: Annotated[tuple[Text, ...], AsTuple] = Field(
        default=(), description="Columns that choose the shard. Needed with several endpoints."
    )
    compression: Literal["none", "lz4", "zstd"] = Field(default="lz4", description="Of what is sent.")
    chunk_offsets: int = Field(
        default=100_000, ge=1, le=10_000_000, description="Offsets of a chunk; a chunk on one shard is one insert."
    )
    max_chunk_bytes: int = Field(
        default=256 * _MIB, ge=_MIB, le=2047 * _MIB, description="Most bytes one insert may hold in memory."
    )
    connect_timeout_s: float = Field(default=10, gt=0, le=3600, description="Bound of opening a connection.")
    insert_timeout_s: float = Field(default=120, gt=0, le=86_400, description="Bound of one send of an insert.")
    retry_for_s: float = Field(
        default=300, ge=0, le=86_400, description="Bound of all sends of one insert, waiting included."
    )
    settings: Settings = Field(default_factory=dict, description="Further ClickHouse settings of every insert.")

    @property
    def total_weight(self) -> int:
        """Sum of the shards' weights: what the hash is divided by."""
        return sum(endpoint.weight for endpoint in self.endpoints)
