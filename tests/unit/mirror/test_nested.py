"""Random schemas of structs, lists and maps, and random records, against a reading of the records in plain Python."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import EqualTo, GreaterThanOrEqual, IsNull, NotNull
from pyiceberg.schema import Schema, sanitize_column_names
from pyiceberg.types import IcebergType, ListType, LongType, MapType, NestedField, StringType, StructType

from chsink.mirror.arrays import cast
from chsink.mirror.files import DataFiles, data_file, entry_of
from chsink.mirror.types import TableColumns, unsupported
from tests.support.examples import examples
from tests.support.iceberg_cases import CASES

LEAVES = {str(case.kind): case for case in CASES if str(case.kind) not in ("float", "double")}
"""NaN equals nothing."""
KEYS = ("string", "long", "date", "uuid")


class Bad(Exception):
    """The record does not fit."""


@dataclass(frozen=True)
class Object:
    """A JSON object, whose names may be repeated; a list is a JSON array, and a str the text of any other value."""

    members: tuple[tuple[str, Any], ...]


def text_of(value: Any) -> str:
    if isinstance(value, Object):
        return "{" + ", ".join(f"{json.dumps(name)}: {text_of(item)}" for name, item in value.members) + "}"
    return value if isinstance(value, str) else "[" + ", ".join(map(text_of, value)) + "]"


# --- the reference -----------------------------------------------------------------------------------------------------


def read(kind: IcebergType, value: Any, *, required: bool) -> Any:
    """What the table holds: a tuple for a struct, a list for a list, a list of pairs for a map."""
    if value == "null":
        if required:
            raise Bad
        return None
    match kind:
        case StructType():
            return tuple(read_fields(kind, value))
        case ListType() if isinstance(value, list):
            return [read(kind.element_type, item, required=kind.element_required) for item in value]
        case MapType() if isinstance(value, Object):
            return list(read_entries(kind, value))
        case ListType() | MapType():
            raise Bad
    return read_leaf(kind, value)


def read_fields(kind: StructType, value: Any) -> Iterator[Any]:
    if not isinstance(value, Object):
        raise Bad
    names = [name for name, _ in value.members]
    for field in kind.fields:
        if names.count(field.name) > 1:
            raise Bad
        yield read(field.field_type, dict(value.members).get(field.name, "null"), required=field.required)


def read_entries(kind: MapType, value: Object) -> Iterator[tuple[Any, Any]]:
    seen = set()
    for name, item in value.members:
        key = name if isinstance(kind.key_type, StringType) else read_leaf(kind.key_type, json.dumps(name))
        if key in seen:
            raise Bad
        seen.add(key)
        yield key, read(kind.value_type, item, required=kind.value_required)


def read_leaf(kind: IcebergType, value: Any) -> Any:
    if isinstance(kind, StringType):
        return text_in(text_of(value))
    for text, fit in LEAVES[str(kind)].fits:
        if text == value:
            return fit
    raise Bad


def text_in(text: str) -> str:
    """The text of a JSON string; any other value as it is written."""
    if text[0] != '"':
        return text
    found: str = json.loads(text)
    if any("\ud800" <= letter <= "\udfff" for letter in found):
        raise Bad
    return found


# --- random schemas and records ----------------------------------------------------------------------------------------


@st.composite
def kinds(draw: st.DrawFn, ids: Iterator[int], depth: int = 3) -> IcebergType:
    form = draw(st.sampled_from(["leaf", "leaf", "struct", "list", "map"])) if depth else "leaf"
    if form == "leaf":
        return LEAVES[draw(st.sampled_from(sorted(LEAVES)))].kind
    inner = kinds(ids, depth - 1)
    match form:
        case "struct":
            return StructType(*draw(fields_of(ids, depth - 1)))
        case "list":
            return ListType(next(ids), draw(inner), element_required=draw(st.booleans()))
    key = LEAVES[draw(st.sampled_from(KEYS))].kind
    return MapType(next(ids), key, next(ids), draw(inner), value_required=draw(st.booleans()))


def fields_of(ids: Iterator[int], depth: int) -> st.SearchStrategy[list[NestedField]]:
    names = st.lists(st.sampled_from(["a", "b", "ü", "d", "c d"]), min_size=1, max_size=3, unique=True)
    return names.flatmap(
        lambda found: st.tuples(
            *(
                st.builds(NestedField, st.just(next(ids)), st.just(name), kinds(ids, depth), st.booleans())
                for name in found
            )
        ).map(list)
    )


@st.composite
def schemas(draw: st.DrawFn) -> Schema:
    return Schema(*draw(fields_of(count(1), 3)))


@st.composite
def values(draw: st.DrawFn, kind: IcebergType, *, wrong: int) -> Any:
    """A value of the kind; one in about ``wrong`` does not fit, or is null."""
    if not draw(st.integers(0, wrong)):
        return draw(st.sampled_from(["null", "null", "true", Object(()), [], Object((("a", '"~"'),))]))
    match kind:
        case StructType():
            return draw(records(kind, wrong=wrong))
        case ListType():
            return draw(st.lists(values(kind.element_type, wrong=wrong), max_size=3))
        case MapType():
            pairs = st.tuples(names_of(kind.key_type, wrong), values(kind.value_type, wrong=wrong))
            return Object(tuple(draw(st.lists(pairs, max_size=3))))
    case = LEAVES[str(kind)]
    return draw(st.sampled_from([text for text, _ in case.fits] if draw(st.integers(0, wrong)) else list(case.bad)))


def names_of(kind: IcebergType, wrong: int) -> st.SearchStrategy[str]:
    if isinstance(kind, StringType):
        return st.sampled_from(["a", "b", "", "é", "\0"])
    case = LEAVES[str(kind)]
    texts = [text for text, _ in case.fits if text[0] == '"'] * wrong + [text for text in case.bad if text[0] == '"']
    return st.sampled_from([json.loads(text) for text in texts])


@st.composite
def records(draw: st.DrawFn, kind: StructType, *, wrong: int) -> Object:
    present = [field for field in kind.fields if draw(st.integers(0, wrong))]
    members = [(field.name, draw(values(field.field_type, wrong=wrong))) for field in present]
    if not draw(st.integers(0, wrong)):
        members.append(draw(st.sampled_from([*members, ("other", "1")])))
    return Object(tuple(draw(st.permutations(members))))


@st.composite
def worlds(draw: st.DrawFn) -> tuple[Schema, list[Object]]:
    schema = draw(schemas())
    record = records(schema.as_struct(), wrong=draw(st.sampled_from([3, 30])))
    return schema, draw(st.lists(record, min_size=1, max_size=12))


# --- the same values at every place ------------------------------------------------------------------------------------


def plain(kind: IcebergType, value: Any, *, empty: Any = None) -> Any:
    """A value of Arrow in the reference's form; ``empty`` stands for a list or a map that is null."""
    match kind:
        case StructType() if value is not None:
            items = list(value.values()) if isinstance(value, dict) else value
            inner = zip(kind.fields, items, strict=True)
            return tuple(plain(field.field_type, item, empty=empty) for field, item in inner)
        case ListType():
            return empty if value is None else [plain(kind.element_type, item, empty=empty) for item in value]
        case MapType():
            return empty if value is None else [(key, plain(kind.value_type, v, empty=empty)) for key, v in value]
    return value


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    folder = tmp_path_factory.mktemp("nested")
    made = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/warehouse")
    made.create_namespace("shop")
    return made


