"""What a job needs before Spark starts: Java, and a checkpoint folder of its own.  None of it imports Spark.

These faults are permanent: they end a start before the sink is claimed, most with exit code 2.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final

from chsink.clickhouse.landing import named_by_records
from chsink.connect import Services
from chsink.driver.ledger import read_sink
from chsink.errors import ChsinkError, halts, local, preflight
from chsink.findings import Finding, Severity, found, guarded, passed
from chsink.jvm.java import find_java, ignored_java_home
from chsink.kafka.sample import may_have_held
from chsink.spark.checkpoint import Folder, PassedOver, checkpoint_findings, local_folder, passed_over
from chsink.statemachine.ranges import OffsetRange
from chsink.statemachine.records import StateKey, StateRecord

LOOKS, LOOK_AGAIN_S = 5, 1
"""How often the state is read before a start is refused: a store's replica may lag."""
GATEWAY: Final = "PYSPARK_GATEWAY_PORT"
"""Set by spark-submit: this process was started by Spark's Java, and needs no other."""


def java_findings() -> Iterator[Finding]:
    """The Java that Spark will start on.  Raises CHS-901 when there is none that Spark supports."""
    if GATEWAY in os.environ:
        return
    java = find_java()
    if reason := ignored_java_home():
        home = os.environ["JAVA_HOME"]
        yield found(Severity.WARNING, local.JAVA_HOME_IGNORED, home=home, reason=reason, java=java)
    else:
        yield passed(local.NO_SUPPORTED_JAVA, java=java)


def recorded(services: Services, *, claimed: bool = False) -> Mapping[StateKey, StateRecord] | None:
    """What is recorded for the sink.  None for a store that forgets, and for one that does not answer.  If ``claimed``
    is asked for, also for a sink that was claimed and has no table yet: all of its topics may wait.
    """
    try:
        owner, records = read_sink(services.store, services.config.sink.name)
    except ChsinkError:
        return None
    return None if not services.store.durable or (claimed and owner and not records) else records


def configured_checkpoint_findings(services: Services) -> Iterator[Finding]:
    """The checkpoint of the job file, where it can be read without Spark.  A start asks Spark instead."""
    config = services.config
    checkpoint = config.sink.checkpoint
    if checkpoint is None:
        return
    folder = local_folder(checkpoint, config.spark.conf)
    if folder is None:
        yield found(Severity.INFO, preflight.CHECKPOINT_NOT_CHECKED, checkpoint=checkpoint)
    else:
        routes = services.clickhouse.routes
        of_sink = partial(recorded, services, claimed=True)
        found_before = list(checkpoint_findings(folder, config.topics, of_sink, routes))
        yield from found_before
        if not any(finding.severity is Severity.ERROR for finding in found_before):
            yield from guarded("the checkpoint", lambda: passed_over_findings(services, folder))


def passed_over_findings(services: Services, folder: Folder) -> Iterator[Finding]:
    """Records that Kafka still holds, and that the checkpoint has passed without one of their tables.

    A table that records name (``table_by``) begins where the topic's other tables are, so it lacks none.
    """
    alone = services.clickhouse.routes.keys() - named_by_records(services.clickhouse)
    missed: list[PassedOver] = []
    for again in range(LOOKS):
        if again:
            services.clock.sleep(LOOK_AGAIN_S)
        missed = passed_over(folder, lambda: recorded(services), alone)
        if not missed:
            return
    starts = services.kafka.log_starts({one.topic_partition for one in missed})
    for one in missed:
        held = OffsetRange(min(max(one.offsets.start, starts[one.topic_partition]), one.offsets.end), one.offsets.end)
        if any(may_have_held(services.config, services.kafka, {one.topic_partition: held})):
            entry = halts.PASSED_OVER if one.recorded else halts.STATE_LOST
            detail = f"{one.table} lacks {one.offsets}, and Kafka still holds records of it"
            yield found(Severity.ERROR, entry, tp=one.topic_partition, detail=detail)
