"""Decimals as Kafka Connect's JSON converter writes them: base64 of a whole number's bytes, which is to be divided by
10^scale.

Rules: the bytes are the big-endian two's complement.  Only the text that Connect itself would write is accepted: the
standard alphabet with padding, without any other bits.  A JSON number is the number itself, as Connect writes it with
``decimal.format = NUMERIC``.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from chsink.decode.codec import (
    Codec,
    Converted,
    Mask,
    Reader,
    WireValue,
    by_distinct,
    from_buffer,
    merge,
    numpy_of,
    valid_of,
)
from chsink.decode.values import JsonValue, MisfitError, Number, Pairs, kinds_of, members
from chsink.decode.wrapping_codecs import OuterCodec, OuterNumberCodec

_BYTES_MAX: Final = 128  # beyond the largest number of any column
_FAST_CHARS: Final = 20  # 15 bytes, which 38 digits hold
_OTHER, _PAD = 255, 64
_SEXTETS: Final = np.full(256, _OTHER, np.uint8)
_SEXTETS[list(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")] = np.arange(64)
_SEXTETS[ord("=")] = _PAD
NOT_BYTES: Final = "a string that is not base64 of a decimal's bytes in "


def number_of(text: str, scale: int, label: str) -> Number:
    """The number whose bytes the base64 ``text`` holds.  Raises MisfitError."""
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        data = b""
    if not data or base64.b64encode(data).decode() != text:
        raise MisfitError(NOT_BYTES + label)
    if len(data) > _BYTES_MAX:
        raise MisfitError(f"out of range for {label}")
    return Number(f"{int.from_bytes(data, 'big', signed=True)}e{-scale}")


class UnscaledCodec(OuterNumberCodec):
    """Numbers of which the schema or the job file names the ``scale``."""

    def __init__(self, inner: Codec, scale: int) -> None:
        super().__init__(inner)
        self.scale = scale

    def exact(self, value: JsonValue) -> WireValue:
        """As ``inner``, of the number that the text holds."""
        if isinstance(value, str) and not isinstance(value, Number):
            value = number_of(value, self.scale, self.label)
        return self.inner.exact(value)

    def reader(self, samples: Sequence[JsonValue]) -> Reader | None:
        """Text at once, or numbers."""
        return Reader(pa.string(), self._from_texts) if kinds_of(samples) == {"string"} else super().reader(samples)

    def _from_texts(self, texts: pa.Array) -> Converted:
        reader = self.inner.accept(pa.decimal128(38, self.scale)) if 0 <= self.scale <= 38 else None
        if reader is None:
            return by_distinct(self, texts)
        words, bad = _unscaled(texts)
        numbers, wrong = reader.convert(from_buffer(reader.source, words, valid_of(texts) & ~bad))
        return numbers, merge(bad, wrong)


def _unscaled(texts: pa.Array) -> tuple[npt.NDArray[np.uint8], Mask]:
    """The little-endian 16 bytes of each number; and a mask of the texts that are not base64 or are too long."""
    valid = valid_of(texts)
    filled = texts.fill_null("")
    lengths = numpy_of(pc.binary_length(filled))
    offsets = np.frombuffer(filled.buffers()[1], np.int32)[filled.offset : filled.offset + len(filled)]
    data = np.frombuffer(filled.buffers()[2] or b"", np.uint8)
    words = np.zeros((len(filled), 16), np.uint8)
    bad = valid & ((lengths == 0) | (lengths % 4 != 0) | (lengths > _FAST_CHARS))
    for size in range(4, _FAST_CHARS + 4, 4):
        rows = np.flatnonzero(lengths == size)
        if len(rows):
            sextets = _SEXTETS[data[offsets[rows][:, None] + np.arange(size)]]
            pads = (sextets[:, -2:] == _PAD).sum(axis=1)
            for pad in range(3):
                mine = np.flatnonzero(pads == pad)
                if len(mine):
                    words[rows[mine]], bad[rows[mine]] = _decoded(sextets[mine], pad)
    return words, bad


def _decoded(sextets: npt.NDArray[np.uint8], pad: int) -> tuple[npt.NDArray[np.uint8], Mask]:
    """The little-endian 16 bytes of texts of one length with ``pad`` padding characters; and a mask of wrong texts."""
    size = sextets.shape[1]
    chars = sextets[:, : size - pad]
    wrong: Mask = (chars >= _PAD).any(axis=1) | (sextets[:, size - pad :] != _PAD).any(axis=1)
    four = np.concatenate((chars, np.zeros((len(chars), pad), np.uint8)), axis=1).reshape(len(chars), -1, 4)
    one, two, three, last = (four[:, :, at] for at in range(4))
    whole = np.stack((one << 2 | two >> 4, two << 4 | three >> 2, three << 6 | last), axis=2).reshape(len(chars), -1)
    kept = whole[:, : size // 4 * 3 - pad]
    wrong |= (whole[:, kept.shape[1] :] != 0).any(axis=1)
    out = np.repeat(np.where(kept[:, :1] & 128, 255, 0).astype(np.uint8), 16, axis=1)
    out[:, 16 - kept.shape[1] :] = kept
    return out[:, ::-1], wrong


class VariableScaleCodec(OuterCodec):
    """Numbers as ``{"scale": 2, "value": "…"}``: Debezium's VariableScaleDecimal."""

    guard = pa.struct([])

    def exact(self, value: JsonValue) -> WireValue:
        """As ``inner``, of the number in the object."""
        return self.inner.exact(variable_number(value, self.label) if isinstance(value, Pairs) else value)


def variable_number(value: Pairs, label: str) -> Number:
    """The number in a VariableScaleDecimal.  Raises MisfitError."""
    found = members(value, ("scale", "value"))
    scale, text = found.get("scale"), found.get("value")
    plain = isinstance(text, str) and not isinstance(text, Number)
    if found.keys() != {"scale", "value"} or not (isinstance(scale, Number) and scale.integral_text and plain):
        raise MisfitError(f"an object that is not a decimal (scale and value) in {label}")
    if len(scale) > 6:
        raise MisfitError(f"out of range for {label}")
    return number_of(str(text), int(scale), label)
