"""The formats as the job file names them: ``format = "json"``, or a table of options with ``type = "json"``.

Rules:
- Each format has a class here for its options, and a reader in a file of its own, listed in
  :data:`chsink.formats.readers.READERS`.
- This module imports no decoding library: programs that only read the configuration do not need them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import blake2b
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, Field, PrivateAttr, model_validator

from chsink.errors import job_file
from chsink.fields import AsTuple, NamedFile, Section, Text
from chsink.registry.settings import SchemaRegistry


class FormatSettings(Section):
    """Base of the formats.  Each format is a subclass with its own options."""

    version: ClassVar[int] = 2
    """Part of the fingerprint: increment it when a code change makes a different row of the same record."""

    type: str

    def part(self) -> list[object]:
        """The format as a JSON document, for the fingerprint.  Options that are not set are left out."""
        options = self.model_dump(mode="json", exclude={"type"}, exclude_defaults=True)
        return [self.version, self.type, *([options] if options else [])]

    closed: ClassVar[bool] = False
    """Whether the format fills only the columns that its options name."""

    before_json: ClassVar[int | None] = None
    """The number of bytes before the JSON text of a record; None if the format is not JSON."""

    @property
    def named(self) -> frozenset[str]:
        """The columns that the options name: the table must have them."""
        return frozenset()

    @property
    def needs_registry(self) -> bool:
        """Whether records name their schemas by ids of a Schema Registry."""
        return False

    def use(self, registry: SchemaRegistry) -> None:
        """Take the job's Schema Registry, where the format uses one; called once, before all else."""


def names_of(path: str) -> tuple[str, ...]:
    """The names on a path."""
    return tuple(name or one or two for name, one, two in _STEP.findall(path))


def _checked_path(path: str) -> str:
    if not re.fullmatch(rf"\$(?:{_STEP.pattern})*", path):
        raise job_file.NOT_A_JSON_PATH(value=repr(path))
    return path


def _below_root(path: str) -> str:
    if path == "$":
        raise job_file.NOT_A_JSON_PATH(value=repr(path))
    return path


_STEP = re.compile(r"""\.([^.\[\]'"\s]+)|\['([^']+)'\]|\["([^"]+)"\]""")
Constant = str | int | float | bool
EpochUnit = Literal["days", "seconds", "millis", "micros", "nanos"]
Digits = Annotated[int, Field(ge=-76, le=76)] | Literal["text"]
JsonPath = Annotated[str, AfterValidator(_checked_path)]


class JsonFields(FormatSettings):
    """Base of the formats whose values are JSON objects."""

    before_json: ClassVar[int | None] = 0

    fields: dict[Text, Annotated[JsonPath, AfterValidator(_below_root)]] = Field(default_factory=dict)
    """Columns that are not read by their own name, each with the path of its value: `{ city = "$.address.city" }`. A
    path starts at the record; `$['a.b']` is a name with characters other than letters, digits and underscores."""
    constants: dict[Text, Constant] = Field(default_factory=dict)
    """Columns that have the same value in every row: `{ source = "eu" }`."""
    epoch: dict[Text, EpochUnit] = Field(default_factory=dict)
    """Date and time columns whose numbers count a unit since 1970, or since midnight: `{ created = "micros" }`. The
    units are `days` for dates, and `seconds`, `millis`, `micros` and `nanos` for times."""
    decimals: dict[Text, Digits] = Field(default_factory=dict)
    """Number columns whose values arrive as strings with a `Decimal` of Kafka Connect, each with its scale: `{ price =
    2 }`. The string is base64 of a whole number's bytes, as Debezium writes it with `decimal.handling.mode=precise`.
    With `{ price = "text" }`, the string is the number itself, as with `decimal.handling.mode=string`."""

    @property
    def named(self) -> frozenset[str]:
        """The columns with a path, a constant, a unit or a scale."""
        return frozenset((*self.fields, *self.constants, *self.epoch, *self.decimals))

    @property
    def paths(self) -> dict[str, tuple[str, ...]]:
        """The path of each column in ``fields``, as a list of names."""
        return {column: names_of(path) for column, path in self.fields.items()}


