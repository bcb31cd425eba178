"""A queue's last seconds as a row of bars: a gap is seen, and so is who delivered.

A bar stands for a second.  It is compared with the usual rate, not with the highest one: the
burst after a gap would make everything else look flat.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from emulator.cli.demo.story import KILL, RETURN

if TYPE_CHECKING:
    from emulator.cli.demo.ledger import QueueHistory
    from emulator.cli.demo.story import DemoEvent

LENGTH = 30
OWNER_STYLES = {"consumer-a": "yellow", "consumer-b": "magenta", "consumer-c": "cyan"}
# Deliveries compared with the usual ones: below the factor stands its bar.
BARS = ((0.25, "▁"), (0.75, "▂"), (1.5, "▃"), (2.5, "▅"), (5.0, "▆"), (10.0, "▇"))
TALLEST, NOTHING = "█", "·"
MARKS = {KILL: ("×", "bold red"), RETURN: ("↑", "bold green")}
PLAIN = str.maketrans("▁▂▃▅▆▇█·×↑─…", "__-=+##.x^-.")  # for encodings without these


def strip(
    history: QueueHistory, until: int, usual: float, *, length: int = LENGTH, is_cut: bool
) -> Text:
    """*length* bars before number *until*; ``·`` where nothing came, red if something should have.

    *usual* is the number of messages that a bar stands for.  *is_cut*: the queue cannot deliver
    now, or has messages that wait, so that its last silence is a gap as well.
    """
    text = Text()
    first = min(history.bars, default=until)
    last = until if is_cut else max(history.bars, default=0)
    for number in range(until - length, until):
        bar = history.bars.get(number)
        if bar is not None:
            style = OWNER_STYLES.get(bar.consumer, "")
            text.append(height(bar.delivered / max(usual, 1.0)), style)
        elif number < first:
            text.append(" ")
        else:
            is_gap = usual >= 1 and number < last
            text.append(NOTHING, "red" if is_gap else "dim")
    return text


def height(share: float) -> str:
    """The bar for *share* times the usual number."""
    return next((bar for below, bar in BARS if share < below), TALLEST)


def marks(events: list[DemoEvent], until: int, bar_ms: int, *, length: int = LENGTH) -> Text:
    """Over the bars: when something was killed, and when it came back."""
    text = Text("─" * length)
    for event in events:
        place = event.at_ms // bar_ms - (until - length)
        if event.kind in MARKS and 0 <= place < length:
            mark, style = MARKS[event.kind]
            text.plain = text.plain[:place] + mark + text.plain[place + 1 :]
            text.stylize(style, place, place + 1)
    return text