def batch_of(texts: list[str]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"value": pa.array([text.encode() for text in texts], pa.binary())})


@settings(deadline=None, max_examples=examples(40))
@given(world=worlds())
def test_what_is_decoded_is_what_the_record_says(catalog: Catalog, world: tuple[Schema, list[Object]]) -> None:
    """⚑ W-5.  All in one batch, and each record alone, which is read another way; then from a file, by Arrow and by
    pyiceberg, which reads some nulls as empty.
    """
    schema, found = world
    assert not unsupported(schema)
    whole = schema.as_struct()
    expected: dict[int, Any] = {}
    for at, record in enumerate(found):
        try:
            expected[at] = read(whole, record, required=True)
        except Bad:
            continue
    texts = list(map(text_of, found))
    decoded = TableColumns(schema).decode(batch_of(texts))
    assert decoded.rows.to_pylist() == list(expected)
    assert sorted({bad.row for bad in decoded.bad} | set(expected)) == list(range(len(found)))
    assert [plain(whole, row) for row in decoded.batch.to_pylist()] == list(expected.values())
    for at, text in enumerate(texts):
        alone = TableColumns(schema).decode(batch_of([text]))
        assert [plain(whole, row) for row in alone.batch.to_pylist()] == [expected[n] for n in expected if n == at]
    table = catalog.create_table(f"shop.t{uuid4().hex}", schema)
    writer = DataFiles(table.metadata, table.io, uuid4())
    writer.write(TableColumns(table.schema()).decode(batch_of(texts)).batch)
    files = [data_file(entry_of(file, 0)) for file in writer.close()]
    stored = [row for file in files for row in pq.read_table(file.file_path.removeprefix("file://")).to_pylist()]
    assert [plain(whole, row) for row in stored] == list(expected.values())
    with table.transaction() as transaction, transaction.update_snapshot().fast_append() as append:
        for file in files:
            append.append_data_file(file)
    if not files or sanitize_column_names(schema) != schema:
        return  # pyiceberg does not read an empty list of uuids, and in lists of lists no names that it rewrote
    scanned = [plain(whole, row, empty=[]) for row in table.refresh().scan().to_arrow().to_pylist()]
    assert scanned == [plain(whole, row, empty=[]) for row in expected.values()]


