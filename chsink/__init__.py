"""chsink lands every Kafka record in ClickHouse exactly once, as a PySpark Structured Streaming job.

The public API is small: :class:`chsink.spark.sink.Sink` for your own PySpark program, :func:`chsink.config.load` for
the job file, :func:`chsink.jvm.jars.spark_jars` for the session's ``spark.jars``.  Importing this package imports
nothing heavy: executors load only what a task needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chsink.config import Config, load
    from chsink.jvm.jars import spark_jars
    from chsink.spark.sink import Sink

if not __debug__:
    raise ImportError("chsink checks itself with assert statements: start Python without -O, and unset PYTHONOPTIMIZE")

__version__ = "0.1.0"
__all__ = ["Config", "Sink", "__version__", "load", "spark_jars"]


def __getattr__(name: str) -> Any:
    """Load the public names on first use, so that ``import chsink`` costs nothing."""
    if name == "Sink":
        from chsink.spark.sink import Sink

        return Sink
    if name in ("Config", "load"):
        from chsink import config

        return getattr(config, name)
    if name == "spark_jars":
        from chsink.jvm.jars import spark_jars

        return spark_jars
    raise AttributeError(f"module 'chsink' has no attribute {name!r}")
