"""The sharder against the real engine: same values in the column's type, same function, same shard.

The oracle of most tests are the hashes of ClickHouse over the values as it stored them, cut as `Distributed` does.  Others
let a `Distributed` table cut an insert by itself.  ``make chaos`` does that with 1,000,000 values of each function.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from chsink.clickhouse.checks.distributed import distributed_findings
from chsink.clickhouse.checks.hashes import hash_findings
from chsink.clickhouse.definition import Ttl
from chsink.clickhouse.distributed import distributed_tables
from chsink.clickhouse.shards import ShardTable
from chsink.clickhouse.table import TargetTable
from chsink.errors import ConfigError
from chsink.notation.hash_functions import HASH_FUNCTIONS
from chsink.sharding import Sharder
from chsink.sharding.functions import FUNCTIONS
from chsink.sharding.keytypes import parse_key_type
from tests.support.endpoint import OneServer
from tests.support.shard_engine import (
    CASES,
    NAMING,
    SLOTS,
    TUPLES,
    WEIGHTS,
    Case,
    Engine,
    a_job,
    assigned,
    expression,
    layout,
)

VALUES = 10_000
"""Of each function, over all types that it takes."""
OF_COLUMNS = [name for name, function in HASH_FUNCTIONS.items() if function.columns != "no"]
SEVERAL = [name for name in OF_COLUMNS if HASH_FUNCTIONS[name].columns == "several"]


def taken_by(name: str) -> list[Case]:
    return [case for case in CASES if parse_key_type(case.type).family in HASH_FUNCTIONS[name].families]


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    engine = Engine(tmp_path_factory.mktemp("sharding"))
    yield engine
    engine.session.close()


def expected(hashes: Sequence[int | None], weights: Sequence[int], null: int = -1) -> list[int]:
    """The shard of each hash, by the definition: the slice that `hash % total_weight` lies in."""
    shard_of_slot = [shard for shard, weight in enumerate(weights) for _ in range(weight)]
    return [null if value is None else shard_of_slot[value % len(shard_of_slot)] for value in hashes]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_each_type_under_each_function(engine: Engine, case: Case) -> None:
    functions = [name for name in OF_COLUMNS if case in taken_by(name)]
    rows = max(VALUES // len(taken_by(name)) for name in functions)
    column = case.values(np.random.default_rng(1), rows)
    engine.fill([case.type], [column])
    for name, hashes in engine.results({name: expression(name) for name in functions}).items():
        for weights in (SLOTS, WEIGHTS):
            assert assigned(name, [case.type], [column], weights).tolist() == expected(hashes, weights), name


def test_every_family_is_compared() -> None:
    assert HASH_FUNCTIONS.keys() == FUNCTIONS.keys()
    for name in OF_COLUMNS:
        assert {parse_key_type(case.type).family for case in taken_by(name)} == HASH_FUNCTIONS[name].families


@pytest.mark.parametrize("case", CASES, ids=str)
def test_refuses_what_the_engine_refuses(engine: Engine, case: Case) -> None:
    engine.fill([case.type], [case.values(np.random.default_rng(1), 1)])
    for name in OF_COLUMNS:
        if case in taken_by(name):
            Sharder(layout(WEIGHTS, name, 1), [case.type])
            continue
        assert engine.refuses(expression(name)), name
        with pytest.raises(ConfigError) as refused:
            Sharder(layout(WEIGHTS, name, 1), [case.type])
        assert refused.value.id == "CHS-404"


@pytest.mark.parametrize("name", SEVERAL)
def test_several_columns(engine: Engine, name: str) -> None:
    random = np.random.default_rng(2)
    for cases in (random.choice(len(CASES), size, replace=False) for size in (2, 2, 3, 6)):
        chosen = [CASES[number] for number in cases]
        types, columns = [case.type for case in chosen], [case.values(random, 300) for case in chosen]
        engine.fill(types, columns)
        ((_, hashes),) = engine.results({name: expression(name, len(types))}).items()
        assert assigned(name, types, columns, SLOTS).tolist() == expected(hashes, SLOTS), types


@pytest.mark.parametrize("case", TUPLES, ids=str)
def test_tuples(engine: Engine, case: Case) -> None:
    number = next(case for case in CASES if case.type == "UInt16")
    types, columns = [case.type, "UInt16"], [c.values(np.random.default_rng(4), 500) for c in (case, number)]
    engine.fill(types, columns)
    for name, hashes in engine.results({name: expression(name, 2) for name in SEVERAL}).items():
        assert assigned(name, types, columns, SLOTS).tolist() == expected(hashes, SLOTS), name
    for name in set(OF_COLUMNS) - set(SEVERAL):
        assert engine.refuses(expression(name)) or (name, case.wire.num_fields) == ("javaHash", 1)
        with pytest.raises(ConfigError, match="CHS-404"):
            Sharder(layout(WEIGHTS, name, 1), [case.type])


def test_a_tuple_that_holds_a_null_or_may() -> None:
    with pytest.raises(ConfigError, match="CHS-404"):
        Sharder(layout(WEIGHTS, "xxHash64", 1), ["Tuple(UInt8, Nullable(String))"])
    wire = pa.struct([("a", pa.uint8()), ("b", pa.binary())])
    column = pa.array([{"a": 1, "b": b"x"}, None, {"a": 1, "b": None}], wire)
    shard = assigned("xxHash64", ["Tuple(a UInt8, b String)"], [column], WEIGHTS)
    assert (shard == -1).tolist() == [False, True, True]


@pytest.mark.parametrize("name", sorted(set(OF_COLUMNS) - set(SEVERAL)))
def test_one_column_only_where_the_engine_takes_one(engine: Engine, name: str) -> None:
    engine.fill(["Int32", "String"], [pa.array([1], pa.int32()), pa.array(["a"], pa.binary())])
    assert engine.refuses(f"({expression(name, 2)})")
    with pytest.raises(ConfigError) as refused:
        layout(WEIGHTS, name, 2)
    assert refused.value.id == "CHS-403"


def test_null_where_the_engine_says_null(engine: Engine) -> None:
    columns = [pa.array([1, None, 3, None]), pa.array(["a", "b", None, None], pa.binary())]
    types = ["Nullable(Int64)", "LowCardinality(Nullable(String))"]
    engine.fill(types, columns)
    for name, hashes in engine.results({name: expression(name, 2) for name in SEVERAL}).items():
        assert [value is None for value in hashes] == [False, True, True, True]
        first = replace(layout(WEIGHTS, name, 2), null_shard_key="first_shard")
        assert assigned(name, types, columns, WEIGHTS).tolist() == expected(hashes, WEIGHTS)
        assert Sharder(first, types).assign(columns, 4).shard.tolist() == expected(hashes, WEIGHTS, null=0)


def test_type_texts_as_the_engine_writes_them(engine: Engine) -> None:
    texts = [case.type for case in CASES]
    declared = ", ".join(f"c{number} {text}" for number, text in enumerate(texts))
    engine.query(f"CREATE OR REPLACE TABLE d.texts ({declared}) ENGINE = Memory")
    shown = engine.session.query(
        "SELECT type FROM system.columns WHERE database = 'd' AND table = 'texts' ORDER BY position", "TSVRaw"
    )
    for text, written in zip(texts, str(shown).splitlines(), strict=True):
        ours, its = parse_key_type(text), parse_key_type(written)
        assert (ours.family, ours.size, ours.scale) == (its.family, its.size, its.scale)


@pytest.mark.parametrize("name", OF_COLUMNS)
def test_same_rows_as_a_distributed_table(engine: Engine, name: str) -> None:
    """ClickHouse's Distributed engine cuts an insert by itself; each shard's files hold exactly our rows."""
    random = np.random.default_rng(3)
    tried = [case for case in taken_by(name) if "Nullable" not in case.type]
    for case in itertools.islice(tried, 0, None, 1 if name == "none" else 12):
        column = case.values(random, 500)
        engine.fill([case.type], [column])
        shard = assigned(name, [case.type], [column], WEIGHTS)
        for number, rows in enumerate(engine.cut(expression(name), len(column))):
            assert rows == (shard == number).nonzero()[0].tolist(), case


class Asked(OneServer):
    """The engine as :class:`chsink.ports.Queries`."""

    url = "http://one"

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def query(self, sql: str, parameters: Mapping[str, Any] | None = None) -> list[tuple[Any, ...]]:
        answer = self.engine.session.query(sql, "JSONCompact", params=dict(parameters or {}))
        return [tuple(row) for row in json.loads(str(answer))["data"]]


@pytest.mark.parametrize(
    ("how", "theirs"),
    [
        ("Distributed(three, d, t)", None),
        ("Distributed(three, d, t, rand())", None),
        ("Distributed(three, d, other, intHash64(k0))", None),
        ("Distributed(three, d, t, cityHash64(k0, k1))", None),
        ("Distributed(three, d, t, cityHash64(`k0`,k1), 'default')", None),
        ("Distributed(three, d, t, cityHash64(k0, k1)) SETTINGS fsync_after_insert = 1", None),
        ("Distributed(three, d, t, cityHash64(k1, k0))", "cityHash64(k1, k0) over shards of weights 2, 1, 5"),
        ("Distributed(three, d, t, k0)", "k0 over shards of weights 2, 1, 5"),
        ("Distributed(one, d, t, cityHash64(k0, k1))", "cityHash64(k0, k1) over shards of weights 1"),
    ],
)
def test_a_distributed_table_that_cuts_otherwise(engine: Engine, how: str, theirs: str | None) -> None:
    engine.fill(["UInt32", "String"], [pa.array([1], pa.uint32()), pa.array([b"a"])])
    engine.query(f"CREATE OR REPLACE TABLE d.cut AS d.t ENGINE = {how}")
    table = TargetTable("d", "t", "uuid", "MergeTree", (), "", Ttl(), {}, "UTC")
    expression = HASH_FUNCTIONS["cityHash64"].expression(["k0", "k1"])
    found = list(distributed_findings(ShardTable(Asked(engine), table), expression, WEIGHTS))
    ours = "cityHash64(k0, k1) over shards of weights 2, 1, 5"
    said = [f"d.cut at http://one shards rows by {theirs}, but chsink shards them by {ours}"] if theirs else []
    assert [(f.id, str(f.severity), f.sentence) for f in found] == [("CHS-241", "warning", text) for text in said]


@pytest.mark.parametrize("name", HASH_FUNCTIONS)
def test_a_server_that_hashes_otherwise(engine: Engine, name: str) -> None:
    """The server is asked for known values; one whose function is another one is refused."""
    table = TargetTable("d", "t", "uuid", "MergeTree", (), "", Ttl(), {}, "UTC")
    assert not list(hash_findings(ShardTable(Asked(engine), table), name))
    other = "CRC32" if name == "javaHash" else "intHash64" if name == "intHash32" else "javaHash"

    class Other(Asked):
        def query(self, sql: str, parameters: Mapping[str, Any] | None = None) -> list[tuple[Any, ...]]:
            return super().query(sql.replace(f"{name}(", f"{other}("), parameters)

    found = [f.id for f in hash_findings(ShardTable(Other(engine), table), name)]
    assert found == ([] if name in {"none", "rand"} else ["CHS-242"])


@pytest.mark.parametrize(("name", "columns"), [("cityHash64", 2), ("none", 1), ("rand", 0)])
def test_the_printed_distributed_table(engine: Engine, name: str, columns: int) -> None:
    """What `chsink sql distributed` prints works as it stands: the cluster is this engine's own."""
    types = ["UInt32", "String"]
    rows = [pa.array(range(400), pa.uint32()), pa.array([b"x" * (row % 9) for row in range(400)], pa.binary())]
    engine.fill(types, rows)
    statement = distributed_tables(a_job(name, ["k0", "k1"][:columns]), replace(NAMING, suffix="_all"))
    assert statement.startswith("CREATE TABLE `d`.`t_all` AS `d`.`t`\nENGINE = Distributed('three', 'd', 't', ")
    cut = engine.cut_through(statement.replace("`t_all`", "`cut`").rstrip(";"), 400)
    assert sorted(row for part in cut for row in part) == list(range(400))
    if columns:
        shard = assigned(name, types[:columns], rows[:columns], WEIGHTS)
        assert cut == [(shard == number).nonzero()[0].tolist() for number in range(len(WEIGHTS))]
