"""What a checker is: a fold over the facts of a journal, with a table kind → method.

A checker is made for one journal, is given each entry of the kinds in its table once, in the
order of time, and reports by ``objects`` (a rule was broken) and ``measures`` (a number).  It
never sees anything that runs.  What many checkers need is in ``CheckerContext``.

A violation cites the entries that show it; ``entries_of_message`` finds those of one message:
where it was stored, acknowledged, given out, sent back and passed over, at most ``CITED_MAX``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar, Literal

import msgspec

from rocketmq_emulator.checks.state.progress import Progress
from rocketmq_emulator.checks.state.queue_records import QueueReading
from rocketmq_emulator.checks.state.violation import Table, Violation
from rocketmq_emulator.facts import Fact
from rocketmq_emulator.facts.journal import Entry, EntryKey

if TYPE_CHECKING:
    from rocketmq_emulator.checks.state.cluster_state import ClusterState


VIOLATIONS_MAX = 100  # that one checker names; more are counted


class Metric(msgspec.Struct, frozen=True):
    """One number that a checker finds.  *of* whom it is told besides the whole run."""

    name: str
    unit: str
    sentence: str  # what it counts
    of: Literal["group", "topic", "node", ""] = ""
    total: Literal["sum", "max"] = "sum"  # how the run's number follows from theirs


class CheckerContext:
    """What is known of the whole cluster at the moment of the current entry."""

    def __init__(self, cluster: ClusterState, progress: Progress) -> None:
        self.cluster = cluster
        self.progress = progress


class Checker(ABC):
    """One rule or a few that belong together; or a measure, which counts and never objects.

    ``needs`` are kinds of facts: if the journal has none of them, nothing is judged.
    """

    name: ClassVar[str]
    rule: ClassVar[str]  # what it demands, in one sentence
    metrics: ClassVar[tuple[Metric, ...]] = ()
    needs: ClassVar[tuple[type[Fact], ...]] = ()
    needs_whole: ClassVar[bool] = True  # a journal with holes proves nothing
    is_measure: ClassVar[bool] = False  # then ``rule`` says what would be good

    def __init__(self, shared: CheckerContext) -> None:
        self.cluster = shared.cluster
        self.progress = shared.progress
        self.violations: list[Violation] = []
        self.more_violations = 0
        self.measured: dict[str, float] = {}
        self.tried = 0  # how often what the rule is about happened, so that it could object

    @abstractmethod
    def table(self) -> Table:
        """Which kinds go to which method."""

    def end(self) -> None:  # noqa: B027  # many checkers have nothing to add
        """The journal is over: whatever only shows now."""

    def reason_not_judged(self) -> str:
        """Why the journal cannot show whether the rule was kept; empty: it can."""
        return ""

    def count_tried(self, count: int = 1) -> None:
        """The rule's premise held so often: it would have objected, had something been wrong."""
        self.tried += count

    # What it says -----------------------------------------------------------------------

    def report_violation(
        self, what: str, *entries: Entry | EntryKey, node: str | None = None, rule: str = ""
    ) -> None:
        """*what* happened against the rule; *entries* show it, the last one when."""
        if len(self.violations) >= VIOLATIONS_MAX:
            self.more_violations += 1
            return
        keys = tuple(key_of(entry) for entry in entries)
        when = keys[-1]
        self.violations.append(
            Violation(
                checker=self.name,
                rule=rule or self.rule,
                what=what,
                mono_us=when.mono_us,
                node=when.node if node is None else node,
                entries=keys,
            )
        )

    def set_metric(self, metric: str, value: float, of: str = "") -> None:
        """The number of *metric*, for the group, topic or node *of*, or for the run."""
        self.measured[f"{metric}.{of}" if of else metric] = value

    def add_to_metric(self, metric: str, value: float, of: str = "") -> None:
        """The same, added to what it was."""
        name = f"{metric}.{of}" if of else metric
        self.measured[name] = self.measured.get(name, 0.0) + value

    def numbers(self) -> dict[str, float]:
        """All that was measured; a metric's number for the run follows from its parts."""
        found = dict(self.measured)
        for metric in self.metrics:
            prefix = f"{metric.name}."
            parts = [n for name, n in found.items() if name.startswith(prefix)]
            if metric.name in found:
                parts.append(found[metric.name])  # what belongs to no group
            found[metric.name] = float((sum if metric.total == "sum" else max)(parts or [0.0]))
        return found


def key_of(entry: Entry | EntryKey) -> EntryKey:
    """Where *entry* stands."""
    if isinstance(entry, EntryKey):
        return entry
    return EntryKey(entry.mono_us, entry.node, entry.seq)


@lru_cache(maxsize=64)  # asked for at each pass
def numbers_of(release: str) -> tuple[int, ...]:
    """``"4.9.7"`` as (4, 9, 7); () for a text that is no release."""
    parts = release.split(".")
    return tuple(int(part) for part in parts) if all(part.isdigit() for part in parts) else ()


# The entries of one message -----------------------------------------------------------


CITED_MAX = 12


def entries_of_message(
    progress: Progress, reading: QueueReading, offset: int
) -> tuple[EntryKey, ...]:
    """Where the message at *offset* was stored, acknowledged, given out and passed over.

    In the order of time, at most ``CITED_MAX``: the copy in which it waited before, to whom it
    was given without being finished, where it failed and was sent back, the first commit that
    passed it, and the last pull of its queue, and the last that was refused since it was stored.
    """
    records = reading.records
    found = [*records.entries_of_message(offset)]
    key = reading.failed.get(offset)
    if key is not None:
        group = reading.reader.partition("@")[0]
        failure = progress.messages.pending.failure(key, group, reading.queue, offset)
        if failure is not None:
            found.append(failure.failed)
            if failure.sent_back is not None:
                found.append(failure.sent_back)
    found += [key_of(entry) for entry in reading.given_entries(offset)]
    hold = reading.claims.get(reading.owner)
    if hold is not None and hold.claimed is not None:
        found.append(hold.claimed)
    found += [entry for passed_to, entry in reading.passes if passed_to > offset][:1]
    if reading.last_pull is not None:
        found.append(key_of(reading.last_pull))
    refused = reading.refused_pull
    if refused is not None and refused.mono_us >= (records.stored_us(offset) or 0):
        found.append(key_of(refused))
    return tuple(sorted(set(found)))[:CITED_MAX]
