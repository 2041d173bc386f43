"""Deduplication tokens: the name of a piece (chunk × shard) that every attempt gives it.

A token ignores content, so it must name everything that decides content: the recorded range (not the part of it that
a batch contains), its chunking, the chunk, the shard and the layout that cut it, and the record's nonce.  The nonce
stands for the incarnation: a sink that starts again from nothing, under the same name and with the same offsets, has
other tokens.
"""

from __future__ import annotations

import hashlib
import json

from .records import StateKey, StateRecord

TOKEN_VERSION = 2


def token_head(key: StateKey, record: StateRecord) -> str:
    """The readable prefix of all tokens of the record's range, for people who read system tables."""
    return f"{topic_head(key.sink, key.topic)}{key.partition}:{record.start}-{record.end}:"


def topic_head(sink: str, topic: str) -> str:
    """How all tokens of a topic begin."""
    return f"{sink}:{topic}:"


def piece_token(key: StateKey, record: StateRecord, chunk_index: int, shard: int) -> str:
    """The token of one piece: a readable head, and a digest that is the name."""
    return _token(key, record, chunk_index, shard)


def letters_token(key: StateKey, record: StateRecord, chunk_index: int) -> str:
    """The token of a chunk's dead letters."""
    return _token(key, record, chunk_index, "dead-letters")


def _token(key: StateKey, record: StateRecord, chunk_index: int, place: int | str) -> str:
    name = [
        TOKEN_VERSION,
        key.sink,
        key.topic,
        key.partition,
        key.table,
        record.life.nonce,
        record.start,
        record.end,
        record.sent.chunk_offsets,
        record.sent.layout,
        chunk_index,
        place,
    ]
    digest = hashlib.sha256(json.dumps(name).encode()).hexdigest()[:32]
    return f"{token_head(key, record)}{chunk_index}:{place}:{digest}"
