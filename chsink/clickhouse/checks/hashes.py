"""Does the server's hash function give what chsink's gives?  Another version, build or processor might not."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from chsink.clickhouse.shards import ShardTable
from chsink.errors import preflight
from chsink.findings import Finding, Severity, found
from chsink.notation.hash_functions import HASH_FUNCTIONS
from chsink.sharding.functions import apply
from chsink.sharding.keytypes import parse_key_type
from chsink.sharding.stored import stored_values

TEXTS = (b"", b"chsink", b"0123456789abcdef" * 3, b"x" * 200, b"y" * 600)
"""One for each way in which a function treats lengths."""
NUMBERS = (0, 1, -5, 2**62)


def hash_findings(shard: ShardTable, name: str) -> Iterator[Finding]:
    """An error where the function gives other values for some texts or numbers."""
    families = HASH_FUNCTIONS[name].families
    if name in {"none", "rand"}:  # the server hashes nothing
        return
    if "String" in families:
        kind, values, literals = "String", pa.array(TEXTS, pa.binary()), [f"unhex('{t.hex()}')" for t in TEXTS]
    else:
        kind, values, literals = "Int64", pa.array(NUMBERS, pa.int64()), [f"toInt64({n})" for n in NUMBERS]
    key_type = parse_key_type(kind)
    ours = [int(value) for value in apply(name, [key_type], [stored_values(name, key_type, values)])]
    [theirs] = shard.client.query(f"SELECT {', '.join(f'{name}({literal})' for literal in literals)}")
    mask = 2**32 - 1 if name == "javaHash" else 2**64 - 1  # javaHash is an Int32, which Distributed takes as a UInt32
    if [int(value) & mask for value in theirs] != ours:
        yield found(Severity.ERROR, preflight.HASH_DIFFERS, function=name, url=shard.url)
