"""JSON and Dynamic: columns that are sent as the value's JSON text.

:mod:`chsink.decode.stored_json` knows which objects a JSON column keeps.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from chsink.decode.codec import Codec, WireValue
from chsink.decode.stored_json import check_stored
from chsink.decode.texts import encoded, raw_or_null, raw_text
from chsink.decode.values import JsonValue, MisfitError, Number, Pairs, parse_value


class JsonCodec(Codec):
    """``JSON``: an object's text. Rejects text that the server would change, or would refuse the whole insert for."""

    guard = pa.struct([])

    def __init__(self) -> None:
        super().__init__("JSON", pa.string())

    def exact(self, value: JsonValue) -> WireValue:
        """The object's text."""
        if not isinstance(value, Pairs):
            raise self.misfit(value)
        text = raw_text(value)
        check_stored(text)
        return text

    def build_raw(self, texts: Sequence[bytes]) -> tuple[pa.Array, dict[int, str]]:
        """The texts themselves, after checking them."""
        reasons: dict[int, str] = {}
        out: list[str | None] = []
        for at, raw in enumerate(texts):
            out.append(None)
            try:
                if raw[:1] == b"{":
                    text = raw.decode("utf-8")
                    check_stored(text)
                    out[-1] = text
                elif raw_or_null(raw) is not None:
                    raise self.misfit(parse_value(raw))
            except MisfitError as misfit:
                reasons[at] = misfit.reason
        return self.array(out), reasons


class DynamicCodec(Codec):
    """``Dynamic``: the value's JSON text, as a String; strings are written with as few escapes as possible.

    The wire type is a union with String as the only alternative.  The server stores a null of a union as NULL, but a
    null of a string column as an empty string, or as the column's DEFAULT if it has one (``defaulted``).
    """

    def __init__(self, *, defaulted: bool = False) -> None:
        super().__init__("Dynamic", pa.string() if defaulted else pa.dense_union([pa.field("String", pa.string())]))
        self.nullable = self.null_inside = True
        self.defaulted = defaulted

    def exact(self, value: JsonValue) -> WireValue:
        """JSON text."""
        if isinstance(value, str) and not isinstance(value, Number):
            encoded(value)
            return json.dumps(value, ensure_ascii=False)
        return raw_text(value)

    def array(self, values: list[WireValue]) -> pa.Array:
        """None becomes a null of the alternative."""
        texts = pa.array(values, pa.string())
        if self.defaulted:
            return texts
        types, offsets = np.zeros(len(values), np.int8), np.arange(len(values), dtype=np.int32)
        return pa.UnionArray.from_dense(pa.array(types), pa.array(offsets), [texts], ["String"])

    def build_raw(self, texts: Sequence[bytes]) -> tuple[pa.Array, dict[int, str]]:
        """Arrays, objects and numbers stay unchanged; strings are encoded again."""
        out = [self.exact(parse_value(text)) if text[:1] == b'"' else raw_or_null(text) for text in texts]
        return self.array([item.decode("utf-8") if isinstance(item, bytes) else item for item in out]), {}
