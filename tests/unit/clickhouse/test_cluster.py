"""A configuration's clients: one for whoever asks, closed together."""

from __future__ import annotations

from chsink.clickhouse.cluster import Cluster
from chsink.clock import SystemClock
from chsink.config import Config

SHARD, REPLICA = ("http://a:8123", "http://b:8123"), ("http://b:8123",)
JOB = {
    "sink": {"name": "flights"},
    "kafka": {"bootstrap": "localhost:9092"},
    "clickhouse": {"endpoints": [{"url": SHARD[0], "replicas": [SHARD[1]]}]},
    "route": [{"topic": "flights", "table": "flights"}],
}


def test_each_start_of_a_job_asks_the_clients_of_the_one_before() -> None:
    """A start after an altered table asks each replica; a job that runs for months must not keep a client of each."""
    cluster = Cluster(Config.from_mapping(JOB, source="job.toml", environ={}), SystemClock())
    asked = [cluster.client(SHARD), cluster.client(REPLICA), cluster.client(SHARD, 60)]
    assert len(set(map(id, asked))) == 3
    assert [cluster.client([*SHARD]), cluster.client(REPLICA), cluster.client(SHARD, 60)] == asked
    assert cluster.clients == (asked[0],)
    cluster.close()
