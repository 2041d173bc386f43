"""Numbers with what they count: ``1 row``, ``2 rows``."""

from __future__ import annotations

from collections.abc import Mapping


def counted(number: int | str, nouns: str) -> str:
    """The number and its noun, which is given in the plural: an ``s`` is taken off for one."""
    text = number if isinstance(number, str) else f"{number:,}"
    return f"{text} {nouns.removesuffix('s') if text == '1' else nouns}"


class _Parameter(str):
    """What a template's ``{rows:dead letters}`` stands for is :func:`counted`; ``{rows}`` is the text."""

    __slots__ = ()

    def __format__(self, nouns: str) -> str:
        return counted(str(self), nouns) if nouns else str(self)


def filled(template: str, texts: Mapping[str, str]) -> str:
    """The template of the catalogue with its parameters."""
    return template.format_map({name: _Parameter(text) for name, text in texts.items()})
