"""The mirror's own trigger: fewer and larger files, and no fewer records per second."""

from __future__ import annotations

import pytest

from chsink.config import Config, InvalidConfigError

MINUTES = "5 minutes"


def config(trigger: str = "10 seconds", most: int | None = None, *, mirrors: str | None = None) -> Config:
    kafka = {"bootstrap": "localhost:9092"} | ({} if most is None else {"max_offsets_per_trigger": most})
    mirror = {
        "enabled": True,
        "catalog": {"name": "lake", "type": "sql"},
        "route": [{"topic": "orders", "table": "shop.orders"}],
    } | ({} if mirrors is None else {"trigger_interval": mirrors})
    data = {"sink": {"name": "lake"}, "kafka": kafka, "mirror": mirror, "trigger": {"interval": trigger}}
    return Config.from_mapping(data, environ={})


def test_by_default_both_sides_have_one_trigger() -> None:
    one = config(most=1000)
    assert one.at_the_mirrors_pace() is one


@pytest.mark.parametrize(
    ("trigger", "mirrors", "most", "raised"),
    [
        ("10 seconds", MINUTES, 1000, 30_000),
        ("10 seconds", "10 seconds", 1000, 1000),
        ("1 minute", "1 second", 1000, 1000),  # a shorter trigger does not lower the limit of a batch
        ("0 seconds", "1 second", 1000, 1_000_000),
        ("10 seconds", MINUTES, None, None),
    ],
)
def test_a_longer_trigger_reads_as_many_records_per_second(
    trigger: str, mirrors: str, most: int | None, raised: int | None
) -> None:
    job = config(trigger, most, mirrors=mirrors)
    paced = job.at_the_mirrors_pace()
    assert (paced.trigger.interval, paced.kafka.max_offsets_per_trigger) == (mirrors, raised)
    assert (job.trigger.interval, job.kafka.max_offsets_per_trigger) == (trigger, most), (
        "ClickHouse's side keeps its own"
    )
    assert paced.mirror.topics == job.mirror.topics


def test_what_is_no_interval_is_refused() -> None:
    with pytest.raises(InvalidConfigError, match=r"mirror\.trigger_interval"):
        config(mirrors="soon")
