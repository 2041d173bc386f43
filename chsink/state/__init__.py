"""Where the recorded ranges are kept: three stores behind :class:`chsink.ports.StateStore` and one contract suite.

==============  ==========  ================================================================================
store           durable     where
==============  ==========  ================================================================================
``keepermap``   yes         a ClickHouse table of the engine KeeperMap, through any ClickHouse endpoint
``zookeeper``   yes         ZooKeeper itself, without ClickHouse
``memory``      **no**      this process: for tests, and to try the job out
==============  ==========  ================================================================================
"""
