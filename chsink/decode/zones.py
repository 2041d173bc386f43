"""Converts local times of a time zone to instants.

Rules: if a clock change repeats a local time, the first occurrence is used; if a clock change skips it, it does not
exist.  Python's ``zoneinfo`` supplies the clock changes, also after 2037, where a zone's file has only a rule.

For speed, the zone's offset is computed once per distinct day; for a day with a clock change, once per minute; for the
minute of the change, once per second.  No zone has ever changed its clocks twice on one day.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from chsink.errors import values

_Ticks = npt.NDArray[np.int64]
_Mask = npt.NDArray[np.bool_]

_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - local times have no zone
_FIRST: Final = (datetime(1899, 12, 1) - _EPOCH).days * 86400  # noqa: DTZ001
_END: Final = (datetime(2300, 2, 1) - _EPOCH).days * 86400  # noqa: DTZ001
_CHANGES: Final = 10**6
_SKIPPED: Final = 10**6 + 1


class Zone:
    """The time zone ``name``. Raises ConfigError CHS-503 when this machine does not know it."""

    def __init__(self, name: str) -> None:
        self.name = name
        try:
            self._rules = ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise values.UNKNOWN_TIME_ZONE(zone=repr(name)) from None
        self._known: dict[tuple[int, int], int] = {}

    def instant(self, local: int) -> int | None:
        """Epoch seconds of a local time (seconds since 1970-01-01 00:00 local time); None if it does not exist."""
        seconds, unusable = self.instants(np.array([local], np.int64), 1)
        return None if unusable[0] else int(seconds[0])

    def instants(self, local: _Ticks, scale: int) -> tuple[_Ticks, _Mask]:
        """Epoch ticks of local times, both ``scale`` per second; and a mask of those without such ticks: they do not
        exist, or overflow 64 bits.

        Local times before 1900 and after 2299, which no column holds, are returned unchanged.
        """
        offsets = self._offsets(local // scale)
        skipped: _Mask = offsets == _SKIPPED
        offsets[skipped] = 0
        ticks = local - offsets * scale
        wrapped: _Mask = (ticks > local) != (offsets < 0)
        return ticks, skipped | wrapped

    def _offsets(self, local: _Ticks) -> _Ticks:
        """The offset from UTC of each local time, in seconds, or _SKIPPED."""
        offsets = np.zeros(len(local), np.int64)
        left = np.flatnonzero((local >= _FIRST) & (local < _END))
        for span in (86400, 60, 1):
            coded = pa.array(local[left] // span).dictionary_encode()
            found = np.array([self._offset(one * span, span) for one in coded.dictionary.to_pylist()], np.int64)
            offsets[left] = found[coded.indices.to_numpy()]
            left = left[offsets[left] == _CHANGES]
            if not len(left):
                break
        return offsets

    def _offset(self, start: int, span: int) -> int:
        """The offset of all local times in ``[start, start + span)``, or _CHANGES or _SKIPPED."""
        known = self._known.get((start, span))
        if known is not None:
            return known
        first, last = (_EPOCH + timedelta(seconds=at) for at in (start, start + span - 1))
        # With fold=0, the offset is less than with fold=1 in a gap, and greater in a repeated hour.
        early, late = self._ahead(first, 0), self._ahead(first, 1)
        if early == late == self._ahead(last, 0) == self._ahead(last, 1):
            offset = early
        elif span > 1:
            offset = _CHANGES
        else:
            offset = early if early > late else _SKIPPED
        if span > 1:
            self._known[start, span] = offset
        return offset

    def _ahead(self, local: datetime, fold: int) -> int:
        ahead = local.replace(tzinfo=self._rules, fold=fold).utcoffset()
        assert ahead is not None, "a zone has an offset at any time"
        return int(ahead.total_seconds())
