"""The picture of docs/studies/modes.md: a panel for each fault, in it a row for each mode.

Each row has one bar for each series; a thin line over the bar shows the range of the runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import NamedTuple

from docs.generate.study_modes import FAULTS, READS, SHOWN, WRITES, bars_of
from docs.generate.study_svg import COLOURS, FAINT, GRID, INK, svg_text

WIDTH, LABELS, GAP, RIGHT = 900, 262, 14, 16
HEAD, ROW, BAR = 84, 34, 11
FOOT = 46


class Bar(NamedTuple):
    """A mean value with the smallest and the largest one."""

    value: float
    least: float
    most: float


class BarPanel(NamedTuple):
    """*rows* has the bars of each row, one for each series."""

    title: str
    rows: Sequence[Sequence[Bar]]


def modes_picture() -> str:
    """Seconds without writes and without reads, by fault and mode."""
    panels = []
    for fault, writes, reads in zip(FAULTS.values(), bars_of(WRITES), bars_of(READS), strict=True):
        rows = [
            [Bar(pool.mean, pool.least, pool.most) for pool in pair]
            for pair in zip(writes, reads, strict=True)
        ]
        panels.append(BarPanel(fault, rows))
    return bars_drawn(
        "Seconds without writes and without reads when the master of a name dies",
        [shown.title for shown in SHOWN],
        ["no send is acknowledged", "a group with a backlog gets nothing"],
        panels,
        x_max=90,
        x_step=30,
        x_title="seconds; the master is back after 60 s",
    )


def bars_drawn(
    title: str,
    labels: Sequence[str],
    series: Sequence[str],
    panels: Sequence[BarPanel],
    *,
    x_max: float,
    x_step: float,
    x_title: str,
) -> str:
    """The SVG: *labels* of the rows on the left, then the panels with one common scale."""
    height = HEAD + ROW * len(labels) + FOOT
    room = (WIDTH - LABELS - RIGHT - GAP * (len(panels) - 1)) / len(panels)
    size = f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">',
        f"<title>{escape(title)}</title>",
        '<rect width="100%" height="100%" fill="#ffffff"/>',
        svg_text(12, 20, title, size=14, weight="bold"),
        *_legend(series),
    ]
    for row, label in enumerate(labels):
        parts.append(svg_text(LABELS - 10, HEAD + ROW * row + 20, label, anchor="end"))
    for at, panel in enumerate(panels):
        left = LABELS + at * (room + GAP)
        parts += _axis(left, room, height - FOOT, x_max, x_step)
        parts.append(svg_text(left, HEAD - 8, panel.title, weight="bold"))
        for row, bars in enumerate(panel.rows):
            parts += _bars(bars, left, HEAD + ROW * row + 5, room / x_max)
    middle = LABELS + (WIDTH - LABELS - RIGHT) / 2
    parts.append(svg_text(middle, height - 8, x_title, anchor="middle"))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _legend(series: Sequence[str]) -> Iterator[str]:
    x = 12.0
    for style, name in enumerate(series):
        yield f'<rect x="{x:.1f}" y="34" width="24" height="{BAR}" fill="{COLOURS[style]}"/>'
        yield svg_text(x + 32, 44, name)
        x += 32 + 6.6 * len(name) + 24


def _axis(left: float, room: float, foot: float, x_max: float, x_step: float) -> Iterator[str]:
    for step in range(round(x_max / x_step) + 1):
        x = left + room * step * x_step / x_max
        yield f'<path d="M{x:.1f} {HEAD}V{foot:.1f}" stroke="{GRID}"/>'
        yield svg_text(x, foot + 16, f"{step * x_step:g}", anchor="middle", fill=FAINT)


def _bars(bars: Sequence[Bar], left: float, top: float, scale: float) -> Iterator[str]:
    for style, bar in enumerate(bars):
        y = top + style * (BAR + 1)
        width = max(1.0, bar.value * scale)
        yield (
            f'<rect x="{left:.1f}" y="{y:.1f}" width="{width:.1f}" height="{BAR}" '
            f'fill="{COLOURS[style]}"/>'
        )
        if bar.most > bar.least:
            from_x, to_x = left + bar.least * scale, left + bar.most * scale
            yield f'<path d="M{from_x:.1f} {y + BAR / 2:.1f}H{to_x:.1f}" stroke="{INK}"/>'
