"""One process's services: the production services of a configuration, over simulated ClickHouse, Kafka and store."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import TYPE_CHECKING, Any, cast

import structlog

from chsink.clickhouse.cluster import Cluster
from chsink.clickhouse.connections import Connections
from chsink.config import Config
from chsink.connect import Services
from chsink.formats.pipeline import Untouched
from chsink.sharding import Layout
from tests.sim.clickhouse import LETTERS, REQUEST_TIMEOUT_S, URLS, Client
from tests.sim.hub import Hub
from tests.sim.letters import TOPIC
from tests.sim.store import StoreClient

if TYPE_CHECKING:
    from chsink.clickhouse.client import ClickHouseClient
    from tests.sim.world import World

By = tuple[str, tuple[str, ...]]
"""The header by which records name their table, and the table for each of its values."""
MARGIN_S = 30
ASK_FOR_S = 20
STORE_TIMEOUT_S = 5
STREAM = Untouched("read_committed")
"""Kafka's source without a transform."""
LOG = structlog.wrap_logger(
    logging.getLogger("chsink.sim"),
    processors=[],
    wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL),
)


WRONG_CLOCKS, WRONG_MS, WRONG_FOR_MS = 0.1, 3 * 3_600_000, 8_000_000
"""How many processes have a clock that is wrong by hours at first, by how much at most, and until when."""


@dataclass(frozen=True, slots=True)
class HubClock:
    """:class:`chsink.ports.Clock` of one machine, which is a little wrong, and may be ``far_ms`` wrong until it is
    corrected.
    """

    hub: Hub
    skew_ms: int
    far_ms: int = 0
    corrected_at: int = 0

    def now_ms(self) -> int:
        """The hub's time, skewed."""
        far = self.far_ms if self.hub.now < self.corrected_at and not self.hub.calm else 0
        return self.hub.now + self.skew_ms + far

    def steady_ms(self) -> int:
        """The hub's time: it goes on while a process is frozen."""
        return self.hub.now

    def sleep(self, seconds: float) -> None:
        """Let others go on meanwhile."""
        self.hub.sleep(seconds)


def clock_of(hub: Hub, skew_ms: int = 0) -> HubClock:
    """The clock of a process that starts now."""
    if not hub.fault("clock far off", WRONG_CLOCKS):
        return HubClock(hub, skew_ms)
    drawn = Random(f"clock {hub.seed} {hub.steps}")
    far_ms = int(drawn.uniform(-WRONG_MS, WRONG_MS))
    return HubClock(hub, skew_ms, far_ms, hub.now + int(drawn.random() * WRONG_FOR_MS))


class SimConnections(Connections):
    """Clients that reach simulated servers."""

    def __init__(self, config: Config, world: World) -> None:
        super().__init__(config)
        self._world = world

    def client(self, urls: Sequence[str], answer_within_s: float | None = None) -> ClickHouseClient:
        """A client of the server with the first URL, which answers at once."""
        del answer_within_s
        return cast("ClickHouseClient", Client(self._world.servers[URLS.index(urls[0])]))


def services_of(world: World, clock: HubClock | None = None) -> Services:
    """The services of a process that starts now, by the job file as it is now."""
    clock, config = clock or HubClock(world.hub, 0), config_of(world)
    cluster = Cluster(config, clock, SimConnections(config, world))
    return Services(clock, LOG, cast("Any", world.kafka), cluster, lambda: StoreClient(world.store))


def config_of(world: World) -> Config:
    """The job file as it is now."""
    return _config(
        world.sink,
        world.destinations(),
        world.shards,
        world.chunk_offsets,
        (
            ("on_gap", world.on_gap),
            ("on_rewind", world.on_rewind),
            ("on_bad_value", str(world.fate)),
            ("in_doubt", world.in_doubt),
        ),
        world.letters,
    )


@cache
def _config(
    sink: str,
    routes: tuple[tuple[str, str | By], ...],
    shards: int,
    chunk_offsets: int,
    errors: Iterable[tuple[str, str]],
    letters: str = "",
) -> Config:
    clickhouse = {
        "endpoints": URLS[:shards],
        "shard_key": ["uid"] if shards > 1 else [],
        "insert_timeout_s": REQUEST_TIMEOUT_S,
        "retry_for_s": ASK_FOR_S,
        "chunk_offsets": chunk_offsets,
    }
    return Config.from_mapping(
        {
            "sink": {"name": sink},
            "kafka": {"bootstrap": "kafka:9092"},
            "route": [{"topic": topic, **_leads(to)} for topic, to in routes],
            "clickhouse": clickhouse,
            "state": {"store": "memory", "timeout_s": STORE_TIMEOUT_S},
            "errors": dict(errors),
            "dead_letters": {letters: {"table": LETTERS, "topic": TOPIC}[letters]} if letters else {},
            "in_doubt": {"margin_s": MARGIN_S},
        },
        environ={},
    )


def _leads(to: str | By) -> dict[str, Any]:
    if isinstance(to, str):
        return {"table": to}
    header, tables = to
    return {"table_by": {"header": header, "tables": {f"v{n}": table for n, table in enumerate(tables)}}}


@cache
def shards_of(layout: str) -> int:
    """How many shards a layout (its JSON) has."""
    return len(Layout.from_json(layout).shards)


def count_of(fingerprint: str) -> int:
    """How many shards the layout with this fingerprint has."""
    return _counts()[fingerprint]


@cache
def _counts() -> Mapping[str, int]:
    world_of = {"sink": "s", "routes": (("t", "d.t"),), "chunk_offsets": 1, "errors": ()}
    counts = {}
    for count in range(1, len(URLS) + 1):
        config = _config(shards=count, **world_of)
        layout = Cluster(config, cast("Any", None), Connections(config)).layout(config.routes[0])
        counts[layout.fingerprint()] = count
    return counts
