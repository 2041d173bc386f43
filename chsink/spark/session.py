"""The Spark session of a job."""

from __future__ import annotations

import contextlib
import os
import re
import sys

from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from chsink.config import Config
from chsink.errors import services
from chsink.jvm.java import java_home
from chsink.spark import classes
from chsink.spark.checks import GATEWAY
from chsink.spark.daemon import CLICKHOUSE, MIRROR, MODULES
from chsink.spark.failures import NO_ANSWER, reason_of
from chsink.spark.java import JavaObject

STREAMING = "org.apache.spark.sql.execution.streaming.runtime"
SESSION_CONF = {
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.sql.adaptive.enabled": "false",
    # Arrow's own allocator takes 5 to 15 % more CPU time, and keeps 30 to 60 MB more of each worker
    "spark.executorEnv.ARROW_DEFAULT_MEMORY_POOL": "system",
    # Spark keeps a Kafka consumer for each of the partitions read last, by default 64.  A job of 512 would make each of
    # them anew for each batch, for about twice the CPU time of its JVM.
    "spark.kafka.consumer.cache.capacity": "1024",
    "spark.ui.showConsoleProgress": "false",
}
ALLOWED_URLS = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
"""Java's property for the places that Kafka's client may ask for tokens: none by default."""
HIDDEN_OPTIONS = "spark.sql.redaction.options.regex"
KAFKA_SECRETS = r"(?i)jaas|keystore[.]key"
"""Options whose values Spark hides in plans, beside those that it knows: names with `password`, `secret`, `token`."""
EXECUTOR_JAVA = "spark.executor.extraJavaOptions"
DAEMON = "spark.python.daemon.module"


def session(config: Config, jars: str | None = None) -> SparkSession:
    """The session that the configuration describes; an existing one keeps its own settings.

    UnavailableError CHS-711 when Spark does not start.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if GATEWAY not in os.environ:
        os.environ["JAVA_HOME"] = str(java_home())
        classes.use()
    builder = SparkSession.builder.appName(config.spark.app_name or f"chsink {config.sink.name}")
    if config.spark.master is not None:
        builder = builder.master(config.spark.master)
    if jars:
        builder = builder.config("spark.jars", jars)
    pools = {"spark.scheduler.mode": "FAIR"} if config.mirror.enabled else {}
    for name, value in {**SESSION_CONF, **pools, **config.spark.conf, **executors_tokens(config)}.items():
        builder = builder.config(name, value)
    try:
        spark = builder.getOrCreate()
    except (PySparkException, *NO_ANSWER) as error:
        raise services.SPARK_NOT_STARTED(reason=reason_of(error)) from error
    spark.sparkContext.setLogLevel("ERROR")
    _import_first(spark.sparkContext, config)
    return spark


def _import_first(context: SparkContext, config: Config) -> None:
    """Fork workers from ``chsink.spark.daemon``, where it is sure to be found.  macOS's algebra outlives no fork."""
    own = re.fullmatch(r"local(\[.*\])?", str(context.master)) and context.pythonExec == sys.executable
    own = own and not context._conf.get("spark.submit.pyFiles", "")  # its modules come before installed ones
    if own and sys.platform == "linux" and GATEWAY not in os.environ and not context._conf.contains(DAEMON):
        sides = {CLICKHOUSE: config.clickhouse_section is not None, MIRROR: config.mirror.enabled}
        context.environment[MODULES] = " ".join(module for module, there in sides.items() if there)
        context._conf.set(DAEMON, "chsink.spark.daemon")


def executors_tokens(config: Config) -> dict[str, str]:
    """The executors' Java options, if they log in to Kafka by a token."""
    if not config.kafka.token_url:
        return {}
    given = config.spark.conf.get(EXECUTOR_JAVA, "")
    return {EXECUTOR_JAVA: f"{given} -D{ALLOWED_URLS}={config.kafka.token_url}".strip()}


def prepare_kafka(spark: SparkSession, config: Config) -> None:
    """Let Kafka's client in the driver's Java ask for tokens where the job file says, and keep keys and logins out of
    the plans of its source.
    """
    if config.kafka.token_url:
        java: JavaObject = spark.sparkContext._jvm.java  # type: ignore[union-attr]
        java.lang.System.setProperty(ALLOWED_URLS, config.kafka.token_url)
    hidden = spark.conf.get(HIDDEN_OPTIONS) or ""
    if KAFKA_SECRETS not in hidden:
        spark.conf.set(HIDDEN_OPTIONS, f"{hidden}|{KAFKA_SECRETS}" if hidden else KAFKA_SECRETS)


def end(spark: SparkSession) -> None:
    """Stop the session.  Does nothing if its Java process is gone."""
    with contextlib.suppress(*NO_ANSWER):
        spark.stop()


def quieten(spark: SparkSession) -> None:
    """Keep Spark from logging each error of the sink a second time, with a Python and a Java trace."""
    log4j: JavaObject = spark.sparkContext._jvm.org.apache.logging.log4j  # type: ignore[union-attr]
    log4j.core.config.Configurator.setLevel(f"{STREAMING}.MicroBatchExecution", log4j.Level.OFF)
