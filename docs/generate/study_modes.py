"""The tables of docs/studies/modes.md."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from docs.generate.study_data import Pool, pooled
from docs.generate.study_parts import figure, table

FAULTS = {
    "kill": "killed",
    "hang": "hangs",
    "power_off": "without power",
    "cut_off": "cut off",
    "link": "slaves cut off",
}
BEHIND_FAULTS = ("kill", "power_off")
BEHIND_S = 30


class ModeShown(NamedTuple):
    """A mode of replication in one release: the sweep with its runs, and its name on the page."""

    sweep: str
    mode: str
    title: str


SHOWN = (
    ModeShown("modes-4.9", "async", "4.9.7 ASYNC_MASTER"),
    ModeShown("modes-4.9", "sync", "4.9.7 SYNC_MASTER"),
    ModeShown("modes-5.3", "async", "5.3.3 ASYNC_MASTER"),
    ModeShown("modes-5.3", "sync", "5.3.3 SYNC_MASTER, inSyncReplicas 2"),
    ModeShown("modes-5.3", "acting", "5.3.3 acting master"),
    ModeShown("modes-5.3", "controller", "5.3.3 controller"),
    ModeShown("modes-5.3", "controller_acks", "5.3.3 controller, allAckInSyncStateSet"),
)
BEHIND = (
    ModeShown("modes-behind", "async", "ASYNC_MASTER"),
    ModeShown("modes-behind", "acting", "acting master"),
    ModeShown("modes-behind", "controller", "controller"),
    ModeShown("modes-behind", "controller_acks", "controller, allAckInSyncStateSet"),
    ModeShown("modes-behind", "controller_unclean", "controller, enableElectUncleanMaster"),
)
WRITES, READS = "write_pause_s", "read_pause_s.archive"
DOUBLED, TIMED_OUT, LOST = "duplicates.billing", "failed_sends", "lost_with_masters"


def range_of(pool: Pool) -> str:
    """The mean, and the smallest and largest value if runs differ."""
    mean, least, most = (figure(round(value, 1)) for value in (pool.mean, pool.least, pool.most))
    return mean if least == most else f"{mean} ({least}–{most})"


def _by_fault(metric: str, slaves: int = 1) -> Callable[[], str]:
    def text() -> str:
        return table(["", *FAULTS.values()], _rows(metric, slaves))

    return text


def _rows(metric: str, slaves: int) -> Iterator[list[str]]:
    for shown in SHOWN:
        at = {"mode": shown.mode, "slaves": slaves}
        found = (pooled(shown.sweep, metric, fault=fault, **at) for fault in FAULTS)
        yield [shown.title, *map(range_of, found)]