def test_filters_on_fields_of_structs_find_every_row(open_catalog: Callable[[], Catalog], tmp_path: Path) -> None:
    """⚑ pyiceberg looks at the bounds in the manifests, then at the rows."""
    inner = StructType(NestedField(3, "n", LongType(), required=True), NestedField(4, "c d", StringType()))
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "s", StructType(NestedField(5, "in", inner))))
    table = open_catalog().create_table("shop.t", schema)
    for start in range(0, 40, 10):
        texts = [f'{{"id": {n}, "s": {{"in": {{"n": {n}, "c d": "x{n}"}}}}}}' for n in range(start, start + 8)]
        texts += [f'{{"id": {start + 8}}}', f'{{"id": {start + 9}, "s": {{"in": null}}}}']
        decoded = TableColumns(table.schema()).decode(batch_of(texts))
        assert not decoded.bad
        writer = DataFiles(table.metadata, table.io, uuid4())
        writer.write(decoded.batch)
        with table.transaction() as transaction, transaction.update_snapshot().fast_append() as append:
            for file in writer.close():
                append.append_data_file(data_file(entry_of(file, 0)))
        table = table.refresh()

    def ids(condition: Any) -> list[int]:
        found: list[int] = sorted(table.scan(row_filter=condition).to_arrow().column("id").to_pylist())
        return found

    present = [n for n in range(40) if n % 10 < 8]
    equal: Any = EqualTo
    at_least: Any = GreaterThanOrEqual
    not_null: Any = NotNull
    is_null: Any = IsNull
    assert [ids(equal("s.in.n", n)) for n in range(40)] == [[n] if n in present else [] for n in range(40)]
    assert [ids(equal("s.in.c d", f"x{n}")) for n in present] == [[n] for n in present]
    assert ids(at_least("s.in.n", 25)) == [n for n in present if n >= 25]
    assert ids(not_null("s.in.c d")) == present and set(ids(is_null("s.in.c d"))) == {*range(40)} - {*present}


def test_a_required_null_stays_where_its_struct_has_a_value() -> None:
    """⚑ Beneath a null struct, any value stands for it; elsewhere the writer must refuse it."""
    field = TableColumns(
        Schema(NestedField(1, "s", StructType(NestedField(2, "n", LongType(), required=True))))
    ).arrow.field("s")
    hidden = pa.array([{"n": 1}, None], pa.struct([("n", pa.int64())]))
    given = pa.array([{"n": 1}, {"n": None}], pa.struct([("n", pa.int64())]))
    for array, rows, nulls in ((hidden, [{"n": 1}, None], 0), (given, [{"n": 1}, {"n": None}], 1)):
        made = cast(array, field)
        assert isinstance(made, pa.StructArray)
        assert (made.to_pylist(), made.field(0).null_count) == (rows, nulls)
