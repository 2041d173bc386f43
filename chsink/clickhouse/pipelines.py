"""What an insert carries: made now, or made again for a range that was announced earlier."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from chsink.clickhouse.shards import ShardTable
from chsink.clickhouse.table import TargetTable
from chsink.formats.announced import as_announced
from chsink.formats.metadata import COLUMNS
from chsink.formats.pipeline import Letters, fingerprint, part_of
from chsink.ports import Decoder, StreamShape


@dataclass(slots=True)
class Pipelines:
    """The decoders by topic, and the fingerprints of what they insert.

    ``shards_of(topic, layout)`` gives the topic's table on the shards of a layout, by fingerprint.
    """

    decoders: Mapping[str, Decoder]
    stream: StreamShape
    shards_of: Callable[[str, str], Sequence[ShardTable]]
    letters: Letters | None
    _announced: dict[tuple[str, str], Decoder] = field(default_factory=dict)

    def decoder(self, topic: str, recorded: str) -> Decoder:
        """The decoder for a range that was announced under the fingerprint ``recorded``: of the columns of that time,
        where the table only gained others since.
        """
        at = topic, part_of(recorded, COLUMNS)
        if at not in self._announced:
            self._announced[at] = as_announced(self.decoders[topic], recorded)
        return self._announced[at]

    def fingerprint(self, topic: str, layout: str, recorded: str = "") -> str:
        """The fingerprint of an insert made now under that shard layout; with ``recorded``, of one for the range that
        was announced under it.
        """
        decoder = self.decoder(topic, recorded) if recorded else self.decoders[topic]
        identities = [s.table.identity for s in self.shards_of(topic, layout)]
        return fingerprint(decoder, self.stream, identities, self.letters)

    def tables(self, topic: str, layout: str, recorded: str) -> tuple[TargetTable, ...]:
        """The table on the shards of the layout, with the columns of :meth:`decoder` only."""
        names = self.decoder(topic, recorded).filled
        tables = [s.table for s in self.shards_of(topic, layout)]
        return tuple(replace(t, columns=tuple(c for c in t.columns if c.name in names)) for t in tables)
