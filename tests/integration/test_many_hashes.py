"""1,000,000 values of each hash function, cut by ClickHouse's own `Distributed` and by chsink: the same shards."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from chsink.notation.hash_functions import HASH_FUNCTIONS
from chsink.sharding.keytypes import parse_key_type
from tests.support.shard_engine import CASES, WEIGHTS, Engine, assigned, expression

pytestmark = pytest.mark.soak

VALUES = 1_000_000


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    engine = Engine(tmp_path_factory.mktemp("shards"))
    yield engine
    engine.session.close()


def test_a_million_values_of_each_function(engine: Engine) -> None:
    functions = {name: f for name, f in HASH_FUNCTIONS.items() if f.columns != "no"}
    compared = dict.fromkeys(functions, 0)
    cases = [case for case in CASES if "Nullable" not in case.type]  # Distributed takes no NULL
    takes = {
        name: [case for case in cases if parse_key_type(case.type).family in function.families]
        for name, function in functions.items()
    }
    for number, case in enumerate(cases):
        taking = [name for name in functions if case in takes[name]]
        rows = {name: -(-VALUES // len(takes[name])) for name in taking}
        column = case.values(np.random.default_rng(number), max(rows.values()))
        engine.fill([case.type], [column])
        for name in taking:
            part = column.slice(0, rows[name])
            shard = assigned(name, [case.type], [part], WEIGHTS)
            for index, sent in enumerate(engine.cut(expression(name), len(part))):
                assert sent == (shard == index).nonzero()[0].tolist(), (name, case)
            compared[name] += len(part)
    assert min(compared.values()) >= VALUES
