"""The demo's screen: events and their reasons, the owner of each queue, each process's state.

It is a screen that is drawn again and again, or plain lines: pipes, dumb terminals and small
windows get lines.  A window may change its size at any time, so each frame decides this anew.  A
frame is a list of lines, none longer than the width, so nothing wraps; if there are too many for
the height, the oldest events are left out, never the newest.

A row of bars shows a queue's last seconds, with its gaps and consumers.  A bar is relative to the
usual rate, not to the highest one: the burst after a gap would make all other bars look flat.
"""

from __future__ import annotations

import textwrap
import time
from typing import TYPE_CHECKING, Self

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from rocketmq_emulator.cli.demo.run import KILLED
from rocketmq_emulator.cli.demo.timeline import KILL, QUEUES_A_BROKER, RETURN

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rocketmq_emulator.cli.demo.ledger import QueueHistory
    from rocketmq_emulator.cli.demo.run import DemoRun
    from rocketmq_emulator.cli.demo.timeline import DemoEvent
    from rocketmq_emulator.facts import Queue


class DemoDisplay:
    """``with DemoDisplay(run, console) as display:`` restores the terminal, even on error."""

    def __init__(self, run: DemoRun, console: Console) -> None:
        self._run = run
        self._console = console
        self._screen = DemoScreen(run)
        self._live: Live | None = None
        self._events_printed = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._leave_screen()

    def show(self) -> None:
        """Draw the screen, or print the events that were not printed yet as lines."""
        if self._has_room():
            self._draw()
            return
        self._leave_screen()
        for event in self._unprinted():
            self.print(event_paragraph(event, self._console.width))

    def print_last_frame(self) -> None:
        """Print the current state for good, then the events that were not printed as lines."""
        self._leave_screen()
        last_bar_is_over_ms = _wall_ms() + self._run.plan.bar_ms
        self.print([Text(), *self._screen.state(last_bar_is_over_ms, self._console.width)])
        self.print(map(event_line, self._unprinted()))

    def print(self, lines: Iterable[Text]) -> None:
        """Print *lines* for good: no later frame replaces them."""
        for line in lines:
            self._console.print(self._encodable(line))

    def _has_room(self) -> bool:
        console = self._console
        is_screen = console.is_terminal and not console.is_dumb_terminal
        columns, rows = console.size
        return is_screen and columns >= COLUMNS_MIN and rows >= ROWS_MIN

    def _draw(self) -> None:
        if self._live is None:
            self._live = Live(console=self._console, screen=True, auto_refresh=False)
            self._live.start()
        columns, rows = self._console.size
        frame = self._screen.frame(_wall_ms(), columns, rows)
        self._live.update(Group(*map(self._encodable, frame)), refresh=True)

    def _leave_screen(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _unprinted(self) -> list[DemoEvent]:
        events = self._run.events[self._events_printed :]
        self._events_printed += len(events)
        return events

    def _encodable(self, line: Text) -> Text:
        if self._console.options.ascii_only:
            line.plain = line.plain.translate(PLAIN)
        return line


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000


# Frames -------------------------------------------------------------------------------


COLUMNS_MIN, ROWS_MIN = 80, 24  # in smaller windows: plain lines
STATE_STYLES = {"running": "green", "back": "green", KILLED: "red"}
QUEUE_COLUMNS = f"{'queue':<10}  {'owner':<10}  {'delivered':>9}  {'waiting':>7}  "
PROCESS_COLUMNS = 20
INDENT = " " * 5  # of a reason, under the words after "Now: "
TIME_COLUMNS = 10  # of "  12.3 s  "


class DemoScreen:
    """Draws a run of the demo; rates are those of the last second."""

    def __init__(self, run: DemoRun) -> None:
        self._run = run
        self._counts: list[tuple[float, dict[str, int]]] = []

    def frame(self, now_ms: int, columns: int, rows: int) -> list[Text]:
        """The lines of a window of that size at wall time *now_ms*; the newest event is last."""
        lines = self.state(now_ms, columns)
        room = max(0, rows - len(lines))
        recent = self._run.events[-room:] if room else []
        return [_fitted(line, columns) for line in (*lines, *map(event_line, recent))]

    def state(self, now_ms: int, columns: int) -> list[Text]:
        """The lines above the events."""
        lines = (
            self._head(),
            *self._now(),
            *self._queues(now_ms, columns),
            *self._processes(columns),
        )
        return [_fitted(line, columns) for line in lines]

    def _head(self) -> Text:
        run, ledger = self._run, self._run.ledger
        return Text.assemble(
            ("RocketMQ demo", "bold"),
            f" {run.now_s:5.1f} s   sent {len(ledger.sent):,} of {run.lines:,}   "
            f"delivered {len(ledger.delivered):,}   waiting {ledger.undelivered:,}",
        )

    def _now(self) -> list[Text]:
        shown = next((event for event in reversed(self._run.events) if event.why), None)
        if shown is None:
            started = "Its topic is made; then three consumers start, then a producer."
            return [Text("Now: the cluster has started"), Text(INDENT + started)]
        ago_s = max(0.0, self._run.now_s - shown.at_s)
        style = "bold red" if shown.is_bad else "bold"
        what = Text.assemble("Now: ", (shown.text, style), f" ({ago_s:.0f} s ago)")
        return [what, Text(INDENT + shown.why)]

    def _queues(self, now_ms: int, columns: int) -> list[Text]:
        run, bar_ms = self._run, self._run.plan.bar_ms
        until = now_ms // bar_ms  # the current bar is not complete
        length = max(0, min(LENGTH, columns - len(QUEUE_COLUMNS)))
        heading = QUEUE_COLUMNS + f"last {length * bar_ms / 1000:g} seconds" * bool(length)
        legend = f"{'× killed, ↑ back':>{len(QUEUE_COLUMNS) - 2}}  "
        over = Text.assemble((legend, "dim"), marks(run.events, until, bar_ms, length=length))
        lines = [Text(heading, "bold"), over]
        for queue, history in sorted(run.ledger.queues.items()):
            is_dead = run.broker_state.get(queue.broker) == KILLED
            owners = run.ledger.owners_of(queue)
            row = _queue_row(queue, history, owners, is_dead=is_dead)
            is_cut = is_dead or bool(history.waiting)
            usual = self._usual(until)
            row.append_text(strip(history, until, usual, length=length, is_cut=is_cut))
            lines.append(row)
        return lines

    def _usual(self, until: int) -> float:
        """Messages of one queue in a bar's time: as planned, or as measured if that is less."""
        plan, queues = self._run.plan, QUEUES_A_BROKER * len(self._run.broker_state)
        planned = self._run.lines / plan.send_until_s * plan.bar_ms / 1000 / queues
        bars = [bar for history in self._run.ledger.queues.values() for bar in history.bars]
        passed = until - min(bars, default=until)
        return (
            min(planned, len(self._run.ledger.delivered) / passed / queues)
            if passed > 0
            else planned
        )

    def _processes(self, columns: int) -> list[Text]:
        """A line for the servers and one for the clients; more lines in a narrow window."""
        run, rates = self._run, self._rates()
        states = {"namesrv": "running", **run.broker_state}
        servers = [_process(name, state, state) for name, state in states.items()]
        clients = []
        for name, member in sorted(run.members.items(), key=_producer_first):
            is_at_work = member.state == "running"
            shown = f"{rates.get(name, 0):,.0f}/s" if is_at_work else member.state
            clients.append(_process(name, shown, member.state))
        a_line = max(1, columns // PROCESS_COLUMNS)
        return [
            Text("").join(cells[start : start + a_line])
            for cells in (servers, clients)
            for start in range(0, len(cells), a_line)
        ]

    def _rates(self) -> dict[str, float]:
        now_s, counts = self._run.now_s, dict(self._run.ledger.of_member)
        self._counts = [(s, c) for s, c in self._counts if s > now_s - 1] + [(now_s, counts)]
        then_s, then = self._counts[0]
        span_s = now_s - then_s
        if not span_s:
            return {}
        return {name: (count - then.get(name, 0)) / span_s for name, count in counts.items()}


def event_line(event: DemoEvent) -> Text:
    """*event* as one line of any length."""
    return Text(f"{event.at_s:6.1f} s  {event.text}", "red" if event.is_bad else "")


def event_paragraph(event: DemoEvent, columns: int) -> list[Text]:
    """*event* and its reason as lines of *columns*, folded between words."""
    indent = " " * TIME_COLUMNS
    told = textwrap.wrap(f"{event.at_s:6.1f} s  {event.text}", columns, subsequent_indent=indent)
    why = textwrap.wrap(event.why, columns, initial_indent=indent, subsequent_indent=indent)
    return [Text(line, "red" if event.is_bad else "") for line in told] + [*map(Text, why)]


def _queue_row(
    queue: Queue, history: QueueHistory, owners: tuple[str, ...], *, is_dead: bool
) -> Text:
    name = f"{queue.broker}/{queue.queue_id}"
    delivered, waiting = f"{history.delivered:>9,}  ", f"{history.waiting:>7,}  "
    owner = f"{_owner(owners):<10}  "
    if is_dead:
        return Text(f"{name:<10}  {owner}{delivered}{waiting}", "dim")
    style = OWNER_STYLES.get(owners[-1] if owners else "", "red")
    much = "red" if history.waiting else ""
    return Text.assemble(f"{name:<10}  ", (owner, style), delivered, (waiting, much))


def _owner(owners: tuple[str, ...]) -> str:
    if len(owners) > 1:
        return " and ".join(sorted(owner.rpartition("-")[2] for owner in owners))
    return owners[0] if owners else "nobody"


def _process(name: str, shown: str, state: str) -> Text:
    """A cell of fixed width."""
    rest = f"{shown:<{PROCESS_COLUMNS - 11}}"
    return Text.assemble(f"{name:<10} ", (rest, STATE_STYLES.get(state, "")))


def _producer_first(item: tuple[str, object]) -> tuple[bool, str]:
    return not item[0].startswith("producer"), item[0]


def _fitted(line: Text, columns: int) -> Text:
    """*line*, cut to *columns*; a cut line ends with an ellipsis."""
    line = line.copy()
    line.rstrip()
    line.truncate(columns, overflow="ellipsis")
    return line


# The bars of a queue ------------------------------------------------------------------


LENGTH = 30
OWNER_STYLES = {"consumer-a": "yellow", "consumer-b": "magenta", "consumer-c": "cyan"}
# Deliveries divided by the usual number: the first limit above it gives the bar.
BARS = ((0.25, "▁"), (0.75, "▂"), (1.5, "▃"), (2.5, "▅"), (5.0, "▆"), (10.0, "▇"))
TALLEST, NOTHING = "█", "·"
MARKS = {KILL: ("×", "bold red"), RETURN: ("↑", "bold green")}
PLAIN = str.maketrans("▁▂▃▅▆▇█·×↑─…", "__-=+##.x^-.")  # for encodings without these


def strip(
    history: QueueHistory, until: int, usual: float, *, length: int = LENGTH, is_cut: bool
) -> Text:
    """The *length* bars before bar number *until*; ``·`` has no deliveries, and is red in a gap.

    *usual* is the usual number of messages in a bar.  *is_cut*: the queue cannot deliver now, or
    has waiting messages, so the time since its last delivery is a gap as well.
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
    """The line above the bars, with a mark at each kill and each return."""
    text = Text("─" * length)
    for event in events:
        place = event.at_ms // bar_ms - (until - length)
        if event.kind in MARKS and 0 <= place < length:
            mark, style = MARKS[event.kind]
            text.plain = text.plain[:place] + mark + text.plain[place + 1 :]
            text.stylize(style, place, place + 1)
    return text
