"""The start of a round: in which order the coordinator asks."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from chsink.mirror.coordinator import Coordinator


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
