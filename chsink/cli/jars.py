"""``chsink jars``: the jars that Spark needs besides its own."""

from __future__ import annotations

import typer

from chsink.cli.output import JsonOption, print_json


def jars(as_json: JsonOption = False) -> None:
    """Download the jars of Spark's Kafka source; print their paths.

    It verifies their SHA-256, and separates the paths by commas.

    \b
    spark-submit --jars "$(chsink jars)" …
    pyspark --jars "$(chsink jars)"

    `chsink run` uses the same files. They stay in ~/.cache/chsink/jars (or CHSINK_CACHE); nothing is downloaded twice.
    """  # noqa: D301 - a backspace keeps the lines of a paragraph apart
    from chsink.jvm import jars as pinned

    if not as_json:
        typer.echo(pinned.spark_jars())
        return
    paths, pins = pinned.ensure(pinned.SPARK_KAFKA), pinned.pins()[pinned.SPARK_KAFKA]
    rows = zip(paths, pins, strict=True)
    print_json({"jars": [{"path": str(p), "coordinate": str(jar), "sha256": jar.sha256} for p, jar in rows]})
