"""The formats as the job file names them: ``format = "json"``, or a table of options with ``type = "json"``.

Rules:
- A format is a class here, with its options, and a reader of its own file that :data:`chsink.formats.readers.READERS`
  names.
- Importing this module imports no library that decodes: the configuration is read where nothing is decoded.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field

from chsink.fields import Section, Text


class FormatSettings(Section):
    """Base of the formats: one subclass for each, which adds its own options."""

    version: ClassVar[int] = 1
    """Part of the fingerprint: raised when the same record becomes another row."""

    type: str

    def part(self) -> list[Any]:
        """What the format decides, as a JSON document for the fingerprint.  Options that are not set add nothing."""
        options = self.model_dump(mode="json", exclude={"type"}, exclude_defaults=True)
        return [self.version, self.type, *([options] if options else [])]

    @property
    def filled(self) -> frozenset[str] | None:
        """The columns that the options name: the format fills no others.  None if the table's columns decide."""
        return None


class Json(FormatSettings):
    """Each value is one JSON object. Its fields go to the columns of the same names."""

    type: Literal["json"]
    """Which format."""


class _Whole(FormatSettings):
    column: Text | None = None
    """The column that takes the value. Default: the table's only column, besides those for Kafka's metadata."""

    @property
    def filled(self) -> frozenset[str] | None:
        """The one column, if it is named."""
        return frozenset({self.column}) if self.column else None


class Raw(_Whole):
    """The bytes of the value go unchanged to one `String` or `FixedString` column. An empty value is an empty text."""

    type: Literal["raw"]
    """Which format."""


class String(_Whole):
    """The value is UTF-8 text, which goes to one column as the same text in JSON would."""

    type: Literal["string"]
    """Which format."""


def _from_text(value: Any) -> Any:
    return {"type": value} if isinstance(value, str) else value


AnyFormat = Annotated[Json | Raw | String, Field(discriminator="type"), BeforeValidator(_from_text)]
"""The settings of any format: what ``[[route]] format`` holds."""

JSON = Json(type="json")
"""The default."""
