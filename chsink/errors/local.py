"""9xx: the services that chsink starts on this machine."""

from __future__ import annotations
