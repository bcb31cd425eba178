"""The demo drawn: what is shown and why, who owns which queue, who lives, what happened.

A frame is a list of lines, none longer than the width, so nothing wraps; when there are too
many for the height, the oldest events are left out, never the newest.
"""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from rich.text import Text

from emulator.cli.demo.members import KILLED
from emulator.cli.demo.plan import QUEUES_A_BROKER
from emulator.cli.demo.strip import LENGTH, OWNER_STYLES, marks, strip

if TYPE_CHECKING:
    from emulator.cli.demo.ledger import QueueHistory
    from emulator.cli.demo.run import DemoRun
    from emulator.cli.demo.story import DemoEvent
    from emulator.facts import Queue

COLUMNS_MIN, ROWS_MIN = 80, 24  # smaller windows get plain lines
STATE_STYLES = {"running": "green", "back": "green", KILLED: "red"}
QUEUE_COLUMNS = f"{'queue':<10}  {'owner':<10}  {'delivered':>9}  {'waiting':>7}  "
PROCESS_COLUMNS = 20
INDENT = " " * 5  # of a reason, under the words after "Now: "
TIME_COLUMNS = 10  # of "  12.3 s  "


class DemoScreen:
    """Draws a run of the demo; rates are those of the last second between two drawings."""

    def __init__(self, run: DemoRun) -> None:
        self._run = run
        self._counts: list[tuple[float, dict[str, int]]] = []

    def frame(self, now_ms: int, columns: int, rows: int) -> list[Text]:
        """What a window of that size shows at *now_ms* of wall time; the newest event is last."""
        lines = self.state(now_ms, columns)
        room = max(0, rows - len(lines))
        recent = self._run.events[-room:] if room else []
        return [_fitted(line, columns) for line in (*lines, *map(event_line, recent))]

    def state(self, now_ms: int, columns: int) -> list[Text]:
        """All but the events."""
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
        until = now_ms // bar_ms  # the bar of now is not complete
        length = max(0, min(LENGTH, columns - len(QUEUE_COLUMNS)))
        heading = QUEUE_COLUMNS + f"last {length * bar_ms / 1000:g} seconds" * bool(length)
        legend = f"{'× killed, ↑ back':>{len(QUEUE_COLUMNS) - 2}}  "
        over = Text.assemble((legend, "dim"), marks(run.events, until, bar_ms, length=length))
        lines = [Text(heading, "bold"), over]
        for queue, history in sorted(run.ledger.queues.items()):
            is_dead = run.broker_state.get(queue.broker) == KILLED
            row = _queue_row(queue, history, is_dead=is_dead)
            is_cut = is_dead or bool(history.waiting)
            usual = self._usual(until)
            row.append_text(strip(history, until, usual, length=length, is_cut=is_cut))
            lines.append(row)
        return lines

    def _usual(self, until: int) -> float:
        """Messages of one queue in a bar's time: as planned, or as many as this machine can."""
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
        """A line for the servers and one for the clients; more of them where there is no room."""
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
    """One line of the timeline, as long as it is."""
    return Text(f"{event.at_s:6.1f} s  {event.text}", "red" if event.is_bad else "")


def event_paragraph(event: DemoEvent, columns: int) -> list[Text]:
    """An event and its reason in *columns*, folded between words: for who sees only lines."""
    indent = " " * TIME_COLUMNS
    told = textwrap.wrap(f"{event.at_s:6.1f} s  {event.text}", columns, subsequent_indent=indent)
    why = textwrap.wrap(event.why, columns, initial_indent=indent, subsequent_indent=indent)
    return [Text(line, "red" if event.is_bad else "") for line in told] + [*map(Text, why)]


def _queue_row(queue: Queue, history: QueueHistory, *, is_dead: bool) -> Text:
    name = f"{queue.broker}/{queue.queue_id}"
    delivered, waiting = f"{history.delivered:>9,}  ", f"{history.waiting:>7,}  "
    owner = f"{_owner(history):<10}  "
    if is_dead:
        return Text(f"{name:<10}  {owner}{delivered}{waiting}", "dim")
    style = OWNER_STYLES.get(history.owner, "red")
    much = "red" if history.waiting else ""
    return Text.assemble(f"{name:<10}  ", (owner, style), delivered, (waiting, much))


def _owner(history: QueueHistory) -> str:
    if len(history.owners) > 1:
        return " and ".join(sorted(owner.rpartition("-")[2] for owner in history.owners))
    return history.owner or "nobody"


def _process(name: str, shown: str, state: str) -> Text:
    """A cell of fixed width."""
    rest = f"{shown:<{PROCESS_COLUMNS - 11}}"
    return Text.assemble(f"{name:<10} ", (rest, STATE_STYLES.get(state, "")))


def _producer_first(item: tuple[str, object]) -> tuple[bool, str]:
    return not item[0].startswith("producer"), item[0]


def _fitted(line: Text, columns: int) -> Text:
    """No longer than *columns*; what is cut off ends with an ellipsis."""
    line = line.copy()
    line.rstrip()
    line.truncate(columns, overflow="ellipsis")
    return line
