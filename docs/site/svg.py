"""Boxes, arrows and text as SVG: the same input gives the same file, readable on light and dark pages.

Coordinates are pixels, ``y`` grows downwards.  A picture follows the reader's colour scheme and has a ground of its
own, so it is readable on any page.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Final

_STYLE: Final = """\
text { font: 13px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #1c2329 }
.small { font-size: 11px } .strong { font-weight: 600 } .dim { fill: #56616b }
.ground { fill: #ffffff; stroke: #d5dbe1 } .box { fill: #eef2f6; stroke: #56616b } .zone { fill: #fdf1d0 }
.halt { fill: #fbe3e0; stroke: #b3261e } .core { fill: #fdf1d0; stroke: #8a6100 } .bar { fill: #8fa3b5 }
.own { fill: #d99a00 } .line { stroke: #56616b; fill: none; stroke-width: 1.3 } .head { fill: #56616b }
.lane { stroke: #b4bec8; stroke-dasharray: 3 4 }
@media (prefers-color-scheme: dark) {
text { fill: #e4e9ee } .dim { fill: #a3afba } .ground { fill: #171b20; stroke: #343c44 }
.box { fill: #262d35; stroke: #94a1ad } .zone { fill: #3a3013 } .halt { fill: #4a201d; stroke: #f2958d }
.core { fill: #3a3013; stroke: #e0b23d } .bar { fill: #5d7183 } .own { fill: #d99a00 }
.line { stroke: #94a1ad } .head { fill: #94a1ad } .lane { stroke: #4a545e }
}"""
_HEAD: Final = (
    '<marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" '
    'orient="auto-start-reverse"><path class="head" d="M0 0L10 5L0 10z"/></marker>'
)


class Drawing:
    """One picture.  ``title`` and ``about`` are what a screen reader says."""

    def __init__(self, width: int, height: int, title: str, about: str) -> None:
        self._parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" role="img">',
            f"<title>{escape(title)}</title>",
            f"<desc>{escape(about)}</desc>",
            f"<style>\n{_STYLE}\n</style>",
            f"<defs>{_HEAD}</defs>",
            f'<rect class="ground" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="8"/>',
        ]

    def text(self, x: float, y: float, lines: str | Sequence[str], kind: str = "", anchor: str = "middle") -> None:
        """Lines below each other, the first one's baseline at ``y``."""
        for n, line in enumerate([lines] if isinstance(lines, str) else lines):
            at = f'x="{x:g}" y="{y + n * (14 if "small" in kind else 17):g}"'
            self._parts.append(f'<text {at} text-anchor="{anchor}"{_kind(kind)}>{escape(line)}</text>')

    def box(self, x: float, y: float, size: tuple[float, float], lines: Sequence[str], kind: str = "box") -> None:
        """A box with centred text: the first line is strong, the others are small."""
        width, height = size
        self.rect(x, y, size, kind)
        top = y + height / 2 + 5 - 7 * (len(lines) - 1)
        self.text(x + width / 2, top, lines[:1], "strong")
        self.text(x + width / 2, top + 16, lines[1:], "small dim")

    def rect(self, x: float, y: float, size: tuple[float, float], kind: str) -> None:
        """A rounded rectangle."""
        at = f'x="{x:g}" y="{y:g}" width="{size[0]:g}" height="{size[1]:g}"'
        self._parts.append(f'<rect{_kind(kind)} {at} rx="5"/>')

    def arrow(self, path: str) -> None:
        """An arrow along an SVG path."""
        self._parts.append(f'<path class="line" d="{path}" marker-end="url(#head)"/>')

    def line(self, path: str, kind: str = "line") -> None:
        """A line without a head."""
        self._parts.append(f'<path{_kind(kind)} d="{path}"/>')

    def svg(self) -> str:
        """The file."""
        return "\n".join([*self._parts, "</svg>", ""])


def _kind(kind: str) -> str:
    return f' class="{kind}"' if kind else ""
