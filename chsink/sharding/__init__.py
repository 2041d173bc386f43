"""Assigns rows to ClickHouse shards exactly as ClickHouse's `Distributed` engine does.

`Layout` describes the shards and the shard key; `Sharder` assigns rows; `split` splits a batch by shard.
"""

from __future__ import annotations

from chsink.sharding.layout import Layout, NullShardKey, Shard
from chsink.sharding.sharder import NO_SHARD, ShardAssignment, Sharder, split

__all__ = ["NO_SHARD", "Layout", "NullShardKey", "Shard", "ShardAssignment", "Sharder", "split"]
