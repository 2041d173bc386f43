"""Content encodings of request and response bodies.

A request body is decoded completely before the engine sees a byte of it, and a frame that is cut short is refused: a
body that was not received in full must not be inserted in part.  An encoded body may be several frames (lz4, zstd),
members (gzip) or streams (xz, bz2) one after another.
"""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable, Iterable
from typing import Final, Protocol

import lz4.frame
import zstandard

from chsink.embedded.clickhouse.exceptions import (
    CANNOT_READ_ALL_DATA,
    LZ4_DECODER_FAILED,
    UNKNOWN_COMPRESSION_METHOD,
    ZLIB_INFLATE_FAILED,
    ZSTD_DECODER_FAILED,
    refused,
)


class _Decoder(Protocol):
    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes | None: ...

    def decompress(self, data: bytes, /) -> bytes: ...


class Encoder(Protocol):
    """Compresses a response piece by piece; ``flush`` ends the frame."""

    def compress(self, data: bytes, /) -> bytes: ...

    def flush(self) -> bytes: ...


class _Lz4Encoder:
    """One lz4 frame, begun by the first piece."""

    def __init__(self) -> None:
        self._context = lz4.frame.LZ4FrameCompressor()
        self._begun = False

    def compress(self, data: bytes, /) -> bytes:
        begin = b"" if self._begun else bytes(self._context.begin())
        self._begun = True
        return begin + bytes(self._context.compress(data))

    def flush(self) -> bytes:
        return self.compress(b"") + bytes(self._context.flush())


def _gzip_decoder() -> _Decoder:
    return zlib.decompressobj(zlib.MAX_WBITS | 16)


def _deflate_decoder() -> _Decoder:
    return zlib.decompressobj()


def _lz4_decoder() -> _Decoder:
    decoder: _Decoder = lz4.frame.LZ4FrameDecompressor()
    return decoder


def _zstd_decoder() -> _Decoder:
    return zstandard.ZstdDecompressor().decompressobj()


_DECODERS: Final[dict[str, tuple[Callable[[], _Decoder], int]]] = {
    "gzip": (_gzip_decoder, ZLIB_INFLATE_FAILED),
    "deflate": (_deflate_decoder, ZLIB_INFLATE_FAILED),
    "lz4": (_lz4_decoder, LZ4_DECODER_FAILED),
    "zstd": (_zstd_decoder, ZSTD_DECODER_FAILED),
    "xz": (lzma.LZMADecompressor, CANNOT_READ_ALL_DATA),
    "bz2": (bz2.BZ2Decompressor, CANNOT_READ_ALL_DATA),
}
# In the server's order of preference, whatever order the client names them in.
_ENCODERS: Final[dict[str, Callable[[], Encoder]]] = {
    "lz4": _Lz4Encoder,
    "gzip": lambda: zlib.compressobj(3, zlib.DEFLATED, zlib.MAX_WBITS | 16),
    "deflate": lambda: zlib.compressobj(3),
    "xz": lambda: lzma.LZMACompressor(preset=3),
    "zstd": lambda: zstandard.ZstdCompressor(level=3).compressobj(),
    "bz2": lambda: bz2.BZ2Compressor(3),
}
_FAILURES: Final = (zlib.error, lzma.LZMAError, zstandard.ZstdError, OSError, RuntimeError, ValueError, EOFError)


def decode(encoding: str, pieces: Iterable[bytes]) -> list[bytes]:
    """The decoded pieces of a whole body; raises ClickHouseException for an unknown, broken or cut encoding."""
    encoding = encoding.strip().lower()
    if encoding in ("", "identity"):
        return [piece for piece in pieces if piece]
    if encoding not in _DECODERS:
        raise refused(UNKNOWN_COMPRESSION_METHOD, f"Unknown Content-Encoding '{encoding}'")
    make, code = _DECODERS[encoding]
    decoded: list[bytes] = []
    decoder: _Decoder | None = None
    try:
        for piece in pieces:
            rest = piece
            while rest:
                decoder = decoder or make()
                decoded.append(decoder.decompress(rest))
                rest = (decoder.unused_data or b"") if decoder.eof else b""
                decoder = None if decoder.eof else decoder
    except _FAILURES as error:
        raise refused(code, f"Cannot decode the request's body as {encoding}: {error}") from error
    if decoder is not None:
        raise refused(CANNOT_READ_ALL_DATA, f"Cannot read all data: the {encoding} body ends inside a frame")
    return [piece for piece in decoded if piece]


def encoder_for(accepted: str) -> tuple[str, Encoder] | None:
    """The encoding to answer with for an Accept-Encoding header, and a new encoder; None to send plain bytes."""
    names = {name.split(";")[0].strip().lower() for name in accepted.split(",")}
    for name, make in _ENCODERS.items():
        if name in names:
            return name, make()
    return None
