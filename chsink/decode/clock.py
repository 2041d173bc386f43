"""Times of day: ``Time`` and ``Time64(p)``, from -999:59:59 to 999:59:59.

Rules: text is ``[-]HHH:MM:SS[.fraction]``.  A number in Time is seconds; in Time64(p) an integer is ticks
of 10^-p s, as the server reads it, and a number with a fraction or exponent is seconds.  Nothing is
rounded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

from chsink.decode.codec import Codec, Reader, by_distinct
from chsink.decode.numbers import split_number
from chsink.decode.times import EXPONENT_MAX, shifted, ticks_of
from chsink.decode.values import MisfitError, Number, kinds_of


class TimeCodec(Codec):
    """``Time`` as int32 seconds and ``Time64(p)`` as decimal seconds; text is ``[-]HHH:MM:SS[.fraction]``."""

    def __init__(self, precision: int | None) -> None:
        label = "Time" if precision is None else f"Time64({precision})"
        super().__init__(label, pa.int32() if precision is None else pa.decimal128(18, precision))
        self.precision = precision or 0
        self.limit: int = 3_600_000 * 10**self.precision - 1
        self.wire_of: Callable[[int], Any] = int if precision is None else self._decimal

    def _decimal(self, ticks: int) -> Decimal:
        return Decimal(ticks).scaleb(-self.precision)

    def exact(self, value: Any) -> Any:
        """Seconds, or Decimal seconds."""
        if isinstance(value, bool) or not isinstance(value, str):
            raise self.misfit(value)
        ticks = self._number(value) if isinstance(value, Number) else self._text(value)
        if abs(ticks) > self.limit:
            raise self.out_of_range()
        return self.wire_of(ticks)

    def _number(self, text: Number) -> int:
        digits, exponent = split_number(text) or (1, EXPONENT_MAX + 1)
        return shifted(digits, exponent + (0 if text.integral_text else self.precision), self.label)

    def _text(self, text: str) -> int:
        found = _TIME.fullmatch(text)
        if found is None:
            raise MisfitError(f"a string that is no time of day (HH:MM:SS) in {self.label}")
        seconds = int(found[2]) * 3600 + int(found[3]) * 60 + int(found[4])
        ticks = ticks_of(seconds, found[5], self.precision, self.label)
        return -ticks if found[1] else ticks

    def reader(self, samples: Sequence[Any]) -> Reader | None:
        """From text by distinct values; numbers one by one."""
        text = Reader(pa.string(), lambda texts: by_distinct(self, texts))
        return text if kinds_of(samples) <= {"string"} else None

    def accept(self, source: Any) -> Reader | None:
        """Text; others one by one."""
        return self.reader(()) if pa.types.is_string(source) else None


_TIME: Final = re.compile(r"(-?)(\d{1,3}):([0-5]\d):([0-5]\d)(?:\.(\d+))?", re.ASCII)
