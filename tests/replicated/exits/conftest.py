"""The tests of ``tests/integration/exits``, on Replicated tables, in ``make soak``: ``make test`` runs them on plain ones."""

from __future__ import annotations

import pytest

from tests.integration.exits.conftest import doubtful

__all__ = ["doubtful"]


def pytest_itemcollected(item: pytest.Item) -> None:
    """Each of them, whatever its file says."""
    item.add_marker(pytest.mark.soak)
