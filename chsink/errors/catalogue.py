"""All entries of the catalogue, by name.  Each gets its name here."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType, ModuleType

from chsink.errors import fencing, halts, job_file, local, preflight, services, shards, stream, values
from chsink.errors.entry import Entry
from chsink.errors.families import ChsinkError

SECTIONS: tuple[ModuleType, ...] = (job_file, preflight, halts, shards, values, stream, services, fencing, local)


def _collect() -> dict[str, Entry]:
    found: dict[str, Entry] = {}
    for section in SECTIONS:
        for name, entry in vars(section).items():
            if isinstance(entry, Entry):
                assert name not in found, name
                entry.name = name
                found[name] = entry
    return found


CATALOGUE: Mapping[str, Entry] = MappingProxyType(_collect())


def from_wire(name: str, params: Mapping[str, str]) -> ChsinkError:
    """The error that another process made from the entry ``name`` with ``params``."""
    return CATALOGUE[name](**params)
