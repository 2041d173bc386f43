"""One defect on trial, in a process that has imported nothing yet of the production code that defects change."""

from __future__ import annotations

import gc
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any, Final, TypeVar

from tests.mutations.defects import Defect
from tests.mutations.every import DEFECTS
from tests.mutations.patching import install

T = TypeVar("T")
_PRELOADED: Final = (
    "clickhouse_connect confluent_kafka fastavro greenlet pandas pyarrow.compute pydantic pyiceberg.io.pyarrow pyspark.sql"
    " pytest structlog tests.mutations.warm"
)
"""What production code and its tests import of others, but no plugin of pytest: it would be imported too early.  Last,
what no defect reaches.
"""


def in_child(work: Callable[..., T], *arguments: Any) -> T:
    """What a defect changes must not have been imported: a process of its own for each piece of work.

    It is forked from one that has imported all the others: that takes most of a process's start.
    """
    context = get_context("forkserver")
    context.set_forkserver_preload(_PRELOADED.split())
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(work, *arguments).result()


def tried(name: str) -> tuple[str | None, str]:
    """:func:`run` for the defect of this name, which this process has from now on."""
    gc.disable()  # a process of a second, of which imports are the most
    defect = next(d for d in DEFECTS if d.name == name)
    install(defect.changes)
    return run(defect)


def run(defect: Defect) -> tuple[str | None, str]:
    """The invariant that broke, or "" where a test failed, and what there is to say; (None, …): the defect survived."""
    if defect.test is not None:
        return _test(defect.test)
    if defect.world is not None:
        from tests.model.search import explore
        from tests.model.worlds import WORLDS

        found = explore(next(w for w in WORLDS if w.name == defect.world)).found
        return (None, defect.world) if found is None else (found.invariant, found.what)
    from tests.mutations.simulated import run_seed

    return run_seed(defect.seed, defect.often, defect.of)


def _test(name: str) -> tuple[str | None, str]:
    """The test runs in this process, over the changed code.  It must fail: neither pass nor break down."""
    import pytest

    code = pytest.main(["-q", "-x", "-p", "no:cacheprovider", "--no-header", name])
    return ("" if code is pytest.ExitCode.TESTS_FAILED else None), name
