"""What stands in for a client of a server without replicas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self


class OneServer:
    """The part of :class:`chsink.ports.Replicas` that is about replicas."""

    def each_replica(self) -> Sequence[Self]:
        return [self]

    def newest(self) -> Self:
        return self

    def once(self) -> Any:
        return self
