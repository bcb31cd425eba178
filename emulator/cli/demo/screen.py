"""The demo drawn: who owns which queue, who lives, what happened; at the end the ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group
from rich.table import Table
from rich.text import Text

from emulator.cli.demo.members import KILLED
from emulator.cli.demo.plan import TOPIC
from emulator.cli.screens import a_table

if TYPE_CHECKING:
    from rich.console import RenderableType

    from emulator.cli.demo.ledger import Ledger
    from emulator.cli.demo.run import DemoEvent, DemoRun
    from emulator.cli.lines import Counts

EVENTS_SHOWN = 9
SILENT_MS_IS_MUCH = 2_000
STATE_STYLES = {"running": "green", "restarted": "green", "done": "", KILLED: "red"}
OWNER_STYLES = {"consumer-a": "yellow", "consumer-b": "magenta", "consumer-c": "cyan"}


class DemoScreen:
    """Draws a run of the demo; rates are those of the last second between two drawings."""

    def __init__(self, run: DemoRun) -> None:
        self._run = run
        self._counts: list[tuple[float, dict[str, int]]] = []

    def draw(self, now_ms: int) -> RenderableType:
        """The screen at *now_ms* of wall time."""
        run, ledger = self._run, self._run.ledger
        sides = Table.grid(padding=(0, 3))
        sides.add_row(self._queues(now_ms), self._processes())
        head = Text.assemble(
            ("RocketMQ demo", "bold"),
            f"  {run.now_s:5.1f} s   {len(ledger.sent_ms):,} of {run.lines:,} lines sent, "
            f"{len(ledger.first_ms):,} delivered, {ledger.duplicates:,} twice",
        )
        recent = run.events[-EVENTS_SHOWN:]
        return Group(head, sides, *map(event_text, recent))

    def _queues(self, now_ms: int) -> Table:
        table = a_table("queue", "owner", "delivered", "last", numbers=("delivered", "last"))
        for queue, history in sorted(self._run.ledger.queues.items()):
            silent_ms = max(0, now_ms - history.last_ms) if history.delivered else 0
            owner = history.owner or "nobody"
            is_dead = self._run.broker_state.get(queue.broker) == KILLED
            style = "" if is_dead else OWNER_STYLES.get(owner, "red")
            table.add_row(
                f"{queue.broker}/{queue.queue_id}",
                Text(owner + " (two)" * (len(history.owners) > 1), style),
                f"{history.delivered:,}",
                Text(
                    f"{silent_ms / 1000:.1f} s",
                    "red" if silent_ms > SILENT_MS_IS_MUCH and not is_dead else "",
                ),
                style="dim" if is_dead else None,
            )
        return table

    def _processes(self) -> Table:
        run = self._run
        rates = self._rates()
        table = a_table("process", "", "messages", "/s", numbers=("messages", "/s"))
        states = {"namesrv": "running", **run.broker_state}
        for name, state in states.items():
            table.add_row(name, Text(state, STATE_STYLES.get(state, "")), "", "")
        for name, member in sorted(run.members.items(), key=_producer_first):
            count = run.ledger.of_member.get(name, 0)
            shown = Text(member.state, STATE_STYLES.get(member.state, ""))
            table.add_row(name, shown, f"{count:,}", f"{rates.get(name, 0):,.0f}")
        return table

    def _rates(self) -> dict[str, float]:
        now_s, counts = self._run.now_s, dict(self._run.ledger.of_member)
        self._counts = [(s, c) for s, c in self._counts if s > now_s - 1] + [(now_s, counts)]
        then_s, then = self._counts[0]
        span_s = now_s - then_s
        if not span_s:
            return {}
        return {name: (count - then.get(name, 0)) / span_s for name, count in counts.items()}


def _producer_first(item: tuple[str, object]) -> tuple[bool, str]:
    return not item[0].startswith("producer"), item[0]


def event_text(event: DemoEvent) -> Text:
    """One line of the timeline."""
    style = "red" if event.is_bad else ""
    return Text(f"{event.at_s:6.1f} s  {event.text}", style)


def ledger_screen(ledger: Ledger, counts: Counts) -> RenderableType:
    """The account at the end, plain enough for a pipe."""
    sent = len(ledger.sent_ms)
    rows: list[tuple[str, str | Text]] = [
        ("lines", f"{counts.sendable:,}{_not_sent(counts)}"),
        ("sent", f"{sent:,} acknowledged" + _failures(ledger)),
        ("delivered", f"{len(ledger.first_ms):,} different messages"),
        ("duplicates", f"{ledger.duplicates:,} delivered again after a death"),
        ("lost", Text(f"{ledger.lost:,}", "green" if not ledger.lost else "bold red")),
    ]
    if ledger.broker_killed_ms:
        rows.append((ledger.broker, _broker_text(ledger)))
    account = Table.grid(padding=(0, 2))
    for name, value in rows:
        account.add_row(Text(name, "bold"), value)
    return Group(Text("\nThe ledger\n", "bold"), account, _takeovers(ledger), _gaps(ledger))


def _not_sent(counts: Counts) -> str:
    kinds = ((counts.empty, "empty"), (counts.too_long, "longer than 4 MiB"))
    named = " and ".join(f"{count:,} {kind}" for count, kind in kinds if count)
    return f", and {named}: RocketMQ takes none of these" if named else ""


def _failures(ledger: Ledger) -> str:
    if not ledger.failed_sends:
        return ", no send failed"
    return f", {ledger.failed_sends:,} sends failed and were repeated by the application"


def _broker_text(ledger: Ledger) -> str:
    away_s = (ledger.broker_back_ms - ledger.broker_killed_ms) / 1000
    if not ledger.broker_resumed_ms:
        return f"away for {away_s:.1f} s"
    after_s = (ledger.broker_resumed_ms - ledger.broker_back_ms) / 1000
    return f"away for {away_s:.1f} s, its queues delivered again {after_s:.1f} s after its return"


def _takeovers(ledger: Ledger) -> Table:
    table = a_table(
        "queue",
        "lost by",
        "taken by",
        "owned after",
        "read after",
        numbers=("owned after", "read after"),
    )
    for taken in sorted(ledger.takeovers, key=lambda t: t.queue):
        table.add_row(
            f"{taken.queue.broker}/{taken.queue.queue_id}",
            taken.lost_by,
            taken.owner or Text("nobody", "red"),
            _seconds(taken.owned_after_ms),
            _seconds(taken.delivered_after_ms),
        )
    return table


def _gaps(ledger: Ledger) -> Table:
    table = a_table("queue", "delivered", "longest gap", numbers=("delivered", "longest gap"))
    for queue, history in sorted(ledger.queues.items()):
        assert queue.topic == TOPIC
        gap = _seconds(history.longest_gap_ms)
        table.add_row(f"{queue.broker}/{queue.queue_id}", f"{history.delivered:,}", gap)
    return table


def _seconds(ms: int | None) -> str:
    return "-" if ms is None else f"{ms / 1000:.2f} s"
