"""The pictures of docs/studies, from the shipped data: panels of lines, as plain SVG.

Colours are those of the studies' pages, and can be distinguished with any kind of colour vision;
each line also has its own mark and dash.  The background is white, also on dark pages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from typing import NamedTuple

from docs.generate.penalty_formula import share_of_spells
from docs.generate.study_bars import modes_picture
from docs.generate.study_data import one, pooled
from docs.generate.study_parts import EVEN, RING, STRATEGIES, half
from docs.generate.study_penalties import DRAWN_WELL_S, FLAPS, PENALTY_S, SLOW_S, WELL_S
from docs.generate.study_svg import COLOURS, FAINT, GRID, svg_text

WIDTH, HEIGHT = 900, 360
TOP, LEFT, GAP, RIGHT = 64, 56, 34, 16
HEAD, FOOT = TOP + 18, HEIGHT - 52  # of the y axis
DASHES = ("", "7 4", "2 3", "9 3 2 3")
POINT = 4.0  # half the size of a mark


class Line(NamedTuple):
    """Points (x, y); *sure* is half the interval of each y; *style* is the index of a style."""

    label: str
    points: Sequence[tuple[float, float]]
    style: int
    sure: Sequence[float] = ()
    has_marks: bool = True
    has_line: bool = True


class Panel(NamedTuple):
    """Lines over one x axis; *y_max* is the end of the y axis, *y_text* formats its values."""

    title: str
    x_title: str
    x_ticks: Sequence[float]
    y_max: float
    y_step: float
    lines: Sequence[Line]
    y_text: Callable[[float], str] = "{:g}".format


def idle_picture() -> str:
    """The number of idle members, by the read-only one of three brokers."""
    members = range(2, 13)
    panels = []
    for strategy in (*EVEN, RING):
        lines = []
        for style, place in enumerate(("first", "middle", "last")):
            found = [
                one(
                    "idle-brokers",
                    "read_only_idle_members",
                    strategy=strategy,
                    read_only=place,
                    members=m,
                )
                for m in members
            ]
            points = [(m, datum["mean"]) for m, datum in zip(members, found, strict=True)]
            sure = [half(datum) for datum in found]
            lines.append(Line(f"the {place} broker is read-only", points, style, sure))
        panels.append(Panel(STRATEGIES[strategy], "members", range(2, 13, 2), 4, 1, lines))
    title = "Members without work, of 3 brokers with 4 queues each, one of them read-only"
    return drawn(title, panels)


def skew_picture() -> str:
    """The share of queues that move when a member leaves, by its place among sorted ids."""
    sizes = (3, 5, 10, 20)
    panels = []
    for strategy in (*EVEN, RING):
        lines = []
        for style, leaver in enumerate(("first", "middle", "last", "any")):
            at = {"strategy": strategy, "queues": 240, "leaver": leaver}
            found = [one("skew-leavers", "moves_leave", members=m, **at) for m in sizes]
            points = [(m, datum["mean"] / 240) for m, datum in zip(sizes, found, strict=True)]
            sure = [half(datum) / 240 for datum in found]
            text = "any member leaves" if leaver == "any" else f"the {leaver} one leaves"
            lines.append(Line(text, points, style, sure))
        panels.append(
            Panel(STRATEGIES[strategy], "members", sizes, 1, 0.25, lines, "{:.0%}".format)
        )
    return drawn("Queues that change their owner when one member leaves, of 240", panels)


def penalties_picture() -> str:
    """A broker's share while it is well, by the length of that time; ill for 10 s, with 600 ms."""
    panels = []
    for avoids in ("4.9", "5.1.4"):
        alike = [
            (s, pooled("penalty-spells", "broker_share_well", avoids=avoids, ill_s=10, well_s=s))
            for s in WELL_S
        ]
        drawn_ones = [
            (s, pooled("penalty-drawn", "broker_share_well", avoids=avoids, well_s=s))
            for s in DRAWN_WELL_S
        ]
        every = [at / 4 for at in range(4 * min(WELL_S), 4 * max(WELL_S) + 1)]
        computed = [
            (s, share_of_spells([(10, s)] * FLAPS, PENALTY_S[avoids], SLOW_S)) for s in every
        ]
        lines = [
            Line("equal spells (runs)", [(s, p.mean) for s, p in alike], 0, has_line=False),
            Line("equal spells, computed", computed, 0, has_marks=False),
            Line(
                "random spells with this mean (runs)",
                [(s, p.mean) for s, p in drawn_ones],
                1,
                [p.half for _, p in drawn_ones],
            ),
        ]
        title = f"table of {avoids}: {PENALTY_S[avoids]} s for 600 ms"
        x_title = "s for which it is well; it is ill for 10 s"
        panels.append(Panel(title, x_title, range(0, 61, 10), 0.6, 0.1, lines, "{:.0%}".format))
    title = "Share of all sends that one of two brokers gets while it is well"
    return drawn(title, panels)


