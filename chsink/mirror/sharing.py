"""How tables share a topic (``table_by``), as the job file says it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256

from chsink.formats.table_by import Choice
from chsink.statemachine.commit.chain import Sharing

_LENGTH = 16


def sharing_of(choices: Mapping[str, Choice]) -> Sharing:
    """How tables share a topic, by the choice of each.  Tables that records name are among them by their template."""
    text = json.dumps([[table, choice.part()] for table, choice in sorted(choices.items())])
    tables = frozenset(choices).union(choice.others for choice in choices.values() if choice.others)
    return Sharing(sha256(text.encode()).hexdigest()[:_LENGTH], tables) if choices else Sharing()
