"""1xx: the job file."""

from __future__ import annotations
