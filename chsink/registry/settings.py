"""The section ``[schema_registry]``.  This module does not import Confluent's client."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr

from chsink.errors import job_file
from chsink.fields import AsTuple, Password, Section, Text


def _check_url(text: str) -> str:
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:  # a bad port or bracket
        raise job_file.NOT_A_REGISTRY_URL() from error
    if "@" in parts.netloc:
        raise job_file.CREDENTIAL_IN_REGISTRY_URL()
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0 or parts.query or parts.fragment:
        raise job_file.NOT_A_REGISTRY_URL()
    return text.rstrip("/")


class SchemaRegistry(Section):
    """The Schema Registry of the formats `avro`, `protobuf` and `json_schema`, from which the driver and the executors
    fetch schemas. See [formats](formats.md#schema-registry).
    """

    url: Annotated[tuple[Annotated[str, AfterValidator(_check_url)], ...], AsTuple] = ()
    """URL, `http[s]://host[:port][/path]`, or several of the same registry, tried in this order. Required if a route
    uses the registry."""
    user: Text | None = None
    """User name, for basic authentication."""
    password: Password = SecretStr("")
    """`{ env = "NAME" }` or `{ file = "path" }`: the user's password."""
    token: Password = SecretStr("")
    """`{ env = "NAME" }` or `{ file = "path" }`: a bearer token, instead of a user."""
    ca_file: Text | None = None
    """CA certificates to trust, as a PEM file. Default: those of the package `certifi`. The files must exist on the
    driver and on every executor."""
    cert_file: Text | None = None
    """Client certificate chain, as a PEM file."""
    key_file: Text | None = None
    """Private key of the client certificate, as a PEM file."""
    timeout_s: float = Field(default=10, gt=0, le=600)
    """Timeout of one request, in seconds."""
    retry_for_s: float = Field(default=60, ge=0, le=86_400)
    """How long to retry a request that is not answered, in seconds. Then the job stops with exit code 5; no record
    counts as a bad value because the registry is away."""
