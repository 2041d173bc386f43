"""A digest that identifies a record by its content: timestamp, key, value and headers.

A place in Kafka does not identify a record: after a topic was created again, it holds another one.  Python and
ClickHouse digest the same text.  Each part begins with its length, or is ``-`` if it is null, so no two records have
the same text.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from typing import Final

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


def _part(content: bytes | None) -> bytes:
    return b"-" if content is None else b"%d:%b" % (len(content), content)


def _sql(content: str) -> str:
    return f"ifNull(concat(toString(length({content})), ':', {content}), '-')"


SQL: Final = (
    f"lower(hex(SHA256(concat(toString(timestamp_ms), ':', {_sql('key')}, {_sql('value')}, "
    f"arrayStringConcat(arrayMap(h -> concat({_sql('h.1')}, {_sql('h.2')}), headers))))))"
)
"""The same of a row of a table of dead letters."""
