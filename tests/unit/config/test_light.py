"""Reading a job file loads no driver of a service: ``chsink validate`` answers at once, executors load what they need."""

from __future__ import annotations

import subprocess
import sys

HEAVY = {"kazoo", "clickhouse_connect", "confluent_kafka", "pyspark", "pyarrow", "numpy"}


def test_the_configuration_and_the_stores_import_no_driver() -> None:
    code = "import sys, chsink.config, chsink.state; print(*{name.partition('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert HEAVY & set(done.stdout.split()) == set()
