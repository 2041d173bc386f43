"""How long does ``chsink run`` take to its first row?  From the command to what it says, and to what the table shows.

The log's lines tell the steps: Spark is up once the sink is ``claimed``, which checks and the state come before.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import Any

from bench import topic
from bench.measured import ROOT, MeasuredError, Place, spark_conf

NAME = "start"
RECORDS = 400
LIMIT_S = 180
POLL_S = 0.05
STEPS = ("claimed", "first row", "ended")
_MAIN = "from chsink.cli.main import app; app()"
_JOB = """
[sink]
name = "start-{number}"
checkpoint = "{checkpoint}"
[kafka]
bootstrap = "{bootstrap}"
[[route]]
topic = "{topic}"
table = "{table}"
[clickhouse]
endpoints = ["{url}"]
[trigger]
mode = "available_now"
[observe]
progress = "never"
[spark]
master = "local[2]"
[spark.conf]
{conf}
"""


def measure(place: Place, rounds: int) -> dict[str, Any]:
    """Start the command ``rounds`` times, each with a new sink and a new table."""
    place.stack.kafka.create_topic(NAME, topic.PARTITIONS)
    topic.produce(place.stack.kafka.bootstrap, NAME, 0, RECORDS, place.say)
    runs = [_run(place, number) for number in range(rounds)]
    place.stack.kafka.delete_topic(NAME)
    medians = {step: statistics.median(run[step] for run in runs) for step in STEPS}
    return {"runs": runs, "medians": medians, "load": os.getloadavg()[0]}


def _run(place: Place, number: int) -> dict[str, float]:
    client, table = place.client(), f"start_{number}"
    place.empty_table(client, table, deduplicated=True)
    conf = "\n".join(f'"{key}" = "{value}"' for key, value in spark_conf(place.folder).items())
    job = place.folder / f"{table}.toml"
    job.write_text(
        _JOB.format(number=number, checkpoint=place.checkpoint(), bootstrap=place.stack.kafka.bootstrap,
                    topic=NAME, table=table, url=place.url, conf=conf)
    )  # fmt: skip
    log = place.folder / f"{table}.log"
    began = time.monotonic()
    with log.open("wb") as to:
        process = subprocess.Popen(
            [sys.executable, "-c", _MAIN, "run", "-c", str(job), "--jars", place.jars],
            stdout=to, stderr=to, cwd=ROOT, start_new_session=True,
        )  # fmt: skip
    found: dict[str, float] = {}
    try:
        while process.poll() is None and time.monotonic() - began < LIMIT_S:
            time.sleep(POLL_S)
            now = time.monotonic() - began
            if "claimed" in log.read_text(errors="replace"):
                found.setdefault("claimed", now)
            if int(client.query(f"SELECT count() FROM {table}").result_rows[0][0]):
                found.setdefault("first row", now)
        found["ended"] = time.monotonic() - began
    finally:
        process.kill()
        process.wait()
    client.close()
    if process.returncode or any(step not in found for step in STEPS):
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-25:])
        raise MeasuredError(f"chsink run ended with {process.returncode}; the end of its log:\n{tail}")
    place.say("start: " + ", ".join(f"{step} {found[step]:.1f} s" for step in STEPS))
    return found


def lines(figures: Mapping[str, Any]) -> list[str]:
    """For people."""
    steps = ", ".join(f"{step} after {s:.1f} s" for step, s in figures["medians"].items())
    return [f"start: chsink run, medians of {len(figures['runs'])}: {steps}"]
