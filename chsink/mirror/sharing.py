"""How tables share a topic (``table_by``): what the job file says of it, and how a table stores it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from chsink.formats.table_by import Choice
from chsink.statemachine.commit.chain import Sharing, StoredShare
from chsink.statemachine.ranges import TopicPartition

_LENGTH = 16


def sharing_of(choices: Mapping[str, Choice]) -> Sharing:
    """How tables share a topic, by the choice of each."""
    text = json.dumps([[table, choice.part()] for table, choice in sorted(choices.items())])
    return Sharing(sha256(text.encode()).hexdigest()[:_LENGTH], frozenset(choices)) if choices else Sharing()


def encoded(shares: Mapping[TopicPartition, StoredShare], topic: str) -> str:
    """The topic's entries as one line of JSON: the tables of each choice; by partition the choice, the offset since
    which it holds, and the sequence number of that time.
    """
    mine = {tp.partition: share for tp, share in sorted(shares.items()) if tp.topic == topic}
    document = {
        "tables": {share.sharing.choice: sorted(share.sharing.tables) for share in mine.values()},
        "partitions": {
            str(number): [share.sharing.choice, share.since, share.sequence] for number, share in mine.items()
        },
    }
    return json.dumps(document, sort_keys=True, separators=(",", ":"))


def decoded(topic: str, text: str) -> dict[TopicPartition, StoredShare]:
    """The inverse of :func:`encoded`.  Raises AttributeError, KeyError, TypeError or ValueError for anything else."""
    document: dict[str, Any] = json.loads(text)
    tables = {choice: frozenset(names) for choice, names in document["tables"].items()}
    return {
        TopicPartition(topic, int(number)): StoredShare(Sharing(choice, tables[choice]), int(since), int(sequence))
        for number, (choice, since, sequence) in document["partitions"].items()
    }
