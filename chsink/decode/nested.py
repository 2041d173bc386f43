"""The forms in which a record may hold a Nested column, read by the parser.

``n.a`` and ``n.b`` are either fields of these names, or ``n`` is an array of objects, or ``n`` is an object of arrays.
A plan reads one form; the parser also reads the others' names, so that a record in another form becomes suspect.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from chsink.decode.codec import Codec, Converted, Reader, Suspects, merge, valid_of
from chsink.decode.containers import ArrayCodec, flatten, lift, missing, null_mask
from chsink.decode.fields import Field
from chsink.decode.values import JsonValue, Pairs

_ANY_OBJECT = pa.struct([])


class NestedForm:
    """One group read in one form; ``parsed`` are the fields that the parser reads in addition to the columns' own."""

    grouped = False

    def __init__(self, group: str, parsed: Sequence[pa.Field], others: Sequence[str]) -> None:
        self.group = group
        self.parsed = [*parsed, *(pa.field(name, _ANY_OBJECT) for name in others)]
        self._others = others

    def conflicts(self, columns: dict[str, pa.Array]) -> Suspects:
        """Rows that use another form.  Detects objects; the parser refuses other values."""
        return merge(*(valid_of(columns[name]) for name in self._others))

    def column(self, field: Field, columns: dict[str, pa.Array]) -> Converted:
        """The wire array of one of the group's fields."""
        raise NotImplementedError


class ArraysForm(NestedForm):
    """``n`` as an object of arrays."""

    grouped = True

    def __init__(self, group: str, readers: dict[str, Reader], others: Sequence[str]) -> None:
        struct = pa.struct([pa.field(member, reader.source) for member, reader in readers.items()])
        super().__init__(group, [pa.field(group, struct)], others)
        self._readers = readers

    def column(self, field: Field, columns: dict[str, pa.Array]) -> Converted:
        """The member's array; null if the object is missing."""
        objects = columns[self.group]
        assert isinstance(objects, pa.StructArray), "read as an object"
        members = dict(zip(self._readers, objects.flatten(), strict=True))
        return self._readers[field.member].convert(members[field.member])


class ObjectsForm(NestedForm):
    """``n`` as an array of objects."""

    grouped = True

    def __init__(self, group: str, readers: dict[str, Reader], others: Sequence[str]) -> None:
        struct = pa.struct([pa.field(member, reader.source) for member, reader in readers.items()])
        super().__init__(group, [pa.field(group, pa.list_(struct))], others)
        self._readers = readers

    def column(self, field: Field, columns: dict[str, pa.Array]) -> Converted:
        """The arrays of each object's member; a row with a null object is suspect."""
        codec = field.codec
        assert isinstance(codec, ArrayCodec), "Nested columns are arrays"
        rows = columns[self.group]
        assert isinstance(rows, pa.ListArray), "read as an array"
        offsets, objects, parents = flatten(rows)
        assert isinstance(objects, pa.StructArray), "of objects"
        elements = dict(zip(self._readers, objects.flatten(), strict=True))[field.member]
        converted, wrong = self._readers[field.member].convert(elements)
        absent = ~valid_of(objects) if objects.null_count else None
        bad = lift(merge(wrong, absent, missing(codec.item, elements)), parents, len(rows))
        return pa.ListArray.from_arrays(offsets, converted, type=codec.wire, mask=null_mask(rows)), bad


def nested_form(group: str, fields: Sequence[Field], samples: Sequence[dict[str, JsonValue]]) -> NestedForm:
    """The form that the samples use, if the parser can read it; else the form with dotted names."""
    names = [field.name for field in fields]
    given = [sample[group] for sample in samples if sample.get(group) is not None]
    dotted = NestedForm(group, [], [group])
    if not given:
        return dotted
    items = [item for one in given if isinstance(one, list) for item in one]
    if all(isinstance(one, list) for one in given) and all(isinstance(item, Pairs) for item in items):
        objects = [dict(item.items) for item in items if isinstance(item, Pairs)]
        readers = {f.member: _item(f).reader([one.get(f.member) for one in objects]) for f in fields}
        known = {member: reader for member, reader in readers.items() if reader is not None}
        return ObjectsForm(group, known, names) if len(known) == len(fields) else dotted
    if all(isinstance(one, Pairs) for one in given):
        found = [dict(one.items) for one in given if isinstance(one, Pairs)]
        readers = {f.member: f.codec.reader([one.get(f.member) for one in found]) for f in fields}
        known = {member: reader for member, reader in readers.items() if reader is not None}
        return ArraysForm(group, known, names) if len(known) == len(fields) else dotted
    return dotted


def _item(field: Field) -> Codec:
    assert isinstance(field.codec, ArrayCodec), "Nested columns are arrays"
    return field.codec.item
