"""A configuration's clients: one for whoever asks, closed together."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

from chsink.clickhouse.cluster import Cluster
from chsink.clickhouse.connections import Connections
from chsink.clock import SystemClock
from chsink.config import Config
from chsink.sharding import Layout, Shard

SHARD, REPLICA = ("http://a:8123", "http://b:8123"), ("http://b:8123",)
JOB = {
    "sink": {"name": "flights"},
    "kafka": {"bootstrap": "localhost:9092"},
    "clickhouse": {"endpoints": [{"url": SHARD[0], "replicas": [SHARD[1]]}]},
    "route": [{"topic": "flights", "table": "flights"}],
}


def test_each_start_of_a_job_asks_the_clients_of_the_one_before() -> None:
    """A start after an altered table asks each replica; a job that runs for months must not keep a client of each."""
    config = Config.from_mapping(JOB, source="job.toml", environ={})
    with closing(Connections(config)) as connections:
        first = Cluster(config, SystemClock(), connections)
        asked = [first.client(SHARD), first.client(REPLICA), first.client(SHARD, 60)]
        assert len(set(map(id, asked))) == 3
        later = first.anew(config)
        assert [later.client([*SHARD]), later.client(REPLICA), later.client(SHARD, 60)] == asked
        assert later.clients == first.clients == (asked[0],)


def test_another_start_has_the_routes_of_its_configuration() -> None:
    """What the one before was told of them stays as it was: its tasks still run."""
    config = Config.from_mapping({**JOB, "route": [{"topic_pattern": "f.*", "table": "{topic}"}]}, environ={})
    with closing(Connections(config)) as connections:
        first = Cluster(config.expanded(["f1"]), SystemClock(), connections)
        assert set(first.routes) == {("f1", "default.f1")}
        assert set(first.anew(config.expanded(["f1", "f2"])).routes) == {("f1", "default.f1"), ("f2", "default.f2")}
        assert set(first.routes) == {("f1", "default.f1")}


def test_a_shard_with_a_name_is_where_the_configuration_has_it_now() -> None:
    """⚑ a range in doubt was sent to the server from which its shard had moved, where nobody reads."""
    endpoints = [{"url": "http://c:8123", "name": "one", "weight": 2}, {"url": "http://d:8123", "name": "two"}]
    job = {**JOB, "clickhouse": {"endpoints": endpoints, "shard_key": ["id"]}}
    config = Config.from_mapping(job, source="job.toml", environ={})
    before = (Shard(SHARD, 1, "one", "own"), Shard(("http://e:8123",), 1, "gone"), Shard(("http://d:8123",)))
    stored = Layout(before, "xxHash64", ("id",), "first_shard")
    with closing(Connections(config)) as connections:
        placed = Layout.from_json(Cluster(config, SystemClock(), connections).placed(stored.to_json()))
    assert placed == replace(stored, shards=(Shard(("http://c:8123",), 1, "one", "own"), *before[1:]))
    assert placed.fingerprint() == stored.fingerprint()
