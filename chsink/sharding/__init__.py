"""Which ClickHouse shard a row belongs to: the one that ClickHouse's own `Distributed` would choose.

`Layout` says which shards there are and what is hashed; `Sharder` assigns rows; `split` cuts a batch by shard.
"""

from __future__ import annotations

from chsink.sharding.layout import Layout, NullShardKey, Shard
from chsink.sharding.sharder import NO_SHARD, ShardAssignment, Sharder, split

__all__ = ["NO_SHARD", "Layout", "NullShardKey", "Shard", "ShardAssignment", "Sharder", "split"]
