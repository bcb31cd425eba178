"""The life of a message: a table of its steps, and the same steps as bars on a line of time.

Green means correct, red failed, yellow unknown.  A bar shows when a step began and how long it
took; one that is shorter than a character is one character.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.text import Text

from rocketmq_emulator.cli.messages.printer import local_time
from rocketmq_emulator.cli.screens.columns import Cell, Column, Row, Sheet, clean

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions

    from rocketmq_emulator.admin.message_traces import LifeStep, MessageLife

COLUMNS = (
    Column("at"),
    Column("what"),
    Column("group", narrow=12),
    Column("took", is_number=True),
    Column("outcome", narrow=7),
    Column("", narrow=12, spare=True),
)
STYLES = {True: "green", False: "red", None: "yellow"}
BAR, NO_END = "█", "▒"
LABEL_MAX = 30  # characters, at most a third of the width; longer names end in "…"
TIME_WIDTH = len("12:00:00.000")


def life_table(life: MessageLife) -> Sheet:
    """A row for each step."""
    return Sheet(COLUMNS, [_row(step) for step in life.steps])


def head_text(life: MessageLife) -> str:
    """The message in one line: its id, topic, tag and keys."""
    about = (life.msg_id, life.topic, life.tags, life.keys)
    return "  ".join(clean(text) for text in about if text)


def note_text(life: MessageLife) -> str:
    """The gaps of these traces, in one line; empty if there are none."""
    notes = []
    if any(step.ok is None and step.kind == "consumed" for step in life.steps):
        notes.append("a call without an outcome runs still, or its end was not traced")
    if life.unreadable:
        notes.append(f"{life.unreadable} records could not be read")
    if not life.is_complete:
        notes.append("there may be older traces: brokers show the newest 64 trace messages")
    return "; ".join(notes)


def _row(step: LifeStep) -> Row:
    took = "" if step.took_ms is None else f"{step.took_ms:,} ms"
    outcome = Text(step.outcome or "no end", STYLES[step.ok])
    at = local_time(step.at_ms)[11:] if step.at_ms else ""
    return (at, what(step), clean(step.group), took, outcome, _more(step))


def what(step: LifeStep) -> str:
    """The step in a word or two; deliveries after the first are numbered."""
    if step.kind == "consumed" and step.delivery > 1:
        return f"delivery {step.delivery}"
    if step.kind == "transaction" and step.after_check:
        return "check"
    return step.kind


def _more(step: LifeStep) -> Cell:
    type_ = "" if step.message_type == "normal" else step.message_type
    size = f"{step.body_bytes:,} bytes" if step.kind == "sent" else ""
    broker = f"at {step.store_host}" if step.store_host else ""
    client = f"by {step.client_host}" if step.client_host else ""
    short = tuple(filter(None, (size, type_)))
    full = (*short, broker, client)
    return clean(", ".join(filter(None, full))), clean(", ".join(short))


class Timeline:
    """The steps as bars, to the width of the console; between the first and the last time."""

    def __init__(self, life: MessageLife) -> None:
        self._steps = [step for step in life.steps if step.at_ms]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        del console
        yield from self.lines(options.max_width)

    def lines(self, width: int) -> list[Text]:
        """An axis and a line for each step, none wider than *width*; empty without times."""
        if not self._steps:
            return []
        labels = [_label(step, min(LABEL_MAX, width // 3)) for step in self._steps]
        label_width = max(label.cell_len for label in labels)
        room = max(TIME_WIDTH, width - label_width - 2)
        begin_ms = self._steps[0].at_ms
        end_ms = max(step.at_ms + (step.took_ms or 0) for step in self._steps)
        lines = [_axis(begin_ms, end_ms, label_width + 2, room)]
        for label, step in zip(labels, self._steps, strict=True):
            line = Text(no_wrap=True)
            line.append_text(label)
            line.append(" " * (label_width + 2 - label.cell_len))
            line.append_text(_bar(step, begin_ms, end_ms, room))
            lines.append(line)
        return lines


def _label(step: LifeStep, width: int) -> Text:
    name = what(step)
    group = Text(clean(step.group))
    group.truncate(max(1, width - len(name) - 1), overflow="ellipsis")
    return group.append(f" {name}" if group else name)


def _axis(begin_ms: int, end_ms: int, indent: int, room: int) -> Text:
    first, last = local_time(begin_ms)[11:], local_time(end_ms)[11:]
    line = Text(" " * indent + first, "dim", no_wrap=True)
    if end_ms > begin_ms and room >= 2 * TIME_WIDTH + 2:
        line.append(f" {'─' * (room - 2 * TIME_WIDTH - 2)} {last}")
    return line


def _bar(step: LifeStep, begin_ms: int, end_ms: int, room: int) -> Text:
    span_ms = max(1, end_ms - begin_ms)
    start = min(room - 1, (step.at_ms - begin_ms) * room // span_ms)
    length = max(1, (step.took_ms or 0) * room // span_ms)
    mark = NO_END if step.kind == "consumed" and step.ok is None else BAR
    return Text(" " * start + mark * min(length, room - start), STYLES[step.ok])
