"""The table of docs/replication.md: what an acknowledged message may count on, by its code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from docs.generate.sections import DOCS, write_section
from rocketmq_emulator.checks.rules.while_away import AWAY_MODES, WHILE_AWAY
from rocketmq_emulator.checks.state.promises import (
    MODES,
    OUTLIVED_BY,
    PROMISED_BY,
    Death,
    Mode,
    Place,
    Status,
)

PAGE = DOCS / "replication.md"
CODES: Mapping[Status, int] = {
    "SEND_OK": 0,
    "FLUSH_DISK_TIMEOUT": 10,
    "SLAVE_NOT_AVAILABLE": 11,
    "FLUSH_SLAVE_TIMEOUT": 12,
}
DEATHS: Mapping[Death, str] = {
    "kill": "the master's process is killed",
    "power_off": "the master loses power",
    "gone": "the master does not come back",
}
FLUSHES = ("ASYNC_FLUSH", "SYNC_FLUSH")


def promises_text() -> str:
    """A row for each mode, flush type and code."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield f"| mode | flush | code | copies | {' | '.join(DEATHS.values())} | upstream |"
    yield f"|---|---|---|---|{'---|' * len(DEATHS)}---|"
    for mode in MODES:
        for flush in FLUSHES:
            for status in mode.statuses:
                if status == "FLUSH_DISK_TIMEOUT" and flush == "ASYNC_FLUSH":
                    continue  # nothing waits for the disk
                yield _row(mode, flush, status)


def _row(mode: Mode, flush: str, status: Status) -> str:
    promised = PROMISED_BY[status]
    copies = mode.copies if "copied" in promised else "0"
    places: set[Place] = {"written"}
    if flush == "SYNC_FLUSH" and "flushed" in promised:
        places.add("flushed")
    if copies != "0":
        places.add("copied")
    fates = " | ".join(_fate(places & OUTLIVED_BY[death]) for death in DEATHS)
    code = f"{CODES[status]} `{status}`"
    return f"| {mode.name} | `{flush}` | {code} | {copies} | {fates} | {mode.source} |"


def _fate(places: set[Place]) -> str:
    """Where the message is after that death."""
    at_master = "in the master's log" if places & {"written", "flushed"} else ""
    at_slaves = "in a slave's log" if "copied" in places else ""
    return " and ".join(filter(None, (at_master, at_slaves))) or "may be lost"


def away_text() -> str:
    """A row for each kind of work that goes on, or not, while a master is away."""
    rows = [
        f"| {row.work} | {' | '.join(row.fates[mode] for mode in AWAY_MODES)} | "
        f"{', '.join(f'`{name}`' for name in row.judged_by)} | {row.source} |"
        for row in WHILE_AWAY
    ]
    head = f"| work | {' | '.join(AWAY_MODES.values())} | rules | upstream |"
    return "\n".join((head, f"|---|{'---|' * len(AWAY_MODES)}---|---|", *rows))


if __name__ == "__main__":
    write_section(PAGE, "promises", promises_text())
    write_section(PAGE, "while a master is away", away_text())
