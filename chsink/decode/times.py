"""Dates, instants and times of day.

Rules:

* Text is ISO 8601: ``2026-01-31``, ``2026-01-31 23:59:59.5``, ``2026-01-31T23:59Z``, ``…+02:00``.  With an
  offset it is an instant; without one, a local time in the column's zone (else the server's).  If a clock change
  repeats a local time, the first occurrence is used; if a clock change skips it, it is refused.
* A Date takes a date alone.  A number is not a date: ClickHouse reads it as days or as seconds, by its size.
* A number in DateTime is epoch seconds.  In DateTime64(p) an integer is ticks of 10^-p s, a number with a
  fraction or exponent is seconds.  ClickHouse's versions disagree about integers in DateTime64 (its documentation says
  ticks, 26.9 reads seconds), and senders mix up units.  So an integer is refused if it would also be a time before 2300
  when read as epoch seconds, milliseconds or microseconds (except zero).  With p = 3, 6 or 9, this excludes the first
  months of 1970.
* A time of day is ``[-]HHH:MM:SS[.fraction]``, from -999:59:59 to 999:59:59.  A number in Time is seconds; in Time64(p)
  it follows the rule of DateTime64(p), but every integer is ticks.
* Nothing is rounded: digits finer than the column's precision must be zeros.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import date
from decimal import Decimal
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
    Suspects,
    WireValue,
    by_distinct,
    from_buffer,
    mask_of,
    merge,
    numpy_of,
    valid_of,
)
from chsink.decode.numbers import split_number
from chsink.decode.values import JsonValue, MisfitError, Number, kinds_of
from chsink.decode.zones import Zone

_Ticks = npt.NDArray[np.int64]

_DATE_TIME: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)"
    r"(?:[ T](\d\d)(?::(\d\d)(?::(\d\d)(?:\.(\d+))?)?)?(Z|([+-])(\d\d)(?::?(\d\d))?)?)?",
    re.ASCII,
)
_HAS_ZONE: Final = r"[ T].*(Z|[-+][0-9:]+)$"
_UTC_NAMES: Final = frozenset({"UTC", "Etc/UTC", "Etc/UCT", "UCT", "Zulu", "Etc/Zulu", "GMT", "Etc/GMT"})
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
_DAY_2300: Final = date(2300, 1, 1).toordinal() - _EPOCH_DAY
Days = tuple[int, int]
"""The first and the last day of a type, since 1970-01-01."""
DATE_DAYS: Final[Days] = (0, 65535)
DATE32_DAYS: Final[Days] = (date(1900, 1, 1).toordinal() - _EPOCH_DAY, _DAY_2300 - 1)
CALENDAR_DAYS: Final[Days] = (date.min.toordinal() - _EPOCH_DAY, date.max.toordinal() - _EPOCH_DAY)
"""The years 1 to 9999: those that ISO 8601 can write with four digits, and Python can read back."""
EXPONENT_MAX: Final = 100
_INT64_MAX: Final = 2**63 - 1
_UNITS: Final = ((0, "s"), (3, "ms"), (6, "us"), (9, "ns"))
_FINER: Final = "finer than the precision of "


class DateCodec(Codec):
    """``Date`` and ``Date32`` as date32; ``days`` is the range that the type holds."""

    def __init__(self, label: str, days: Days) -> None:
        super().__init__(label, pa.date32())
        self.low, self.high = days

    def exact(self, value: JsonValue) -> WireValue:
        """Days since 1970-01-01."""
        if isinstance(value, Number) or not isinstance(value, str):
            raise self.misfit(value)
        found = _DATE_TIME.fullmatch(value)
        if found is None or found[4]:
            raise MisfitError(f"a string that is not a date (YYYY-MM-DD) in {self.label}")
        return self.from_ticks(_days(found, self.label))

    def from_ticks(self, ticks: int) -> WireValue:
        """Days since 1970-01-01.  Raises MisfitError if they are out of the type's range."""
        if not self.low <= ticks <= self.high:
            raise self.out_of_range()
        return ticks

    def reader(self, samples: Sequence[JsonValue]) -> Reader | None:
        """Reads text."""
        del samples
        return Reader(pa.string(), lambda texts: self._ranged(texts.cast(self.wire)))

    def accept(self, source: pa.DataType) -> Reader | None:
        """Dates and text."""
        if pa.types.is_date32(source):
            return Reader(source, self._ranged)
        return self.reader(()) if pa.types.is_string(source) else None

    def _ranged(self, dates: pa.Array) -> Converted:
        days = numpy_of(dates.cast(pa.int32()))
        bad = (days < self.low) | (days > self.high)
        return dates, bad if bad.any() else None


