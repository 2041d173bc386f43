"""The ACLs that the job's Kafka user needs, in one list, and the commands that create them.

The list feeds ``chsink kafka acls``.  Tests give a user exactly these ACLs, land records and run the commands.  Other
rooms name the groups and the transactional ids; all of a sink's begin with the same text.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from chsink.config import Config
from chsink.errors import job_file

TOPIC: Final = "topic"
GROUP: Final = "group"
TRANSACTIONAL_ID: Final = "transactional-id"
_READ: Final = ("Read", "DescribeConfigs")
_WRITE: Final = ("Read", "Write", "DescribeConfigs")


class Purpose(StrEnum):
    """What needs an ACL."""

    RUN = "every job"
    LETTERS = "dead letters in a topic"
    MIRROR = "the Iceberg mirror"


@dataclass(frozen=True, slots=True)
class Acl:
    """Operations on resources of one kind: ``names`` as they are, or all that begin with the one name."""

    use: Purpose
    operations: tuple[str, ...]
    kind: str
    names: tuple[str, ...]
    why: str
    prefixed: bool = False


def needed(config: Config) -> list[Acl]:
    """What the job needs for all that its job file asks for.  A command per entry creates them."""
    return [acl for acl in _all(config) if acl.names]


def _all(config: Config) -> Iterator[Acl]:
    sink = f"chsink-{config.sink.name}"
    mirrored = config.mirror.topics if config.mirror.enabled else ()
    topics = tuple(dict.fromkeys((*config.topics, *mirrored)))
    yield Acl(Purpose.RUN, _READ, TOPIC, topics, "reads the records, and how long the topic keeps them")
    yield Acl(Purpose.RUN, ("Read",), GROUP, (f"{sink}/",), "reads under this name; it joins no group", prefixed=True)
    letters = config.dead_letters.topic
    if letters is not None:
        yield Acl(Purpose.LETTERS, _WRITE, TOPIC, (letters,), "keeps dead letters, and finds them again")
        mine = (f"{sink}/dead-letters/",)
        yield Acl(Purpose.LETTERS, ("Write",), TRANSACTIONAL_ID, mine, "writes each dead letter once", prefixed=True)
    if config.mirror.enabled:
        control = (config.mirror.control_topic,)
        yield Acl(
            Purpose.MIRROR, (*_WRITE, "Create"), TOPIC, control, "hands over files, and creates the topic if missing"
        )
        yield Acl(Purpose.MIRROR, ("Read",), GROUP, (sink,), "keeps how far the mirror is")
        yield Acl(
            Purpose.MIRROR, ("Write",), TRANSACTIONAL_ID, (f"{sink}/",), "hands over each file once", prefixed=True
        )


def principal_of(config: Config, given: str | None) -> str:
    """The user as brokers name it, ``User:NAME``: the given one, or that of the login.  ConfigError CHS-109 if the job
    file does not name it.
    """
    if given is not None:
        return given if ":" in given else f"User:{given}"
    name = config.kafka.client_options().get("sasl.username")
    if name is None:
        raise job_file.NO_KAFKA_USER()
    return f"User:{name}"


def commands(acls: Iterable[Acl], principal: str, tool: Sequence[str]) -> list[tuple[Acl, str]]:
    """Each entry with the line for a shell that creates it; ``tool`` is how Kafka's own tool is called."""
    return [(acl, shlex.join([*tool, "--add", "--allow-principal", principal, *_arguments(acl)])) for acl in acls]


def _arguments(acl: Acl) -> Iterator[str]:
    for operation in acl.operations:
        yield from ("--operation", operation)
    for name in acl.names:
        yield from (f"--{acl.kind}", name)
    if acl.prefixed:
        yield from ("--resource-pattern-type", "prefixed")
