"""What an insert carries: made now, or made again for a range that was announced earlier."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from chsink.clickhouse.shards import ShardTable
from chsink.clickhouse.table import TargetTable
from chsink.formats.announced_columns import as_announced, reads_format
from chsink.formats.metadata import COLUMNS
from chsink.formats.pipeline import LetterSettings, fingerprint, grows, part_of
from chsink.ports import Decoder, StreamShape
from chsink.statemachine.records import TopicTable


@dataclass(slots=True)
class Pipelines:
    """The decoders by topic and table, and the fingerprints of what they insert.

    ``shards_of(table, layout)`` gives the table on the shards of a layout, by fingerprint.
    """

    decoders: Mapping[TopicTable, Decoder]
    stream: StreamShape
    shards_of: Callable[[str, str], Sequence[ShardTable]]
    letters: LetterSettings | None
    growing: Collection[TopicTable] = ()
    """Those whose tables gain columns for new fields."""
    _announced: dict[tuple[TopicTable, str], Decoder] = field(default_factory=dict)

    def decoder(self, leads: TopicTable, recorded: str) -> Decoder:
        """The decoder for a range that was announced under the fingerprint ``recorded``: of the columns of that time,
        where the table only gained others since.
        """
        at = leads, part_of(recorded, COLUMNS)
        if at not in self._announced:
            self._announced[at] = as_announced(self.decoders[leads], recorded)
        return self._announced[at]

    def fingerprint(self, leads: TopicTable, layout: str, recorded: str = "") -> str:
        """The fingerprint of an insert made now under that shard layout; with ``recorded``, of one for the range that
        was announced under it.
        """
        decoder = self.decoder(leads, recorded) if recorded else self.decoders[leads]
        tables = [s.table for s in self.shards_of(leads[1], layout)]
        growing = leads in self.growing and (grows(recorded) or not recorded)
        added = tables[0].beyond(decoder.filled) if growing and reads_format(decoder) else ()
        identities = [table.identity for table in tables]
        return fingerprint(decoder, self.stream, identities, self.letters, growing=growing, added=added)

    def tables(self, leads: TopicTable, layout: str, recorded: str) -> tuple[TargetTable, ...]:
        """The table on the shards of the layout, with the columns that the range may fill only."""
        decoder = self.decoders[leads] if grows(recorded) else self.decoder(leads, recorded)
        names = decoder.filled
        tables = [s.table for s in self.shards_of(leads[1], layout)]
        return tuple(replace(t, columns=tuple(c for c in t.columns if c.name in names)) for t in tables)
