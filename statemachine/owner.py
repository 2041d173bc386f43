"""Who owns a sink: its epoch, the driver that claimed it, and the layouts that records still name."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

from .codec import CODEC_VERSION, CodecError


@dataclass(frozen=True, slots=True)
class Owner:
    """The sink's own row.  ``claimed_at`` is the claiming driver's clock in ms; ``layouts`` maps fingerprint → JSON.

    ``resets``: it was claimed to reset partitions.  Until a job claims the sink, what is confirmed may be forgotten.
    """

    sink: str
    epoch: int
    attempt: str
    driver: str
    claimed_at: int
    layouts: tuple[tuple[str, str], ...] = ()
    resets: bool = False

    def layout(self, fingerprint: str) -> str | None:
        """The layout with this fingerprint, as it was stored, or None."""
        return dict(self.layouts).get(fingerprint)


def claim(
    current: Owner | None, *, sink: str, attempt: str, driver: str, now_ms: int, above: int = 0, resets: bool = False
) -> Owner:
    """The next owner: one epoch up, layouts kept.  Without a row of an owner, one up from ``above``, the rows' own."""
    epoch = 1 + (above if current is None else current.epoch)
    layouts = () if current is None else current.layouts
    return Owner(sink, epoch, attempt, driver, now_ms, layouts, resets)


def with_layouts(owner: Owner, attempt: str, layouts: dict[str, str]) -> Owner:
    """The owner's row with these layouts and no others."""
    return replace(owner, attempt=attempt, layouts=tuple(sorted(layouts.items())))


def encode_owner(owner: Owner) -> str:
    """The row as one line of JSON."""
    document = {
        "sink": owner.sink,
        "epoch": owner.epoch,
        "attempt": owner.attempt,
        "driver": owner.driver,
        "claimed_at": owner.claimed_at,
        "layouts": dict(owner.layouts),
        "version": CODEC_VERSION,
    }
    if owner.resets:
        document["resets"] = True
    return json.dumps(document, sort_keys=True, separators=(",", ":"))


def decode_owner(text: str) -> Owner:
    """The inverse of :func:`encode_owner`.  Raises :class:`CodecError` for anything else."""
    try:
        document: dict[str, Any] = json.loads(text)
        if document.pop("version") != CODEC_VERSION:
            raise CodecError("owner row of another version of chsink")
        document["layouts"] = tuple(sorted(document["layouts"].items()))
        return Owner(**document)
    except CodecError:
        raise
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise CodecError(f"damaged owner row ({type(error).__name__}: {error})") from error
