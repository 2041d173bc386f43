"""7xx: a service does not answer."""

from __future__ import annotations
