"""Fetches schemas from a Schema Registry with Confluent's client.

Rules:

* The schema of an id never changes, so it is cached for as long as the process runs.
* If the registry answers that it does not know an id (its error 40403), there is no such schema.  A replica of the
  registry may lag, so the request is repeated once; then the answer is cached for a minute.
* Any other failure is retried for a bounded time and then raises UnavailableError: it says nothing about a record.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeVar

from tenacity import Retrying, retry_if_not_exception_type, stop_after_delay, wait_random_exponential

from chsink.errors import ChsinkError, preflight, services, tls, without_values
from chsink.registry.settings import SchemaRegistry

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import SchemaRegistryClient

T = TypeVar("T")
UNKNOWN_S: Final = 60
LAG_S: Final = 1
MANY_UNKNOWN: Final = 10
"""With this many unknown ids in the cache, requests are not repeated: a lagging replica is not the cause."""
_NOT_THERE: Final = frozenset({40401, 40402, 40403})
_REFUSED: Final = frozenset({401, 403})


@dataclass(frozen=True, slots=True)
class Registered:
    """A schema: ``kind`` is ``AVRO``, ``PROTOBUF`` (as a descriptor in base64) or ``JSON``.

    ``references`` are (name, text) pairs of the schemas that it refers to, directly or not; dependencies come first.
    """

    kind: str
    text: str
    references: tuple[tuple[str, str], ...] = ()


@lru_cache(maxsize=8)
def registry_of(settings: SchemaRegistry) -> Registry:
    """The registry with these settings, one per process."""
    return Registry(settings)


class Registry:
    """A Schema Registry.  Connects on the first request."""

    def __init__(self, settings: SchemaRegistry, sleep: Callable[[float], None] = time.sleep) -> None:
        self._settings = settings
        self._retry_for_s = settings.retry_for_s
        self._sleep = sleep
        self._opened: SchemaRegistryClient | None = None
        self._known: dict[int, Registered] = {}
        self._unknown: dict[int, float] = {}

    @property
    def urls(self) -> str:
        """The registry's URLs, for messages."""
        return ", ".join(self._settings.url)

    def close(self) -> None:
        """Release connections."""
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def schema(self, schema_id: int) -> Registered | None:
        """The schema of an id; None if the registry does not know it.  Raises UnavailableError, PreflightError."""
        if schema_id in self._known:
            return self._known[schema_id]
        now = time.monotonic()
        self._unknown = {one: until for one, until in self._unknown.items() if until > now}
        if schema_id in self._unknown:
            return None
        found = self._asked(lambda client: client.get_schema(schema_id))
        if found is None and len(self._unknown) < MANY_UNKNOWN:
            self._sleep(LAG_S)
            found = self._asked(lambda client: client.get_schema(schema_id))
        if found is None:
            self._unknown[schema_id] = time.monotonic() + UNKNOWN_S
            return None
        kind, fmt = found.schema_type or "AVRO", None
        if kind == "PROTOBUF":
            fmt = "serialized"
            found = self._asked(lambda client: _reread(client, schema_id)) or found
        references: dict[tuple[str, int], tuple[str, str]] = {}
        self._collect(found, references, fmt)
        self._known[schema_id] = Registered(kind, found.schema_str or "", tuple(references.values()))
        return self._known[schema_id]

    def _collect(self, schema: Any, into: dict[tuple[str, int], tuple[str, str]], fmt: str | None) -> None:
        for reference in schema.references or ():
            place = (reference.subject, reference.version)
            if place in into:
                continue
            used = self._asked(lambda client, at=place: client.get_version(*at, fmt=fmt))  # type: ignore[misc]
            if used is None:
                reason = f"it does not know version {reference.version} of the subject {reference.subject}"
                raise services.REGISTRY_UNAVAILABLE(urls=self.urls, reason=reason)
            self._collect(used.schema, into, fmt)
            into[place] = (reference.name, used.schema.schema_str)

    def versions(self, subject: str) -> int | None:
        """The number of a subject's versions; None if the registry does not know it.  Raises UnavailableError."""
        found = self._asked(lambda client: client.get_versions(subject))
        return None if found is None else len(found)

    def _asked(self, question: Callable[[SchemaRegistryClient], T]) -> T | None:
        """The registry's answer to a request, with retries; None if it answers that the object does not exist."""
        retrying = Retrying(
            retry=retry_if_not_exception_type((ChsinkError, _NotThere)),
            stop=stop_after_delay(self._retry_for_s),
            wait=wait_random_exponential(0.2, 5),
            sleep=self._sleep,
            reraise=True,
        )
        try:
            answer: T = retrying(self._once, question)
        except _NotThere:
            return None
        except ChsinkError:
            raise
        except Exception as error:
            if status := getattr(error, "http_status_code", None):
                raise services.REGISTRY_FAILED(urls=self.urls, status=status) from None
            reason = _reason(error)
            raise services.REGISTRY_UNAVAILABLE(urls=self.urls, reason=reason) from None
        return answer

    def _once(self, question: Callable[[SchemaRegistryClient], T]) -> T:
        client = self._client()
        from confluent_kafka.schema_registry import SchemaRegistryError

        try:
            return question(client)
        except SchemaRegistryError as error:
            if error.error_code in _NOT_THERE:
                raise _NotThere from None
            if error.http_status_code in _REFUSED:
                raise services.REGISTRY_REFUSED(urls=self.urls, status=error.http_status_code) from None
            raise

    def _client(self) -> SchemaRegistryClient:
        if self._opened is None:
            try:
                from confluent_kafka.schema_registry import SchemaRegistryClient
            except ImportError as error:
                raise preflight.NO_REGISTRY_PACKAGES(
                    missing=error.name or "confluent_kafka", python=sys.executable
                ) from None
            if wrong := tls.unreadable({f"schema_registry.{key}": f for key, f in _files(self._settings).items()}):
                raise services.REGISTRY_UNAVAILABLE(urls=self.urls, reason=wrong)
            try:
                self._opened = SchemaRegistryClient(_properties(self._settings))
            except (OSError, ValueError) as error:  # a certificate file is missing or invalid
                raise services.REGISTRY_UNAVAILABLE(urls=self.urls, reason=_reason(error)) from None
        return self._opened


