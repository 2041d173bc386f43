"""What a stream is made of, seen from its analysed plan: one Kafka source, and what is done to its records.

The plan serves three purposes:
- refuse at start whatever breaks the promise: several sources, splitting options, shuffling or non-deterministic steps;
- name the transform, so that a range in doubt is not inserted again through another one (``transform``);
- read exactly ``[start, end)`` again *through the same transform*, whatever it is: the plan is rebuilt with a batch
  read of these offsets in place of the stream (``exact``).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from chsink.errors import stream
from chsink.spark.java import JavaObject
from chsink.statemachine.ranges import OffsetRange, TopicPartition

SOURCE = "StreamingRelationV2"
SPLITTING = ("minpartitions", "maxrecordsperpartition")
SOURCE_ONLY = frozenset(
    (*SPLITTING, "subscribe", "subscribepattern", "assign", "startingoffsets", "endingoffsets", "startingtimestamp",
     "endingtimestamp", "startingoffsetsbytimestamp", "endingoffsetsbytimestamp", "startingoffsetsbytimestampstrategy",
     "maxoffsetspertrigger", "minoffsetspertrigger", "maxtriggerdelay", "failondataloss")
)  # fmt: skip
MIXING = (
    "Aggregate",
    "Join",
    "Deduplicate",
    "Distinct",
    "Repartition",
    "Sort",
    "Union",
    "Window",
    "Offset",
    "Limit",
    "Sample",
)
CLOCK = re.compile(
    r"\b(current_timestamp|current_date|current_time|localtimestamp|now|curdate)\("
    r"|\bcast\((now|today|tomorrow|yesterday) as (timestamp|date)",
    re.IGNORECASE,
)
CONFIGURED = (
    "spark.sql.session.timeZone",
    "spark.sql.ansi.enabled",
    "spark.sql.caseSensitive",
    "spark.sql.legacy.timeParserPolicy",
)
"""Settings of the session that decide the result of an expression."""
READ_OPTIONS = {"kafka.fetch.max.wait.ms": "5", "kafka.max.poll.records": "2000"}
"""Options of each read that says nothing else.

A task waits at the end of its log, half a second by default: Kafka's consumer has already asked for the next records,
and Spark asks for the log's end on the same connection.

Spark takes 500 records from the consumer at a time by default, and each time asks the broker where the log begins and
ends.  It keeps what it took last of each topic-partition, so more records need more memory.
"""
STATEFUL = ("FlatMapGroups", "TransformWithState", "FlatMapCoGroups", "StateStore")


@dataclass(frozen=True, slots=True)
class StreamPlan:
    """A checked stream.  ``options`` are its Kafka source's; ``transform`` is text, "" for the bare source."""

    spark: SparkSession
    plan: JavaObject
    options: Mapping[str, str]
    columns: tuple[str, ...]
    transform: str

    @property
    def made_of(self) -> tuple[object, ...]:
        """What distinguishes this stream from another one."""
        return (dict(self.options), self.columns, self.transform)

    @property
    def isolation_level(self) -> str:
        """Which records the stream's consumers see; Kafka's own default is ``read_uncommitted``."""
        return self.options.get("kafka.isolation.level", "read_uncommitted")

    def exact(self, ranges: Mapping[TopicPartition, OffsetRange]) -> DataFrame:
        """A batch DataFrame of exactly these offsets, through the stream's own transform."""
        jvm: JavaObject = self.spark._jvm
        plan = _rebuild(jvm, self.plan, lambda leaf: self._batch_leaf(leaf, ranges) if _is_source(leaf) else leaf)
        frame = jvm.org.apache.spark.sql.classic.Dataset.ofRows(self.spark._jsparkSession, plan)
        return DataFrame(frame, self.spark)

    def _batch_leaf(self, leaf: JavaObject, ranges: Mapping[TopicPartition, OffsetRange]) -> JavaObject:
        """A batch read with the stream's options and the stream's own attributes."""
        starts = _by_topic({tp: r.start for tp, r in ranges.items()})
        ends = _by_topic({tp: r.end for tp, r in ranges.items()})
        frame = (
            self.spark.read.format("kafka")
            .options(**exact_options(self.options))
            .option("assign", json.dumps({t: [int(p) for p in by] for t, by in starts.items()}))
            .option("startingOffsets", json.dumps(starts))
            .option("endingOffsets", json.dumps(ends))
            .option("failOnDataLoss", "true")
            .load()
        )
        relation: JavaObject = frame._jdf.queryExecution().analyzed()
        return relation.copy(relation.relation(), leaf.output(), relation.catalogTable(), False, relation.stream())


