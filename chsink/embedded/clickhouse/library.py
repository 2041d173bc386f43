"""Loads the engine's library, which the package chdb brings, without the package.

Importing ``chdb`` would start an engine of its own, on no folder, and keep it: one process holds one engine.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.machinery
import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, Final

_FILE: Final = "_chdb.abi3.so"
_RTLD_DEEPBIND: Final = 0x8
"""Linux: the library's own symbols come before those of Python and its packages."""


def load() -> Any:
    """The library as a module.  Threads that it starts inherit what this process may do."""
    spec = importlib.util.find_spec("chdb")
    assert spec is not None and spec.submodule_search_locations, "the service has checked that it is there"
    folder = next(path for place in spec.submodule_search_locations if (path := Path(place)).joinpath(_FILE).exists())
    package = ModuleType("chdb")
    package.__path__ = [str(folder)]
    sys.modules["chdb"] = package
    with contextlib.chdir(folder):  # where it looks for its other libraries
        if sys.platform == "linux":
            ctypes.CDLL(str(folder / _FILE), mode=sys.getdlopenflags() | _RTLD_DEEPBIND)
        return _module("chdb._chdb", folder / _FILE)


def _module(name: str, file: Path) -> ModuleType:
    loader = importlib.machinery.ExtensionFileLoader(name, os.fspath(file))
    spec = importlib.util.spec_from_file_location(name, file, loader=loader)
    assert spec is not None, file
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    loader.exec_module(module)
    return module
