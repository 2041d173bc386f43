"""What a supervisor's probes are told, in each state of a job, and over the wire."""

from __future__ import annotations

import socket
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.error import HTTPError

import pytest
import structlog

from chsink.errors import ChsinkError, fencing, halts, services
from chsink.observe.metrics import Metrics
from chsink.observe.probes import SILENT_S, Probes
from chsink.observe.serve import served
from chsink.spark.stay import staying

HALT = halts.PLAN_BEYOND_LOG(tp="t-3", planned="[10, 20)", end=7)
FENCED = fencing.OWNED_BY_ANOTHER(sink="s", owner="b", driver="a", epoch=3)
AWAY = services.KAFKA_UNAVAILABLE(bootstrap="k:1", reason="refused")


@dataclass
class Clock:
    """Seconds that a test sets."""

    now_s: float = 1000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def probes(clock: Clock) -> Probes:
    return Probes(clock)


def test_a_start_may_take_long(probes: Probes, clock: Clock) -> None:
    """It settles what is in doubt, which may be a whole batch: a restart would only begin again."""
    clock.now_s += 100 * SILENT_S
    assert probes.alive().good
    assert (probes.ready().good, probes.ready().text) == (False, "starting")


def test_a_job_that_runs_is_ready(probes: Probes, clock: Clock) -> None:
    probes.looked()
    clock.now_s += SILENT_S
    assert (probes.ready().good, probes.alive().good) == (True, True)


def test_a_main_thread_that_stands_still_is_restarted(probes: Probes, clock: Clock) -> None:
    probes.looked()
    clock.now_s += SILENT_S + 1
    assert (probes.alive().good, probes.alive().text) == (False, "the driver has not looked at the job for 121 s")
    probes.looked()
    assert probes.alive().good


@pytest.mark.parametrize(("error", "word"), [(HALT, "halted: CHS-301"), (FENCED, "stopped: CHS-801")])
def test_a_halt_is_no_reason_to_restart(probes: Probes, clock: Clock, error: ChsinkError, word: str) -> None:
    probes.looked()
    probes.ended(error)
    clock.now_s += 100 * SILENT_S
    assert probes.alive().good
    assert not probes.ready().good
    assert probes.ready().text.startswith(word)
    assert "\n" not in probes.ready().text


def test_a_job_that_ends_finishes_its_batch(probes: Probes, clock: Clock) -> None:
    probes.looked()
    probes.ending()
    clock.now_s += 100 * SILENT_S
    assert (probes.alive().good, probes.ready().text) == (True, "ending")


def test_another_start_in_the_same_process(probes: Probes, clock: Clock) -> None:
    """The mirror's, after an older driver disturbed it."""
    probes.looked()
    probes.ended(AWAY)
    probes.starting()
    clock.now_s += 100 * SILENT_S
    assert (probes.alive().good, probes.ready().text) == (True, "starting")


@pytest.fixture
def url(probes: Probes) -> Iterator[str]:
    with served(Metrics("flights").registry, probes, "127.0.0.1", 0, structlog.get_logger()) as port:
        yield f"http://127.0.0.1:{port}"


def get(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as refused:
        with refused:
            return refused.code, refused.read().decode()


def test_probes_and_metrics_over_the_wire(url: str, probes: Probes) -> None:
    assert (get(f"{url}/healthz"), get(f"{url}/readyz")) == ((200, "alive\n"), (503, "starting\n"))
    probes.looked()
    assert get(f"{url}/readyz") == (200, "ready\n")
    probes.ended(HALT)
    assert get(f"{url}/readyz") == (503, f"halted: CHS-301 {HALT.message}\n")
    status, text = get(f"{url}/metrics")
    assert status == 200
    assert 'chsink_halts_total{sink="flights"} 0.0' in text


def test_a_client_that_says_nothing_holds_nobody_up(url: str) -> None:
    host, _, port = url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port))):
        assert get(f"{url}/healthz")[0] == 200


def test_an_address_of_ipv6(probes: Probes) -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no IPv6")
    with served(Metrics("flights").registry, probes, "::1", 0, structlog.get_logger()) as port:
        assert get(f"http://[::1]:{port}/healthz")[0] == 200


@pytest.mark.parametrize(
    ("stays", "asked", "error"), [(False, False, HALT), (True, True, HALT), (True, False, AWAY), (False, False, FENCED)]
)
def test_what_is_not_stayed_for(probes: Probes, stays: bool, asked: bool, error: ChsinkError) -> None:
    """A service that does not answer is cured by a new start, and after a signal nobody waits."""
    spark: Any = None  # nobody asks it to end
    if asked:
        probes.ending()
    with pytest.raises(type(error)), staying(stays, spark, probes, structlog.get_logger()):
        raise error
    assert not probes.ready().good
