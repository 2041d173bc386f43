"""A broker that is still loading its groups is asked again; any other answer counts at once."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException

from chsink.kafka import transactions
from chsink.kafka.transactions import while_loading


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactions, "LOADING_S", 0)


class Answers:
    """A broker that gives these errors first."""

    def __init__(self, *codes: int) -> None:
        self.left = list(codes)

    def __call__(self) -> str:
        if self.left:
            raise KafkaException(KafkaError(self.left.pop(0)))
        return "the answer"


def test_it_is_asked_again() -> None:
    broker = Answers(KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_LOAD_IN_PROGRESS)
    assert while_loading(broker, 60) == "the answer" and broker.left == []


@pytest.mark.parametrize(
    ("code", "timeout_s"), [(KafkaError.GROUP_AUTHORIZATION_FAILED, 60), (KafkaError.NOT_COORDINATOR, 0)]
)
def test_but_not_for_another_answer_nor_for_ever(code: int, timeout_s: float) -> None:
    broker = Answers(code, code)
    with pytest.raises(KafkaException):
        while_loading(broker, timeout_s)
    assert broker.left == [code]
