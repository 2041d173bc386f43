from __future__ import annotations

from pathlib import Path

import pytest

from chsink.state import sql_files

NAMES = {"database": "`d`", "table": "`t`", "path": "/p", "user": "u"}
FILES = (sql_files.TABLE, sql_files.VIEWS, sql_files.GRANTS, sql_files.CHECKS)


def test_every_file_of_the_folder_is_known_and_the_package_has_it() -> None:
    folder = Path(__file__).parents[3] / "sql"
    assert sorted(p.name for p in folder.glob("*.sql")) == sorted(FILES)
    assert [len(sql_files.statements(f, NAMES)) for f in FILES] == [1, 2, 1, 4]


@pytest.mark.parametrize("name", FILES)
def test_statements_are_filled_and_bare(name: str) -> None:
    for statement in sql_files.statements(name, NAMES):
        assert "$" not in statement and "--" not in statement and not statement.endswith(";")


def test_a_missing_value_is_an_error() -> None:
    with pytest.raises(KeyError, match="path"):
        sql_files.statements(sql_files.TABLE, {"database": "d", "table": "t"})