def exact_options(options: Mapping[str, str]) -> dict[str, str]:
    """A stream's options for an exact read of it: without what says where a stream reads, and without idle waits."""
    kept = {k: v for k, v in options.items() if k.lower() not in SOURCE_ONLY}
    said = {k.lower() for k in kept}
    return kept | {k: v for k, v in READ_OPTIONS.items() if k not in said}


def inspect(spark: SparkSession, plan: JavaObject) -> StreamPlan:
    """Check an analysed streaming plan.  PreflightError CHS-60x names what is not supported."""
    nodes = list(_nodes(plan))
    sources = [n for n in nodes if _is_source(n)]
    if len(sources) != 1 or sources[0].sourceName() != "kafka":
        names = ", ".join(str(s.sourceName()) for s in sources) or "none"
        raise stream.NO_KAFKA_SOURCE(count=len(sources), names=names)
    options = dict(sources[0].extraOptions().asCaseSensitiveMap())
    _check_options(options)
    for node in nodes:
        _check_node(node)
    transform = "" if len(nodes) == 1 else _text(spark, plan)
    if not plan.deterministic() or (transform and CLOCK.search(str(plan.toString()))):
        raise stream.NOT_DETERMINISTIC()
    attributes = plan.output()
    columns = tuple(str(attributes.apply(i).name()) for i in range(attributes.size()))
    return StreamPlan(spark, plan, options, columns, transform)


def of_frame(frame: DataFrame) -> StreamPlan:
    """The checked plan of a streaming DataFrame."""
    if not frame.isStreaming:
        raise stream.NOT_A_STREAM()
    return inspect(frame.sparkSession, frame._jdf.queryExecution().analyzed())


def _check_options(options: Mapping[str, str]) -> None:
    lowered = {k.lower(): v for k, v in options.items()}
    for name in SPLITTING:
        if name in lowered:
            raise stream.SOURCE_SPLITS(option=name)
    if lowered.get("failondataloss", "true").lower() == "false":
        raise stream.LOSS_IGNORED()


def _check_node(node: JavaObject) -> None:
    name = str(node.getClass().getSimpleName())
    subqueries = int(node.subqueries().size())
    if subqueries or name.startswith(STATEFUL) or any(word in name for word in MIXING):
        what = "a subquery" if subqueries else name
        raise stream.MIXING_STEP(step=what)


def _text(spark: SparkSession, plan: JavaObject) -> str:
    """The plan without what changes from run to run (expression ids, object ids, the source's options), with its
    literals, which the plan's text may not tell apart, and with the session's settings that decide its result.
    """
    spark.conf.set("spark.sql.debug.maxToStringFields", "1000000")  # otherwise wide plans are cut and become equal
    lines = [line for line in str(plan.toString()).split("\n") if SOURCE not in line]
    steps = re.sub(r"#\d+L?|@[0-9a-f]+", "", "\n".join(lines))
    configured = [f"{name}={spark.conf.get(name)}" for name in CONFIGURED]
    return "\n".join((steps, *_literals(plan), *configured))


def _literals(plan: JavaObject) -> Iterator[str]:
    """Type and value of every literal, in the plan's order."""
    for node in _nodes(plan):
        expressions = node.expressions()
        for i in range(expressions.size()):
            for expression in _nodes(expressions.apply(i)):
                if expression.getClass().getSimpleName() == "Literal":
                    yield f"{expression.dataType().simpleString()} {expression.toString()}"


def _is_source(node: JavaObject) -> bool:
    return str(node.getClass().getSimpleName()) == SOURCE


def _nodes(node: JavaObject) -> JavaObject:
    yield node
    children = node.children()
    for i in range(children.size()):
        yield from _nodes(children.apply(i))


def _rebuild(jvm: JavaObject, node: JavaObject, leaf_for: Callable[[JavaObject], JavaObject]) -> JavaObject:
    children = node.children()
    if children.size() == 0:
        return leaf_for(node)
    rebuilt = jvm.java.util.ArrayList()
    for i in range(children.size()):
        rebuilt.add(_rebuild(jvm, children.apply(i), leaf_for))
    return node.withNewChildren(jvm.scala.jdk.javaapi.CollectionConverters.asScala(rebuilt).toIndexedSeq())


def _by_topic(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    topics: dict[str, dict[str, int]] = {}
    for tp, offset in sorted(offsets.items()):
        topics.setdefault(tp.topic, {})[str(tp.partition)] = offset
    return topics
