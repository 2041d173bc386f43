"""The pictures of the documentation: ``python -m docs.site.pictures docs/images`` writes them; ``make docs`` runs it.

Where the code has a table, the picture is drawn from it: the state machine from the rows of the decision table, the
rooms from what each may import, the benchmark from the figures of its page.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final

from chsink.statemachine.records import Phase
from chsink.statemachine.table import NO_RECORD, TABLE, Cell, StepKind, Stop
from docs.site.svg import Drawing
from tests.unit.test_architecture import ROOMS, SHARED

DOCS: Final = Path(__file__).parents[1]
HALT: Final = "halt"
WAYS: Final = (Phase.BEFORE, Phase.AFTER, NO_RECORD, HALT)
Way = tuple[Phase | None, str | None]


def ways() -> dict[Way, list[str]]:
    """From a phase to a phase or a halt: the rows of the decision table that lead there, as ``13 NEW``."""
    found: dict[Way, list[str]] = defaultdict(list)
    for number, row in enumerate(TABLE, 1):
        for phase, cell in row.cells.items():
            if not row.crops:
                found[phase, _end(phase, cell)].append(f"{number} {row.name}")
    return found


def _end(phase: Phase | None, cell: Cell) -> str | None:
    """Where the moves of a cell leave a record, as soon as its steps have begun."""
    at: str | None = phase
    for move in cell:
        if isinstance(move, Stop):
            return HALT
        if move.kind is StepKind.WRITE:
            at = Phase.BEFORE
        elif move.kind in (StepKind.SETTLE, StepKind.REINSERT):
            at = Phase.AFTER
    return at


def state_machine() -> str:
    """The phases of a topic-partition's record, and the rows that lead from one to another."""
    d = Drawing(
        1010,
        620,
        "The state of one topic-partition",
        "A record is absent, BEFORE or AFTER. A new range is announced as BEFORE; once every offset is acknowledged it "
        "is AFTER. A range in doubt is settled first. The rows of the decision table are written at their arrows.",
    )
    size = (150, 64)
    d.box(40, 230, size, ["no record"])
    d.box(400, 230, size, ["BEFORE", "announced: in doubt"], "core")
    d.box(780, 230, size, ["AFTER", "all of it landed"])
    d.box(400, 530, size, ["halt", "a person decides"], "halt")
    found = ways()

    def rows(x: float, y: float, way: Way, head: str = "", anchor: str = "start") -> None:
        d.text(x, y, [head] if head else [], "small strong", anchor)
        d.text(x, y + (14 if head else 0), found.pop(way), "small", anchor)

    d.arrow("M190 262L398 262")
    rows(290, 254, (NO_RECORD, Phase.BEFORE), anchor="middle")
    d.arrow("M80 230C60 180 150 180 130 228")
    rows(105, 180, (NO_RECORD, NO_RECORD), anchor="middle")
    d.arrow("M115 294C120 470 250 555 398 562")
    rows(168, 440, (NO_RECORD, HALT))
    d.arrow("M550 250L778 250")
    d.text(664, 242, "every offset acknowledged", "small strong")
    d.arrow("M550 276L778 276")
    rows(592, 292, (Phase.BEFORE, Phase.AFTER), "settled, nothing left to land:")
    d.arrow("M850 230C840 90 490 90 478 228")
    rows(664, 28, (Phase.AFTER, Phase.BEFORE), "the next range is announced:", "middle")
    d.arrow("M420 230C360 130 470 130 450 228")
    rows(236, 92, (Phase.BEFORE, Phase.BEFORE), "settled, then the next range:")
    d.arrow("M905 230C930 150 840 150 880 228")
    rows(905, 92, (Phase.AFTER, Phase.AFTER), "nothing to land:", "middle")
    d.arrow("M475 294L475 528")
    rows(484, 400, (Phase.BEFORE, HALT))
    d.arrow("M860 294C850 500 700 560 552 562")
    rows(868, 390, (Phase.AFTER, HALT))
    assert not found, f"no arrow is drawn for {found}"
    return d.svg()


Message = tuple[int, int, str]
"""From and to, by number of the lane, and what is said.  The same lane twice: it does this by itself."""


def _sequence(
    d: Drawing, lanes: Sequence[str], messages: Sequence[Message], zone: tuple[int, int, str] | None = None
) -> None:
    """Who tells whom, from top to bottom.  ``zone`` marks the time between two messages."""
    step, left, top, apart = 46, 85, 92, 158
    end = top + step * len(messages)
    if zone:
        first, last, words = zone
        d.rect(14, top + step * first - 8, (apart * len(lanes) - 14, step * (last - first)), "zone")
        d.text(24, top + step * last - 18, words, "small dim", "start")
    for n, lane in enumerate(lanes):
        d.line(f"M{left + apart * n} 58L{left + apart * n} {end}", "lane")
        d.box(left + apart * n - 68, 18, (136, 40), lane.split(", "))
    for n, (start, to, words) in enumerate(messages):
        y, x = top + step * n, left + apart * start
        if start == to:
            d.arrow(f"M{x} {y}h26v16h-24")
            d.text(x + 34, y + 12, words, "small", "start")
        else:
            d.arrow(f"M{x} {y + 12}L{left + apart * to} {y + 12}")
            d.text(left + apart * (start + to) / 2, y + 6, words, "small")


