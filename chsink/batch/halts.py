"""The sentence and the fix of every halt: what happened, and what a person can do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from chsink.errors import HaltError, UnavailableError
from chsink.ports import ServerRefused, Unanswered
from statemachine.ranges import TopicPartition

SENTENCES: dict[str, tuple[str, str]] = {
    "CHS-301": (
        "Kafka's log ends before what was already landed",
        "records were lost by Kafka; if the topic is right as it is, stop the sink and run `chsink state reset`",
    ),
    "CHS-302": (
        "the recorded state is gone, but the checkpoint shows that records were landed",
        "restore the state table, or rebuild it with `chsink state recover`; only a new sink name starts from nothing",
    ),
    "CHS-303": (
        "the topic was deleted and made anew, and the plan is not one of the new topic from its beginning",
        "start with a new checkpoint, to read it from offset 0; if its first records are gone, `chsink state reset`",
    ),
    "CHS-304": (
        "the topic's id was known before and is not now, or the other way round",
        "let the job talk to brokers of one version; a topic that was recreated cannot be told otherwise",
    ),
    "CHS-305": (
        "offsets are offered again that were never landed by this sink, or lie in a recorded gap",
        "start from the recorded offsets with a new checkpoint, or use a new sink name to read older data",
    ),
    "CHS-306": (
        "the source was rewound: all offered offsets were landed before",
        'start from the recorded offsets with a new checkpoint, or set errors.on_rewind = "skip" to pass over them',
    ),
    "CHS-307": (
        "offsets after the recorded ones were passed over",
        'if Kafka holds them, start with a new checkpoint; if not, errors.on_gap = "record" accepts the gap',
    ),
    "CHS-308": (
        "an in-doubt range can no longer be read from Kafka",
        "look in the table whether its rows are there, then say so: `chsink state resolve --help`",
    ),
    "CHS-318": (
        "tokens may be forgotten, and the table may hold another sink's, or an earlier topic's, rows of these offsets",
        "look in the table whether the range's own rows are there, then say so: `chsink state resolve --help`",
    ),
    "CHS-309": (
        "a range is in doubt, and what decides its rows changed since it was announced",
        "put it back, let the range settle, then change it; or decide with `chsink state resolve --help`",
    ),
}


def halt_error(id: str, tp: TopicPartition, detail: str) -> HaltError:
    """The error for a halt of one topic-partition."""
    sentence, hint = SENTENCES[id]
    return HaltError(id, f"{tp}: {sentence} ({detail})", hint)


@contextmanager
def asking_target() -> Iterator[None]:
    """A question to the target that gets no answer is an error for users like any other."""
    try:
        yield
    except (Unanswered, ServerRefused) as error:
        raise UnavailableError(
            "CHS-709",
            f"ClickHouse did not answer a question about the target: {error}",
            "bring the server back and start again: what is in doubt will be settled",
        ) from error
