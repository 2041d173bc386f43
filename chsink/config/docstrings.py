"""What the job file's classes say of their keys: the text below each attribute.

It is read when it is asked for, for a page or an error.  Pydantic's ``use_attribute_docstrings`` would read it at each
import: a quarter of the CPU time of importing the configuration.
"""

from __future__ import annotations

import ast
import functools
import inspect
import textwrap
from collections.abc import Mapping
from itertools import pairwise

from chsink.fields import Section


@functools.cache
def docstrings(table: type[Section]) -> Mapping[str, str]:
    """By the name of an attribute, of the class or of one that it inherits from."""
    found: dict[str, str] = {}
    for each in reversed(table.__mro__):
        if issubclass(each, Section):
            [tree] = ast.parse(textwrap.dedent(inspect.getsource(each))).body
            assert isinstance(tree, ast.ClassDef), each
            found |= _below_attributes(tree)
    return found


def _below_attributes(tree: ast.ClassDef) -> dict[str, str]:
    return {
        attribute.target.id: inspect.cleandoc(text.value.value)
        for attribute, text in pairwise(tree.body)
        if isinstance(attribute, ast.AnnAssign) and isinstance(attribute.target, ast.Name)
        if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant) and isinstance(text.value.value, str)
    }
