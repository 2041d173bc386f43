"""A coordinator that starts again by itself, that another driver replaces, and that follows a topic that grows.

Each test runs with a coordinator in the driver, and with one in a process of its own (C-14).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest
import structlog
from structlog.testing import capture_logs

from chsink.clock import SystemClock
from chsink.config import Config
from chsink.errors import FencedError
from chsink.kafka.admin import open_admin
from chsink.mirror.apart import CoordinatorApart
from chsink.mirror.coordination import Coordination
from chsink.mirror.known_tables import Hole
from chsink.mirror.lander import MirrorLander
from chsink.mirror.opening import open_mirror
from chsink.mirror.owner import CoordinatorClaim, read_owner
from chsink.mirror.status import read_status
from chsink.observe.logs import configure
from tests.integration.mirror.bench import Bench
from tests.support.job import eventually
from tests.support.kafka import add_partitions

pytestmark = pytest.mark.slow
MakeBench = Callable[..., Bench]


def config_of(bench: Bench, *, starting: str = "earliest", interval_s: float = 0.5, timeout_s: float = 30.0) -> Config:
    """The job whose mirror is the bench's."""
    table = [{"topic": bench.topic, "table": f"shop.{name}"} for name in bench.tables]
    mirror = {
        "enabled": True,
        "catalog": {
            "name": "lake",
            "type": "sql",
            "uri": f"sqlite:///{bench.folder}/catalog.db",
            "warehouse": f"file://{bench.folder}/lake",
        },
        "control_topic": bench.control_topic,
        "interval_s": interval_s,
        "timeout_s": timeout_s,
        "route": table,
    }
    return Config.from_mapping(
        {
            "sink": {"name": bench.group.removeprefix("chsink-")},
            "kafka": {"bootstrap": bench.kafka.bootstrap, "starting_offsets": starting},
            "route": [{"topic": bench.topic, "table": "t"}],
            "clickhouse": {"endpoints": ["http://localhost:8123"]},
            "mirror": mirror,
        }
    )


APART = [False]


@pytest.fixture(autouse=True, params=["in the driver", pytest.param("apart", marks=pytest.mark.soak)])
def _where(request: pytest.FixtureRequest) -> Iterator[None]:
    APART[0] = request.param == "apart"
    yield
    APART[0] = False


@contextmanager
def coordinating(config: Config, reread: Callable[[Hole], None]) -> Iterator[Coordination]:
    """A coordination that runs."""
    mirror = open_mirror(config, open_admin(config))
    log = structlog.get_logger("mirror")
    made = (
        CoordinatorApart(mirror, SystemClock(), log) if APART[0] else Coordination(mirror, reread, SystemClock(), log)
    )
    try:
        made.start()
        made.begin()
        yield made
    finally:
        made.finish(0)
        while not made.join(1):
            pass
        made.close()


def running_for(bench: Bench) -> AbstractContextManager[Coordination]:
    """Of the bench's mirror."""
    return coordinating(config_of(bench), bench.reread)


def claim(bench: Bench) -> CoordinatorClaim | None:
    offsets = bench.names.offsets(bench.names.owner_group)
    try:
        return read_owner(bench.names, offsets)
    finally:
        offsets.close()


def owner(bench: Bench) -> CoordinatorClaim:
    found = claim(bench)
    assert found is not None
    return found


def same(bench: Bench) -> bool:
    return bench.landed() == bench.sent()


def test_a_coordinator_that_was_only_fenced_starts_again(make_bench: MakeBench) -> None:
    """Kafka also fences a producer that was suspended for longer than a transaction may last: nobody else claimed."""
    bench = make_bench()
    with running_for(bench) as running:
        first = owner(bench)
        with bench.names.sender(bench.names.coordinator_id, bench.names.control_group):
            pass
        bench.hand_over(*bench.produce(range(5)))
        eventually("commit by the next coordinator", lambda: same(bench))
        assert running.failure is None
        assert owner(bench).driver == first.driver
        assert owner(bench).epoch > first.epoch == 1


def test_a_newer_driver_ends_the_older_one(make_bench: MakeBench) -> None:
    """⚑ Two drivers do not fence each other for ever: the one that claimed last stays."""
    bench = make_bench()
    with running_for(bench) as older, running_for(bench) as newer:
        eventually("end of the older one", lambda: older.failure is not None)
        assert isinstance(older.failure, FencedError)
        assert owner(bench).driver in older.failure.message
        with pytest.raises(FencedError, match="CHS-803"):
            older.check_owned()
        bench.hand_over(*bench.produce(range(5)))
        eventually("commit by the newer one", lambda: same(bench))
        assert newer.failure is None
        newer.check_owned()
        assert owner(bench).epoch == 2, "the older one has not fenced the newer one"


@pytest.mark.soak
def test_a_claim_that_expired_is_written_again(make_bench: MakeBench) -> None:
    """⚑ Kafka forgets it a week after the start: status said that the mirror has not run yet, and that nothing waits."""
    bench = make_bench()
    config = config_of(bench, interval_s=3600)
    with coordinating(config, bench.reread) as running:
        first = owner(bench)
        bench.hand_over(*bench.produce(range(5)))
        bench.delete_groups(bench.names.owner_group)
        [table] = read_status(open_mirror(config, bench.admin), SystemClock().now_ms()).tables
        assert (table.pending, table.pending_units) == (5, 1)
        eventually("the claim", lambda: claim(bench) is not None, limit_s=20)
        assert owner(bench) == first and running.failure is None


