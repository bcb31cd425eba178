"""The screen of ``up``: addresses on top, the last event, then nodes, topics and groups.

It depends only on its frames and the window's size.  If not all rows fit, those that are wrong
or busy come first, and a line gives the number of the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import islice
from textwrap import wrap
from typing import NamedTuple, TypeVar

from rich.cells import cell_len
from rich.text import Text

from rocketmq_emulator.admin.overview import (
    ClusterSnapshot,
    GroupView,
    NodeSnapshot,
    SeenState,
    TopicView,
)
from rocketmq_emulator.cli.screens.cluster_tables import (
    LAG_IS_MUCH,
    REPLICA_COLUMNS,
    group_row,
    has_replicas,
    none_yet,
    replica_cells,
    topic_row,
)
from rocketmq_emulator.cli.screens.columns import Cell, Column, Row, Sheet, Widths, clean
from rocketmq_emulator.cli.screens.held_changes import HeldChange, held_sheet
from rocketmq_emulator.protocol.bodies.extensions import MemberView
from rocketmq_emulator.protocol.queues import MessageQueue

COMFORTABLE_ROWS = 20  # from here on there is room for blank lines
HELD_ROWS_MAX = 4  # faults and reply rules
LOGS_MAX, LOG_SHARE = 3, 8  # log lines; their rows: 3 and an eighth of the height
INDENT = 2  # of members, below their group
BUSY_MS = 10_000  # a topic or group counts as busy for so long
Named = TypeVar("Named", TopicView, GroupView)

NODE_COLUMNS = (
    Column("node", narrow=10),
    Column("address", width_min=15),
    Column("pid", is_number=True),
    Column("stored", is_number=True, width_min=7),
    Column("in/s", is_number=True, width_min=6),
    Column("state", narrow=10),
)
TOPIC_COLUMNS = (
    Column("topic", narrow=14, width_min=12),
    Column("queues", is_number=True),
    Column("messages", is_number=True, width_min=9),
    Column("in/s", is_number=True, width_min=6),
    Column("brokers", narrow=6),
)
GROUP_COLUMNS = (
    Column("group", narrow=14, width_min=12),
    Column("members", is_number=True),
    Column("queues", is_number=True),
    Column("lag", is_number=True, width_min=7),
    Column("out/s", is_number=True, width_min=6),
    Column("consumes", narrow=8),
)
MEMBER_COLUMNS = (  # without a head, under their group
    Column("member", narrow=22),
    Column("says", width_min=6),
    Column("has", narrow=18),
)
STATES: Mapping[SeenState, tuple[str, str]] = {  # most urgent first: text, colour
    "dead": ("dead", "red"),
    "silent": ("not answering", "red"),
    "paused": ("paused, not answering", "red"),
    "unlisted": ("not in the route", "yellow"),
    "starting": ("starting", "yellow"),
    "stopped": ("stopped", "yellow"),
    "running": ("running", "green"),
}
URGENCY = {state: rank for rank, state in enumerate(STATES)}
CURRENT: tuple[SeenState, ...] = ("running", "unlisted")  # their figures are current


class ClusterSummary(NamedTuple):
    """The cluster's release, addresses and store: the top lines of the screen."""

    release: str
    namesrv: str
    store: str = ""
    control: str = ""


class ClusterEvent(NamedTuple):
    """The line of one event."""

    at_ms: int
    text: str


class LiveFrame(NamedTuple):
    """The data of one drawing; ``news`` and ``logs`` have the newest line last.

    ``held`` are the faults and reply rules that hold.
    """

    now_ms: int
    up_s: float
    snapshot: ClusterSnapshot
    news: Sequence[ClusterEvent] = ()
    logs: Sequence[str] = ()
    held: Sequence[HeldChange] = ()


