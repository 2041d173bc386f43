"""What an exact read takes over from its stream."""

from __future__ import annotations

from chsink.spark.stream_plan import exact_options

STREAM = {"kafka.bootstrap.servers": "a:1", "subscribe": "t", "startingOffsets": "latest", "maxOffsetsPerTrigger": "9"}


def test_an_exact_read_says_itself_where_it_reads_and_does_not_wait_for_more() -> None:
    """Each range has a consumer of its own, which would wait 500 ms for a full fetch."""
    ours = {"kafka.fetch.max.wait.ms": "5", "kafka.max.poll.records": "2000"}
    assert exact_options(STREAM) == {"kafka.bootstrap.servers": "a:1", **ours}


def test_what_the_user_chose_stays() -> None:
    assert exact_options({**STREAM, "kafka.max.poll.records": "7"})["kafka.max.poll.records"] == "7"
    assert exact_options({**STREAM, "kafka.fetch.max.wait.ms": "500"})["kafka.fetch.max.wait.ms"] == "500"
    assert "kafka.fetch.max.wait.ms" not in exact_options({**STREAM, "kafka.Fetch.Max.Wait.Ms": "500"})
