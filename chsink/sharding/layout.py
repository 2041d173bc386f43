"""The shard layout: the shards with their weights, the hash function and the shard key.

Rules:
- Shards are numbered in the order given. Shard `i` owns a slice of `weight` slots; `hash % total_weight` is
  the slot, as in ClickHouse's `Distributed` engine.
- The identity of a shard is its `name`, or its set of replicas if it has no name. Replicas hold the same data, so
  their order never matters; a shard with a name may also gain, lose or move replicas, and one without a name may gain
  or lose some.
- The fingerprint changes whenever a row could go to a different shard. With one shard nothing is hashed, so only the
  shard's identity counts. The types of the key columns are not part of it: they belong to the table.
- The state store keeps a layout, as JSON, while a state record names it: a range in doubt is sent again under its
  recorded layout, a shard at its present replicas. So a layout holds no credentials. A shard may have another name: it
  is where a replica of it is. If its name is elsewhere, nobody knows which is meant. While such a range names it, a
  layout keeps the replicas that its shards have lost, too: they may still be busy with an insert of the range.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, get_args
from urllib.parse import urlsplit

from chsink.errors import ChsinkError, ConfigError, shards
from chsink.notation.hash_functions import RAND_KEY, hash_function
from chsink.notation.metadata_columns import SHARD_TYPES

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

NullShardKey = Literal["halt", "first_shard"]

MAX_TOTAL_WEIGHT = 1_000_000
_FORMAT = 1
_FINGERPRINT_BYTES = 8


@dataclass(frozen=True, slots=True)
class Shard:
    """One shard: its replicas' URLs (`http[s]://host[:port]`), its number of slots, its name.

    `database` is set if the shard has the table in a database of its own.  `former` are the URLs of replicas that the
    shard has lost, and that may still be busy with an insert: nothing is sent to them.
    """

    replicas: tuple[str, ...]
    weight: int = 1
    name: str = ""
    database: str = ""
    former: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.replicas or len(set(self.replicas)) != len(self.replicas):
            raise shards.SHARD_REPLICAS(shard=self.name or "(unnamed)")
        for url in self.replicas:
            _check_url(url)
        if not 1 <= self.weight <= MAX_TOTAL_WEIGHT:
            raise shards.SHARD_WEIGHT(shard=self.identity, weight=self.weight, highest=f"{MAX_TOTAL_WEIGHT:,}")

    @property
    def identity(self) -> str:
        """What identifies the shard across changes: the name, or else the sorted replicas; and the database."""
        place = self.name or ",".join(sorted(self.replicas))
        return f"{place} {self.database}" if self.database else place

    def nearness(self, other: Shard) -> int:
        """How surely it is the other one: 3 by name and a replica, 2 by a replica, 1 by name only, 0 not at all."""
        return 2 * (not set(self.replicas).isdisjoint(other.replicas)) + (self.name == other.name != "")


@dataclass(frozen=True, slots=True)
class Layout:
    """The shards in order, the shard key, and the rule for rows with a null key (see `sharder`).

    With one shard, function and key may be left out.

    Raises ConfigError CHS-401 (shards), CHS-402 (unknown function), CHS-403 (number of columns),
    CHS-405 (no key) or CHS-408 (null key).
    """

    shards: tuple[Shard, ...]
    hash_function: str = ""
    key: tuple[str, ...] = ()
    null_shard_key: NullShardKey = "halt"

    def __post_init__(self) -> None:
        if self.null_shard_key not in get_args(NullShardKey):
            raise shards.NULL_KEY_POLICY(value=repr(self.null_shard_key))
        seen = Counter(shard.identity for shard in self.shards)
        twice = ", ".join(name for name, count in seen.items() if count > 1)
        if not self.shards or twice or self.total_weight > MAX_TOTAL_WEIGHT:
            raise shards.SHARD_LIST(
                count=len(self.shards),
                weight=f"{self.total_weight:,}",
                twice=twice or "none",
                highest=f"{MAX_TOTAL_WEIGHT:,}",
            )
        if len(self.shards) == 1 and not self.hash_function and not self.key:
            return
        if not self.hash_function or (not self.key and not hash_function(self.hash_function).takes(0)):
            raise shards.LAYOUT_WITHOUT_KEY(count=len(self.shards))
        hash_function(self.hash_function).check_columns(self.key)

    @property
    def hashed(self) -> tuple[str, ...]:
        """The names of the hashed columns: the shard key, or Kafka's own fields for `rand`."""
        return RAND_KEY if self.hash_function == "rand" else self.key

    def of_record(self, columns: Collection[str]) -> frozenset[str]:
        """The hashed columns that are taken from the Kafka record: all with `rand`, else those not in `columns`."""
        return frozenset(
            k for k in self.hashed if k in SHARD_TYPES and (self.hash_function == "rand" or k not in columns)
        )

    @property
    def total_weight(self) -> int:
        """The number of slots."""
        return sum(shard.weight for shard in self.shards)

    def fingerprint(self) -> str:
        """16 hexadecimal digits that change if a row could go to a different shard (with the same key column types)."""
        routing: list[Any] = [[shard.identity, shard.weight] for shard in self.shards]
        if len(self.shards) == 1:
            routing = [self.shards[0].identity]
        else:
            routing += [self.hash_function, list(self.key), self.null_shard_key]
        text = json.dumps([_FORMAT, routing], ensure_ascii=True, separators=(",", ":"))
        return hashlib.blake2b(text.encode(), digest_size=_FINGERPRINT_BYTES).hexdigest()

    def placed(self, present: Sequence[Shard]) -> Layout:
        """The layout at the present replicas of its shards; at the recorded ones of a shard that is none of them.

        Raises HaltError CHS-409 if a shard may have moved, or another one may have got its name.
        """
        return replace(self, shards=tuple(replace(s, replicas=self._replicas_now(s, present)) for s in self.shards))

    def _replicas_now(self, shard: Shard, present: Sequence[Shard]) -> tuple[str, ...]:
        most = max(1, *map(shard.nearness, present))
        same = [now for now in present if shard.nearness(now) == most]
        for named in (now for now in present if most < 3 and shard.nearness(now) == 1):
            if most > 1 or any(each.nearness(named) > 1 for each in self.shards):
                raise self._names_changed(shard, named)
        alone = len(same) == 1 and sum(each.nearness(same[0]) >= most for each in self.shards) == 1
        return same[0].replicas if alone else shard.replicas

    def with_former(self, stored: str) -> Layout:
        """With the replicas that its shards have lost since a stored layout (JSON) of the same fingerprint, as far as
        it can be read.

        Raises HaltError CHS-409 if they may have taken each other's names.
        """
        try:
            then = Layout.from_json(stored)
        except ChsinkError:
            return self
        then.placed(self.shards)
        pairs = zip(self.shards, then.shards, strict=True)
        both = ((now, sorted({*then.replicas, *then.former} - {*now.replicas})) for now, then in pairs)
        return replace(self, shards=tuple(replace(now, former=tuple(urls)) for now, urls in both))

    def _names_changed(self, then: Shard, now: Shard) -> ChsinkError:
        every = "; ".join(
            f"{shard.name or 'without a name'}: {', '.join(shard.replicas)}"
            + (f" (database {shard.database})" if shard.database else "")
            for shard in self.shards
        )
        urls = {"then": ", ".join(then.replicas), "now": ", ".join(now.replicas)}
        return shards.SHARD_NAMES_CHANGED(shard=now.name, every=every, **urls)

    def to_json(self) -> str:
        """One line of JSON, from which `from_json` makes an equal layout."""
        plain = asdict(self)
        plain["shards"] = [
            {k: v for k, v in shard.items() if v or k not in {"database", "former"}} for shard in plain["shards"]
        ]
        return json.dumps({"format": _FORMAT, **plain}, ensure_ascii=True, separators=(",", ":"))

    @staticmethod
    def from_json(text: str) -> Layout:
        """Read a layout from the state store. Raises HaltError CHS-407 if it is invalid: ranges cannot be resent."""
        try:
            return _read_layout(json.loads(text))
        except (ValueError, TypeError, KeyError, AttributeError, ConfigError) as error:
            raise shards.UNREADABLE_LAYOUT(reason=type(error).__name__) from error


def _read_layout(stored: dict[str, Any]) -> Layout:
    """Undo `to_json`. Raises for any other JSON."""
    if stored.pop("format") != _FORMAT:
        raise ValueError("another format")
    found = [
        Shard(**{**shard, **{k: tuple(v) for k, v in shard.items() if isinstance(v, list)}})
        for shard in stored["shards"]
    ]
    return Layout(**{**stored, "shards": tuple(found), "key": tuple(stored["key"])})


def _check_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        valid = False
    # Credentials do not belong in this URL, which goes to the state store. The URL may contain one: do not show it.
    if not valid or "@" in url:
        raise shards.SHARD_URL()
