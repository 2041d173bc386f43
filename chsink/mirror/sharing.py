"""How tables share a topic (``table_by``), as the job file says it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256

from chsink.formats.table_by import Choice
from chsink.statemachine.commit.chain import Sharing

_LENGTH = 16


def sharing_of(choices: Mapping[str, Choice]) -> Sharing:
    """How tables share a topic, by the choice of each."""
    text = json.dumps([[table, choice.part()] for table, choice in sorted(choices.items())])
    return Sharing(sha256(text.encode()).hexdigest()[:_LENGTH], frozenset(choices)) if choices else Sharing()
