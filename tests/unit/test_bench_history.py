"""A run of the benchmark is held against an earlier one by its ratios."""

from __future__ import annotations

from pathlib import Path

from bench.history import append, compared, earlier, ratios_of, run_of


def variants(**of: tuple[float, float]) -> dict[str, dict[str, float]]:
    return {name: {"rows_per_s": rows, "cpu_us_per_row": cpu} for name, (rows, cpu) in of.items()}


MACHINE = {"date": "2026-11-24 12:00 UTC", "cores": 2}
SPEED = {"variants": variants(a=(800, 1.0), b=(200, 6.0), b2=(500, 3.0), c=(400, 3.0))}


def test_ratios_are_of_rows_and_of_cpu_and_larger_is_better() -> None:
    report = {
        "machine": MACHINE,
        "speed": SPEED,
        "mirror": {
            "variants": variants(p=(400, 3.0), m=(300, 4.0)),
            "kinds": {"kinds": {"bucket": {"ratio": 1.5}}},
            "both": {"ratio": 0.75},
        },
        "shards": {"rates": {"four": 0.8}},
        "shapes": {"shapes": {"wide": {"rows_to_b2": 1.5, "cpu_to_b2": 1.25}}},
        "formats": {"avro": {"of_json": 3.0}},
        "routes": {"ratio": 0.5},
        "latency": {"partitions": {"64": {"b": {"p50_s": 3.0, "p99_s": 4.0}, "c": {"p50_s": 1.5, "p99_s": 4.0}}}},
        "overhead": {"rows": [{"partitions": 4, "plain_ms": 100.0, "batch_ms": 200.0}]},
        "endurance": {"goals": {"batch_ms": {"growth": 1.25}}},
        "settling": {"ratio": 2.0},
        "memory": {"anything": 1},
    }
    assert ratios_of(report) == {
        "speed (c) to (a), rows": 0.5,
        "speed (c) to (a), CPU": 1 / 3,
        "speed (c) to (b), rows": 2.0,
        "speed (c) to (b), CPU": 2.0,
        "speed (c) to (b2), rows": 0.8,
        "speed (c) to (b2), CPU": 1.0,
        "mirror (m) to (p), rows": 0.75,
        "mirror (m) to (p), CPU": 0.75,
        "mirror bucket (m) to (s), rows": 1.5,
        "mirror (cm) to (c), rows": 0.75,
        "shards four, rows": 0.8,
        "shapes wide (c) to (b2), rows": 1.5,
        "shapes wide (c) to (b2), CPU": 1.25,
        "formats avro to json, CPU": 3.0,
        "routes one topic to many, time": 2.0,
        "latency 64 partitions (c) to (b), p50": 2.0,
        "latency 64 partitions (c) to (b), p99": 1.0,
        "overhead 4 partitions (c) to (bt)": 0.5,
        "endurance first tenth to last, time": 0.8,
        "settling landed to settled, time": 0.5,
    }


def test_a_run_is_shown_beside_the_newest_or_a_named_one(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    assert earlier(path) is None
    for commit, rate in (("aaa1", 0.5), ("bbb2", 1.0)):
        append(
            path, {"commit": commit, "machine": MACHINE, "sizes": {"rounds": 5}, "ratios": {"shards four, rows": rate}}
        )
    now = {**run_of({"machine": MACHINE, "shards": {"rates": {"four": 0.8}}, "speed": SPEED}, {"rounds": 5})}

    newest, named = earlier(path), earlier(path, "aaa")
    assert newest is not None
    assert named is not None
    assert earlier(path, "ccc") is None
    assert compared(newest, now)[1:] == [f"  {'shards four, rows':<44}   1.00   0.80   x 0.80  WORSE"]
    assert compared(named, now)[1:] == [f"  {'shards four, rows':<44}   0.50   0.80   x 1.60"]
    other = compared({**named, "sizes": {"rounds": 1}, "ratios": {}}, now)
    assert other[1:] == ["  other sizes: {'rounds': 1}, now {'rounds': 5}", "  none in common"]


def test_a_run_names_the_commit_of_the_checkout() -> None:
    commit = run_of({"machine": MACHINE}, {})["commit"]
    assert commit == "unknown" or len(commit.rstrip("+")) == 40
