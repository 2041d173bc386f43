"""What becomes of the process when the job has ended with a halt: it ends, or stays for a person to see it.

A supervisor that restarts whatever ends would start a halted job again and again, and a fenced one against the driver
that fenced it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import sleep

import structlog
from pyspark.sql import SparkSession

from chsink.errors import ChsinkError, FencedError, HaltError
from chsink.observe.logs import log_end
from chsink.observe.probes import Probes
from chsink.spark.checks import GATEWAY
from chsink.spark.session import end
from chsink.stop import POLL_S, StopSignals


@contextmanager
def staying(
    stays: bool,
    spark: SparkSession,
    probes: Probes,
    log: structlog.typing.FilteringBoundLogger,
    said: Callable[[ChsinkError], None] = lambda _: None,
) -> Iterator[None]:
    """Tell the probes of the error that ends the block.  If the process ``stays`` after a halt or a fence, end Spark,
    tell ``said``, and wait for a signal; or, below spark-submit, for the end of its Java, which gets the signals there.
    An error that comes after a signal is not stayed for.

    Raises the error in any case.
    """
    try:
        yield
    except ChsinkError as error:
        probes.ended(error)
        if stays and not probes.asked and isinstance(error, HaltError | FencedError):
            log_end(log, "the job", error, next="staying until a signal")
            said(error)
            end(spark)
            parent = os.getppid()
            with StopSignals() as stop:
                while not stop.received and (GATEWAY not in os.environ or os.getppid() == parent):
                    sleep(POLL_S)
        raise
