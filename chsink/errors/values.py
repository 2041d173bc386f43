"""5xx: values and column types."""

from __future__ import annotations
