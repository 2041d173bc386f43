"""3xx: going on would lose or double a record; a person decides."""

from __future__ import annotations
