"""ClickHouse exceptions as its HTTP interface shows them: a code, a text that ends with the version, a status.

The engine's text is passed on word for word.  The front raises one of its own only for what it refuses before the
engine sees the statement (authentication, sessions, encodings, what an embedded engine cannot do), with the server's
own codes.
"""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Final

ACCESS_DENIED: Final = 497
AUTHENTICATION_FAILED: Final = 516
BAD_REQUEST_PARAMETER: Final = 408
CANNOT_DECOMPRESS: Final = 271
CANNOT_READ_ALL_DATA: Final = 33
CHECKSUM_DOESNT_MATCH: Final = 40
INTO_OUTFILE_NOT_ALLOWED: Final = 358
INVALID_SESSION_TIMEOUT: Final = 374
LZ4_DECODER_FAILED: Final = 618
NOT_IMPLEMENTED: Final = 48
READONLY: Final = 164
SESSION_IS_LOCKED: Final = 373
SESSION_NOT_FOUND: Final = 372
SYNTAX_ERROR: Final = 62
TOO_LARGE_SIZE_COMPRESSED: Final = 39
UNKNOWN_COMPRESSION_METHOD: Final = 89
UNKNOWN_EXCEPTION: Final = 1002
UNKNOWN_SETTING: Final = 115
UNKNOWN_TABLE: Final = 60
ZLIB_INFLATE_FAILED: Final = 354
ZSTD_DECODER_FAILED: Final = 561

_NAMES: Final = {value: name for name, value in list(globals().items()) if isinstance(value, int) and name.isupper()}
# How the engine wraps an error in the data of an INSERT: "Code: 27. DB::Exception: Code: 27. DB::Exception: what:
# (in file/uri PIPE): While executing File: data for INSERT was parsed from file. (NAME) (version …). (NAME)".
_WRAPPED: Final = re.compile(r"^(Code: \d+\. DB::Exception: )Code: \d+\. DB::Exception: ")
_UNWRAP: Final = re.compile(
    r": \(in file/uri [^)]*\)|: While executing File|: data for INSERT was parsed from file"
    r"|(?<=\)) \(version [^()]*\)\. \(\w+\)"
)
_CODE: Final = re.compile(r"Code: (\d+)\. ")
_VERSION: Final = re.compile(r" \(version [^()]*(?:\([^()]*\))?\)\s*$")

_PARSING: Final = (376, 427, 441, 675, 676)
# The server's own table of statuses; any other code is 500.
_STATUSES: Final = {
    HTTPStatus.UNAUTHORIZED: (194,),
    HTTPStatus.FORBIDDEN: (192, 193, 516, 512, 497),
    HTTPStatus.BAD_REQUEST: (
        6,
        8,
        15,
        25,
        26,
        27,
        36,
        37,
        38,
        41,
        44,
        53,
        62,
        72,
        117,
        123,
        167,
        168,
        223,
        321,
        *_PARSING,
    ),
    HTTPStatus.NOT_FOUND: (60, 46, 47, 50, 56, 81, 115, 152, 63, 73, 336, 78, 511),
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: (229,),
    HTTPStatus.NOT_IMPLEMENTED: (48,),
    HTTPStatus.SERVICE_UNAVAILABLE: (209, 76, 439),
    HTTPStatus.LENGTH_REQUIRED: (381,),
    HTTPStatus.REQUEST_TIMEOUT: (159,),
}
_STATUS_OF: Final = {code: status for status, codes in _STATUSES.items() for code in codes}


class ClickHouseException(Exception):
    """An error to be answered to the client; ``text`` begins with ``Code: n. DB::Exception:`` and has no version."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text

    @property
    def status(self) -> HTTPStatus:
        return _STATUS_OF.get(self.code, HTTPStatus.INTERNAL_SERVER_ERROR)

    def body(self, version: str) -> bytes:
        """What the server sends: the text, its version, a line break."""
        return f"{self.text} (version {version} (official build))\n".encode(errors="surrogateescape")


def refused(code: int, message: str) -> ClickHouseException:
    """An exception of the front itself, in the engine's words."""
    return ClickHouseException(code, f"Code: {code}. DB::Exception: {message}. ({_NAMES[code]})")


def from_engine(text: str) -> ClickHouseException:
    """The engine's exception from its text; one without a code is UNKNOWN_EXCEPTION."""
    text = _VERSION.sub("", text.strip())
    if "(in file/uri " in text:
        text = _UNWRAP.sub("", _WRAPPED.sub(r"\1", text))
    match = _CODE.search(text)
    if match is None:
        return refused(UNKNOWN_EXCEPTION, text or "the engine failed and gave no reason")
    return ClickHouseException(int(match[1]), text[match.start() :])
