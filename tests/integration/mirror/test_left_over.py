"""What a driver with earlier routes left running, and what lag monitors see."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient

from chsink.mirror.control import Fenced
from tests.integration.mirror.bench import Bench

pytestmark = pytest.mark.slow


def test_workers_of_topics_that_have_no_route_any_more_are_fenced(make_bench: Callable[..., Bench]) -> None:
    """Z-6, Z-7.  ⚑ An old task would move the group of a topic of which the new driver knows nothing."""
    bench = make_bench(partitions=2)
    older = bench.coordinator()
    names, earlier = bench.names, [bench.tp(0), bench.tp(1)]
    old = [names.sender(id_(tp), names.group) for tp in earlier for id_ in (names.worker_id, names.reread_id)]
    other = f"returns-{uuid.uuid4().hex[:8]}"
    bench.kafka.create_topic(other, 1)
    targets = bench.targets
    bench.targets = lambda: {n: replace(t, topics=frozenset({other})) for n, t in targets().items()}  # type: ignore[method-assign]
    older.close()
    bench.coordinator()
    for sender, tp in zip(old, [earlier[0], earlier[0], earlier[1], earlier[1]], strict=True):
        with pytest.raises(Fenced):
            sender.send(str(tp), [], {tp: 7})
    assert (bench.group_at(0), bench.group_at(1)) == (0, 0)


def test_a_lag_monitor_sees_the_group(make_bench: Callable[..., Bench]) -> None:
    """T-3: it holds plain offsets, so any monitor shows how far the mirror is behind."""
    bench = make_bench()
    bench.coordinator()
    start, end = bench.produce([1, 2, 3])
    bench.hand_over(start, end)
    client = AdminClient(dict(bench.names.options))
    [found] = client.list_consumer_group_offsets([ConsumerGroupTopicPartitions(bench.group)]).values()
    [at] = found.result().topic_partitions
    assert (at.topic, at.partition, bench.admin.log_ends([bench.tp()])[bench.tp()] - at.offset) == (bench.topic, 0, 0)
    assert bench.group in {group.group_id for group in client.list_consumer_groups().result().valid}
