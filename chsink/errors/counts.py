"""Parameters of texts: numbers with what they count (``1 row``, ``2 rows``), words of a command line."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Final

SHELL: Final = "shell"
"""The format of a word for a shell: ``{table:shell}``."""


def counted(number: int | str, nouns: str) -> str:
    """The number and its noun, which is given in the plural: an ``s`` is taken off for one."""
    text = number if isinstance(number, str) else f"{number:,}"
    return f"{text} {nouns.removesuffix('s') if text == '1' else nouns}"


class _Parameter(str):
    """What a template's ``{rows:dead letters}`` stands for is :func:`counted`; ``{rows}`` is the text."""

    __slots__ = ()

    def __format__(self, nouns: str) -> str:
        if nouns == SHELL:
            return shlex.quote(self)
        return counted(str(self), nouns) if nouns else str(self)


def filled(template: str, texts: Mapping[str, str]) -> str:
    """The template of the catalogue with its parameters."""
    return template.format_map({name: _Parameter(text) for name, text in texts.items()})
