"""4xx: shards and shard keys."""

from __future__ import annotations
