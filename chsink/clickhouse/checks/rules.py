"""Judgements that need no service: numbers that were asked for, to findings."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from chsink.findings import Finding, error, ok, warning

OLDEST_SERVER = (24, 8)
"""Older servers lack what is pinned on every insert, or guard KeeperMap writes less."""


def server_version(url: str, version: str) -> Finding:
    """A server that is older than anything chsink was made for."""
    number = tuple(int(n) for n in re.findall(r"\d+", version)[:2])
    if number < OLDEST_SERVER:
        oldest = ".".join(map(str, OLDEST_SERVER))
        return warning(
            "CHS-218", f"{url} is ClickHouse {version}; chsink is made for {oldest} and later", "upgrade the server"
        )
    return ok("CHS-218", f"{url} is ClickHouse {version}")


def clock_skew(url: str, skew_s: float, margin_s: int) -> Finding:
    """``skew_s``: the server's clock less the driver's, as far as the round trip lets it be known."""
    allowed = max(margin_s, 1)
    if abs(skew_s) > allowed:
        return error(
            "CHS-224",
            f"the clock of {url} is {abs(skew_s):.1f} s {'ahead of' if skew_s > 0 else 'behind'} the driver's, and "
            f"in_doubt.margin_s is {margin_s}: how long a token is remembered could not be judged",
            "synchronise the clocks (NTP); a larger in_doubt.margin_s tolerates more",
        )
    return ok("CHS-224", f"the clocks of {url} and the driver agree within {allowed} s")


@dataclass(frozen=True, slots=True)
class Replication:
    """A target table's replicas.

    ``listed`` are the URLs of the endpoint, ``paths`` their Keeper paths as far as known, ``quorum`` is the effective
    ``insert_quorum``.
    """

    replicated: bool
    listed: tuple[str, ...]
    total: int
    quorum: str
    paths: Mapping[str, str]


def replication(name: str, found: Replication) -> Finding | None:
    """Deduplication across replicas needs one log of tokens, and an insert that a lost replica does not take along."""
    if not found.replicated:
        if len(found.listed) == 1:
            return None
        return error(
            "CHS-207",
            f"{name} on {', '.join(found.listed)} is not a replicated table: the replicas would hold different rows",
            "make it a ReplicatedMergeTree, or list the servers as shards of their own",
        )
    if len(set(found.paths.values())) > 1:
        places = ", ".join(f"{url}: {path}" for url, path in found.paths.items())
        return error(
            "CHS-207",
            f"{name} is not one table on its replicas: they use different Keeper paths ({places})",
            "list only replicas of one shard under one endpoint",
        )
    if found.total > 1 and found.quorum in ("0", "1"):
        return error(
            "CHS-207",
            f"{name} has {found.total} replicas and insert_quorum is {found.quorum}: a replica that acknowledged an "
            "insert and is then lost takes the rows with it",
            'set insert_quorum = "auto" in [clickhouse.settings]',
        )
    return ok("CHS-207", f"{name} has {found.total} replicas, insert_quorum is {found.quorum}")


@dataclass(frozen=True, slots=True)
class View:
    """A materialized view behind the target: ``engine`` and ``window_blocks`` are those of the table it fills."""

    name: str
    fills: str
    engine: str
    window_blocks: int | None


def views(name: str, found: Sequence[View]) -> list[Finding]:
    """A view's table gets every block again when a piece is sent again: it must deduplicate by itself."""
    findings: list[Finding] = []
    for view in found:
        what = f"the materialized view {view.name} of {name} fills {view.fills}"
        if view.window_blocks is None:
            findings.append(
                warning(
                    "CHS-208",
                    f"{what}, a {view.engine or 'table that cannot be seen'}: it may get the same rows twice",
                    "let the view fill a MergeTree table that deduplicates inserts",
                )
            )
        elif view.window_blocks == 0:
            setting = (
                "" if view.engine.startswith(("Replicated", "Shared")) else "non_"
            ) + "replicated_deduplication_window"
            findings.append(
                warning(
                    "CHS-208",
                    f"{what}, which does not deduplicate: a piece that is sent again counts twice there",
                    f"ALTER TABLE {view.fills} MODIFY SETTING {setting} = 10000",
                )
            )
    if found and not findings:
        findings.append(ok("CHS-208", f"the {len(found)} materialized views of {name} deduplicate too"))
    return findings


@dataclass(frozen=True, slots=True)
class Load:
    """What one batch may insert into one table of one shard.

    ``chunks`` bounds the pieces, None when nothing bounds a batch; then ``backlog_chunks`` is what waits in Kafka now.
    ``touched`` is how many table partitions hold data now, ``per_block`` the server's limit for one insert.
    """

    chunks: int | None
    backlog_chunks: int
    partitioned: bool
    touched: int
    per_block: int


def window(name: str, url: str, blocks_kept: int, load: Load) -> list[Finding]:
    """A batch whose blocks exceed what the table surely remembers could not be sent again under its tokens."""
    chunks = load.backlog_chunks if load.chunks is None else load.chunks
    spread = min(load.touched, load.per_block) if load.partitioned and load.touched else 1
    blocks = chunks * spread
    findings: list[Finding] = []
    fix = "raise the deduplication window or clickhouse.chunk_offsets, or set or lower kafka.max_offsets_per_trigger"
    if chunks > blocks_kept and load.chunks is not None:
        findings.append(
            error(
                "CHS-211",
                f"a batch has up to {chunks} chunks, and {name} at {url} surely remembers only {blocks_kept} blocks",
                fix,
            )
        )
    elif blocks > blocks_kept:
        what = "a batch of all that waits in Kafka" if load.chunks is None else "a batch"
        findings.append(
            warning(
                "CHS-211",
                f"{what} may make {blocks} blocks ({chunks} chunks, each over {spread} table partitions) in {name} at "
                f"{url}, which surely remembers {blocks_kept}: after a crash it would be probed, not just sent again",
                fix,
            )
        )
    if load.partitioned and load.touched > load.per_block > 0:
        findings.append(
            warning(
                "CHS-230",
                f"{name} at {url} has {load.touched} table partitions, and one insert may touch {load.per_block}: "
                "chunks that mix more of them are refused (code 252)",
                "lower clickhouse.chunk_offsets, or set max_partitions_per_insert_block in [clickhouse.settings]",
            )
        )
    return findings or [
        ok("CHS-211", f"{name} at {url} surely remembers {blocks_kept} blocks; a batch makes up to {blocks}")
    ]
