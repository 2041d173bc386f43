"""A driver that a newer one disturbs ends because of that one, and does not start again to take the mirror back."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import PySparkException

from chsink.errors import ChsinkError, FencedError, fencing, services
from chsink.observe.probes import Probes
from chsink.spark.mirror import MirrorRun

REPLACED = fencing.MIRROR_OWNED_BY_ANOTHER(sink="s", owner="newer, epoch 2", driver="older", epoch=1)
DISTURBED = services.MIRROR_NOT_HANDED_OVER(tp="t-0", range="[0, 5)", reason="fenced")
STOP: Any = SimpleNamespace(received="", times=0)


def run_of(coordination: SimpleNamespace) -> Any:
    """Whose workers were fenced in a batch."""
    run: Any = MirrorRun.__new__(MirrorRun)
    run._loop, run._coordination = SimpleNamespace(failure=DISTURBED), coordination
    run._probes, run._metrics = Probes(), None

    def started() -> None:
        raise PySparkException("the batch failed")

    run._started = started
    return run


def test_its_worker_was_fenced_in_a_batch() -> None:
    """⚑ It ended with CHS-712, started again, and claimed: the newest driver ended."""

    def check_owned() -> None:
        raise REPLACED

    with pytest.raises(FencedError):
        run_of(SimpleNamespace(check_owned=check_owned))._hand_over(STOP)
    with pytest.raises(ChsinkError, match="CHS-712"):
        run_of(SimpleNamespace(check_owned=lambda: None))._hand_over(STOP)


def test_its_coordinator_notices_while_it_ends() -> None:
    """⚑ As long as Kafka had not answered who owns the mirror, the batch's error counted."""
    coordination = SimpleNamespace(failure=None, check_owned=lambda: None, finish=lambda _: None)

    def joined(_: float) -> bool:
        coordination.failure = REPLACED
        return True

    coordination.join = joined
    with pytest.raises(FencedError):
        run_of(coordination).run(STOP)
