"""6xx: the stream between Kafka and the sink."""

from __future__ import annotations
