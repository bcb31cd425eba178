"""The base of checkers: a fold over the facts of a journal, with a table kind → method.

A checker is made for one journal, is given each entry of the kinds in its table once, in the
order of time, and reports by ``report_violation`` and ``set_metric`` or ``add_to_metric``.  It
never reads a running system.  ``CheckerContext`` has the state that many checkers need.

A violation cites the entries that show it; ``entries_of_message`` finds those of one message:
where it was stored, acknowledged, delivered, sent back and passed over, at most ``CITED_MAX``.
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
    from rocketmq_emulator.checks.state.start_ups import StartUps


VIOLATIONS_MAX = 100  # named by one checker; more are counted


class Metric(msgspec.Struct, frozen=True):
    """One number of a checker, for the run and for each group, topic or node (*of*)."""

    name: str
    unit: str
    sentence: str  # what it counts or measures
    of: Literal["group", "topic", "node", ""] = ""
    total: Literal["sum", "max"] = "sum"  # how the run's number is computed from the parts


class CheckerContext:
    """The state of the whole cluster at the moment of the current entry."""

    def __init__(self, cluster: ClusterState, progress: Progress, start_ups: StartUps) -> None:
        self.cluster = cluster
        self.progress = progress
        self.start_ups = start_ups


class Checker(ABC):
    """One rule or a few related ones; or a measure, which counts and reports no violation.

    ``needs`` are kinds of facts: if the journal lacks them, the checker does not judge.
    """

    name: ClassVar[str]
    rule: ClassVar[str]  # what it requires, in one sentence
    metrics: ClassVar[tuple[Metric, ...]] = ()
    needs: ClassVar[tuple[type[Fact], ...]] = ()
    needs_whole: ClassVar[bool] = True  # a journal with gaps proves nothing
    is_measure: ClassVar[bool] = False  # then ``rule`` states the ideal

    def __init__(self, shared: CheckerContext) -> None:
        self.cluster = shared.cluster
        self.progress = shared.progress
        self.start_ups = shared.start_ups
        self.violations: list[Violation] = []
        self.more_violations = 0
        self.measured: dict[str, float] = {}
        self.tried = 0  # how often the rule applied, so that it could be broken

    @abstractmethod
    def table(self) -> Table:
        """Return the handler of each fact type that it reads."""

    def end(self) -> None:  # noqa: B027  # many checkers have nothing to add
        """Report what shows only at the end of the journal, and set metrics."""

    def reason_not_judged(self) -> str:
        """Why the journal cannot show whether the rule was kept; empty if it can."""
        return ""

    def count_tried(self, count: int = 1) -> None:
        """Add *count* to the times that the rule applied, so that it could be broken."""
        self.tried += count

    # Reports ----------------------------------------------------------------------------

    def report_violation(
        self, what: str, *entries: Entry | EntryKey, node: str | None = None, rule: str = ""
    ) -> None:
        """Report that *what* broke the rule; *entries* show it, the last one has its time."""
        if len(self.violations) >= VIOLATIONS_MAX:
            self.more_violations += 1
            return
        roles = self.cluster.roles
        keys = tuple(roles.true_key(key_of(entry)) for entry in entries)
        when = keys[-1]
        self.violations.append(
            Violation(
                checker=self.name,
                rule=rule or self.rule,
                what=roles.true_text(what),
                mono_us=when.mono_us,
                node=when.node if node is None else roles.true_node(node, when.mono_us),
                entries=keys,
            )
        )

    def set_metric(self, metric: str, value: float, of: str = "") -> None:
        """Set *metric* for the group, topic or node *of*; "" stands for the run."""
        self.measured[f"{metric}.{of}" if of else metric] = value

    def add_to_metric(self, metric: str, value: float, of: str = "") -> None:
        """Add *value* to *metric* for the group, topic or node *of*, or for the run."""
        name = f"{metric}.{of}" if of else metric
        self.measured[name] = self.measured.get(name, 0.0) + value

    def numbers(self) -> dict[str, float]:
        """All metrics by name; the run's number is the sum or maximum of its parts."""
        found = dict(self.measured)
        for metric in self.metrics:
            prefix = f"{metric.name}."
            parts = [n for name, n in found.items() if name.startswith(prefix)]
            if metric.name in found:
                parts.append(found[metric.name])  # the part of no group
            found[metric.name] = float((sum if metric.total == "sum" else max)(parts or [0.0]))
        return found


def key_of(entry: Entry | EntryKey) -> EntryKey:
    """The key of *entry*."""
    if isinstance(entry, EntryKey):
        return entry
    return EntryKey(entry.mono_us, entry.node, entry.seq)


@lru_cache(maxsize=64)  # called at each pass
def numbers_of(release: str) -> tuple[int, ...]:
    """``"4.9.7"`` as (4, 9, 7); () for a text that is no release."""
    parts = release.split(".")
    return tuple(int(part) for part in parts) if all(part.isdigit() for part in parts) else ()


# The entries of one message -----------------------------------------------------------


CITED_MAX = 12


def entries_of_message(
    progress: Progress, reading: QueueReading, offset: int
) -> tuple[EntryKey, ...]:
    """Where the message at *offset* was stored, acknowledged, delivered and passed over.

    In the order of time, at most ``CITED_MAX``: its earlier waiting copy, deliveries that were not
    finished, where it failed and was sent back, the first commit that passed it, the last pull of
    its queue, and the last pull that was refused since it was stored.
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
