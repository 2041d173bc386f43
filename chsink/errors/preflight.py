"""2xx: what a start checks first, and what ``chsink doctor`` reports."""

from __future__ import annotations
