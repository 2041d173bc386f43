"""Every defect: of what lands in ClickHouse, of the mirror, and of replays."""

from __future__ import annotations

from tests.mutations.defects import DEFECTS as CLICKHOUSE_DEFECTS
from tests.mutations.defects import Defect
from tests.mutations.mirror_defects import MIRROR_DEFECTS
from tests.mutations.replay_defects import REPLAY_DEFECTS

DEFECTS: tuple[Defect, ...] = (*CLICKHOUSE_DEFECTS, *MIRROR_DEFECTS, *REPLAY_DEFECTS)
