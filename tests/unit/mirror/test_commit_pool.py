"""Several tables at a time: a slow one holds up no other."""

from __future__ import annotations

import threading
from functools import partial

import pytest

from chsink.mirror.commit_pool import CommitPool, asked


def names(pool: CommitPool[str], *jobs: str, patience_s: float | None = None) -> list[str]:
    return sorted(done.name for done in pool.finished({job: partial(str, job) for job in jobs}, patience_s))


def test_a_commit_that_takes_long_joins_a_later_round() -> None:
    pool: CommitPool[str] = CommitPool(2)
    held = threading.Event()

    def slow() -> str:
        assert held.wait(20)
        return "slow"

    assert [done.name for done in pool.finished({"slow": slow, "a": str, "b": str}, 0.2)] in (["a", "b"], ["b", "a"])
    assert names(pool, "a", "c", patience_s=0.2) == ["a", "c"] and list(pool.since) == ["slow"]
    with pytest.raises(AssertionError, match="one commit at a time"):
        names(pool, "slow")
    held.set()
    assert names(pool, "a") == ["a", "slow"] and not pool.since
    pool.close()


@pytest.mark.parametrize("threads", [1, 3])
def test_an_error_is_an_outcome(threads: int) -> None:
    def fails() -> str:
        raise OSError("away")

    pool: CommitPool[str] = CommitPool(threads)
    outcomes = {done.name: done for done in pool.finished({"a": str, "b": fails, "c": str}, None)}
    pool.close()

    assert str(outcomes["b"].error) == "away" and outcomes["b"].value is None
    assert (outcomes["a"].value, outcomes["c"].value) == ("", "")


def test_no_more_threads_than_tables() -> None:
    pool: CommitPool[str] = CommitPool(8)
    before = threading.active_count()
    assert names(pool, "a", "b") == ["a", "b"]
    assert threading.active_count() - before <= 2
    pool.close()


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_what_is_asked_of_many_has_their_order(threads: int) -> None:
    assert list(asked(str.upper, ["b", "a", "c"], threads).items()) == [("b", "B"), ("a", "A"), ("c", "C")]
    with pytest.raises(ValueError, match="b"):
        asked(int, ["1", "b", "c"], threads)
