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


class ModeShown(NamedTuple):
    """A mode of replication in one release: the sweep with its runs, and its name on the page."""

    sweep: str
    mode: str
    title: str


SHOWN = (
    ModeShown("modes-4.9.7", "async", "4.9.7 ASYNC_MASTER"),
    ModeShown("modes-4.9.7", "sync", "4.9.7 SYNC_MASTER"),
    ModeShown("modes-5.3.3", "async", "5.3.3 ASYNC_MASTER"),
    ModeShown("modes-5.3.3", "sync", "5.3.3 SYNC_MASTER, inSyncReplicas 2"),
    ModeShown("modes-5.3.3", "acting", "5.3.3 acting master"),
    ModeShown("modes-5.3.3", "controller", "5.3.3 controller"),
    ModeShown("modes-5.3.3", "controller_acks", "5.3.3 controller, allAckInSyncStateSet"),
)
BEHIND = (
    ModeShown("modes-behind", "async", "ASYNC_MASTER"),
    ModeShown("modes-behind", "acting", "acting master"),
    ModeShown("modes-behind", "controller", "controller"),
    ModeShown("modes-behind", "controller_acks", "controller, allAckInSyncStateSet"),
    ModeShown("modes-behind", "controller_unclean", "controller, enableElectUncleanMaster"),
)
WRITES, READS = "write_pause_s", "read_pause_s.archive"
DUPLICATES, FAILED = "duplicates.billing", "failed_sends"
GONE, AT_SLAVES = "lost_with_masters", "only_at_slaves"


def range_of(pool: Pool) -> str:
    """The mean, and the smallest and largest value if runs differ."""
    mean, least, most = (figure(round(value, 1)) for value in (pool.mean, pool.least, pool.most))
    return mean if least == most else f"{mean} ({least}–{most})"


def bars_of(metric: str) -> list[list[Pool]]:
    """For each fault the values of the modes, with one slave."""
    return [
        [pooled(shown.sweep, metric, mode=shown.mode, slaves=1, fault=fault) for shown in SHOWN]
        for fault in FAULTS
    ]


def _by_fault(metric: str, slaves: int = 1) -> Callable[[], str]:
    def text() -> str:
        return table(["", *FAULTS.values()], _rows(metric, slaves))

    return text


def _rows(metric: str, slaves: int) -> Iterator[list[str]]:
    for shown in SHOWN:
        at = {"mode": shown.mode, "slaves": slaves}
        found = (pooled(shown.sweep, metric, fault=fault, **at) for fault in FAULTS)
        yield [shown.title, *map(range_of, found)]


def _lost(slaves: int = 1) -> Iterator[list[str]]:
    """Acknowledged messages that the logs of the name no longer have, or only at a slave."""
    for shown in SHOWN:
        row = [shown.title]
        for fault in FAULTS:
            at = {"mode": shown.mode, "slaves": slaves, "fault": fault}
            gone = pooled(shown.sweep, GONE, **at)
            unread = pooled(shown.sweep, AT_SLAVES, **at)
            kept = f" + {range_of(unread)} at the slave" if unread.most else ""
            row.append(f"{range_of(gone)}{kept}")
        yield row


def lost_text() -> str:
    """Messages lost, by mode and fault."""
    return table(["", *FAULTS.values()], _lost())


def behind_text() -> str:
    """Slaves that have copied nothing for half a minute when their master dies."""
    rows = []
    for shown in BEHIND:
        for fault in BEHIND_FAULTS:
            writes, reads, gone = (
                range_of(pooled(shown.sweep, metric, mode=shown.mode, fault=fault))
                for metric in (WRITES, READS, GONE)
            )
            rows.append([shown.title, FAULTS[fault], writes, reads, gone])
    return table(["", "master", "without writes, s", "without reads, s", "lost"], rows)


SECTIONS = {
    "writes": _by_fault(WRITES),
    "reads": _by_fault(READS),
    "lost": lost_text,
    "duplicates": _by_fault(DUPLICATES),
    "failed": _by_fault(FAILED),
    "two-slaves": _by_fault(WRITES, slaves=2),
    "behind": behind_text,
}
