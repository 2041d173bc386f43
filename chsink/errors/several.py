"""Several errors as one: one message, and one command for all topic-partitions that need the same.

Errors of one catalogue entry about one topic become one, whose hint names all their partitions; so do errors of one
entry with the same hint.  What differs stays apart: the error then has ``parts``, each with its own fix.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from chsink.errors.catalogue import CATALOGUE
from chsink.errors.families import ChsinkError

SPELLED_OUT = 5
"""How many partitions get a sentence of their own; the message only names the others."""


def several(errors: Sequence[ChsinkError]) -> ChsinkError:
    """The errors (at least one) as one, of the first one's family and id.  They may be results of this function."""
    errors = [one for error in errors for one in error.single or (error,)]
    groups: dict[tuple[str, str], list[ChsinkError]] = defaultdict(list)
    for error in errors:
        entry = CATALOGUE.get(error.name)
        one_command = entry is not None and "{arguments}" in entry.hint
        groups[error.name, error.params["tp"].rpartition("-")[0] if one_command else error.hint].append(error)
    parts = [_merged(group) for group in groups.values()]
    if len(parts) == 1:
        return parts[0]
    first = parts[0]
    message = "; ".join(f"[{p.id}] {p.message}" for p in parts)
    hint = "; ".join(f"[{p.id}] {p.hint}" for p in parts)
    whole = type(first)(first.id, message, hint, first.name, first.params)
    whole.parts, whole.single = tuple(parts), tuple(errors)
    return whole


def raise_all(errors: Sequence[ChsinkError]) -> None:
    """Raise the errors as one, if there is any."""
    if errors:
        raise several(errors)


def _merged(alike: Sequence[ChsinkError]) -> ChsinkError:
    first = alike[0]
    if len(alike) == 1:
        return first
    message = "; ".join(dict.fromkeys(e.message for e in alike[:SPELLED_OUT]))
    more = [e.params["tp"] for e in alike[SPELLED_OUT:] if "tp" in e.params]
    if more:
        message += f"; and in the same way: {', '.join(more)}"
    entry = CATALOGUE.get(first.name)
    hint = first.hint if entry is None else entry.hint_for([e.params for e in alike])
    merged = type(first)(first.id, message, hint, first.name, first.params)
    merged.single = tuple(alike)
    return merged
