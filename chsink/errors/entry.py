"""One entry of the error catalogue: what happened, what to do, and what kind of error that is.

``sentence`` and ``hint`` are templates with named parameters (``{tp}``).  A parameter is turned into text when the
error is made, so that an error can cross from an executor to the driver as its entry's name and its parameters.
``{rows:rows}`` is a number with its noun, ``1 row`` or ``2 rows``.
``{arguments}`` is not a parameter: it is made from ``tp``, as the arguments of a command (``flights 3``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from string import Formatter

from chsink.errors.counts import filled
from chsink.errors.families import (
    AlteredError,
    BadValueError,
    ChsinkError,
    ConfigError,
    FencedError,
    HaltError,
    PreflightError,
    UnavailableError,
)


@dataclass(eq=False, slots=True)
class Entry:
    """An error id with one sentence.  Several entries may share an id, a family and a hint when the fix is the same.

    ``ok`` is what ``chsink doctor`` says when the check of this id passed.  ``runbook`` is what ``docs/operations.md``
    adds to the hint of a halt.  ``name`` is the constant's own name; the catalogue gives it.
    """

    family: type[ChsinkError]
    id: str
    sentence: str
    hint: str
    ok: str = ""
    runbook: str = ""
    name: str = field(default="", init=False)

    @property
    def parameters(self) -> frozenset[str]:
        """What a raise site has to give."""
        named = fields(self.sentence) | fields(self.hint)
        return named - {"arguments"} | {"tp"} if "arguments" in named else named

    def __call__(self, **params: object) -> ChsinkError:
        """The error.  Parameters are exactly :attr:`parameters`."""
        assert params.keys() == self.parameters, (self.name, sorted(params), sorted(self.parameters))
        texts = {name: str(value) for name, value in params.items()}
        hint = self.hint_for([texts])
        return self.family(self.id, filled(self.sentence, texts), hint, self.name, texts)

    def hint_for(self, several: Sequence[Mapping[str, str]]) -> str:
        """The hint of an error about several topic-partitions of one topic, by the parameters of each."""
        numbers = sorted((texts["tp"].rpartition("-")[2] for texts in several if "tp" in texts), key=_in_order)
        arguments = f"{several[0].get('tp', '').rpartition('-')[0]} {' '.join(numbers)}"
        return filled(self.hint, {**several[0], "arguments": arguments})


def _in_order(partition: str) -> tuple[int, str]:
    return len(partition), partition


def fields(template: str) -> frozenset[str]:
    """The names of a template's parameters."""
    return frozenset(name for _, name, _, _ in Formatter().parse(template) if name)


altered = partial(Entry, AlteredError)
bad_value = partial(Entry, BadValueError)
config = partial(Entry, ConfigError)
fenced = partial(Entry, FencedError)
halt = partial(Entry, HaltError)
preflight = partial(Entry, PreflightError)
unavailable = partial(Entry, UnavailableError)
