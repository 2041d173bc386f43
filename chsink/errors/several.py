"""Several errors as one: one message, and one command for all topic-partitions that need the same.

Errors of one catalogue entry about one topic become one, whose hint names all their partitions; so do errors of one
entry with the same hint.  What differs stays apart: the error then has ``parts``, each with its own fix.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from chsink.errors.catalogue import CATALOGUE
from chsink.errors.counts import filled
from chsink.errors.entry import Entry, fields
from chsink.errors.families import ChsinkError

SPELLED_OUT = 5
"""How many different reasons are given; the message only names the partitions of the others."""


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
    entry = CATALOGUE.get(first.name)
    message = "; ".join(dict.fromkeys(e.message for e in alike)) if entry is None else _sentence(entry, alike)
    hint = first.hint if entry is None else entry.hint_for([e.params for e in alike])
    merged = type(first)(first.id, message, hint, first.name, first.params)
    merged.single = tuple(alike)
    return merged


def _sentence(entry: Entry, alike: Sequence[ChsinkError]) -> str:
    """The entry's sentence once, as far as the errors differ in one parameter only, besides their partitions."""
    named = fields(entry.sentence)
    tps: dict[tuple[str, ...], list[str]] = defaultdict(list)
    others = sorted(named - {"tp"})
    for error in alike:
        tps[tuple(error.params[name] for name in others)].append(error.params.get("tp", ""))
    varying = [name for name, values in zip(others, zip(*tps, strict=True), strict=True) if len(set(values)) > 1]
    said: list[str] = []
    for values, mine in list(tps.items())[:SPELLED_OUT]:
        params = dict(zip(others, values, strict=True)) | {"tp": ", ".join(dict.fromkeys(mine))}
        if not said or len(varying) != 1:
            said.append(filled(entry.sentence, params))
        elif "tp" in named:
            said.append(f"the same for {params['tp']}: {params[varying[0]]}")
        else:
            said.append(params[varying[0]])
    more = [tp for mine in list(tps.values())[SPELLED_OUT:] for tp in mine if tp]
    if more:
        said.append(f"also: {', '.join(dict.fromkeys(more))}")
    return "; ".join(said)
