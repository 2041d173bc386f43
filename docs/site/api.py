"""Renders the page ``docs/python.md``: what a PySpark program may use of chsink, from signatures and docstrings.

``python -m docs.site.api > docs/python.md`` writes it; a test compares.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from typing import Any, Final

import chsink
from chsink.errors import families

HEAD: Final = """\
# Python

What a PySpark program imports from chsink: `from chsink import Sink, load, spark_jars`. [Your first
transform](your-first-transform.md) shows a whole program. [A cluster's workers](deployment.md#on-a-cluster) need
chsink, too. Whatever is not on this page may change with any version.

This page is generated from the code: `python -m docs.site.api > docs/python.md`."""
ERRORS: Final = """\
## Errors

All errors are subclasses of `chsink.errors.ChsinkError`. Each has an `id` (`CHS-302`), a `message`, and a `hint` that
says what to do; `str()` gives all three. An error that combines several has them in `parts`. The page
[Errors](errors.md) lists all ids. When a batch fails, Spark raises an error of its own; `sink.failure` is chsink's.

| class | `exit_code` | |
| --- | --- | --- |"""


def page() -> str:
    """The whole page."""
    return "\n\n".join([HEAD, *_function("load"), *_function("spark_jars"), *_sink(), "\n".join([ERRORS, *_errors()])])


def _function(name: str) -> Iterator[str]:
    function = getattr(chsink, name)
    yield f"## `{name}`"
    yield _signature(name, function)
    yield _markdown(function)


def _sink() -> Iterator[str]:
    yield "## `Sink`"
    yield _signature("Sink", chsink.Sink)
    yield _markdown(chsink.Sink)
    for name, member in vars(chsink.Sink).items():
        if isinstance(member, property):
            yield f"### `sink.{name}`"
            yield _markdown(member)
        elif inspect.isfunction(member) and (name == "__call__" or not name.startswith("_")):
            yield f"### `sink.{name}`" if name != "__call__" else "### `sink` itself"
            yield _signature("sink" if name == "__call__" else f"sink.{name}", member)
            yield _markdown(member)


def _signature(name: str, what: Any) -> str:
    found = inspect.signature(what)
    given = [p for p in found.parameters.values() if p.name != "self"]
    text = str(found.replace(parameters=given)).replace("'", "").replace(" -> None", "")
    return f"```python\n{name}{text}\n```"


def _errors() -> Iterator[str]:
    for family in vars(families).values():
        if inspect.isclass(family) and issubclass(family, families.ChsinkError) and family is not families.ChsinkError:
            yield f"| `{family.__name__}` | {family.exit_code} | {' '.join(_markdown(family).split())} |"


def _markdown(what: Any) -> str:
    """A docstring in Markdown: names of code in single backticks, without the module they are in."""
    text = re.sub(r":\w+:`~?(?:[\w.]+\.)?(\w+)`", r"`\1`", inspect.getdoc(what) or "")
    return text.replace("``", "`").replace(".  ", ". ")


if __name__ == "__main__":
    sys.stdout.write(f"{page()}\n")