class LiveScreen:
    """Draws one frame after the other; columns keep their widths, busy rows their places.

    ``shown_groups`` are the groups of the last drawing.
    """

    def __init__(self, facts: ClusterSummary) -> None:
        self.shown_groups: tuple[str, ...] = ()
        self._facts = facts
        self._width = 0
        self._widths: dict[str, Widths] = {}
        self._busy_ms: dict[tuple[str, str], int] = {}  # when a topic or group was last busy
        self._lags: dict[str, int] = {}  # by group: sums over many queues

    def draw(self, frame: LiveFrame, width: int, height: int) -> list[Text]:
        """The lines of *frame*: at most *height*, none wider than *width*."""
        if width != self._width:  # resized: forget the widths
            self._width, self._widths = width, {}
        self._notice_busy(frame)
        overview, gap = frame.snapshot.overview, int(height >= COMFORTABLE_ROWS)
        top = [*self._head(frame), *self._news(frame.news[-1:])]
        logs = self._logs(frame.logs[-LOGS_MAX:], LOGS_MAX + height // LOG_SHARE)
        held = self._held(frame.held)
        room = height - len(top) - len(logs) - 3 * (gap + 1) - len(held) - gap * bool(held)
        members = sum(len(group.members) for group in overview.groups)
        wanted = len(frame.snapshot.nodes), len(overview.topics), len(overview.groups), members
        rooms = shares(wanted, room)
        parts = (
            self._nodes(frame, rooms[0]),
            *([held] if held else []),
            self._topics(frame, rooms[1]),
            self._groups(frame, rooms[2], rooms[3]),
        )
        lines = [*top]
        for part in parts:
            lines += [*[Text()] * gap, *part]
        left = height - len(lines) - len(logs)
        if left > 1 and len(frame.news) > 1:
            earlier = frame.news[max(0, len(frame.news) - left) : -1]
            lines += [Text(), *self._news(earlier, "dim")]
        return [*lines[: height - len(logs)], *logs][:height]

    # The top --------------------------------------------------------------------------

    def _head(self, frame: LiveFrame) -> list[Text]:
        minutes, seconds = divmod(int(frame.up_s), 60)
        facts = self._facts
        named = {
            "namesrv": facts.namesrv,
            "control": facts.control,
            "store": facts.store or "in memory",
        }
        shown = [f"{name} {clean(value)}" for name, value in named.items() if value]
        lines = [shown[0]]
        for text in shown[1:]:
            joined = f"{lines[-1]}  {text}"
            lines[-1:] = [joined] if cell_len(joined) <= self._width else [lines[-1], text]
        title = Text.assemble(
            (f"RocketMQ {facts.release}", "bold"),
            f"  up {minutes}:{seconds:02}  ",
            ("Ctrl-C stops it all", "dim"),
        )
        return [self._cut(title), *(self._cut(Text(line)) for line in lines)]

    def _news(self, news: Sequence[ClusterEvent], style: str = "bold") -> list[Text]:
        """The lines of *news*, the newest first."""
        return [
            self._cut(Text(f"{clock(each.at_ms)}  {clean(each.text)}", style))
            for each in reversed(news)
        ]

    def _logs(self, logs: Sequence[str], room: int) -> list[Text]:
        """The last *room* rows of *logs*, which are folded, not cut: warnings stay readable."""
        rows = [row for line in logs for row in wrap(clean(line), self._width) or [""]]
        return [self._cut(Text(row, "red")) for row in rows[-room:]]

    # The tables -----------------------------------------------------------------------

    def _nodes(self, frame: LiveFrame, room: int) -> list[Text]:
        nodes = frame.snapshot.nodes
        if len(nodes) > room:
            nodes = tuple(sorted(nodes, key=lambda node: URGENCY[node.state]))
        shown = nodes[: _fitting(len(nodes), room)]
        rows = [_node_row(node, frame) for node in shown]
        columns: tuple[Column, ...] = NODE_COLUMNS
        if has_replicas([node.replica for node in nodes if node.replica is not None]):
            columns = (columns[0], *REPLICA_COLUMNS, *columns[1:])
            rows = [
                (row[0], *_replica_cells(node), *row[1:])
                for node, row in zip(shown, rows, strict=True)
            ]
        return self._table("nodes", columns, rows, len(nodes) - len(rows))

    def _held(self, held: Sequence[HeldChange]) -> list[Text]:
        """Faults, reply rules and full journals that hold, in few lines, the latest first."""
        if not held:
            return []
        shown = held[::-1][: _fitting(len(held), HELD_ROWS_MAX)]
        lines = held_sheet(shown).lines(self._width, self._widths.setdefault("held", {}))
        more = len(held) - len(shown)
        return [*lines, *([Text(f"+{more} more", "dim")] if more else [])]

    def _topics(self, frame: LiveFrame, room: int) -> list[Text]:
        overview, rates = frame.snapshot.overview, frame.snapshot.rates.topics
        topics = self._chosen("topic", overview.topics, frame, room)
        rows = [
            _insert_cell(topic_row(topic), 3, _rate(rates.get(topic.name, 0))) for topic in topics
        ]
        more = overview.more_topics + len(overview.topics) - len(rows)
        return self._table("topics", TOPIC_COLUMNS, rows, more)

    def _groups(self, frame: LiveFrame, room: int, room_for_members: int) -> list[Text]:
        """Each group with its members below it, as far as there is room."""
        overview, rates = frame.snapshot.overview, frame.snapshot.rates.groups
        shown = self._chosen("group", overview.groups, frame, room)
        self.shown_groups = tuple(group.name for group in shown)
        rows = [
            _insert_cell(group_row(group), 4, _rate(rates.get(group.name, 0))) for group in shown
        ]
        more = overview.more_groups + len(overview.groups) - len(rows)
        lines = self._table("groups", GROUP_COLUMNS, rows, more)
        rooms = shares([len(group.members) for group in shown], room_for_members)
        below = self._members(frame, shown, rooms)
        head, own, rest = lines[0], lines[1 : len(shown) + 1], lines[len(shown) + 1 :]
        joined = [line for row, more in zip(own, below, strict=True) for line in (row, *more)]
        return [head, *joined, *rest]

    def _members(
        self, frame: LiveFrame, groups: Sequence[GroupView], rooms: Sequence[int]
    ) -> list[list[Text]]:
        """The member lines of each group."""
        rows = [
            [_member_row(group, member, frame.snapshot) for member in group.members][
                : _fitting(len(group.members), room)
            ]
            for group, room in zip(groups, rooms, strict=True)
        ]
        every = [row for each in rows for row in each]
        memory = self._widths.setdefault("members", {})
        lines = iter(Sheet(MEMBER_COLUMNS, every).lines(self._width - INDENT, memory)[1:])
        found = []
        for group, room, each in zip(groups, rooms, rows, strict=True):
            own = [Text(" " * INDENT).append_text(line) for line in islice(lines, len(each))]
            if room and len(each) < len(group.members):
                own.append(Text(f"{'':{INDENT}}+{len(group.members) - len(each)} more", "dim"))
            found.append(own)
        return found

    def _table(
        self, what: str, columns: tuple[Column, ...], rows: Sequence[Row], more: int
    ) -> list[Text]:
        """The head, *rows*, and how many *more* there are."""
        if not rows and not more:
            return [none_yet(what)]
        lines = Sheet(columns, rows).lines(self._width, self._widths.setdefault(what, {}))
        return [*lines, *([Text(f"+{more} more", "dim")] if more else [])]

    # Choice of rows -------------------------------------------------------------------

    def _notice_busy(self, frame: LiveFrame) -> None:
        snapshot, now_ms = frame.snapshot, frame.now_ms
        for topic in snapshot.overview.topics:
            if snapshot.rates.topics.get(topic.name):
                self._busy_ms["topic", topic.name] = now_ms
        self._lags = {group.name: group.lag for group in snapshot.overview.groups}
        for group in snapshot.overview.groups:
            if self._lags[group.name] or snapshot.rates.groups.get(group.name):
                self._busy_ms["group", group.name] = now_ms

    def _chosen(
        self, kind: str, rows: Sequence[Named], frame: LiveFrame, room: int
    ) -> list[Named]:
        """All *rows* in natural order if they fit; else as many as fit, busy ones first."""
        if len(rows) <= room:
            return list(rows)
        ranked = sorted(rows, key=lambda row: self._interest(kind, row, frame.now_ms))
        return ranked[: _fitting(len(rows), room)]

    def _interest(self, kind: str, row: TopicView | GroupView, now_ms: int) -> int:
        is_busy = self._busy_ms.get((kind, row.name), -BUSY_MS) > now_ms - BUSY_MS
        if isinstance(row, TopicView):
            return 0 if is_busy else 1
        lag = self._lags[row.name]
        is_stuck = lag > 0 and not row.members
        ranks = (is_stuck, lag >= LAG_IS_MUCH, is_busy, bool(row.members), True)
        return ranks.index(True)

    def _cut(self, line: Text) -> Text:
        line.truncate(self._width, overflow="ellipsis")
        return line


def shares(wanted: Sequence[int], room: int) -> list[int]:
    """Parts of *room*, given one by one in turn; no part is larger than its *wanted*."""
    given = [0] * len(wanted)
    while room > 0 and (unserved := [at for at in range(len(given)) if given[at] < wanted[at]]):
        for at in unserved[:room]:
            given[at] += 1
        room -= len(unserved)
    return given


def clock(ms: int) -> str:
    """*ms* as local time: ``12:00:00``."""
    return f"{datetime.fromtimestamp(ms / 1_000):%H:%M:%S}"  # noqa: DTZ006  # local time


def age(ms: int) -> str:
    """A duration of *ms* in one unit: ``5 s``, ``3 min``."""
    seconds = max(0, ms) // 1_000
    if seconds < 60:
        return f"{seconds} s"
    return f"{seconds // 60} min" if seconds < 3_600 else f"{seconds // 3_600} h"


def owned_text(queues: Sequence[MessageQueue]) -> Cell:
    """*queues* by topic and broker, ``orders broker-a/0-3 broker-b/1``; also shorter versions."""
    if not queues:
        return Text("no queue", "yellow")
    numbers: dict[str, dict[str, list[int]]] = {}
    for queue in queues:
        if not queue.topic.startswith("%"):
            by_broker = numbers.setdefault(queue.topic, {})
            by_broker.setdefault(queue.broker_name, []).append(queue.queue_id)
    parts = [
        " ".join([topic, *(f"{broker}/{_ranges(ids)}" for broker, ids in by_broker.items())])
        for topic, by_broker in numbers.items()
    ]
    count = sum(len(ids) for by_broker in numbers.values() for ids in by_broker.values())
    without_topics = " ".join(part.partition(" ")[2] for part in parts)
    short = f"{count} queue" if count == 1 else f"{count} queues"
    return (clean(", ".join(parts)), *([clean(without_topics)] if len(parts) == 1 else []), short)


def _ranges(numbers: Sequence[int]) -> str:
    """``0-3,7``."""
    runs: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if runs and runs[-1][1] == number - 1:
            runs[-1] = runs[-1][0], number
        else:
            runs.append((number, number))
    return ",".join(f"{first}" if first == last else f"{first}-{last}" for first, last in runs)


def _fitting(count: int, room: int) -> int:
    """How many of *count* rows are shown; if not all, a line is left for the number of others."""
    return count if count <= room else max(0, room - 1)


def _node_row(node: NodeSnapshot, frame: LiveFrame) -> Row:
    words, style = STATES[node.state]
    is_current = node.state in CURRENT
    state: Cell = Text(words, style)
    if not is_current:
        at, ago = clock(node.since_ms), f"({age(frame.now_ms - node.since_ms)})"
        ending = f": {node.ending.removeprefix('was ')}" if node.ending else ""
        long, short = f"{words} since {at} {ago}", node.state
        versions = (long + ending, long, f"{short} since {at} {ago}", f"{short} {at} {ago}", short)
        state = tuple(Text(version, style) for version in versions)
    has_rate = node.role == "broker" and is_current
    stored = "" if node.messages is None else f"{node.messages:,}"
    return (
        clean(node.name),
        node.address,
        "" if node.pid is None else f"{node.pid}",
        Text(stored, "" if is_current else "dim"),
        _rate(frame.snapshot.rates.brokers.get(node.name, 0)) if has_rate else "",
        state,
    )


def _replica_cells(node: NodeSnapshot) -> tuple[Cell, Cell]:
    if node.replica is None or node.state not in CURRENT:
        return "", ""
    return replica_cells(node.replica)


def _member_row(group: GroupView, member: MemberView, snapshot: ClusterSnapshot) -> Row:
    owned = snapshot.owned.get((group.name, member.client))
    return (
        Text(clean(member.client), "dim"),
        Text(member.language, "dim"),
        "" if owned is None else owned_text(owned),
    )


def _insert_cell(row: Row, at: int, cell: Cell) -> Row:
    return (*row[:at], cell, *row[at:])


def _rate(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 10 or rate == 0 else f"{rate:.1f}"
