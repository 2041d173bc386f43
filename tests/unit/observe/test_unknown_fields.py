"""Fields without a column in the log and in the metrics."""

from __future__ import annotations

import structlog
from structlog.testing import capture_logs

from chsink.observe.metrics import Metrics
from chsink.observe.unknown_fields import NAMES, UnknownFields
from chsink.statemachine.tally import OTHERS


def test_named_once_and_counted_always() -> None:
    metrics = Metrics("s")
    with capture_logs() as logs:
        fields = UnknownFields(metrics, structlog.get_logger())
        for counts in ({"a": 2}, {}, {"a": 1, "b": 5}):
            fields.add("t", counts)
    assert [line["fields"] for line in logs] == [["a"], ["b"]]

    def counted(name: str) -> float | None:
        labels = {"sink": "s", "topic": "t", "field": name}
        return metrics.registry.get_sample_value("chsink_unknown_fields_total", labels)

    assert (counted("a"), counted("b")) == (3, 5)
    fields.add("t", {f"f{n}": 1 for n in range(NAMES)})
    assert (counted("f97"), counted("f98"), counted(OTHERS)) == (1, None, 2)