PICTURES: Mapping[str, Callable[[], str]] = {
    "skew": skew_picture,
    "idle": idle_picture,
    "penalties": penalties_picture,
    "modes": modes_picture,
}


# Drawing -----------------------------------------------------------------------------------


def drawn(title: str, panels: Sequence[Panel]) -> str:
    """Panels side by side below one legend."""
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">',
        f"<title>{escape(title)}</title>",
        '<rect width="100%" height="100%" fill="#ffffff"/>',
        svg_text(LEFT, 20, title, size=14, weight="bold"),
        *_legend(panels[0].lines),
    ]
    room = (WIDTH - LEFT - RIGHT - GAP * (len(panels) - 1)) / len(panels)
    for at, panel in enumerate(panels):
        parts += _panel(panel, LEFT + at * (room + GAP), room, has_y_axis=at == 0)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _legend(lines: Sequence[Line]) -> list[str]:
    parts, x = [], float(LEFT)
    for line in lines:
        parts += _drawn_line([(x, 38.0), (x + 28, 38.0)], line) if line.has_line else []
        parts += [_mark(x + 14, 38.0, line.style)] if line.has_marks else []
        parts.append(svg_text(x + 36, 42, line.label))
        x += 36 + 6.6 * len(line.label) + 24
    return parts


class Frame(NamedTuple):
    """The position of a panel, and the scale of its values."""

    panel: Panel
    left: float
    room: float

    def x_of(self, value: float) -> float:
        low, high = min(self.panel.x_ticks), max(self.panel.x_ticks)
        return self.left + 8 + (self.room - 16) * (value - low) / (high - low)

    def y_of(self, value: float) -> float:
        return FOOT - (FOOT - HEAD) * value / self.panel.y_max


def _panel(panel: Panel, left: float, room: float, *, has_y_axis: bool) -> list[str]:
    frame = Frame(panel, left, room)
    parts = [svg_text(left, TOP + 6, panel.title, weight="bold"), *_axes(frame, has_y_axis)]
    for line in panel.lines:
        places = [(frame.x_of(x), frame.y_of(y)) for x, y in line.points]
        for (x, y), sure in zip(line.points, line.sure, strict=False):
            ends = f"{frame.y_of(max(0, y - sure)):.1f}V{frame.y_of(y + sure):.1f}"
            if sure:
                parts.append(
                    f'<path d="M{frame.x_of(x):.1f} {ends}" stroke="{COLOURS[line.style]}"/>'
                )
        parts += _drawn_line(places, line) if line.has_line else []
        if line.has_marks:
            parts += [_mark(x, y, line.style) for x, y in places]
    return parts


def _axes(frame: Frame, has_y_axis: bool) -> Iterator[str]:  # of the panel
    panel, left, room = frame
    for step in range(round(panel.y_max / panel.y_step) + 1):
        y = frame.y_of(step * panel.y_step)
        yield f'<path d="M{left:.1f} {y:.1f}H{left + room:.1f}" stroke="{GRID}"/>'
        if has_y_axis:
            text = panel.y_text(step * panel.y_step)
            yield svg_text(left - 8, y + 4, text, anchor="end", fill=FAINT)
    for tick in panel.x_ticks:
        yield svg_text(frame.x_of(tick), FOOT + 18, f"{tick:g}", anchor="middle", fill=FAINT)
    yield svg_text(left + room / 2, FOOT + 38, panel.x_title, anchor="middle", fill=FAINT)


def _drawn_line(places: Sequence[tuple[float, float]], line: Line) -> list[str]:
    path = "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
    dash = f' stroke-dasharray="{DASHES[line.style]}"' if DASHES[line.style] else ""
    stroke = f'stroke="{COLOURS[line.style]}" stroke-width="1.8"'
    return [f'<path d="M{path}" {stroke} fill="none"{dash}/>']


def _mark(x: float, y: float, style: int) -> str:
    """The SVG of a mark: a disc, a square, a triangle or a cross."""
    p, colour = POINT, COLOURS[style]
    pen = f'stroke="{colour}" stroke-width="1.8"'
    square = f'x="{x - p:.1f}" y="{y - p:.1f}" width="{2 * p}" height="{2 * p}"'
    triangle = f"M{x:.1f} {y - p:.1f}L{x + p:.1f} {y + p:.1f}H{x - p:.1f}Z"
    cross = f"M{x - p:.1f} {y - p:.1f}l{2 * p} {2 * p}m0 {-2 * p}l{-2 * p} {2 * p}"
    shapes = (
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{p}" fill="{colour}"/>',
        f'<rect {square} fill="#ffffff" {pen}/>',
        f'<path d="{triangle}" fill="{colour}"/>',
        f'<path d="{cross}" {pen} fill="none"/>',
    )
    return shapes[style]
