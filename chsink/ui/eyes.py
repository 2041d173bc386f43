"""Looks at a job again and again: state store and Kafka each time, the mirror and dead letters more rarely.

Connections stay open between two looks and are closed after an error, so that the next look begins anew, and when
nobody watches any more.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Final

from confluent_kafka import KafkaException

from chsink.clock import SystemClock
from chsink.config import Config
from chsink.connect import Services, connected
from chsink.dlq.place import LettersTopic
from chsink.dlq.reasons import LetterGroup, ReasonsInTopic, reasons_in_table
from chsink.dlq.table import LettersInTable
from chsink.errors import services as errors
from chsink.kafka.admin import KafkaAdmin, open_admin
from chsink.observe.pace import TableSpeed
from chsink.refusals import asking_target
from chsink.statemachine.records import TopicTable
from chsink.status.model import SinkStatus
from chsink.status.reader import StatusReader
from chsink.status.speeds import speeds
from chsink.ui.picture import JobView, Letters, MirrorPicture, Picture, failure_of

WINDOW_S: Final = 60.0
"""Speeds are measured over this time: a batch lands at once."""
LOOKS: Final = 120
"""How many looks the history of a route has."""
MIRROR_S: Final = 10.0
LETTERS_S: Final = 30.0
"""Least time between two looks.  Dead letters are read earlier if the state has counted more."""


class Eyes:
    """Of one page.  Not for several threads at once.  ``job`` says what a job in this process says of itself.  Without
    ``clickhouse``, the mirror alone is looked at.
    """

    def __init__(
        self,
        config: Config,
        job: Callable[[], JobView | None] = lambda: None,
        *,
        show_values: bool = False,
        clickhouse: bool = True,
    ) -> None:
        self._config = config
        self._clickhouse = clickhouse and config.clickhouse_section is not None
        self._job = job
        self._show_values = show_values
        self._clock = SystemClock()
        self._open = ExitStack()
        self._reader: StatusReader | None = None
        self._kafka: KafkaAdmin | None = None
        self._topic: ReasonsInTopic | None = None
        self._seen: deque[tuple[float, SinkStatus]] = deque()
        self._history: dict[TopicTable, deque[float]] = {}
        self._letters: Letters | None = None
        self._mirror: MirrorPicture | None = None
        self._letters_at = self._mirror_at = -LETTERS_S
        self._counted: int | None = None

    def look(self) -> Picture:
        """One look.  Whatever goes wrong is part of the picture."""
        found, failure, now_s = None, None, time.monotonic()
        if self._clickhouse:
            try:
                found = self._services().read()
            except Exception as error:
                failure = failure_of(error)
                self._close()
            else:
                self._look_rarely(found, now_s)
        if self._config.mirror.enabled and now_s - self._mirror_at >= MIRROR_S:
            self._mirror, self._mirror_at = self._look_at_mirror(), now_s
        fast, watched_s = self._measured(found, now_s)
        return Picture(
            self._config.sink.name,
            self._clock.now_ms(),
            found or (self._seen[-1][1] if self._seen else None),
            failure,
            fast,
            watched_s,
            self._history,
            self._letters,
            self._mirror,
            self._job(),
        )

    def rest(self) -> None:
        """Close all connections until the next look.  Speeds are not measured over a time without looks."""
        self._close()
        self._seen.clear()
        self._history.clear()

    def _close(self) -> None:
        self._open.close()
        self._reader = self._kafka = None

    def _services(self) -> StatusReader:
        if self._reader is None:
            self._reader = StatusReader(self._open.enter_context(connected(self._config)))
        return self._reader

    # --- speeds ---------------------------------------------------------------------------------------------------

    def _measured(self, found: SinkStatus | None, now_s: float) -> tuple[Sequence[TableSpeed], float | None]:
        """The speeds over the window, and its length."""
        if found is None:
            return (), None
        while len(self._seen) > 1 and now_s - self._seen[0][0] > WINDOW_S:
            self._seen.popleft()
        before_s, before = self._seen[0] if self._seen else (now_s, None)
        self._seen.append((now_s, found))
        measured = speeds(before, found, now_s - before_s)
        for speed in measured:
            rates = self._history.setdefault((speed.topic, speed.table), deque(maxlen=LOOKS))
            if speed.landed_per_s is not None:
                rates.append(speed.landed_per_s)
        return measured, None if before is None else now_s - before_s

    # --- what is looked at more rarely ------------------------------------------------------------------------------

    def _look_rarely(self, found: SinkStatus, now_s: float) -> None:
        table, topic = self._config.dead_letters.table, self._config.dead_letters.topic
        place = table or topic
        if place is None or (now_s - self._letters_at < LETTERS_S and found.dead_letters == self._counted):
            return
        self._letters_at, self._counted = now_s, found.dead_letters
        try:
            groups = self._in_topic(topic) if topic else self._in_table(self._services().services)
            self._letters = Letters(place, groups)
        except Exception as error:
            self._letters = Letters(place, failure=failure_of(error))

    def _in_table(self, services: Services) -> list[LetterGroup]:
        name = self._config.dead_letters_table
        assert name is not None, "the caller has looked for it"
        with asking_target():
            reader = services.clickhouse.on_first_endpoint(name).reader(services.clock)
            letters = LettersInTable(reader, str(name), self._config.sink.name)
            return reasons_in_table(letters, whole=self._show_values)

    def _in_topic(self, topic: str) -> list[LetterGroup]:
        kafka = self._config.kafka
        if self._topic is None:
            place = LettersTopic(kafka.client_options(), topic, self._config.sink.name, kafka.timeout_s)
            self._topic = ReasonsInTopic(place, whole=self._show_values)
        try:
            return self._topic.read()
        except KafkaException as error:
            self._topic = None
            raise errors.KAFKA_UNAVAILABLE(bootstrap=kafka.bootstrap, reason=error.args[0].str()) from error

    def _look_at_mirror(self) -> MirrorPicture:
        try:
            from chsink.mirror.package import check_installed

            check_installed()
            from chsink.mirror.status import status_of

            self._kafka = self._kafka or open_admin(self._config)
            return MirrorPicture(status_of(self._config, self._kafka, self._clock.now_ms()))
        except Exception as error:
            self._kafka = None
            return MirrorPicture(self._mirror.status if self._mirror else None, failure_of(error))
