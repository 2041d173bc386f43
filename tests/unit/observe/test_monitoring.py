"""The Grafana board and the alert rules name metrics and labels that exist, and leave out none."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import strictyaml

from chsink.observe.metrics import Metrics, MirrorMetrics

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples" / "monitoring"
OPERATIONS = (EXAMPLES.parents[1] / "operations.md").read_text(encoding="utf-8")
BOARD = json.loads((EXAMPLES / "grafana.json").read_text(encoding="utf-8"))
RULES = [
    rule
    for group in strictyaml.load((EXAMPLES / "alerts.yaml").read_text(encoding="utf-8")).data["groups"]
    for rule in group["rules"]
]
QUERIES = [(t["expr"], t["legendFormat"]) for panel in BOARD["panels"] for t in panel.get("targets", ())]
SUFFIX = {"counter": ("_total",), "gauge": ("",), "histogram": ("_sum", "_count", "_bucket")}


def _labels_of_metrics() -> dict[str, set[str]]:
    """Every series that a sink and its mirror serve, with its labels."""
    metrics = Metrics("s")
    MirrorMetrics("s", metrics.registry)
    collectors: Any = list(metrics.registry._collector_to_names)
    return {
        c._name + suffix: set(c._labelnames) | ({"le"} if suffix == "_bucket" else set())
        for c in collectors
        for suffix in SUFFIX[c._type]
    }


LABELS = _labels_of_metrics() | {"up": {"job", "instance"}}


def _parts(node: Any) -> Iterator[Any]:
    yield node
    for name in ("lhs", "rhs", "expr"):
        if hasattr(node, name):
            yield from _parts(getattr(node, name))
    args = getattr(node, "args", ())
    for argument in getattr(args, "args", args):
        yield from _parts(argument)


def _series(expression: str) -> dict[str, set[str]]:
    """The series that an expression selects, and the labels by which it selects them."""
    selectors = [p for p in _parts(promql_parser.parse(expression)) if isinstance(p, promql_parser.VectorSelector)]
    selectors += [
        p.vector_selector
        for p in _parts(promql_parser.parse(expression))
        if isinstance(p, promql_parser.MatrixSelector)
    ]
    return {s.name or "": {m.name for m in s.matchers.matchers} for s in selectors}


def _named(text: str) -> set[str]:
    """Labels in the braces of a legend or an annotation."""
    return set(re.findall(r"\{\{\s*(?:\$labels\.)?(\w+)\s*\}\}", text))


@pytest.mark.parametrize("expression", [*(q for q, _ in QUERIES), *(r["expr"] for r in RULES)])
def test_a_query_selects_what_is_served(expression: str) -> None:
    found = _series(expression)
    assert found
    for name, labels in found.items():
        assert labels <= LABELS[name]
    known = set().union(*(LABELS[name] for name in found))
    grouped = re.findall(r"\b(?:by|on) \(([^)]*)\)", expression)
    assert {label.strip() for labels in grouped for label in labels.split(",")} <= known


@pytest.mark.parametrize(("expression", "legend"), QUERIES)
def test_a_legend_names_what_the_query_keeps(expression: str, legend: str) -> None:
    kept = re.search(r"\bby \(([^)]*)\)", expression)
    assert _named(legend) <= set(re.split(r",\s*", kept[1]) if kept else ())


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_an_alert_says_what_to_do(rule: dict[str, Any]) -> None:
    known = set().union(*(LABELS[name] for name in _series(rule["expr"])))
    assert _named(rule["annotations"]["summary"]) <= known
    assert rule["annotations"]["action"].endswith(".")
    assert rule["labels"]["severity"] in {"page", "ticket", "info"}


def test_every_metric_has_its_place_on_the_board() -> None:
    shown = {name for expression, _ in QUERIES for name in _series(expression)}
    for name in LABELS.keys() - {"up"}:
        base = re.sub(r"_(sum|count|bucket)$", "", name)
        assert any(s == name or s.startswith(base) for s in shown), name


def test_the_page_of_alerts_and_the_rules_agree() -> None:
    alerts = OPERATIONS.split("### Alerts", 1)[1].split("\n## ", 1)[0]
    on_page = set(re.findall(r"`(chsink_\w+)`", alerts))
    assert on_page == {name for rule in RULES for name in _series(rule["expr"])} - {"up"}


def test_panels_lie_side_by_side() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in BOARD["panels"]:
        at = panel["gridPos"]
        cells = {(at["x"] + i, at["y"] + j) for i in range(at["w"]) for j in range(at["h"])}
        assert not taken & cells and at["x"] + at["w"] <= 24, panel["title"]
        taken |= cells
    assert len({panel["id"] for panel in BOARD["panels"]}) == len(BOARD["panels"])
