"""A terminal's screen as an SVG that looks the same in every viewer.

Every word has its own position and length, so columns do not depend on the font; bars, rules
and dots are shapes, because fonts draw them with gaps, or not at all.  The SVG loads nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape
from io import StringIO
from typing import TYPE_CHECKING

from rich.color import blend_rgb
from rich.color_triplet import ColorTriplet
from rich.console import Console
from rich.style import Style
from rich.terminal_theme import SVG_EXPORT_THEME as THEME

if TYPE_CHECKING:
    from rich.console import RenderableType

FONT = 20
CELL, LINE = 12.04, 24  # of a character; with DejaVu Sans Mono no word is stretched
LEFT, TOP, BOTTOM = 14, 42, 12
BARS = "▁▂▃▄▅▆▇█"
PIECES = re.compile(rf"([{BARS}])\1*|─+|·|[^\s{BARS}─·]+")
HEAD = """\
<svg viewBox="0 0 {width:.0f} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
text {{ font: {font}px "DejaVu Sans Mono", Menlo, Consolas, monospace; white-space: pre }}
.b {{ font-weight: bold }}
</style>
<rect width="{width:.0f}" height="{height}" rx="8" fill="{background}"/>
<circle cx="22" cy="20" r="7" fill="#ff5f57"/>
<circle cx="44" cy="20" r="7" fill="#febc2e"/>
<circle cx="66" cy="20" r="7" fill="#28c840"/>
"""


def picture(screen: RenderableType, *, columns: int, title: str) -> str:
    """The SVG of *screen* in a terminal with *columns* columns."""
    console = Console(width=columns, file=StringIO(), force_terminal=True)
    rows = console.render_lines(screen, console.options, pad=False)
    width, height = 2 * LEFT + columns * CELL, TOP + len(rows) * LINE + BOTTOM
    background = THEME.background_color.hex
    parts = [
        HEAD.format(width=width, height=height, font=FONT, background=background),
        _text(width / 2 - len(title) * CELL / 2, 26, title, THEME.foreground_color.hex),
    ]
    for number, row in enumerate(rows):
        column = 0
        for segment in row:
            style = segment.style or Style.null()
            parts += _pieces(segment.text, style, column, TOP + number * LINE)
            column += len(segment.text)
    return "".join(parts) + "</svg>\n"


def _pieces(text: str, style: Style, column: int, top: int) -> Iterator[str]:
    """The SVG elements of *text*: its words and shapes at their positions."""
    colour = _colour(style)
    for found in PIECES.finditer(text):
        piece, x = found[0], LEFT + (column + found.start()) * CELL
        if piece[0] in BARS:
            tall = (LINE - 4) * (BARS.index(piece[0]) + 1) / len(BARS)
            yield _rect(x, top + LINE - 4 - tall, len(piece) * CELL, tall, colour)
        elif piece.startswith("─"):
            yield _rect(x, top + LINE / 2 - 0.5, len(piece) * CELL, 1, colour)
        elif piece == "·":
            yield _rect(x + CELL / 2 - 1.5, top + LINE - 8, 3, 3, colour)
        else:
            yield _text(x, top + LINE - 6, piece, colour, is_bold=bool(style.bold))


def _text(x: float, y: float, text: str, colour: str, *, is_bold: bool = False) -> str:
    strong = ' class="b"' if is_bold else ""
    length = f'textLength="{len(text) * CELL:.1f}" lengthAdjust="spacingAndGlyphs"'
    return f'<text x="{x:.1f}" y="{y}" {length} fill="{colour}"{strong}>{escape(text)}</text>\n'


def _rect(x: float, y: float, width: float, height: float, colour: str) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
    return f'<rect {place} fill="{colour}"/>\n'


def _colour(style: Style) -> str:
    named = style.color.get_truecolor(THEME) if style.color else THEME.foreground_color
    return _faint(named).hex if style.dim else named.hex


def _faint(colour: ColorTriplet) -> ColorTriplet:
    return blend_rgb(colour, THEME.background_color, 0.5)
