"""What the parts of the benchmark make of what they measured."""

from __future__ import annotations

import json

from bench import endurance, latency, overhead, settling, topic
from bench.endurance import Sample


def test_a_stamped_record_is_one_of_the_topic_that_says_when_it_was_sent() -> None:
    plain, stamped = json.loads(topic.record(7)), json.loads(latency.stamped(7, 1_760_000_000_000_000))
    assert stamped == {**plain, "note": "1760000000000000"}


def run(p50: float, p99: float) -> dict[str, float]:
    return {"p50_s": p50, "p99_s": p99}


def test_goals_of_latency_are_a_median_and_a_multiple_of_the_plain_job() -> None:
    found = {
        "64": {"b": run(2.0, 4.0), "c": run(0.9, 5.0)},
        "512": {"b": run(9.0, 9.0), "c": run(2.5, 11.3)},
    }
    few, many = latency.goals(found)
    assert (few["p50_met"], few["p99_met"], few["p99_to_b"]) == (True, True, 1.25)
    assert (many["p50_met"], many["p99_met"]) == (False, False)
    assert latency.goals({"64": found["64"]}) == [few]


def counted(driver: int, questions: int, inserts: int, pieces: int) -> dict[str, int]:
    return {"driver": driver, "questions": questions, "inserts": inserts, "pieces": pieces}


def test_the_cost_of_a_batch_leaves_out_its_start_and_its_tasks() -> None:
    phases = {"plan": 20.0, "before": 30.0, "insert": 200.0, "after": 10.0}
    few = {"statements": counted(50, 80, 40, 12), "cpu_ms": {"jvm": 500.0}}
    many = {
        "batch_ms": 400.0,
        "sink_ms": 300.0,
        "phases_ms": phases,
        "statements": counted(110, 180, 100, 52),
        "cpu_ms": {"jvm": 2500.0, "worker": 100.0},
    }
    row = overhead.figures_of(few, many)
    assert row["fixed_ms"] == 100
    assert row["phases_ms"] == {**phases, "rest": 40.0}
    assert row["spark_ms"] == 100
    assert (row["cpu_ms"]["jvm"], row["cpu_ms"]["worker"], row["cpu_ms"]["kafka"]) == (200.0, 10.0, 0.0)
    assert (row["driver_statements"], row["questions"], row["inserts"], row["pieces"]) == (6.0, 10.0, 6.0, 4.0)


def test_goals_of_a_batchs_cost() -> None:
    rows = [{"partitions": n, "fixed_ms": ms, "driver_statements": 6.0} for n, ms in ((4, 119), (64, 900), (512, 601))]
    goals = overhead.goals(rows)
    assert goals["fixed_ms"] == {"4": {"goal": 120, "met": True}, "512": {"goal": 600, "met": False}}
    assert goals["statements_met"]
    rows[1]["driver_statements"] = 7.0
    assert not overhead.goals(rows)["statements_met"]


def test_tenths_leave_out_the_first_batch_and_see_growth() -> None:
    def at(batches: int) -> float:  # the first batch takes 60 s, later ones 0.1 s, those of the last tenth 0.2 s
        return 60 + 0.1 * (batches - 1) + 0.1 * max(0, batches - 90)

    samples = [Sample(0.0, 0, {"driver": 1.0})]
    samples += [Sample(at(n), n, {"driver": 100.0 + (n > 90), "jvm": 400.0 + 5 * n}) for n in range(1, 101)]
    tenths = endurance.tenths_of(samples, 100)
    assert [round(tenth["batch_ms"]) for tenth in tenths] == [100] * 9 + [200]
    assert tenths[0]["driver_mib"] == 100
    assert tenths[0]["worker_mib"] == 0
    goals = endurance.goals(tenths)
    assert {key: goal["met"] for key, goal in goals.items()} == {
        "batch_ms": False,
        "driver_mib": True,
        "jvm_mib": False,
        "worker_mib": True,
    }
    assert round(goals["batch_ms"]["growth"], 3) == 2


def test_tenths_of_a_job_that_was_seen_rarely() -> None:
    samples = [Sample(0.0, 0, {}), Sample(10.0, 40, {"driver": 2.0}), Sample(20.0, 100, {"driver": 3.0})]
    tenths = endurance.tenths_of(samples, 100)
    assert len(tenths) == endurance.TENTHS
    assert tenths[-1]["driver_mib"] == 3


def test_lines_say_whether_a_goal_is_met() -> None:
    figures = {"records": 2_000_000, "landed_s": 10.0, "settled_s": 14.0, "ratio": 1.4, "goal": {"met": False}}
    assert settling.lines(figures)[-1] == "  x 1.40; goal at most x 1.3: MISSED"
