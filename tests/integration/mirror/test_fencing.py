"""Z-10: Kafka does not answer for one transactional id: whoever needs it waits, and the others go on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from chsink.embedded.base.ports import free_port
from chsink.embedded.base.service import local
from chsink.embedded.kafka import EmbeddedKafka
from chsink.errors import UnavailableError, services
from chsink.mirror.control import ControlUnanswered, Names
from chsink.mirror.tables import VALID_THROUGH
from chsink.observe.logs import configure
from tests.integration.mirror.bench import Bench
from tests.integration.mirror.test_coordination import config_of, coordinating, owner
from tests.support.job import eventually
from tests.support.tcp_proxy import TcpFault, TcpProxy

pytestmark = [pytest.mark.slow, pytest.mark.soak]
TIMEOUT_S = 2.0


class KafkaBehindProxy(EmbeddedKafka):
    """A second listener, which clients reach through ``proxy`` only."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._behind = local(free_port())
        self.proxy = TcpProxy(self._behind)

    def _addresses(self) -> dict[str, str]:
        found = super()._addresses()
        kinds = found["listener.security.protocol.map"]
        return found | {
            "listeners": f"{found['listeners']},BEHIND://{self._behind}",
            "advertised.listeners": f"{found['advertised.listeners']},BEHIND://{self.proxy.hosts}",
            "listener.security.protocol.map": f"{kinds},BEHIND:PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
        }


class BenchBehindProxy(Bench):
    """Coordinators and workers reach Kafka through the proxy."""

    kafka: KafkaBehindProxy

    @property
    def names(self) -> Names:
        options = {"bootstrap.servers": self.kafka.proxy.hosts, "log_level": "0"}
        return replace(super().names, options=options, timeout_s=TIMEOUT_S)


@pytest.fixture(scope="module")
def behind(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBehindProxy]:
    broker = KafkaBehindProxy(tmp_path_factory.mktemp("behind"))
    with broker.proxy, broker:
        yield broker


@pytest.fixture
def bench(behind: KafkaBehindProxy, tmp_path: Path) -> Iterator[BenchBehindProxy]:
    made = BenchBehindProxy(behind, tmp_path, partitions=2)
    yield made
    behind.proxy.heal()
    made.close()


def of(bench: Bench, partition: int) -> int:
    """How many rows of a partition have landed."""
    return sum(count for (p, _, _), count in bench.landed().items() if p == partition)


def test_one_topic_partition_waits(bench: BenchBehindProxy) -> None:
    """⚑ A new partition, and one that was there: what the other one hands over is committed, and then theirs."""
    proxy = bench.kafka.proxy
    configure("console", "info")
    proxy.withhold(bench.names.worker_id(bench.tp(1)).encode())
    with capture_logs() as said:
        coordinator = bench.coordinator()
    assert proxy.fired[TcpFault.WITHHOLD]
    assert [(line["id"], str(bench.tp(1)) in line["reason"]) for line in said if "id" in line] == [("CHS-722", True)]
    assert (bench.group_at(0), bench.group_at(1)) == (0, None)
    bench.produce(range(3), 1)
    bench.hand_over(*bench.produce(range(5), 0), 0)
    bench.round(coordinator)
    assert (of(bench, 0), of(bench, 1), VALID_THROUGH in bench.summary()) == (5, 0, False)

    proxy.heal()
    bench.round(coordinator)
    assert bench.group_at(1) == 0
    bench.hand_over(0, 3, 1)
    bench.hand_over(*bench.produce([5], 0), 0)
    bench.round(coordinator)
    assert bench.landed() == bench.sent() and VALID_THROUGH in bench.summary()

    coordinator.close()
    proxy.withhold(bench.names.worker_id(bench.tp(1)).encode())
    coordinator = bench.coordinator()
    more = bench.produce(range(3, 5), 1)
    with pytest.raises(ControlUnanswered):
        bench.hand_over(*more, 1)
    bench.hand_over(*bench.produce(range(6, 9), 0), 0)
    bench.round(coordinator)
    assert (of(bench, 0), of(bench, 1), VALID_THROUGH in bench.summary()) == (9, 3, False)
    proxy.heal()
    bench.hand_over(*more, 1)
    bench.hand_over(*bench.produce([9], 0), 0)
    bench.round(coordinator)
    assert bench.landed() == bench.sent() and VALID_THROUGH in bench.summary()


def test_nobody_starts_where_no_producer_can_be_opened(bench: BenchBehindProxy) -> None:
    bench.kafka.proxy.withhold(f"{bench.group}/{bench.topic}/".encode())
    with pytest.raises(ControlUnanswered):
        bench.coordinator()
    assert (bench.group_at(0), bench.group_at(1)) == (None, None)


def test_a_driver_that_cannot_claim_leaves_the_older_one_alone(bench: BenchBehindProxy) -> None:
    """There is no lease: who cannot write its claim does not start, and whoever claims next replaces one that stalls."""
    config = config_of(bench)
    through = config.kafka.model_copy(update={"bootstrap": bench.kafka.proxy.hosts, "timeout_s": TIMEOUT_S})
    with coordinating(config, bench.reread) as older:
        before = owner(bench)
        bench.kafka.proxy.withhold(bench.names.coordinator_id.encode())
        with (
            pytest.raises(UnavailableError) as error,
            coordinating(config.model_copy(update={"kafka": through}), bench.reread),
        ):
            pass
        assert error.value.name == services.MIRROR_KAFKA_UNANSWERED.name
        bench.started = bench.feeds()
        bench.hand_over(*bench.produce(range(5)))
        eventually("commit by the older one", lambda: bench.landed() == bench.sent())
        assert owner(bench) == before and older.failure is None
