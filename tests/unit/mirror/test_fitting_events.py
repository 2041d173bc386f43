"""Units of the present tables and topics: which of them a coordinator takes, and for which one records are read again."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from chsink.errors import HaltError
from chsink.mirror.coordinator import Coordinator
from chsink.mirror.events import DataWritten, FileEntry, TableReference, UnitTag
from chsink.mirror.known_tables import Hole, KnownTables
from chsink.mirror.lander import MirrorLander
from chsink.mirror.stop_reasons import Halted
from chsink.mirror.table_commits import TableCommits
from chsink.mirror.tables import PropertyKeys
from chsink.statemachine.commit.chain import Chain, Link, Links, TableView
from chsink.statemachine.commit.units import Head, Unit
from chsink.statemachine.ranges import OffsetRange, TopicPartition

TAG = UnitTag("u", "now", "orders", "id", 3, 10, 20, 0, 1, 0)
TP = TopicPartition("orders", 3)
FILE = cast("FileEntry", {"file_path": f"file:/lake/{TAG.file_id}.parquet"})


@pytest.mark.parametrize(
    ("tag", "files", "fits"),
    [
        (TAG, (FILE,), True),
        (TAG, (), True),
        (replace(TAG, table_uuid="before"), (FILE,), False),
        (replace(TAG, table_uuid="before"), (), False),
        (replace(TAG, topic_id="other"), (), False),
        (None, (FILE,), False),
    ],
)
@pytest.mark.parametrize(
    ("links", "ids"),
    [
        ({}, {"orders": "id"}),
        ({TP: Link("id", 0, 5)}, {}),
        ({TopicPartition("orders", 0): Link("before", 0, 5), TP: Link("id", 0, 5)}, {}),
    ],
)
def test_what_was_written_for_another_table_or_topic_is_ignored(
    tag: UnitTag | None, files: tuple[FileEntry, ...], fits: bool, links: Links, ids: dict[str, str]
) -> None:
    """⚑ After a table was made again, and a person had its records read again, the coordinator would halt for ever on the
    units of the one before, which are still in the control topic.  So would a start that halts for another table, and
    what it has to say would never be seen.
    """
    coordinator: Any = SimpleNamespace(
        _beginnings=SimpleNamespace(topic_ids=ids, left={}),
        tables=SimpleNamespace(uuids={"a": "now"}, links={"a": links}),
        log=SimpleNamespace(warning=lambda *_, **__: None),
    )
    written = DataWritten(UUID(int=1), TableReference("lake", ("db",), "a"), files, tag)
    assert Coordinator._fits(coordinator, written, "a") is fits


@pytest.mark.parametrize("chain", [Chain(), Chain({TP: Link("other", 0, 10)})])
def test_a_halt_says_of_which_topic_partition_it_is(chain: Chain) -> None:
    """⚑ It said "OTHER_TOPIC: the topic was deleted and created again"."""
    unit = Unit(Head("u", "a", "now", TP, "id", OffsetRange(10, 20), 0, 1), (), ())
    target: Any = SimpleNamespace(table=SimpleNamespace(keys=PropertyKeys("g", "c")))
    tables: Any = KnownTables({"a": target}, "c")
    tables.read = lambda _: (SimpleNamespace(view=TableView("now", frozenset({0}))), chain)
    present: Any = SimpleNamespace(assigned=())
    buffer: Any = SimpleNamespace(units=lambda _: (unit,))
    with pytest.raises(Halted) as halted:
        TableCommits(tables, buffer, cast("Any", None), cast("Any", None)).commit("a", present)
    assert halted.value.detail == "orders-3"


def test_nothing_is_read_again_for_a_table_that_is_another_now() -> None:
    """⚑ The files would be ignored, so the range would be read again for ever."""
    metadata = SimpleNamespace(table_uuid="now")
    feeds = SimpleNamespace(table=lambda *_: SimpleNamespace(metadata=metadata), check_held=lambda *_: None)
    read = list[object]()
    reads = SimpleNamespace(from_kafka=read.append)
    lander: Any = SimpleNamespace(
        feeds=feeds, _reads=reads, _confirmed=lambda *_: None, _renewed=lambda feeds, _: feeds
    )
    lander._check_written_for = lambda hole: MirrorLander._check_written_for(lander, hole)
    with pytest.raises(HaltError) as halted:
        MirrorLander._reread(lander, Hole("a", TP, OffsetRange(10, 20), "before"))
    assert halted.value.name == "MIRROR_TABLE_RECREATED" and not read
    MirrorLander._reread(lander, Hole("a", TP, OffsetRange(10, 20), "now"))
    assert len(read) == 1


def test_what_is_read_again_is_written_for_the_table_as_it_is() -> None:
    """⚑ Files of a partition spec that is gone would be dropped, and the range read again for ever."""

    def feeds(spec: int) -> Any:
        work = SimpleNamespace(metadata=SimpleNamespace(table_uuid="now", default_spec_id=spec))
        return SimpleNamespace(table=lambda *_: work, check_held=lambda *_: None)

    reads = SimpleNamespace(from_kafka=lambda shares: shares)
    lander: Any = SimpleNamespace(
        feeds=feeds(0), _reads=reads, _confirmed=lambda *_: None, _renewed=lambda *_: feeds(1),
        _check_written_for=lambda _: None,
    )  # fmt: skip
    MirrorLander._reread(lander, Hole("a", TP, OffsetRange(10, 20), "now"))
    assert lander.feeds.table().metadata.default_spec_id == 1