def _days(found: re.Match[str], label: str) -> int:
    try:
        return date(int(found[1]), int(found[2]), int(found[3])).toordinal() - _EPOCH_DAY
    except ValueError:
        raise MisfitError(f"a date that does not exist in {label}") from None


def shifted(digits: int, exponent: int, label: str) -> int:
    """Digits · 10^exponent, which must be an integer of a plausible size."""
    if not digits:  # 0 is 0 in each unit
        return 0
    if exponent < 0:
        raise MisfitError(_FINER + label)
    if exponent > EXPONENT_MAX:
        raise MisfitError(f"out of range for {label}")
    return int(digits * 10**exponent)


def ticks_of(seconds: int, fraction: str | None, precision: int, label: str) -> int:
    """Seconds and the digits after the point, as ticks of 10^-precision s."""
    digits = (fraction or "").rstrip("0")
    if len(digits) > precision:
        raise MisfitError(_FINER + label)
    return int(seconds * 10**precision) + int(digits.ljust(precision, "0") or 0)


class InstantCodec(Codec):
    """``DateTime`` (precision None) and ``DateTime64(p)``.

    The wire type is a timestamp in s, ms, us or ns; for precisions 7 and 8, whose range nanoseconds cannot hold, it is
    decimal seconds.  ``days`` is the range that the type holds; a zone other than UTC needs ``DATE32_DAYS``.
    """

    def __init__(self, precision: int | None, zone: str, days: Days = DATE32_DAYS) -> None:
        self.precision = precision or 0
        label = "DateTime" if precision is None else f"DateTime64({precision})"
        self.decimal = self.precision in (7, 8)
        digits, unit = next((n, u) for n, u in _UNITS if n >= self.precision)
        self.factor = 10 ** (digits - self.precision)
        super().__init__(label, pa.decimal128(20, self.precision) if self.decimal else pa.timestamp(unit, "UTC"))
        self.zone = None if zone in _UTC_NAMES else Zone(zone)
        scale: int = 10**self.precision
        self.low: int = 0 if precision is None else days[0] * 86400 * scale
        self.high: int = 2**32 - 1 if precision is None else min((days[1] + 1) * 86400 * scale - 1, _INT64_MAX)
        coarser = max((digits for digits, _ in _UNITS if digits < self.precision), default=None)
        self.ambiguous: int = 0 if coarser is None else _DAY_2300 * 86400 * 10**coarser - 1

    def exact(self, value: JsonValue) -> WireValue:
        """Ticks of the wire's unit, or Decimal seconds."""
        if isinstance(value, bool) or not isinstance(value, str):
            raise self.misfit(value)
        return self.from_ticks(self._number(value) if isinstance(value, Number) else self._text(value))

    def from_ticks(self, ticks: int) -> WireValue:
        """Converts the type's own ticks to ticks of the wire's unit, or to Decimal seconds."""
        if not self.low <= ticks <= self.high:
            raise self.out_of_range()
        return Decimal(ticks).scaleb(-self.precision) if self.decimal else ticks * self.factor

    def _number(self, text: Number) -> int:
        digits, exponent = split_number(text) or (1, EXPONENT_MAX + 1)
        if not (text.integral_text and self.precision):
            return shifted(digits, exponent + self.precision, self.label)
        number = shifted(digits, exponent, self.label)
        if 0 < abs(number) <= self.ambiguous:
            raise MisfitError(f"an integer that could be ticks of {self.label} or of a coarser unit")
        return number

    def _text(self, text: str) -> int:
        found = _DATE_TIME.fullmatch(text)
        if found is None:
            raise MisfitError(f"a string that is not an ISO 8601 date and time in {self.label}")
        hour, minute, second = (int(found[at] or 0) for at in (4, 5, 6))
        if hour > 23 or minute > 59 or second > 59 or int(found[10] or 0) > 23 or int(found[11] or 0) > 59:
            raise MisfitError(f"a time of day that does not exist in {self.label}")
        seconds = _days(found, self.label) * 86400 + hour * 3600 + minute * 60 + second
        if found[9]:
            offset = int(found[10]) * 3600 + int(found[11] or 0) * 60
            seconds -= offset if found[9] == "+" else -offset
        elif not found[8] and self.zone:
            seconds = self._from_local(seconds, self.zone)
        return ticks_of(seconds, found[7], self.precision, self.label)

    def _from_local(self, seconds: int, zone: Zone) -> int:
        instant = zone.instant(seconds)
        if instant is None:
            raise MisfitError(f"a local time that a clock change in {zone.name} skips")
        return instant

    def reader(self, samples: Sequence[JsonValue]) -> Reader | None:
        """Reads text, or integers."""
        kinds = kinds_of(samples)
        if kinds <= {"string"}:
            return Reader(pa.string(), self._from_texts)
        return Reader(pa.int64(), self._from_integers) if kinds <= {"int"} else None

    def accept(self, source: pa.DataType) -> Reader | None:
        """Timestamps (with a zone: instants; without: local times), dates, integers of 64 bits, and text."""
        if pa.types.is_timestamp(source) or pa.types.is_date32(source):
            return Reader(source, self._from_timestamps)
        if pa.types.is_int64(source) or pa.types.is_int32(source):
            return Reader(source, lambda array: self._from_integers(array.cast(pa.int64())))
        return Reader(source, self._from_texts) if pa.types.is_string(source) else None

    def _wire(self, ticks: _Ticks, valid: Mask) -> pa.Array:
        if not self.decimal:
            return from_buffer(self.wire, ticks * self.factor, valid)
        return from_buffer(self.wire, np.stack((ticks, ticks >> 63), axis=1), valid)

    def _from_integers(self, array: pa.Array) -> Converted:
        ticks = numpy_of(array)
        ambiguous = (np.abs(ticks) <= self.ambiguous) & (ticks != 0) if self.ambiguous else None
        return self._ranged(ticks, valid_of(array), ambiguous)

    def _from_texts(self, array: pa.Array) -> Converted:
        first = array.slice(0, 1)  # try one text first: a failing cast of the whole array is slow
        for unit in ("us", "ns"):
            for zone in (None, "UTC"):
                kind = pa.timestamp(unit, zone)
                try:
                    first.cast(kind)
                    return self._from_timestamps(array.cast(kind))
                except pa.ArrowInvalid:
                    continue
        return self._from_mixed(array)

    def _from_mixed(self, array: pa.Array) -> Converted:
        zoned = mask_of(pc.match_substring_regex(array, _HAS_ZONE))
        if not zoned.any() or zoned.all():
            raise MisfitError("no column of dates and times")
        parts = [self._from_texts(array.filter(pa.array(group))) for group in (zoned, ~zoned)]
        order = pa.array(np.argsort(np.concatenate((np.flatnonzero(zoned), np.flatnonzero(~zoned)))))
        bad = [part[1] if part[1] is not None else np.zeros(len(part[0]), np.bool_) for part in parts]
        return pa.concat_arrays([part[0] for part in parts]).take(order), np.concatenate(bad)[numpy_of(order)]

    def _from_timestamps(self, array: pa.TimestampArray) -> Converted:
        if pa.types.is_date32(array.type):
            array = array.cast(pa.timestamp("s"))
        digits = next(n for n, unit in _UNITS if unit == array.type.unit)
        ticks = numpy_of(array.view(pa.int64()))
        valid = valid_of(array)
        unusable: Suspects = None
        if array.type.tz is None and self.zone:
            ticks, unusable = self.zone.instants(ticks, 10**digits)
        if digits > self.precision:
            ticks, rest = np.divmod(ticks, 10 ** (digits - self.precision))
            return self._ranged(ticks, valid, merge(unusable, rest != 0))
        factor = 10 ** (self.precision - digits)
        beyond = (ticks < self.low // factor) | (ticks > self.high // factor)
        return self._ranged(np.where(beyond, 0, ticks) * factor, valid, merge(unusable, beyond))

    def _ranged(self, ticks: _Ticks, valid: Mask, bad: Mask | None) -> Converted:
        suspects = merge(bad, (ticks < self.low) | (ticks > self.high))
        if suspects is None:
            return self._wire(ticks, valid), None
        return self._wire(np.where(suspects, 0, ticks), valid & ~suspects), suspects & valid


class TimeCodec(Codec):
    """``Time`` as int32 seconds and ``Time64(p)`` as decimal seconds; text is ``[-]HHH:MM:SS[.fraction]``."""

    def __init__(self, precision: int | None) -> None:
        label = "Time" if precision is None else f"Time64({precision})"
        super().__init__(label, pa.int32() if precision is None else pa.decimal128(18, precision))
        self.precision = precision or 0
        self.limit: int = 3_600_000 * 10**self.precision - 1
        self.wire_of: Callable[[int], WireValue] = int if precision is None else self._decimal

    def _decimal(self, ticks: int) -> Decimal:
        return Decimal(ticks).scaleb(-self.precision)

    def exact(self, value: JsonValue) -> WireValue:
        """Seconds, or Decimal seconds."""
        if isinstance(value, bool) or not isinstance(value, str):
            raise self.misfit(value)
        return self.from_ticks(self._number(value) if isinstance(value, Number) else self._text(value))

    def from_ticks(self, ticks: int) -> WireValue:
        """Converts the type's own ticks to seconds, or to Decimal seconds."""
        if abs(ticks) > self.limit:
            raise self.out_of_range()
        return self.wire_of(ticks)

    def _number(self, text: Number) -> int:
        digits, exponent = split_number(text) or (1, EXPONENT_MAX + 1)
        return shifted(digits, exponent + (0 if text.integral_text else self.precision), self.label)

    def _text(self, text: str) -> int:
        found = _TIME.fullmatch(text)
        if found is None:
            raise MisfitError(f"a string that is not a time of day (HH:MM:SS) in {self.label}")
        seconds = int(found[2]) * 3600 + int(found[3]) * 60 + int(found[4])
        ticks = ticks_of(seconds, found[5], self.precision, self.label)
        return -ticks if found[1] else ticks

    def reader(self, samples: Sequence[JsonValue]) -> Reader | None:
        """Reads text, each distinct one once; the reference converts numbers."""
        text = Reader(pa.string(), lambda texts: by_distinct(self, texts))
        return text if kinds_of(samples) <= {"string"} else None

    def accept(self, source: pa.DataType) -> Reader | None:
        """Times of day, and text; the reference converts all others."""
        if pa.types.is_time(source):
            return Reader(source, self._from_times)
        return self.reader(()) if pa.types.is_string(source) else None

    def _from_times(self, array: pa.Time32Array | pa.Time64Array) -> Converted:
        digits = next(n for n, unit in _UNITS if unit == array.type.unit)
        width = pa.int32() if pa.types.is_time32(array.type) else pa.int64()
        ticks, valid = numpy_of(array.view(width)).astype(np.int64), valid_of(array)
        factor, rest = 1, np.zeros(len(array), np.int64)
        if digits > self.precision:
            ticks, rest = np.divmod(ticks, 10 ** (digits - self.precision))
        else:
            factor = 10 ** (self.precision - digits)
        limit = self.limit // factor
        bad = ((rest != 0) | (ticks > limit) | (ticks < -limit)) & valid
        ticks = np.where(bad, 0, ticks) * factor
        wire = ticks.astype(np.int32) if pa.types.is_int32(self.wire) else np.stack((ticks, ticks >> 63), axis=1)
        return from_buffer(self.wire, wire, valid & ~bad), bad if bad.any() else None


_TIME: Final = re.compile(r"(-?)(\d{1,3}):([0-5]\d):([0-5]\d)(?:\.(\d+))?", re.ASCII)
