"""``chsink jars``: the jars that Spark needs besides its own."""

from __future__ import annotations

from typing import Annotated

import typer

from chsink.cli.output import JsonOption, print_json
from chsink.errors import ChsinkError

ArchiveOption = Annotated[
    bool, typer.Option("--archive/--no-archive", help="Archive Spark's classes, if that was not done yet.")
]


def jars(as_json: JsonOption = False, archive: ArchiveOption = True) -> None:
    """Download the jars of Spark's Kafka source; print their paths.

    It verifies their SHA-256. Commas separate the paths. It also archives the classes that Spark loads, so that
    `chsink run` starts faster. This takes half a minute of CPU time, once, and 155 MiB of disk.

    \b
    spark-submit --jars "$(chsink jars --no-archive)" …
    pyspark --jars "$(chsink jars --no-archive)"

    `chsink run` uses the same files. They stay in ~/.cache/chsink/jars (or CHSINK_CACHE); nothing is downloaded twice.
    """  # noqa: D301 - a backspace keeps the lines of a paragraph apart
    from chsink.jvm import jars as pinned

    paths, pins = pinned.ensure(pinned.SPARK_KAFKA), pinned.pins()[pinned.SPARK_KAFKA]
    try:
        from chsink.spark import classes

        for said in classes.make() if archive else ():
            typer.echo(said, err=True)
    except (ChsinkError, ImportError, OSError) as error:
        typer.echo(f"no archive of Spark's classes: {error}", err=True)
    if not as_json:
        typer.echo(",".join(map(str, paths)))
        return
    rows = zip(paths, pins, strict=True)
    print_json({"jars": [{"path": str(p), "coordinate": str(jar), "sha256": jar.sha256} for p, jar in rows]})
