"""The protocol of a reader: it decodes the records of one format."""

from __future__ import annotations

from typing import Protocol

import pyarrow as pa

from chsink.ports import Decoded


class FormatReader(Protocol):
    """Reads records of one format.  The outcome of a record depends on that record alone."""

    @property
    def record_fields(self) -> tuple[str, ...]:
        """The columns of Kafka's source that :meth:`decode` reads."""

    def decode(self, records: pa.RecordBatch) -> Decoded:
        """The rows of the records that fit, in the fields' order and wire types, and a reason for each other record."""
