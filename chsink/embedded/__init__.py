"""Kafka, ZooKeeper, ClickHouse and a Schema Registry on this machine, without Docker.  The demo, the tests and
``chsink dev`` use them.

Each is a :class:`~chsink.embedded.base.service.Service`: one folder, one process, and free ports on 127.0.0.1.  A start
waits until it is ready; a stop ends it by its own pid.  :class:`~chsink.embedded.stack.Stack` is all of them together.
Nothing of the sink imports this package.
"""
