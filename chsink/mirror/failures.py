"""What a failure of the mirror's parts means for the user."""

from __future__ import annotations

from chsink.errors import ChsinkError, preflight
from chsink.mirror.coordinator import Halted, Stuck
from chsink.statemachine.commit.units import DamagedUnit


def as_error(error: Exception) -> ChsinkError | None:
    """The error that ends the mirror; None for an outage, after which a coordinator is started again."""
    if isinstance(error, ChsinkError):
        return error
    if isinstance(error, (Halted, Stuck, DamagedUnit)):
        return preflight.MIRROR_HALTED(reason=", ".join(map(str, error.args)))
    return None
