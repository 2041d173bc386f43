"""Statements of tests for plain tables, as they are for Replicated ones: so both run the same scenarios."""

from __future__ import annotations

import re
import uuid
from typing import Final

CLUSTER: Final = "replicas"
"""The name of the cluster for ``ON CLUSTER``: one shard with all replicas."""


def replicated(create: str) -> str:
    """The CREATE TABLE of a MergeTree, for the same table on all replicas; each call has a path of its own."""
    engine = rf"ENGINE = Replicated\1('/tests/{uuid.uuid4().hex}', '{{replica}}')"
    made, engines = re.subn(r"ENGINE = (\w*MergeTree)(\(\))?", engine, create)
    made, tables = re.subn(r"^CREATE TABLE (\S+)", rf"CREATE TABLE \1 ON CLUSTER {CLUSTER}", made)
    assert (engines, tables) == (1, 1), create
    return made.replace("non_replicated_deduplication_window", "replicated_deduplication_window")
