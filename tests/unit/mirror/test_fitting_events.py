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
from chsink.mirror.known_tables import Hole, Identity
from chsink.mirror.lander import MirrorLander
from chsink.statemachine.ranges import OffsetRange, TopicPartition

TAG = UnitTag("u", "now", "orders", "id", 3, 10, 20, 0, 1, 0)
FILE = cast("FileEntry", {"file_path": f"file:/lake/{TAG.file_id}.parquet"})


@pytest.mark.parametrize(
    ("tag", "files", "fits"),
    [
        (TAG, (FILE,), True),
        (TAG, (), True),
        (replace(TAG, table_uuid="before"), (FILE,), False),
        (replace(TAG, table_uuid="before"), (), False),
        (replace(TAG, spec_id=1), (FILE,), False),
        (replace(TAG, spec_id=1), (), True),
        (replace(TAG, topic_id="other"), (), False),
        (None, (FILE,), False),
    ],
)
def test_what_was_written_for_another_table_or_topic_is_ignored(
    tag: UnitTag | None, files: tuple[FileEntry, ...], fits: bool
) -> None:
    """⚑ After a table was made again, and a person had its records read again, the coordinator would halt for ever on the
    units of the one before, which are still in the control topic.
    """
    coordinator: Any = SimpleNamespace(
        _beginnings=SimpleNamespace(topic_ids={"orders": "id"}),
        tables=SimpleNamespace(identities={"a": Identity("now", 0)}),
        log=SimpleNamespace(warning=lambda *_, **__: None),
    )
    written = DataWritten(UUID(int=1), TableReference("lake", ("db",), "a"), files, tag)
    assert Coordinator._fits(coordinator, written, "a") is fits


@pytest.mark.parametrize(
    ("identity", "name"),
    [(Identity("before", 0), "MIRROR_TABLE_RECREATED"), (Identity("now", 1), "MIRROR_SPEC_CHANGED")],
)
def test_nothing_is_read_again_for_a_table_that_is_another_now(identity: Identity, name: str) -> None:
    """⚑ The files would be ignored, so the range would be read again for ever."""
    metadata = SimpleNamespace(table_uuid="now", default_spec_id=0)
    feeds = SimpleNamespace(table=lambda *_: SimpleNamespace(metadata=metadata), check_held=lambda *_: None)
    read = list[object]()
    reads = SimpleNamespace(from_kafka=read.append)
    lander: Any = SimpleNamespace(feeds=feeds, _reads=reads, _confirmed=lambda *_: None)
    lander._check_written_for = lambda hole: MirrorLander._check_written_for(lander, hole)
    tp = TopicPartition("orders", 3)
    with pytest.raises(HaltError) as halted:
        MirrorLander.reread(lander, Hole("a", tp, OffsetRange(10, 20), identity))
    assert halted.value.name == name and not read
    MirrorLander.reread(lander, Hole("a", tp, OffsetRange(10, 20), Identity("now", 0)))
    assert len(read) == 1
