"""Every defect: of what lands in ClickHouse, and of the mirror."""

from __future__ import annotations

from tests.mutations.defects import DEFECTS as CLICKHOUSE_DEFECTS
from tests.mutations.defects import Defect
from tests.mutations.mirror_defects import MIRROR_DEFECTS

DEFECTS: tuple[Defect, ...] = (*CLICKHOUSE_DEFECTS, *MIRROR_DEFECTS)
