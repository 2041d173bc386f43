"""Kafka, ZooKeeper and ClickHouse on this machine, without Docker: for the demo, the tests and ``chsink dev``.

Each is a :class:`~chsink.embedded.service.Service`: one folder, one process, and free ports on 127.0.0.1.  A start
waits until it is ready; a stop ends it by its own pid.  :class:`~chsink.embedded.stack.Stack` is all of them together.
Nothing of the sink imports this package.
"""
