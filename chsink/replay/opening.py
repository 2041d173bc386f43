"""Opens a replay: by the job file, of dead letters in a table or in a topic."""

from __future__ import annotations

from dataclasses import replace

from chsink.clickhouse.checks.letters import letters_findings
from chsink.clickhouse.cluster import Cluster
from chsink.clickhouse.landing import new_ledger
from chsink.clickhouse.shards import ShardTable
from chsink.dlq.place import LettersTopic, replay_sink
from chsink.dlq.search import Heard
from chsink.dlq.table import LettersInTable
from chsink.driver.ledger import read_owner
from chsink.driver_name import driver_name
from chsink.errors import halts, job_file, preflight
from chsink.findings import raise_first
from chsink.kafka.admin import KafkaAdmin
from chsink.kafka.checks import dead_letters_findings
from chsink.ports import StateStore
from chsink.refusals import asking_target
from chsink.replay.choose import LetterChooser
from chsink.replay.in_topic import InTopic
from chsink.replay.land import ListSender
from chsink.replay.routes import routes_of
from chsink.replay.run import Replay
from chsink.replay.source import InTable, LetterSource


def open_replay(clickhouse: Cluster, store: StateStore, kafka: KafkaAdmin, heard: Heard = lambda _: None) -> Replay:
    """A replay for the job's dead letters.  Nothing is claimed yet.  ``heard`` is told how many more records of a topic
    were read.

    Raises ConfigError CHS-115 where the job file names no place for dead letters, PreflightError CHS-320 where the sink
    has no state, and CHS-27x for a table that cannot take dead letters or a topic that loses replay marks.
    """
    config = clickhouse.config
    sink, topic = config.sink.name, config.dead_letters.topic
    source: LetterSource
    kept: ShardTable | None = None
    marks = None
    if topic is not None:
        _check_topic(kafka, topic)
        options, timeout_s = config.kafka.client_options(), config.kafka.timeout_s
        source = marks = InTopic(LettersTopic(options, topic, sink, timeout_s), heard)
    else:
        kept = _table(clickhouse)
        letters = LettersInTable(kept.client, str(config.dead_letters_table), sink)
        source = InTable(letters, kept, clickhouse.clock)
    store.prepare()
    if read_owner(store, sink) is None:
        raise halts.NO_STATE(sink=sink)
    with asking_target():
        ledger = new_ledger(clickhouse, store, f"`chsink dlq replay` on {driver_name()}", replay_sink(sink))
        window = replace(clickhouse.window(ledger.layout), letters=kept)
        routes = routes_of(clickhouse, window)
    chooser = LetterChooser(clickhouse, store, routes, source)
    sender = ListSender(clickhouse, kafka, routes, source, window, marks)
    return Replay(clickhouse, store, ledger, routes, source, window, chooser, sender)


def _check_topic(kafka: KafkaAdmin, topic: str) -> None:
    """The topic is there, and Kafka deletes its records in their order."""
    raise_first(dead_letters_findings(kafka, topic))
    if kafka.may_be_compacted(topic):
        raise preflight.REPLAY_FROM_COMPACTED(topic=topic)


def _table(clickhouse: Cluster) -> ShardTable:
    """The table of dead letters."""
    config = clickhouse.config
    name = config.dead_letters_table
    if name is None:
        raise job_file.NO_DEAD_LETTERS()
    kept = clickhouse.on_first_endpoint(name)
    with asking_target():
        raise_first(letters_findings(kept))
    return kept
