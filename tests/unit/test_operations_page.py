"""docs/operations.md lists exactly the metrics that a sink and its mirror serve."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from chsink.observe.metrics import Metrics, MirrorMetrics

PAGE = (Path(__file__).parents[2] / "docs" / "operations.md").read_text(encoding="utf-8")
METRICS = Metrics("s")
MirrorMetrics("s", METRICS.registry)
METRIC = re.compile(r"^\| `(chsink_\w+)` \| (\w+) \| (.*?) \| (.+) \|$", re.MULTILINE)


def test_the_metrics_are_those_of_the_code() -> None:
    listed = {(name.removesuffix("_total"), kind) for name, kind, _, _ in METRIC.findall(PAGE)}

    assert listed == {(m.name, m.type) for m in METRICS.registry.collect()}


def test_their_labels_too() -> None:
    collectors: Any = list(METRICS.registry._collector_to_names)
    labels = {c._name: set(c._labelnames) - {"sink"} for c in collectors}

    listed = {
        name.removesuffix("_total"): set(re.findall(r"`(\w+)`", more)) for name, _, more, _ in METRIC.findall(PAGE)
    }
    assert listed == labels