@pytest.mark.soak
def test_a_catalog_that_is_away_for_a_while(make_bench: MakeBench) -> None:
    bench = make_bench()
    lake, away = bench.folder / "lake", bench.folder / "away"
    configure("console", "info")  # status, in this process, may have asked for errors only
    with capture_logs() as said, coordinating(config_of(bench, interval_s=2), bench.reread) as running:
        bench.hand_over(*bench.produce(range(5)))
        lake.rename(away)
        eventually("failed round", lambda: any(line["log_level"] == "warning" for line in said))
        assert running.failure is None
        away.rename(lake)
        eventually("commit", lambda: same(bench))


def test_a_partition_that_is_added_while_it_runs(make_bench: MakeBench) -> None:
    """A lander that meets it has the coordinator settle it; it lands with the next commit."""
    bench = make_bench()
    with running_for(bench) as running:
        add_partitions(bench.kafka.bootstrap, bench.topic, 2)
        lander = MirrorLander(open_mirror(config_of(bench), bench.admin).feeds(), running)
        assert lander._settled([bench.tp(1)]) == {bench.tp(1): 0}
        lander.close()
        bench.hand_over(*bench.produce(range(5), 1), 1)
        eventually("commit", lambda: same(bench))


def test_latest_leaves_out_what_was_there_at_the_first_start_only(make_bench: MakeBench) -> None:
    bench = make_bench()
    bench.produce(range(5))
    config = config_of(bench, starting="latest")
    with coordinating(config, bench.reread):
        assert bench.group_at() == 5
        add_partitions(bench.kafka.bootstrap, bench.topic, 2)
        bench.produce(range(3), 1)
        eventually("settling", lambda: bench.group_at(1) is not None)
        assert bench.group_at(1) == 0
    bench.produce(range(5, 7))
    with coordinating(config, bench.reread):
        assert (bench.group_at(), bench.group_at(1)) == (5, 0)


def test_the_end_commits_what_was_handed_over(make_bench: MakeBench) -> None:
    """Long before the interval is over, and without a snapshot where nothing is left."""
    bench = make_bench()
    config = config_of(bench)
    slow = config.model_copy(update={"mirror": config.mirror.model_copy(update={"interval_s": 3600.0})})
    with coordinating(slow, bench.reread) as running:
        bench.hand_over(*bench.produce(range(5)))
        running.finish(None)
        eventually("end", lambda: running.join(0.1), limit_s=20)
        assert running.failure is None
        assert same(bench)
    with coordinating(slow, bench.reread) as running:
        running.finish(None)
        eventually("end", lambda: running.join(0.1), limit_s=20)
    assert bench.snapshots() == 1


def ends_well(running: Coordination) -> None:
    """As a query with ``available_now`` does."""
    running.finish(None)
    eventually("end", lambda: running.join(0.1), limit_s=40)
    assert running.failure is None


def test_the_end_waits_for_units_that_no_group_speaks_of(make_bench: MakeBench) -> None:
    """⚑ The groups were deleted while units waited: the end came at once, with exit code 0 and their records nowhere."""
    bench = make_bench()
    config = config_of(bench, interval_s=3600)
    with coordinating(config, bench.reread) as running:
        bench.hand_over(*bench.produce(range(5)))
        bench.delete_groups(bench.group)
        ends_well(running)
    assert same(bench)


@pytest.mark.soak
def test_the_end_waits_for_what_lies_below_a_unit(make_bench: MakeBench) -> None:
    """⚑ Besides the groups, an event was lost: the unit behind it shows that its range was handed over."""
    bench = make_bench()
    bench.started = bench.feeds()
    config = config_of(bench, interval_s=3600, timeout_s=1)
    start, end = bench.produce(range(5))
    with coordinating(config, bench.reread):
        pass
    with bench.names.sender(bench.names.worker_id(bench.tp()), bench.group) as sender:
        sender.send("an event that was lost", [], {bench.tp(): 2})
    bench.hand_over(start, end)
    bench.delete_groups(bench.group)
    with coordinating(config, bench.reread) as running:
        assert bench.group_at() == 0
        ends_well(running)
    assert same(bench)


@pytest.mark.soak
def test_a_group_beyond_the_end_of_the_log_holds_nothing_up(make_bench: MakeBench) -> None:
    """⚑ Each round read the log to its end again and again and stopped: CHS-714, and no command that ends it."""
    bench = make_bench()
    bench.started = bench.feeds()
    config = config_of(bench, timeout_s=1)
    with coordinating(config, bench.reread):
        bench.produce(range(3))
        with bench.names.sender(bench.names.worker_id(bench.tp()), bench.group) as sender:
            sender.send("somebody", [], {bench.tp(): 50})
        eventually("what the log holds", lambda: same(bench))
        bench.produce(range(3, 5))
        eventually("what it gained since", lambda: same(bench))
    with coordinating(config, bench.reread) as running:
        ends_well(running)
