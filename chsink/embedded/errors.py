"""The errors of embedded services: one type, so that a caller tells "the service" from "the sink" by ``except``.

=========  =====================================================================
id         meaning
=========  =====================================================================
CHS-901    no Java that the services support was found
CHS-902    a jar could not be fetched
CHS-903    a jar's checksum is not the pinned one
CHS-904    a service ended, or was not ready, within its bound
CHS-905    a service was asked for something it cannot do now (not running, an administration request failed)
CHS-906    the development stack's folder holds something else, or is in use by another command
=========  =====================================================================
"""

from __future__ import annotations

from chsink.errors import UnavailableError


class EmbeddedServiceError(UnavailableError):
    """A local Kafka, ZooKeeper or ClickHouse could not be started or used; the message names it and its log."""
