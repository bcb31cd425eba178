"""The three tables of docs/client.md side by side: sends to a slow broker, over time.

One run of the scenario ``a_broker_is_slow_for_forty_seconds`` for each table and each delay.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from docs.generate.sections import DOCS, write_section
from rocketmq_emulator.facts import SendAttempted
from rocketmq_emulator.facts.journal import Entry
from rocketmq_emulator.scenarios.catalog.finding import load
from rocketmq_emulator.scenarios.running.virtual_run import finished_run

PAGE = DOCS / "client.md"
SCENARIO = "a_broker_is_slow_for_forty_seconds"
TABLES = ("4.x", "5.1.4", "articles")
ROUND_TRIPS_MS = (600, 1_200)
SLOT_S, SLOTS = 5, 18
BARS = " ▁▂▃▄▅▆▇█"
SEED = 1


def penalties_text() -> str:
    """A line for each delay and table: a bar for every 5 s; a full bar is half of all sends."""
    head = "0s├─slow─┤" + "90s".rjust(SLOTS - 10)  # from the 3rd slot to the 10th
    lines = [f"{'took':<10}{'table':<12}{head}  slow  back after"]
    for ms in ROUND_TRIPS_MS:
        lines += [_line(ms, table) for table in TABLES]
    return "\n".join(["```text", *lines, "```"])


def _line(ms: int, table: str) -> str:
    row, entries = finished_run(load(SCENARIO, {"table": table, "round_trip_ms": ms}), SEED)
    sends = Counter(_slots(entries))
    bars = "".join(
        _bar(sends[at, True], sends[at, True] + sends[at, False]) for at in range(SLOTS)
    )
    slow = sum(e.fact.took_ms >= ms for e in entries if isinstance(e.fact, SendAttempted))
    back_s = row.metrics["avoided_after_s"]
    return f"{f'{ms:,} ms':<10}{table:<12}{bars:<{SLOTS}} {slow:>5}{back_s:>10.0f} s"


def _slots(entries: list[Entry]) -> Iterator[tuple[int, bool]]:
    """For each send: the slot in which it began, and whether it went to the slow broker."""
    for entry in entries:
        if isinstance(fact := entry.fact, SendAttempted):
            began_s = entry.mono_us / 1e6 - fact.took_ms / 1e3
            yield int(began_s // SLOT_S), fact.queue.broker == "broker-b"


def _bar(count: int, total: int) -> str:
    share = count / max(1, total) * 2
    return BARS[min(len(BARS) - 1, max(count > 0, round(share * (len(BARS) - 1))))]


if __name__ == "__main__":
    write_section(PAGE, "penalties", penalties_text())
