"""8xx: a newer driver owns the sink."""

from __future__ import annotations
