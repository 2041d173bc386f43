"""A stand-in for a Schema Registry: the part of its HTTP API that Confluent's serializers and chsink use.

No registry comes as a package that runs without Docker, so this one is chsink's own.  It is for trying out and for
tests, and lacks on purpose what only production needs: it checks no compatibility, deletes nothing, knows no login, and
takes Protobuf schemas as descriptors only (a real registry translates between text and descriptors).
"""

from __future__ import annotations

from chsink.embedded.registry.schemas import StoredSchemas
from chsink.embedded.registry.server import RegistryServer
from chsink.embedded.registry.service import EmbeddedRegistry

__all__ = ["EmbeddedRegistry", "RegistryServer", "StoredSchemas"]