class JsonObjects(JsonFields):
    """Base of the formats whose values are one JSON object each, with any names."""

    envelope: JsonPath = "$"
    """Path of the object that has the fields: `"$.payload"`."""


class Json(JsonObjects):
    """Each value is one JSON object. Its fields go to the columns of the same names."""

    type: Literal["json"]
    """Which format."""


class _Whole(FormatSettings):
    column: Text | None = None
    """The column that takes the value. Default: the table's only column, besides those for Kafka's metadata."""

    closed: ClassVar[bool] = True

    @property
    def named(self) -> frozenset[str]:
        """The one column."""
        return frozenset({self.column} if self.column else ())


class Raw(_Whole):
    """The value's bytes go unchanged to one `String` or `FixedString` column. An empty value is an empty string."""

    type: Literal["raw"]
    """Which format."""


class String(_Whole):
    """The value is UTF-8 text, which goes to one column as the same text in JSON would."""

    type: Literal["string"]
    """Which format."""


def _one_character(text: str) -> str:
    if len(text) != 1 or not text.isascii() or text in "\r\n\0":
        raise job_file.NOT_A_CHARACTER(value=repr(text))
    return text


def _named_once(columns: tuple[str, ...]) -> tuple[str, ...]:
    named = [column for column in columns if column]
    if not named:
        raise job_file.NO_FIELDS()
    if len(set(named)) < len(named):
        raise job_file.FIELD_TWICE()
    return columns


Character = Annotated[str, AfterValidator(_one_character)]
RowColumns = Annotated[tuple[str, ...], AsTuple, AfterValidator(_named_once)]


class _Delimited(FormatSettings):
    columns: RowColumns
    """The columns that the fields of a row go to, in the order of the fields; `""` is a field that is left out."""

    closed: ClassVar[bool] = True

    @property
    def named(self) -> frozenset[str]:
        """The columns of the fields."""
        return frozenset(self.columns) - {""}


class Csv(_Delimited):
    """Each value is one row of text fields, which may be quoted as RFC 4180 says."""

    type: Literal["csv"]
    """Which format."""
    delimiter: Character = ","
    """The character between two fields."""
    quote: Character = '"'
    """The character around a quoted field; inside it, the character is doubled."""
    null: str = ""
    """The field without quotes that means null."""

    @model_validator(mode="after")
    def _apart(self) -> Csv:
        if self.delimiter == self.quote:
            raise job_file.DELIMITER_IS_QUOTE()
        return self


class Tsv(_Delimited):
    """Each value is one row of text fields, with tabs between them and backslash escapes, as in ClickHouse's
    TabSeparated.
    """

    type: Literal["tsv"]
    """Which format."""
    null: str = "\\N"
    """The field that means null, before escapes are read."""


class WithSchema(FormatSettings):
    """Base of the formats whose records need a schema to be decoded."""

    _registry: SchemaRegistry = PrivateAttr(default_factory=SchemaRegistry)

    @property
    def registry(self) -> SchemaRegistry:
        """The Schema Registry that has the schema of each id."""
        return self._registry

    @property
    def needs_registry(self) -> bool:
        """Whether records name their schemas by ids of a Schema Registry."""
        return True

    def use(self, registry: SchemaRegistry) -> None:
        """Take the job's Schema Registry; called once, before all else."""
        self._registry = registry

    def part(self) -> list[object]:
        """Adds the registry's URLs: a different registry may have a different schema under the same id."""
        return [*super().part(), sorted(self.registry.url) if self.needs_registry else []]


class _WithFile(WithSchema):
    schema_file: NamedFile | None = None

    @property
    def needs_registry(self) -> bool:
        """True unless the schema is in a file."""
        return self.schema_file is None

    def part(self) -> list[object]:
        """Adds a digest of the schema file: a changed schema may make different rows."""
        content = None if self.schema_file is None else blake2b(self.schema_file.content, digest_size=16).hexdigest()
        return [*super().part(), content]


