"""The account at the end, plain enough for a pipe: what became of every line, and every gap."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

if TYPE_CHECKING:
    from emulator.cli.demo.ledger import Ledger, Takeover
    from emulator.cli.lines import Counts
    from emulator.facts import Queue

LABEL = 10
GAP_COLUMNS = f"{'queue':<10}  {'delivered':>9}  {'longest gap':>11}"
NEXT = (
    ("{command} up", "a cluster of your own, at 127.0.0.1:9876"),
    ("{command} demo --input FILE", "the same with your own lines"),
    ("docs/failures.md", "why each gap was as long as it was"),
)


def account(ledger: Ledger, counts: Counts, *, was_interrupted: bool) -> list[Text]:
    """Gaps and takeovers by queue, then what was sent, delivered, and is missing."""
    lines = _gaps(ledger)
    heading = Text("The account", "bold")
    if was_interrupted:
        heading.append(f": stopped early, {ledger.undelivered:,} not yet delivered", "yellow")
    return [*lines, Text(), heading, *_sums(ledger, counts, was_interrupted=was_interrupted)]


def what_next(command: str) -> list[Text]:
    """What to try now; *command* is how this one was called."""
    rows = [(left.format(command=command), right) for left, right in NEXT]
    width = max(len(left) for left, _ in rows)
    return [
        Text("Try next", "bold"),
        *(Text(f"  {left:<{width}}  {right}") for left, right in rows),
    ]


def _sums(ledger: Ledger, counts: Counts, *, was_interrupted: bool) -> list[Text]:
    rows: list[tuple[str, str | Text]] = [
        ("lines", f"{counts.sendable:,}{_not_sent(counts)}"),
        ("sent", f"{len(ledger.sent):,} acknowledged{_failures(ledger)}"),
        ("delivered", f"{len(ledger.delivered):,} different messages"),
        ("duplicates", f"{ledger.duplicates:,} delivered again after a death"),
    ]
    if not was_interrupted:
        style = "bold red" if ledger.undelivered else "green"
        rows.append(("lost", Text(f"{ledger.undelivered:,}", style)))
    if ledger.broker_back_ms:
        rows.append((ledger.broker, _broker_text(ledger)))
    return [Text.assemble((f"{label:<{LABEL}}  ", "bold"), value) for label, value in rows]


def _not_sent(counts: Counts) -> str:
    kinds = ((counts.empty, "empty"), (counts.too_long, "longer than 4 MiB"))
    named = " and ".join(f"{count:,} {kind}" for count, kind in kinds if count)
    return f"; not sent: {named}" if named else ""


def _failures(ledger: Ledger) -> str:
    if not ledger.failed_sends:
        return ", no send failed"
    return f"; {ledger.failed_sends:,} sends failed and were tried again"


def _broker_text(ledger: Ledger) -> str:
    away_s = (ledger.broker_back_ms - ledger.broker_killed_ms) / 1000
    if not ledger.broker_resumed_ms:
        return f"away for {away_s:.1f} s"
    after_s = (ledger.broker_resumed_ms - ledger.broker_back_ms) / 1000
    return f"away for {away_s:.1f} s, its queues delivered again {after_s:.1f} s after its return"


def _gaps(ledger: Ledger) -> list[Text]:
    taken = {takeover.queue: takeover for takeover in ledger.takeovers}
    heading = GAP_COLUMNS
    if taken:
        heading += f"  taken over from {ledger.takeovers[0].lost_by}"
    lines = [Text(heading, "bold")]
    for queue, history in sorted(ledger.queues.items()):
        row = (
            f"{_name(queue):<10}  {history.delivered:>9,}  {_seconds(history.longest_gap_ms):>11}"
        )
        takeover = taken.get(queue)
        lines.append(Text(f"{row}  {_takeover_text(takeover)}" if takeover else row))
    return lines


def _takeover_text(takeover: Takeover) -> str:
    if takeover.owned_after_ms is None:
        return "by nobody"
    return (
        f"by {takeover.owner} in {_seconds(takeover.owned_after_ms)}, "
        f"read in {_seconds(takeover.delivered_after_ms)}"
    )


def _name(queue: Queue) -> str:
    return f"{queue.broker}/{queue.queue_id}"


def _seconds(ms: int | None) -> str:
    return "-" if ms is None else f"{ms / 1000:.2f} s"
