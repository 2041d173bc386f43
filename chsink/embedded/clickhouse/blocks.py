"""The native protocol's compressed blocks, which a client sends with ``decompress=1`` and gets with ``compress=1``.

A block is a CityHash128 of what follows it (16 bytes), a method (1), the size of the data with these nine bytes
(uint32), the size of the plain data (uint32), and the data.  Integers are little-endian.  A body is any number of
blocks.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Final

import lz4.block
import zstandard
from clickhouse_cityhash.cityhash import CityHash128

from chsink.embedded.clickhouse.exceptions import (
    CANNOT_DECOMPRESS,
    CANNOT_READ_ALL_DATA,
    CHECKSUM_DOESNT_MATCH,
    TOO_LARGE_SIZE_COMPRESSED,
    UNKNOWN_COMPRESSION_METHOD,
    refused,
)

_CHECKSUM: Final = struct.Struct("<QQ")
_HEADER: Final = struct.Struct("<BII")
_NONE, _LZ4, _ZSTD = 0x02, 0x82, 0x90
_PLAIN_BYTES: Final = 1 << 20
# The server's own limit for one block.
_MAX_BYTES: Final = 1 << 30


class BlockEncoder:
    """Compresses an answer by LZ4; the last block needs no end."""

    def compress(self, data: bytes, /) -> bytes:
        """Whole blocks of ``data``."""
        return b"".join(_block(data[start : start + _PLAIN_BYTES]) for start in range(0, len(data), _PLAIN_BYTES))

    def flush(self) -> bytes:
        """Nothing is held back."""
        return b""


def decode_blocks(pieces: Iterable[bytes]) -> list[bytes]:
    """The plain pieces of a whole body; raises ClickHouseException for what is broken, cut or unknown."""
    return [plain for plain in _plain_blocks(memoryview(b"".join(pieces))) if plain]


def _plain_blocks(body: memoryview) -> Iterator[bytes]:
    while body:
        if len(body) < _CHECKSUM.size + _HEADER.size:
            raise refused(CANNOT_READ_ALL_DATA, "Cannot read all data: the body ends inside the header of a block")
        stated, rest = body[: _CHECKSUM.size], body[_CHECKSUM.size :]
        method, size, plain_size = _HEADER.unpack_from(rest)
        if max(size, plain_size) > _MAX_BYTES:
            raise refused(TOO_LARGE_SIZE_COMPRESSED, f"Too large size of a compressed block: {max(size, plain_size)}")
        if not _HEADER.size <= size <= len(rest):
            raise refused(CANNOT_READ_ALL_DATA, "Cannot read all data: the body ends inside a block")
        if _checksum(bytes(rest[:size])) != stated:
            raise refused(CHECKSUM_DOESNT_MATCH, "Checksum doesn't match: corrupted data")
        yield _plain(method, bytes(rest[_HEADER.size : size]), plain_size)
        body = rest[size:]


def _plain(method: int, data: bytes, size: int) -> bytes:
    try:
        if method == _LZ4:
            plain = bytes(lz4.block.decompress(data, uncompressed_size=size))
        elif method == _ZSTD:
            plain = zstandard.ZstdDecompressor().decompress(data, max_output_size=size)
        elif method == _NONE:
            plain = data
        else:
            raise refused(UNKNOWN_COMPRESSION_METHOD, f"Unknown method of a compressed block: {method:#04x}")
    except (lz4.block.LZ4BlockError, zstandard.ZstdError) as error:
        raise refused(CANNOT_DECOMPRESS, f"Cannot decompress a block: {error}") from error
    if len(plain) != size:
        raise refused(CANNOT_DECOMPRESS, f"Cannot decompress a block: {len(plain)} bytes, but {size} are stated")
    return plain


def _block(plain: bytes) -> bytes:
    data = bytes(lz4.block.compress(plain, store_size=False))
    block = _HEADER.pack(_LZ4, _HEADER.size + len(data), len(plain)) + data
    return _checksum(block) + block


def _checksum(block: bytes) -> bytes:
    high, low = divmod(CityHash128(block), 1 << 64)
    return _CHECKSUM.pack(high, low)
