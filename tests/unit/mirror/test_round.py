"""The start of a round: in which order the coordinator asks."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from chsink.mirror.coordinator import Coordinator
from chsink.statemachine.commit.chain import Link
from chsink.statemachine.ranges import TopicPartition


def test_the_group_is_asked_before_the_control_topic() -> None:
    """\u2691 An offset that the group passes after the ends were read would look like a lost event, and be read again."""
    asked = list[str]()

    def asks(what: str) -> Any:
        def ask(*_: object) -> dict[object, object]:
            asked.append(what)
            return {}

        return ask

    coordinator: Any = SimpleNamespace(
        take_up=lambda: None,
        _check_ends=lambda: None,
        _reached=asks("group"),
        reader=SimpleNamespace(logs=asks("control topic")),
        _followed=lambda logs: logs,
        assigned=(),
        sender=SimpleNamespace(send=lambda *_: None),
        _event=lambda payload: payload,
    )
    Coordinator._start_round(coordinator, 7)
    assert asked == ["group", "control topic"]


def test_a_table_that_left_a_topic_holds_up_no_end() -> None:
    """⚑ It stayed in another topic: ``available_now`` waited for it to reach the offsets of the one that it had left."""
    left, stayed = TopicPartition("left", 0), TopicPartition("stayed", 0)
    links = {left: Link("id", 0, 3), stayed: Link("id", 0, 5)}

    def behind(until: int) -> bool:
        coordinator: Any = SimpleNamespace(
            _last_ends={},
            tables=SimpleNamespace(links={"s.t": {**links, stayed: Link("id", 0, until)}}),
            targets={"s.t": SimpleNamespace(topics=frozenset({"stayed"}))},
            table_commits=SimpleNamespace(units=lambda _: []),
            _reached=lambda: {left: 9, stayed: 5},
        )
        coordinator._lacks = lambda *of: Coordinator._lacks(coordinator, *of)
        return Coordinator.behind(coordinator)

    assert (behind(5), behind(4)) == (False, True)
