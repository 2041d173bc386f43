"""The mirror's tables on a REST catalog: every test of tests/unit/mirror that needs a catalog, against Apache Iceberg's
own reference server.
"""

from __future__ import annotations

import inspect

import pytest

from tests.unit.mirror import test_clean, test_growing, test_new_tables, test_partitions, test_tables

pytestmark = pytest.mark.soak
MODULES = (test_clean, test_growing, test_new_tables, test_partitions, test_tables)

# what the tests of the modules need, by the names that they use
table, mirror = test_tables.table, test_clean.mirror
FIXTURES = {"open_catalog", "table", "mirror"}
for _module in MODULES:
    for _name, _found in list(vars(_module).items()):
        if _name.startswith("test_") and not FIXTURES.isdisjoint(inspect.signature(_found).parameters):
            globals()[f"{_module.__name__.rpartition('.')[2]}{_name.removeprefix('test')}"] = _found
