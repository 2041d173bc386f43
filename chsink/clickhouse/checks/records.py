"""What the recorded state says, against the clock, the configuration and the target tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from chsink.clickhouse.shards import RoutedTable
from chsink.clickhouse.window import DedupWindow
from chsink.errors import halts, preflight
from chsink.findings import Finding, Severity, found, passed
from chsink.statemachine.owner import Owner
from chsink.statemachine.records import Phase, StateKey, StateRecord, TopicTable
from chsink.statemachine.table import forbidden_changes


def in_doubt_findings(
    records: Mapping[StateKey, StateRecord],
    targets: Mapping[TopicTable, RoutedTable],
    window: DedupWindow,
    now_ms: int,
    present: Callable[[StateKey, StateRecord], str],
) -> Iterator[Finding]:
    """Each range in doubt, and how the next start will settle it.

    ``present`` gives the fingerprint under which a range would be sent now, where nothing transforms the stream.
    """
    doubtful = {k: r for k, r in records.items() if r.in_doubt}
    for key, record in doubtful.items():
        target = targets.get(key.topic_table)
        age_s = (now_ms - record.seen.before_at) / 1000
        resolve = f"chsink state resolve {key.topic} {key.partition}"
        what = f"{key.topic_partition} {record.range} has been in doubt for {age_s:.0f} s"
        if target is None:
            yield found(Severity.WARNING, preflight.DOUBT_NOT_ROUTED, what=what, table=key.table, resolve=resolve)
        elif changed := known_changes(record.sent.pipeline, present(key, record)):
            yield found(
                Severity.WARNING, preflight.DOUBT_CHANGED, what=what, changed=", ".join(changed), resolve=resolve
            )
        elif (why := window.doubtful_tokens(key, record)) is None:
            yield found(Severity.INFO, preflight.DOUBT_SENT_AGAIN, what=what)
        elif all(s.table.can_probe for s in target.shards):
            yield found(Severity.INFO, preflight.DOUBT_PROBED, what=what, why=why)
        else:
            yield found(
                Severity.WARNING, preflight.DOUBT_NOT_PROBED, what=what, why=why, table=key.table, resolve=resolve
            )
    if not doubtful:
        yield passed(preflight.DOUBT_NOT_ROUTED)


def known_changes(recorded: str, present: str) -> list[str]:
    """Names of what differs between two fingerprints; none where the stream was transformed.

    What a program's own transform is now cannot be known here, so its ranges are left to the start.
    """
    changed = forbidden_changes(recorded, present)
    return [] if "transform" in changed else changed


def layout_findings(
    records: Mapping[StateKey, StateRecord], owner: Owner | None, present: Mapping[TopicTable, str]
) -> Iterator[Finding]:
    """``present``: by topic and table, the fingerprint of the configured shard layout."""
    other = {
        k: r
        for k, r in records.items()
        if r.phase is not Phase.EMPTY and r.sent.layout != present.get(k.topic_table, r.sent.layout)
    }
    for key, record in other.items():
        if not record.in_doubt:
            continue
        if owner is None or owner.layout(record.sent.layout) is None:
            tp = key.topic_partition
            yield found(Severity.ERROR, halts.LAYOUT_LOST, tp=tp, table=key.table, layout=record.sent.layout)
        else:
            yield found(Severity.INFO, preflight.LAYOUT_OLDER, key=key)
    settled = sorted({k.topic for k, r in other.items() if not r.in_doubt})
    if settled:
        yield found(Severity.INFO, preflight.LAYOUT_CHANGED, topics=", ".join(settled))
    elif not other:
        yield passed(preflight.LAYOUT_OLDER)
