"""Objects of the JVM."""

from __future__ import annotations

from typing import Any, TypeAlias

JavaObject: TypeAlias = Any
"""Has the methods of its Java class, which py4j looks up at each call."""