def _reason(error: Exception) -> str:
    meant = tls.meaning(str(error), "schema_registry", "schema_registry.url")
    return meant or without_values(str(error)) or type(error).__name__


def _files(settings: SchemaRegistry) -> dict[str, str | None]:
    return {"ca_file": settings.ca_file, "cert_file": settings.cert_file, "key_file": settings.key_file}


def _reread(client: SchemaRegistryClient, schema_id: int) -> Any:
    """A Protobuf schema as a serialized descriptor; by default, the registry returns its text."""
    client.clear_caches()  # type: ignore[no-untyped-call]  # the client's cache ignores the format
    return client.get_schema(schema_id, fmt="serialized")


class _NotThere(Exception):
    pass


def _properties(settings: SchemaRegistry) -> dict[str, Any]:
    """Properties of Confluent's client, with credentials in the clear.  Its own retries are off: `_asked` retries."""
    properties: dict[str, Any] = {"url": ",".join(settings.url), "timeout": settings.timeout_s, "max.retries": 0}
    if settings.user is not None:
        properties["basic.auth.user.info"] = f"{settings.user}:{settings.password.get_secret_value()}"
    if token := settings.token.get_secret_value():
        properties |= {"bearer.auth.credentials.source": "STATIC_TOKEN", "bearer.auth.token": token}
        properties["bearer.auth.logical.cluster"] = ""  # the client requires it, but only Confluent Cloud reads it
    files = zip(("ca", "certificate", "key"), _files(settings).values(), strict=True)
    return properties | {f"ssl.{name}.location": file for name, file in files if file}
