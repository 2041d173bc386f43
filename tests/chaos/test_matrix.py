"""``docs/fault-matrix.md`` names tests that exist, and every test of this folder."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parent
MATRIX = HERE.parent.parent / "docs" / "fault-matrix.md"
OTHERS = {
    "test_matrix.py::test_the_matrix_names_every_test",
    "test_soak.py::test_soak",
}
"""Tests of this folder that are not about a fault."""


def test_the_matrix_names_every_test() -> None:
    named = set(re.findall(r"`(test_\w+\.py::test_\w+)[`\[]", MATRIX.read_text()))
    there = {
        f"{file.name}::{name}"
        for file in HERE.glob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", file.read_text(), re.MULTILINE)
    }
    assert named == there - OTHERS
