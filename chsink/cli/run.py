"""``chsink run``: the streaming job."""

from __future__ import annotations

from typing import Annotated

import typer

from chsink.cli.options import DEFAULT_CONFIG, ConfigOption, SetOption, load_config
from chsink.cli.output import remember_json


def run(
    config: ConfigOption = DEFAULT_CONFIG,
    assignments: SetOption = None,
    jars: Annotated[
        str,
        typer.Option(
            help="Jars of Spark's Kafka source, comma-separated; `auto` fetches the pinned ones, `none`: the session's."
        ),
    ] = "auto",
    as_json: Annotated[  # noqa: ARG001 - read by the error handler
        bool,
        typer.Option(
            "--json",
            help="Print an error as one JSON object. What the job does is in its log: see observe.log_format.",
            callback=remember_json,
            is_eager=True,
        ),
    ] = False,
) -> None:
    """Run the job: land every record of its topics, exactly once, until stopped.

    \b
    chsink run -c job.toml
    chsink run -c job.toml --set trigger.mode=available_now     drain what is there, then end
    spark-submit … submit.py -c job.toml                        on a cluster: see docs/deployment.md

    It may be killed and started again at any time: it settles what was in doubt, then goes on.  SIGTERM and SIGINT end
    it after the batch at hand; a second one, or one while it starts, at once.
    """  # noqa: D301 - a backspace keeps the lines of a paragraph apart
    checked = load_config(config, assignments)
    checked.required_checkpoint()
    from chsink.spark import job

    spark = job.session(checked, jars=_jars(jars))
    try:
        job.run(checked, spark)
    finally:
        job.end(spark)


def _jars(choice: str) -> str | None:
    if choice == "none":
        return None
    if choice != "auto":
        return choice
    from pyspark.sql import SparkSession

    if SparkSession.getActiveSession() is not None:
        return None
    from chsink.embedded import jars

    return ",".join(str(p) for p in jars.ensure("spark-kafka"))
