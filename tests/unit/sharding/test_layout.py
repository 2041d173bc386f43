"""The layout: what is refused, what changes its fingerprint, and that it survives being kept."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import get_args

import hypothesis.strategies as st
import pytest
from hypothesis import given

from chsink.errors import ConfigError, HaltError
from chsink.sharding import Layout, NullShardKey, Shard

A = Shard(("http://a1:8123", "http://a2:8123"), 2)
B = Shard(("https://b:8443",), 1)
BASE = Layout((A, B), "xxHash64", ("city", "id"))
# A recorded range names its layout by this text: a change of the algorithm would orphan it.
BASE_FINGERPRINT = "8486b6cd4702f7d7"


def refused(*shards: Shard, function: str = "xxHash64", key: tuple[str, ...] = ("id",)) -> ConfigError:
    with pytest.raises(ConfigError) as error:
        Layout(shards, function, key)
    return error.value


def test_fingerprint_is_pinned() -> None:
    assert BASE.fingerprint() == BASE_FINGERPRINT


@pytest.mark.parametrize(
    "changed",
    [
        replace(BASE, shards=(B, A)),
        replace(BASE, shards=(replace(A, weight=3), B)),
        replace(BASE, shards=(replace(A, weight=4), replace(B, weight=2))),
        replace(BASE, shards=(A, B, Shard(("http://c:8123",)))),
        replace(BASE, shards=(A,)),
        replace(BASE, shards=(Shard(("http://a1:8123", "http://a3:8123"), 2), B)),
        replace(BASE, shards=(replace(A, name="first"), B)),
        replace(BASE, shards=(replace(A, database="own"), B)),
        replace(BASE, hash_function="cityHash64"),
        replace(BASE, hash_function="rand", key=()),
        replace(BASE, hash_function="intHash64", key=("id",)),
        replace(BASE, key=("id", "city")),
        replace(BASE, key=("city",)),
        replace(BASE, key=("city,id",)),
        replace(BASE, null_shard_key="first_shard"),
    ],
    ids=lambda layout: layout.to_json(),
)
def test_fingerprint_changes_with_the_routing(changed: Layout) -> None:
    assert changed.fingerprint() != BASE.fingerprint()


def test_fingerprint_keeps_when_the_routing_does() -> None:
    swapped = replace(A, replicas=A.replicas[::-1])
    assert replace(BASE, shards=(swapped, B)).fingerprint() == BASE.fingerprint()
    named = replace(BASE, shards=(replace(A, name="first"), B))
    moved = replace(BASE, shards=(Shard(("http://new:8123",), 2, "first"), B))
    assert named.fingerprint() == moved.fingerprint()


def test_one_shard_is_one_routing() -> None:
    assert Layout((A,)).fingerprint() == Layout((replace(A, weight=1),), "xxHash64", ("id",)).fingerprint()
    assert Layout((A,)).fingerprint() != Layout((B,)).fingerprint()


def test_shards_with_the_replicas_that_they_had() -> None:
    """A named one had others; the set of one without a name is its identity.  The present ones come first."""
    now, then = (
        Layout((Shard(urls, name="one", database="own"), replace(A, replicas=others)), "xxHash64", ("id",))
        for urls, others in (
            (("http://n:1", "http://m:1"), A.replicas),
            (("http://o:1", "http://m:1"), A.replicas[::-1]),
        )
    )
    both = now.with_former(then.to_json())
    assert [shard.former for shard in both.shards] == [("http://o:1",), ()]
    assert replace(both, shards=now.shards) == now and both.fingerprint() == then.fingerprint()
    assert both.with_former(both.to_json()) == now.with_former(both.to_json()) == both


def named(**urls: str) -> Layout:
    return Layout(tuple(Shard((f"http://{url}:1",), name=name) for name, url in urls.items()), "xxHash64", ("id",))


@pytest.mark.parametrize("more", ["", "four"])
@pytest.mark.parametrize(
    "now",
    [{"a": "two", "b": "three"}, {"a": "two", "b": "one"}, {"a": "three", "b": "one"}, {"a": "three", "c": "one"}],
)
def test_a_name_at_another_server_may_be_a_move_or_only_a_name(now: dict[str, str], more: str) -> None:
    """⚑ Found by an adversary: whichever of both chsink took it for, the rows might be at the other server."""
    then, present = named(a="one", b="two"), named(**now, **({"more": more} if more else {}))
    with pytest.raises(
        HaltError, match=r"(?s)CHS-409.*give the shards the names .* \(a: http://one:1; b: http://two:1\)"
    ):
        then.placed(present.shards)
    if now.keys() == {"a", "b"} and not more:
        assert present.fingerprint() == then.fingerprint()
        with pytest.raises(HaltError, match="CHS-409"):
            present.with_former(then.to_json())


def test_a_shard_that_moved_to_the_server_of_one_that_was_removed() -> None:
    """⚑ Found by an adversary: the rest of the range went to the server that it had left, and that is not listed now."""
    with pytest.raises(HaltError, match="CHS-409"):
        named(a="one", b="two").placed(named(a="two").shards)


@pytest.mark.parametrize("now", [{"a": "three", "b": "two"}, {"a": "three", "b": "four"}, {"a": "three", "c": "two"}])
def test_shards_that_moved_are_where_they_are_now(now: dict[str, str]) -> None:
    then, present = named(a="one", b="two"), named(**now)
    assert then.placed(present.shards).shards[0].replicas == present.shards[0].replicas
    if "b" in now:
        assert [s.replicas for s in present.with_former(then.to_json()).shards] == [s.replicas for s in present.shards]


names = st.text(max_size=8)
hosts = st.lists(st.integers(1, 50).map(lambda number: f"http://host{number}:8123"), min_size=1, unique=True)
shards = st.builds(Shard, hosts.map(tuple), st.integers(1, 1000), names, st.just(""), hosts.map(tuple))


@given(
    st.lists(shards, min_size=2, max_size=4, unique_by=lambda shard: shard.identity),
    st.lists(names, min_size=1, max_size=3),
    st.sampled_from(get_args(NullShardKey)),
)
def test_json_round_trip(drawn: list[Shard], key: list[str], null_shard_key: NullShardKey) -> None:
    layout = Layout(tuple(drawn), "xxHash64", tuple(key), null_shard_key)
    text = layout.to_json()
    assert "\n" not in text
    assert Layout.from_json(text) == layout
    assert Layout.from_json(text).fingerprint() == layout.fingerprint()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        json.dumps({**json.loads(BASE.to_json()), "format": 2}),
        json.dumps({**json.loads(BASE.to_json()), "hash_function": "fromTheFuture"}),
        json.dumps({**json.loads(BASE.to_json()), "more": 1}),
        json.dumps({**json.loads(BASE.to_json()), "shards": [{}]}),
    ],
)
def test_unreadable_json_halts(text: str) -> None:
    with pytest.raises(HaltError) as error:
        Layout.from_json(text)
    assert error.value.id == "CHS-407"


@pytest.mark.parametrize(
    ("replicas", "weight"),
    [
        ((), 1),
        (("http://a:1", "http://a:1"), 1),
        (("a:8123",), 1),
        (("tcp://a:9000",), 1),
        (("http://a:port",), 1),
        (("http://",), 1),
        (("http://a:1",), 0),
        (("http://a:1",), -1),
        (("http://a:1",), 1_000_001),
    ],
)
def test_bad_shard_is_refused(replicas: tuple[str, ...], weight: int) -> None:
    with pytest.raises(ConfigError) as error:
        Shard(replicas, weight)
    assert error.value.id == "CHS-401"


def test_credentials_are_refused_and_not_shown() -> None:
    with pytest.raises(ConfigError) as error:
        Shard(("http://user:secret@host:8123",))
    assert "secret" not in str(error.value)


def test_bad_layout_is_refused() -> None:
    assert refused().id == "CHS-401"
    assert refused(A, replace(A, replicas=A.replicas[::-1])).id == "CHS-401"
    assert refused(replace(A, weight=999_999), replace(B, weight=2)).id == "CHS-401"
    assert refused(A, B, function="cityhash64").id == "CHS-402"
    assert "xxHash64" in refused(A, B, function="xxhash64").hint
    assert refused(A, B, function="intHash64", key=("a", "b")).id == "CHS-403"
    assert refused(A, B, function="").id == "CHS-405"
    assert refused(A, B, key=()).id == "CHS-405"
    assert refused(A, key=()).id == "CHS-405"
    with pytest.raises(ConfigError) as error:
        Layout((A, B), "xxHash64", ("id",), "shard_0")  # type: ignore[arg-type]
    assert error.value.id == "CHS-408"


def test_a_database_of_its_own_is_kept_only_where_there_is_one() -> None:
    """A layout without one is stored as it always was."""
    assert "database" not in BASE.to_json()
    own = replace(BASE, shards=(replace(A, database="own"), replace(A, database="other")))
    assert Layout.from_json(own.to_json()) == own


def test_rand_takes_no_key() -> None:
    assert refused(A, B, function="rand", key=("id",)).id == "CHS-403"
    assert Layout((A, B), "rand").hashed == ("_kafka_topic", "_kafka_partition", "_kafka_offset")


NAMED = Shard(("http://a1:8123",), name="east")
NAMED_B = replace(B, name="b")


@pytest.mark.parametrize(
    ("recorded", "present", "at"),
    [
        ((A,), (A,), [A.replicas]),
        ((A,), (Shard(("http://a1:8123",)),), [("http://a1:8123",)]),
        ((A,), (Shard(("http://a2:8123", "http://a3:8123"), name="east"),), [("http://a2:8123", "http://a3:8123")]),
        ((A,), (B,), [A.replicas]),
        ((NAMED,), (Shard(("http://moved:8123",), name="east"),), [("http://moved:8123",)]),
        ((NAMED,), (Shard(("http://a1:8123",), name="west"),), [NAMED.replicas]),
        ((A, B), (Shard(B.replicas), Shard(("http://a2:8123",))), [("http://a2:8123",), B.replicas]),
        ((Shard(("http://a1:8123",)), Shard(("http://a2:8123",))), (A,), [("http://a1:8123",), ("http://a2:8123",)]),
        ((A,), (Shard(("http://a1:8123",)), Shard(("http://a2:8123",))), [A.replicas]),
        ((replace(A, name="east"),), (Shard(("http://a1:8123",), name="west"),), [("http://a1:8123",)]),
        ((NAMED, NAMED_B), (Shard(("http://a1:8123", *B.replicas), name="west"),), [NAMED.replicas, B.replicas]),
        ((NAMED, replace(NAMED, name="b")), (replace(NAMED, name="b"), NAMED), [NAMED.replicas] * 2),
    ],
)
def test_a_range_in_doubt_is_sent_to_the_present_replicas(
    recorded: tuple[Shard, ...], present: tuple[Shard, ...], at: list[tuple[str, ...]]
) -> None:
    """⚑ Not to a replica that is gone, and never to another shard: of two that may be the same one, neither is.
    ⚑ Found by an adversary: a shard that took the name of another one was taken for it.
    """
    assert [shard.replicas for shard in replace(BASE, shards=recorded).placed(present).shards] == at
