"""Production modules that no defect reaches: they, and all that they import, are as written in every trial.

The fork server imports this module, so no trial imports them again.  They are found by trying: while it runs, a module
that any defect changes cannot be imported, and neither can one that imports it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import MetaPathFinder
from types import ModuleType

from tests.mutations.every import DEFECTS
from tests.mutations.patching import ROOT, module_of

_LEFT_OUT = ("__main__", "embedded", "ui")
"""A command's start, services and the status page: nothing that a defect's run needs."""


class _Changed(MetaPathFinder):
    """Refuses what any defect changes."""

    def __init__(self) -> None:
        self.names = {module_of(c.where) for d in DEFECTS for c in d.changes}

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        if fullname in self.names:
            raise ImportError(f"a defect changes {fullname}")


def _warm() -> None:
    changed = _Changed()
    sys.meta_path.insert(0, changed)
    for file in sorted((ROOT / "chsink").rglob("*.py")):
        parts = file.relative_to(ROOT).with_suffix("").parts
        if any(part in _LEFT_OUT for part in parts):
            continue
        try:
            import_module(".".join(parts).removesuffix(".__init__"))
        except ImportError:
            continue
    sys.meta_path.remove(changed)


_warm()
