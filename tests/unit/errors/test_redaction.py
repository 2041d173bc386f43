"""What may be a record's value is in no message, also where the message is somebody else's."""

from __future__ import annotations

import pytest

from chsink.errors import without_values


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            "cannot convert Int64 value 300 to UInt8 (while reading path a): from type String to type JSON(a UInt8)",
            "cannot convert Int64 value … to UInt8 (while reading path a): from type String to type JSON(a UInt8)",
        ),
        ("cannot convert value secret one to enum: no such value", "cannot convert value … to enum: no such value"),
        (
            'cannot parse UInt8 value here: "zz" (while reading path a)',
            "cannot parse UInt8 value here: … (while reading path a)",
        ),
        (
            "cannot parse UUID value here: zz (while reading path a): while converting column `c`",
            "cannot parse UUID value here: … (while reading path a): while converting column `c`",
        ),
        (
            "cannot read Array value from JSON element: [1, 2] (while reading)",
            "cannot read Array value from JSON element: … (while reading)",
        ),
        (
            "Cannot parse string 'it\\'s\nsecret' as UInt8: syntax error",
            "Cannot parse string '…' as UInt8: syntax error",
        ),
        ("expected '\"' before: 'secret\"}': (at row 1)", "expected '…' before: … (at row 1)"),
        ("Cannot parse IPv4 1.2.3.4: (while reading)", "Cannot parse IPv4 …: (while reading)"),
        ("digits were read: 12345e6", "digits were read: …"),
        ("Unexpected value -1.5e3 in enum", "Unexpected value … in enum"),
        ('Input value 4294967297 of column "c" is out of range', 'Input value … of column "…" is out of range'),
        ('The value 300L of the type "BIGINT" cannot be cast', 'The value … of the type "…" cannot be cast'),
        ("KeyError: b'secret'", "KeyError: '…'"),
        ("unclosed 'secret", "unclosed '…'"),
        ("Expression: x > 0. Column values: x = -5, y = z", "Expression: x > 0. (values left out)"),
    ],
)
def test_values_are_left_out_of_a_message_and_the_sentence_stays(text: str, shown: str) -> None:
    """⚑ no message holds a record's value, however its author quotes values."""
    assert without_values(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "Code: 252. Too many parts (300 with average size of 2.00 KiB) in table `d`.`t`. (TOO_MANY_PARTS)",
        "Memory limit (total) exceeded: would use 1.20 GiB, maximum: 1.00 GiB. (version 26.9.2.1)",
        "Too large value for FixedString(3): (while reading the value of key c): (at row 1)",
        "Cannot parse JSON value of type Variant(Float64, Int8)",
        "The user's table isn't there",
        '  File "/opt/job/transform.py", line 12, in transform',
    ],
)
def test_a_message_without_values_stays_as_it_is(text: str) -> None:
    assert without_values(text) == text