class Avro(_WithFile):
    """Each value is an Avro record in Confluent's wire format: a zero byte, the schema's id in the Schema Registry, the
    record's binary encoding. The record's fields go to the columns of the same names.
    """

    type: Literal["avro"]
    """Which format."""
    schema_file: NamedFile | None = None
    """File with the one Avro schema of all records, which then consist of the binary encoding alone, without an id.
    Default: the Schema Registry."""


class Debezium(JsonFields):
    """Each value is a change of one row in Debezium's JSON envelope. The paths of `fields` start at the event, below
    `payload` if there is one. For a delete, a path into `after` leads into `before`.
    """

    type: Literal["debezium"]
    """Which format."""
    version_column: Text | None = None
    """The column that orders the changes of a row: `version` of ReplacingMergeTree."""
    version_path: Annotated[JsonPath, AfterValidator(_below_root)] = "$.source.lsn"
    """What `version_column` takes: a number that grows with each change, such as `$.source.lsn` of PostgreSQL. With
    `$.source.ts_ms`, two changes in one millisecond have the same version."""
    deleted_column: Text | None = None
    """The column that is 1 for a delete and 0 otherwise: `is_deleted` of ReplacingMergeTree."""
    primary_key: Annotated[tuple[Text, ...], AsTuple] = ()
    """Columns of the row's primary key. A delete then needs no other columns: those that its `before` lacks get the
    DEFAULT or zero. If there is no `before`, the primary key is read from the record's key."""
    unavailable_value: Text = "__debezium_unavailable_value"
    """What Debezium writes for a value that the database did not send: its `unavailable.value.placeholder`."""

    @property
    def named(self) -> frozenset[str]:
        """The columns of the other options, and the version, deletion and primary key columns."""
        own = (self.version_column, self.deleted_column, *self.primary_key)
        return super().named | frozenset(name for name in own if name)


class Protobuf(_WithFile):
    """Each value is a Protobuf message in Confluent's wire format: a zero byte, the schema's id in the Schema Registry,
    which message of the schema it is, the message. Its fields go to the columns of the same names.
    """

    type: Literal["protobuf"]
    """Which format."""
    schema_file: NamedFile | None = None
    """File with the schema of all records, which then consist of the message alone: a descriptor set that `protoc
    --include_imports --descriptor_set_out` writes. Default: the Schema Registry."""
    message: Text | None = None
    """Full name of the message in `schema_file`: `"shop.Order"`."""


class JsonSchema(WithSchema, JsonObjects):
    """Each value is one JSON object in Confluent's wire format: a zero byte, the id of its JSON Schema in the Schema
    Registry, the text. The columns decide what fits, not the schema.
    """

    before_json: ClassVar[int | None] = 5

    type: Literal["json_schema"]
    """Which format."""


def _from_text(value: object) -> object:
    return {"type": value} if isinstance(value, str) else value


AnyFormat = Annotated[
    Json | Debezium | Csv | Tsv | Raw | String | Avro | Protobuf | JsonSchema,
    Field(discriminator="type"),
    BeforeValidator(_from_text),
]
"""The settings of any format: what ``[[route]] format`` holds."""

JSON = Json(type="json")
"""The default."""


@dataclass(frozen=True)
class KeyColumns:
    """The format of Kafka's keys, and the columns that are filled from the key instead of the value."""

    format: FormatSettings
    columns: tuple[str, ...]

    def part(self) -> list[object]:
        """The settings as a JSON document, for the fingerprint."""
        return [*self.format.part(), list(self.columns)]

    @classmethod
    def of(cls, key_format: FormatSettings | None, columns: tuple[str, ...]) -> KeyColumns | None:
        """The keys' settings of a route; None if it has none."""
        return cls(key_format, columns) if key_format else None
