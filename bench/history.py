"""A file with a line of JSON for each run: its commit, its machine, its sizes, and its ratios.

Rates depend on the machine and on what else it does; ratios of one run do so much less.  So a later run is held against
an earlier one by ratio.  A larger ratio is always the better one.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
WORSE = 0.9
"""A ratio below this part of the earlier one is marked."""

_TIMES: Mapping[str, tuple[str, Callable[[Mapping[str, Any]], float]]] = {
    "routes": ("routes one topic to many, time", lambda figures: figures["ratio"]),
    "endurance": ("endurance first tenth to last, time", lambda figures: figures["goals"]["batch_ms"]["growth"]),
    "settling": ("settling landed to settled, time", lambda figures: figures["ratio"]),
}
"""Parts with one ratio, of times: the smaller, the better."""


def ratios_of(report: Mapping[str, Any]) -> dict[str, float]:
    """The ratios of a run's parts, by name.  Parts that have none are left out."""
    found: dict[str, float] = {}
    for part, figures in report.items():
        match part:
            case "speed":
                found |= _beside(figures["variants"], "speed (c) to", "c", ("a", "b", "b2"))
            case "mirror":
                found |= _beside(figures["variants"], "mirror (m) to", "m", ("a", "p", "s"))
                kinds = figures["kinds"]["kinds"]
                found |= {f"mirror {name} (m) to (s), rows": figure["ratio"] for name, figure in kinds.items()}
                found["mirror (cm) to (c), rows"] = figures["both"]["ratio"]
            case "shapes":
                for name, figure in figures["shapes"].items():
                    found[f"shapes {name} (c) to (b2), rows"] = figure["rows_to_b2"]
                    found[f"shapes {name} (c) to (b2), CPU"] = figure["cpu_to_b2"]
            case "dead_letters" | "shards":
                found |= {f"{part} {way}, rows": rate for way, rate in figures["rates"].items()}
            case "latency":
                found |= _latencies(figures["partitions"])
            case "overhead":
                for row in figures["rows"]:
                    found[f"overhead {row['partitions']} partitions (c) to (bt)"] = row["plain_ms"] / row["batch_ms"]
            case "fan_out":
                found |= {
                    f"fan_out one table to {n}, CPU": 1 / one["cpu_to_one"] for n, one in figures["tables"].items()
                }
            case "formats":
                found |= {f"formats {name} to json, CPU": figure["of_json"] for name, figure in figures.items()}
            case _ if part in _TIMES:
                name, ratio = _TIMES[part]
                found[name] = 1 / ratio(figures)
    return found


def _latencies(partitions: Mapping[str, Any]) -> dict[str, float]:
    """Those of (b) as multiples of those of (c)."""
    return {
        f"latency {number} partitions (c) to (b), {name}": runs["b"][f"{name}_s"] / runs["c"][f"{name}_s"]
        for number, runs in partitions.items()
        for name in ("p50", "p99")
    }


def _beside(variants: Mapping[str, Any], name: str, of: str, others: tuple[str, ...]) -> dict[str, float]:
    """The ratios of a variant to others, by rows a second and by rows a CPU second."""
    found = {}
    for other in (other for other in others if other in variants):
        found[f"{name} ({other}), rows"] = variants[of]["rows_per_s"] / variants[other]["rows_per_s"]
        found[f"{name} ({other}), CPU"] = variants[other]["cpu_us_per_row"] / variants[of]["cpu_us_per_row"]
    return found


def run_of(report: Mapping[str, Any], sizes: Mapping[str, Any]) -> dict[str, Any]:
    """What a run adds to the history."""
    return {"commit": _commit(), "machine": report["machine"], "sizes": dict(sizes), "ratios": ratios_of(report)}


def append(history: Path, run: Mapping[str, Any]) -> None:
    """Add a run."""
    with history.open("a", encoding="utf-8") as file:
        file.write(json.dumps(run) + "\n")


def earlier(history: Path, commit: str = "") -> dict[str, Any] | None:
    """The newest run of the history, or of one commit, whose name may be shortened; None if there is none."""
    if not history.exists():
        return None
    runs: list[dict[str, Any]] = [json.loads(line) for line in history.read_text(encoding="utf-8").splitlines()]
    return next((run for run in reversed(runs) if run["commit"].startswith(commit)), None)


def compared(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """The ratios that both runs have, side by side."""
    names = [name for name in now["ratios"] if name in before["ratios"]]
    out = [f"ratios beside those of {before['commit'][:10]}, {before['machine']['date']}:"]
    if before["sizes"] != now["sizes"]:
        out.append(f"  other sizes: {before['sizes']}, now {now['sizes']}")
    for name in names:
        then, this = before["ratios"][name], now["ratios"][name]
        out.append(
            f"  {name:<44} {then:6.2f} {this:6.2f}   x {this / then:.2f}{'  WORSE' if this < WORSE * then else ''}"
        )
    return out if names else [*out, "  none in common"]


def _commit() -> str:
    """The checkout's commit; with a plus if files are changed; "unknown" outside of a checkout."""
    asked = [["git", "rev-parse", "HEAD"], ["git", "status", "--porcelain", "--untracked-files=no"]]
    answers = [subprocess.run(one, cwd=ROOT, capture_output=True, text=True, check=False) for one in asked]
    if answers[0].returncode:
        return "unknown"
    return answers[0].stdout.strip() + ("+" if answers[1].stdout.strip() else "")
