"""What the recorded fingerprint of a range in doubt says against the present one."""

from __future__ import annotations

import pytest

from chsink.clickhouse.checks.records import known_changes

RECORDED = "decoder=a,columns=b,transform=c,isolation=d,table=e"


@pytest.mark.parametrize(
    ("present", "changed"),
    [
        (RECORDED, []),
        (RECORDED.replace("columns=b", "columns=x"), ["columns"]),
        (RECORDED.replace("isolation=d,table=e", "isolation=x,table=y"), ["isolation", "table"]),
        (RECORDED.replace("transform=c,isolation=d", "transform=x,isolation=y"), []),
    ],
)
def test_what_changed_is_named_where_the_stream_is_not_transformed(present: str, changed: list[str]) -> None:
    assert known_changes(RECORDED, present) == changed
