"""How many examples a property is tried with: two in ten of its usual number in ``make test``, all in ``make soak``."""

from __future__ import annotations

from hypothesis import settings


def examples(usual: int) -> int:
    """For ``max_examples``.  The profile of the run says how many of a hundred."""
    profile = settings.default
    assert profile is not None
    return max(1, usual * profile.max_examples // 100)
