"""Faults that are drawn from a source of their own and numbered apart from those of :class:`tests.sim.hub.Hub`."""

from __future__ import annotations

from random import Random

from tests.sim.hub import Hub


class OwnFaults:
    """``source`` names the source of ``chance``; the first opportunity comes after the number ``first``."""

    def __init__(self, hub: Hub, source: str, first: int) -> None:
        self._hub, self.chance, self._opportunity = hub, Random(f"{source} {hub.seed}"), first

    def fault(self, name: str, probability: float) -> bool:
        """As :meth:`tests.sim.hub.Hub.fault`."""
        hub, drawn = self._hub, self.chance.random()
        self._opportunity += 1
        if hub.calm or drawn >= probability or (hub.allowed is not None and self._opportunity not in hub.allowed):
            return False
        hub.fired.append((self._opportunity, name))
        hub.counts[f"fault {name}"] += 1
        return True
