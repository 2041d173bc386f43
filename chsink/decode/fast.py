"""The fast way: a block of records into columns, then vectorised conversions.

Records that are written alike (:mod:`chsink.decode.alike`) are read at once; Arrow's JSON parser reads all others.

**Rows cannot shift.**  Arrow's JSON parser reads a stream of objects, so a record like ``{}{}`` would be two rows,
and two broken records could make one.  Each record must therefore begin with ``{``, after which a marker is
inserted: a key that cannot be known outside this process.  The block is used only if it parses as a whole, into as
many rows as there are records, each with the marker.  Proof that row *i* is then exactly record *i*: a marker occurs
only where it was inserted, so a row that has it was opened by the first byte of a record.  There are as many such
rows as records, so each record has opened one, in order, and each ends where the next begins.  The marker and its
comma do not change whether a record is valid, except that ``{}`` becomes invalid: the reference decodes it.

msgspec reads columns that the parser cannot read (maps, raw text, mixed kinds) as raw JSON from the same records.  The
parser reads these too, into a type that ignores their content, to detect repeated names.  If there is no such type,
records that may repeat the name are suspect.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from chsink.decode.alike import AlikeReader, alike
from chsink.decode.codec import Converted, Mask, Reader, Suspects, merge, valid_of
from chsink.decode.field_paths import ANY_OBJECT, PLAIN, Places, Trees, shown
from chsink.decode.fields import Field, groups_of, uneven
from chsink.decode.nested import NestedForm, nested_form
from chsink.decode.prefilter import decimal_suspects, maybe_quoted, maybe_repeated, suspects_of, window, without_space
from chsink.decode.raw_texts import RawTexts
from chsink.decode.refused_blocks import Screen
from chsink.decode.refused_texts import Refused, converted
from chsink.decode.values import JsonValue, MisfitError, Pairs, kinds_of

_MARKER: Final = secrets.token_hex(8)
FEW: Final = 8
"""At most one record in this many is decided one by one because the parser refuses it among others."""


class FastPlan:
    """A way to read each field, chosen by sample records.  The choice affects only the speed, never the result."""

    def __init__(self, fields: Sequence[Field], samples: Sequence[Pairs], places: Places = PLAIN) -> None:
        self._suits = True
        self._fields = fields
        self._groups = groups_of(fields)
        self._places = places
        found = [places.view(sample, ()) for sample in samples]
        self._nested: dict[str, NestedForm] = {
            group: nested_form(group, [fields[at] for at in positions], found)
            for group, positions in self._groups.items()
        }
        self._readers: dict[str, Reader] = {}
        self._raw: list[Field] = []
        self._unguarded: list[str] = []
        self._unquoted: list[str] = []
        parsed: list[pa.Field] = [field for form in self._nested.values() for field in form.parsed]
        for field in fields:
            if field.group and self._nested[field.group].grouped:
                continue
            parsed.extend(self._plan(field, [one.get(field.name) for one in found]))
        self._screened = tuple(parsed) if places == PLAIN else ()
        self._trees = Trees()
        for one in parsed:
            self._trees.place(one.name, places.path(one.name), one.type)
        for path in (places.envelope, *(places.path(field.name)[:-1] for field in self._raw)):
            if path:
                self._trees.place(shown(path), path, ANY_OBJECT)
        marker = pa.field(_MARKER, pa.bool_())
        schemas = [schema.append(marker) for schema in self._trees.schemas()]
        self._decimals = any("decimal" in str(schema) for schema in schemas)
        self._options = [pj.ParseOptions(explicit_schema=s, unexpected_field_behavior="ignore") for s in schemas]
        self._raw_decoder = RawTexts([places.path(field.name) for field in self._raw])
        simple = len(schemas) == 1 and _few_escapes(samples)
        self._alike = _tried(alike(self._trees.schemas()[0], _fullest(samples)), samples) if simple else None

    def _plan(self, field: Field, samples: Sequence[JsonValue]) -> list[pa.Field]:
        reader = field.codec.reader(samples)
        if reader is None and (reader := field.codec.unquoted(samples)) is not None:
            self._unquoted.append(field.name)
        if reader is not None:
            self._readers[field.name] = reader
            return [pa.field(field.name, reader.source)]
        self._raw.append(field)
        if field.codec.guard is not None and kinds_of(samples) <= {"object"}:
            return [pa.field(field.name, field.codec.guard)]
        self._unguarded.append(field.name)
        return []

    @property
    def suits(self) -> bool:
        """Whether it is the fastest way, and was the right one for most records so far: then it may be used again."""
        return self._suits and self._alike is not None and not self._raw

    def misses(self) -> None:
        """A block was refused."""
        self._suits = False

    def run(self, records: pa.Array) -> tuple[list[pa.Array], Suspects]:
        """Wire arrays, one per field, and the suspects.  The arrays omit the suspects, which the reference decodes.

        Raises one of :data:`chsink.decode.refused_texts.Refused` if the parser refuses the block.
        """
        records = without_space(records)
        read = self._read_alike(records)
        if read is None:
            suspects = self._prefiltered(records)
            if suspects is not None:
                return self._around(records, suspects)
            return self._convert(records, self._trees.columns(self._parse(records)))
        columns, left = read
        if left is None:
            return self._convert(records, columns)
        if self._raw or self._unguarded or self._unquoted:
            records = records.filter(pa.array(~left))
        arrays, more = self._convert(records, columns)
        return arrays, _both(left, more)

    def _convert(self, records: pa.Array, columns: dict[str, pa.Array]) -> tuple[list[pa.Array], Suspects]:
        """As :meth:`run`, from the columns that were read.  Only what needs their text looks at the records."""
        raw = self._read_raw(records)
        suspects: Suspects = None
        arrays: list[pa.Array] = []
        for field in self._fields:
            array, wrong = self._column(field, columns, raw)
            array, null = field.settle_nulls(array)
            arrays.append(array)
            suspects = merge(suspects, wrong, null)
        for form in self._nested.values():
            suspects = merge(suspects, form.conflicts(columns))
        if self._places.envelope:
            suspects = merge(suspects, ~valid_of(columns[shown(self._places.envelope)]))
        for name in self._unguarded:
            suspects = merge(suspects, maybe_repeated(records, self._places.path(name)[-1]))
        for name in self._unquoted:
            suspects = merge(suspects, maybe_quoted(records, self._places.path(name)[-1]))
        suspects = merge(suspects, uneven(arrays, self._groups))
        if suspects is None:
            return arrays, None
        self._suits &= FEW * int(suspects.sum()) <= len(suspects)
        kept = pa.array(~suspects)
        return [array.filter(kept) for array in arrays], suspects

    @cached_property
    def _screen(self) -> Screen:
        return Screen(self._screened)

    def run_screened(self, records: pa.Array) -> tuple[list[pa.Array], Suspects]:
        """As :meth:`run`, for a refused block: without the records that probably caused the refusal."""
        suspects = self._screen.suspects(records)
        if not suspects.any():
            raise MisfitError("no record looks as if it were to blame")
        return self._around(records, suspects)

    def _around(self, records: pa.Array, suspects: Mask) -> tuple[list[pa.Array], Suspects]:
        """As :meth:`run`, without the given suspects."""
        kept = np.flatnonzero(~suspects)
        if not len(kept):
            raise MisfitError("suspects only")
        arrays, more = self.run(records.take(pa.array(kept)))
        return arrays, _both(suspects, more)

    def _prefiltered(self, records: pa.Array) -> Suspects:
        suspects = suspects_of(records)
        return merge(suspects, decimal_suspects(records)) if self._decimals else suspects

    def _read_alike(self, records: pa.Array) -> tuple[dict[str, pa.Array], Suspects] | None:
        """The columns of all records but the suspects; None if too few of them are written alike."""
        if self._alike is None:
            return None
        records.cast(pa.string())
        read = self._alike.read(records)
        if read is None:
            return None
        table, unread = read
        if unread is None:
            return self._trees.columns([table]), None
        rest = np.flatnonzero(unread)
        self._suits &= len(rest) <= len(records) // FEW
        if 2 * len(rest) > len(records):
            self._alike = None
            return None
        return self._with_others(table, records, unread, rest)

    def _with_others(
        self, table: pa.Table, records: pa.Array, unread: Mask, rest: npt.NDArray[np.intp]
    ) -> tuple[dict[str, pa.Array], Suspects]:
        """The columns, with the rows ``rest`` from the parser; those that it refuses are suspects."""
        others = records.take(pa.array(rest))
        suspects: Mask = np.zeros(len(records), np.bool_)
        try:
            wrong = self._prefiltered(others)
            if wrong is not None:
                suspects[rest[wrong]] = True
                others, rest = others.filter(pa.array(~wrong)), rest[~wrong]
            parsed = self._parse(others)[0].drop_columns([_MARKER])
        except Refused:
            if len(rest) > len(records) // FEW:
                raise
            return self._trees.columns([table]), unread
        at = np.cumsum(~unread) - 1
        at[rest] = len(table) + np.arange(len(rest))
        table = pa.concat_tables([table, parsed]).take(pa.array(at[~suspects]))
        return self._trees.columns([table]), suspects if suspects.any() else None

    def _parse(self, records: pa.Array) -> list[pa.Table]:
        """What the parser reads, a table for each schema."""
        marked = pc.binary_replace_slice(records, 0, 1, f'{{"{_MARKER}":true,'.encode())
        offsets, _ = window(marked)
        data = marked.buffers()[2].slice(0, int(offsets[-1]))
        read = pj.ReadOptions(use_threads=False, block_size=data.size + 1)
        tables = [pj.read_json(pa.BufferReader(data), read_options=read, parse_options=o) for o in self._options]
        for table in tables:
            if table.num_rows != len(records) or table.column(_MARKER).null_count:
                raise MisfitError("records that are not one object each")
        return tables

    def _read_raw(self, records: pa.Array) -> dict[str, list[bytes]]:
        if not self._raw:
            return {}
        texts = self._raw_decoder.read(records)
        return {field.name: column for field, column in zip(self._raw, texts, strict=True)}

    def _column(self, field: Field, columns: dict[str, pa.Array], raw: dict[str, list[bytes]]) -> Converted:
        if field.name in raw:
            array, reasons = field.codec.build_raw(raw[field.name])
            wrong = np.zeros(len(array), np.bool_)
            wrong[list(reasons)] = True
            return array, wrong if reasons else None
        form = self._nested.get(field.group)
        if form is not None and form.grouped:
            return form.column(field, columns)
        return converted(field.codec, self._readers[field.name], columns[field.name])


def _both(suspects: Mask, more: Suspects) -> Mask:
    """The suspects, and ``more`` among the others."""
    if more is None:
        return suspects
    every = suspects.copy()
    every[np.flatnonzero(~suspects)[more]] = True
    return every


def _few_escapes(samples: Sequence[Pairs]) -> bool:
    """Whether most of the samples have none: the parser is faster with texts that have."""
    return 2 * sum("\\" in (sample.raw or "") for sample in samples) < len(samples)


def _tried(reader: AlikeReader | None, samples: Sequence[Pairs]) -> AlikeReader | None:
    """The reader, if it reads most of the samples."""
    if reader is None:
        return None
    read = reader.read(pa.array([(sample.raw or "").strip() for sample in samples], pa.string()).cast(pa.binary()))
    return reader if read is not None and 2 * read[0].num_rows >= len(samples) else None


def _fullest(samples: Sequence[Pairs]) -> str:
    """The text of the sample with the most members; the longest of them, whose arrays have elements."""
    fullest = max(samples, key=lambda sample: (len(sample.items), len(sample.raw or "")))
    return (fullest.raw or "").strip()