def batch() -> str:
    """One micro-batch, with the steps of ``how-a-batch-survives.md``."""
    lanes = ["Kafka", "Spark", "driver", "state store", "tasks", "ClickHouse"]
    messages = [
        (1, 2, "1 Plan: offsets/N"),
        (2, 2, "2 Decide: the decision table"),
        (2, 3, "3 Announce: BEFORE"),
        (0, 4, "exactly the records of the range"),
        (4, 5, "4 Insert: one token a piece"),
        (4, 2, "5 Acknowledge: the offsets covered"),
        (2, 3, "6 Confirm: AFTER"),
        (1, 1, "7 Commit: commits/N"),
    ]
    about = " ".join(f"{lanes[a]} to {lanes[b]}: {words}." for a, b, words in messages)
    d = Drawing(960, 480, "A batch's way", f"{about} Between BEFORE and AFTER, the range is in doubt.")
    _sequence(d, lanes, messages, (3, 6, "in doubt: after a crash in here, exactly this range is sent again"))
    return d.svg()


def commit() -> str:
    """One commit of the mirror, with the steps of ``mirror.md``."""
    lanes = ["source topic", "task", "files", "control topic, group", "coordinator", "Iceberg table"]
    messages = [
        (1, 3, "1 open the producer: older attempts are fenced"),
        (3, 1, "2 the group's offset"),
        (0, 1, "records beyond it"),
        (1, 2, "3 write files"),
        (1, 3, "4 one transaction: the files, and the group's offset"),
        (3, 4, "5 offsets, then events"),
        (5, 4, "6 read the table's chain"),
        (4, 5, "6 commit, if unchanged"),
        (4, 3, "7 store the position"),
        (4, 4, "8 a hole is read again"),
    ]
    about = " ".join(f"{lanes[a]} to {lanes[b]}: {words}." for a, b, words in messages)
    d = Drawing(980, 570, "The mirror's commit", about)
    _sequence(d, lanes, messages)
    return d.svg()


def house() -> str:
    """The rooms of the code, each above those that it may use."""
    layers: dict[int, list[str]] = defaultdict(list)
    for room in ROOMS:
        if room not in SHARED:
            layers[_layer(room)].append(room.removeprefix("chsink."))
    columns = max(map(len, layers.values()))
    width, top = 60 + 104 * columns, 54
    height = top + 58 * (len(layers) + 2) + 20
    d = Drawing(
        width,
        height,
        "The rooms of the code",
        "Each room uses only rooms below it. From top to bottom: cli; "
        + "; ".join(", ".join(layers[n]) for n in sorted(layers, reverse=True))
        + "; what all rooms may use.",
    )
    d.text(width / 2, 30, "a room may use only rooms below it", "dim")
    d.box(30, top, (width - 60, 44), ["cli", "joins all of them"])
    for n, layer in enumerate(sorted(layers, reverse=True), 1):
        left = width / 2 - 52 * len(layers[layer])
        for k, room in enumerate(layers[layer]):
            d.box(left + 104 * k + 4, top + 58 * n, (96, 44), [room])
    shared = ", ".join(sorted(name.removeprefix("chsink.") for name in SHARED - {"chsink"}))
    d.box(30, top + 58 * (len(layers) + 1), (width - 60, 44), ["all rooms may use", shared], "core")
    return d.svg()


@cache
def _layer(room: str) -> int:
    """0 for a room that uses none, else one more than the highest that it uses."""
    used = {".".join(name.split(".")[:2]) for name in ROOMS[room]}
    return max((_layer(name) + 1 for name in used), default=0)


def speed() -> str:
    """The newest table of speed in ``benchmark.md``: rows a second, with the least and the most."""
    page = (DOCS / "benchmark.md").read_text(encoding="utf-8")
    section = page.split("### Speed\n")[1].split("\n### ")[0]
    row = re.compile(r"^\| (\(\w+\) [^|]+) \| ([\d,]+) \(([\d,]+) \.\. ([\d,]+)\)", re.MULTILINE)
    newest = section[section.rindex("| | rows/s") :]
    bars = [(name, *(int(n.replace(",", "")) for n in figures)) for name, *figures in row.findall(newest)]
    assert len(bars) == 4, bars
    height, scale = 62 + 44 * len(bars), 430 / max(most for _, _, _, most in bars)
    said = "; ".join(f"{name.replace('`', '')}: {median:,}" for name, median, _, _ in bars)
    d = Drawing(860, height, "Rows per second", f"Median rows per second. {said}.")
    d.text(24, 30, "rows per second: median, and the range of the rounds", "dim", "start")
    for n, (name, median, least, most) in enumerate(bars):
        y = 50 + 44 * n
        d.text(24, y + 18, name.replace("`", ""), "", "start")
        d.rect(300, y, (median * scale, 26), "own" if "chsink" in name else "bar")
        d.line(f"M{300 + least * scale:.1f} {y + 13}L{300 + most * scale:.1f} {y + 13}")
        d.text(310 + most * scale, y + 18, f"{median:,}", "strong", "start")
    return d.svg()


PICTURES: Final[Mapping[str, Callable[[], str]]] = {
    "state-machine.svg": state_machine,
    "batch.svg": batch,
    "commit.svg": commit,
    "rooms.svg": house,
    "speed.svg": speed,
}


def main(folder: Path) -> None:
    """Write all of them."""
    for name, draw in PICTURES.items():
        (folder / name).write_text(draw(), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
