"""Decodes Kafka values into Arrow columns typed for a ClickHouse table, without changing a value.

:class:`JsonDecoder` decodes records; :func:`conform` checks the columns of a user's own transform.  Both
return :class:`Decoded`: the rows that fit, and a reason for each that does not.
Every insert must use :data:`INSERT_SETTINGS`.
"""

from __future__ import annotations

from chsink.decode.columns import Column
from chsink.decode.conform import conform
from chsink.decode.json_decoder import JsonDecoder
from chsink.decode.wire import INSERT_SETTINGS, codec_for, wire_type
from chsink.ports import BadValue, Decoded

__all__ = [
    "INSERT_SETTINGS",
    "BadValue",
    "Column",
    "Decoded",
    "JsonDecoder",
    "codec_for",
    "conform",
    "wire_type",
]
