"""What ``chsink kafka acls`` prints, read as Kafka's own tool reads it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

_KINDS = ("--topic", "--group", "--transactional-id")


class Allowed(NamedTuple):
    """One ACL as a broker keeps it."""

    user: str
    operation: str
    kind: str
    name: str
    prefixed: bool


def allowed(printed: str) -> Iterator[Allowed]:
    """The ACLs that the printed commands create, one by one."""
    for line in printed.splitlines():
        if line and not line.startswith("#"):
            yield from _of_line(shlex.split(line))


def _of_line(words: list[str]) -> Iterator[Allowed]:
    options = words[words.index("--add") + 1 :]
    pairs = list(zip(options[::2], options[1::2], strict=True))
    known = {"--operation", "--allow-principal", "--resource-pattern-type", *_KINDS}
    assert {name for name, _ in pairs} <= known, words
    [user] = [value.removeprefix("User:") for name, value in pairs if name == "--allow-principal"]
    operations = [value for name, value in pairs if name == "--operation"]
    names = [(name.removeprefix("--"), value) for name, value in pairs if name in _KINDS]
    prefixed = ("--resource-pattern-type", "prefixed") in pairs
    for operation, (kind, name) in product(operations, names):
        yield Allowed(user, operation, kind, name, prefixed)
