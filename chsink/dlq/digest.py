"""A digest that identifies a record by its content: timestamp, key, value and headers.

A place in Kafka does not identify a record: after a topic was created again, it holds another one.  Python and
ClickHouse digest the same text.  Each part begins with its length, or is ``-`` if it is null, so no two records have
the same text.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from hashlib import sha256
from typing import Final

import numpy as np
import pyarrow as pa

DIGEST: Final = "chsink.record"
"""The header of a replay mark that holds the digest of the record."""


def digest_of(
    timestamp_ms: int, key: bytes | None, value: bytes | None, headers: Iterable[tuple[str, bytes | None]]
) -> str:
    """Of a record: 64 hexadecimal digits."""
    parts = [str(timestamp_ms).encode(), b":", _part(key), _part(value)]
    parts += [_part(each) for name, content in headers for each in (name.encode(), content)]
    return sha256(b"".join(parts)).hexdigest()


def short(digest: str) -> int:
    """Sixty bits of it: enough for the few records of one place."""
    return int(digest[:15], 16)


def short_of(records: pa.RecordBatch, offsets: Collection[int]) -> set[tuple[int, int]]:
    """Offset and short digest of those of Kafka's records that lie at these offsets."""
    wanted = np.isin(records.column("offset").to_numpy(), np.fromiter(offsets, np.int64, len(offsets)))
    found = records.filter(pa.array(wanted))
    times = found.column("timestamp").cast(pa.int64()).to_pylist()
    rows = zip(found.select(["offset", "key", "value", "headers"]).to_pylist(), times, strict=True)
    parts = ((r, us // 1000, [(h["key"], h["value"]) for h in r["headers"] or ()]) for r, us in rows)
    return {(r["offset"], short(digest_of(ms, r["key"], r["value"], headers))) for r, ms, headers in parts}


def _part(content: bytes | None) -> bytes:
    return b"-" if content is None else b"%d:%b" % (len(content), content)


def _sql(content: str) -> str:
    return f"ifNull(concat(toString(length({content})), ':', {content}), '-')"


SQL: Final = (
    f"lower(hex(SHA256(concat(toString(timestamp_ms), ':', {_sql('key')}, {_sql('value')}, "
    f"arrayStringConcat(arrayMap(h -> concat({_sql('h.1')}, {_sql('h.2')}), headers))))))"
)
"""The same of a row of a table of dead letters."""
