"""Rows in columns that fit the available width and keep their places from draw to draw.

No line is folded: a cell may have shorter versions, spare columns are left out, and text
that is still too long ends in "…".  With a memory of widths a column never gets narrower.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from rich.cells import cell_len
from rich.text import Text

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions

GAP = 2
HEAD_STYLE = "bold"
Cell: TypeAlias = str | Text | tuple[str | Text, ...]  # a tuple: the first that fits
Row: TypeAlias = tuple[Cell, ...]
Widths: TypeAlias = dict[str, int]  # by the title of a column


class Column(NamedTuple):
    """*narrow*: the least width, None if the width is fixed; *spare*: may be left out."""

    title: str
    is_number: bool = False
    width_min: int = 0  # from the first draw on
    narrow: int | None = None
    spare: bool = False


class Sheet(NamedTuple):
    """Rows under a head; each row has a cell for each of the *columns*."""

    columns: tuple[Column, ...]
    rows: Sequence[Row]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        """All lines, at the console's width."""
        del console
        yield from self.lines(options.max_width)

    def lines(self, width: int, memory: Widths | None = None) -> list[Text]:
        """The head and the rows, none wider than *width*; *memory* keeps the widths of columns."""
        widths = {} if memory is None else memory
        for at, column in enumerate(self.columns):
            known = widths.get(column.title, max(column.width_min, cell_len(column.title)))
            widths[column.title] = max([known, *(_length(row[at]) for row in self.rows)])
        shown = _fitted(self.columns, widths, width)
        head = tuple(Text(column.title, HEAD_STYLE) for column in self.columns)
        return [_line(row, shown, width) for row in (head, *self.rows)]


def clean(text: str) -> str:
    """*text* with dots for control characters, which names may contain."""
    return text if text.isprintable() else "".join(c if c.isprintable() else "·" for c in text)


class _Place(NamedTuple):
    at: int  # of the cell in its row
    width: int
    column: Column


def _fitted(columns: Sequence[Column], natural: Widths, width: int) -> list[_Place]:
    """The columns that are shown, each with its width."""
    places = [_Place(at, natural[each.title], each) for at, each in enumerate(columns)]
    while True:
        fitted = _narrowed(places, width)
        spare = [place for place in places if place.column.spare]
        if not spare or _total(fitted) <= width:
            return fitted
        places.remove(spare[-1])


def _narrowed(places: Sequence[_Place], width: int) -> list[_Place]:
    """The columns within *width* if possible; the widest one is reduced first."""
    widths = {place.at: place.width for place in places}
    soft = {p.at: min(p.width, p.column.narrow) for p in places if p.column.narrow is not None}
    over = _total(places) - width
    while over > 0 and soft:
        widest = max(soft, key=lambda at: widths[at])
        if widths[widest] > soft[widest]:
            widths[widest] -= 1
            over -= 1
        else:
            del soft[widest]
    return [place._replace(width=widths[place.at]) for place in places]


def _total(places: Sequence[_Place]) -> int:
    return sum(place.width for place in places) + GAP * (len(places) - 1)


def _length(cell: Cell) -> int:
    first = cell[0] if isinstance(cell, tuple) else cell
    return first.cell_len if isinstance(first, Text) else cell_len(first)


def _line(row: Row, places: Sequence[_Place], width: int) -> Text:
    line = Text(no_wrap=True, end="\n")
    for place in places:
        if line:
            line.append(" " * GAP)
        line.append_text(_cell(row[place.at], place))
    line.rstrip()
    line.truncate(width, overflow="ellipsis")
    return line


def _cell(cell: Cell, place: _Place) -> Text:
    versions = cell if isinstance(cell, tuple) else (cell,)
    fitting = (each for each in versions if _length(each) <= place.width)
    chosen = next(fitting, versions[-1])
    text = chosen.copy() if isinstance(chosen, Text) else Text(chosen)
    text.truncate(place.width, overflow="ellipsis")
    text.align("right" if place.column.is_number else "left", place.width)
    return text
