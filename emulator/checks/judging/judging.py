"""The driver: one pass over a journal gives each entry to the checkers that take its kind.

    judge(read_journals([Path("run.jsonl")])) -> Judgement

The cluster state and the progress get each entry before the checkers, which read them.  A
checker that raises is named in the judgement and gets no more entries; the others continue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from rocketmq_emulator.checks.judging.completeness import (
    QUIET_US,
    Completeness,
    TruncatedJournals,
    gaps_affecting,
    split_by_gaps,
)
from rocketmq_emulator.checks.judging.reading import Skipped
from rocketmq_emulator.checks.judging.table import ALL
from rocketmq_emulator.checks.state.checker import Checker, CheckerContext
from rocketmq_emulator.checks.state.cluster_state import ClusterState
from rocketmq_emulator.checks.state.progress import Progress
from rocketmq_emulator.checks.state.slave_reads import SlaveReads
from rocketmq_emulator.checks.state.start_ups import StartUps
from rocketmq_emulator.checks.state.stored_messages import StoredMessages
from rocketmq_emulator.checks.state.violation import FactHandler, Gap, Judgement, Table, Violation
from rocketmq_emulator.facts import Fact
from rocketmq_emulator.facts.journal import Entry

FactHandlers = tuple[FactHandler, ...]


def judge(
    entries: Iterable[Entry],
    checkers: Sequence[type[Checker]] | None = None,
    skipped: Skipped | None = None,
) -> Judgement:
    """The judgement of *checkers* (default: all) on *entries*, which are in the order of time.

    *skipped* counts the lines that the reader left out.  Entries with gaps or out of order are
    judged up to the first gap.  Raises only what iterating *entries* raises.
    """
    judging = Judging(checkers, skipped=skipped)
    judging.take(entries)
    return judging.end()


class Judging:
    """A judgement in progress: entries may come in parts, as from a running cluster."""

    def __init__(
        self,
        checkers: Sequence[type[Checker]] | None = None,
        *,
        skipped: Skipped | None = None,
        completeness: Callable[[ClusterState], Completeness] = Completeness,
    ) -> None:
        self.cluster = ClusterState()
        self.messages = StoredMessages(self.cluster)
        self.progress = Progress(self.cluster, self.messages)
        self.completeness = completeness(self.cluster)
        self.early_ends = TruncatedJournals(self.cluster, self.progress)
        self._skipped = skipped
        self.start_ups = StartUps(self.cluster)
        shared = CheckerContext(self.cluster, self.progress, self.start_ups)
        self.raised: dict[str, str] = {}
        self.checkers: list[Checker] = []
        self._tables: list[tuple[str, Table]] = [
            ("scene", self.cluster.table()),
            ("replicas", self.cluster.replicas.table()),
            ("sync-state sets", self.cluster.in_sync.table()),
            ("start-ups", self.start_ups.table()),
            ("messages", self.messages.table()),
            ("slave reads", SlaveReads(self.cluster, self.messages.queues).table()),
            ("escapes", self.messages.escapes.table()),
            ("progress", self.progress.table()),
            ("completeness", self.completeness.table()),
            ("early ends", self.early_ends.table()),
        ]
        for kind in ALL.values() if checkers is None else checkers:
            self._add(kind, shared)
        self._handlers = _HandlersByKind(self._handlers_of)
        self._last: dict[str, Entry] = {}  # of each node
        self._count = 0

    def take(self, entries: Iterable[Entry]) -> None:
        """Give each entry to all checkers that take its kind."""
        whole, last_of, count = self.completeness, self._last, 0
        roles = self.cluster.roles
        before, now_us = self.cluster.last, self.cluster.now_us
        if whole.is_over:
            return
        try:
            for entry in entries:
                node, fact, mono_us = entry.node, entry.fact, entry.mono_us
                last = last_of.get(node)
                if (
                    last is None
                    or entry.seq != last.seq + 1
                    or not 0 <= mono_us - now_us <= QUIET_US
                ):
                    whole.note_out_of_order(entry, last, before)
                    if whole.is_over:
                        return
                count += 1
                now_us = mono_us
                before = last_of[node] = entry
                if roles.needs(type(fact)):
                    for seen in roles.seen(entry):
                        self._give(seen.fact, seen)
                else:
                    self._give(fact, entry)
        finally:
            self._count += count
            self.cluster.last = before

    def _give(self, fact: Fact, entry: Entry) -> None:
        for take in self._handlers[type(fact)]:
            try:
                take(fact, entry)
            except Exception as error:  # noqa: BLE001  # the other checkers continue
                self._drop(take, error, entry)

    def end(self) -> Judgement:
        """The judgement of all entries taken."""
        seen = self._handlers.keys()
        gaps = self._gaps()
        not_judged: dict[str, str] = {}
        numbers: dict[str, float] = {}
        for checker in self.checkers:
            if checker.name in self.raised:
                continue
            try:
                checker.end()
                why = self._why_not(checker, seen, gaps)
                found = checker.numbers()
            except Exception as error:  # noqa: BLE001
                self.raised[checker.name] = _text_of(error)
                continue
            if why:
                not_judged[checker.name] = why
                if not split_by_gaps(checker, gaps)[0]:
                    continue
            numbers.update(found)
        parts = [split_by_gaps(checker, gaps) for checker in self.checkers]
        return Judgement(
            violations=_in_time(sure for sure, _ in parts),
            metrics=dict(sorted(numbers.items())),
            fact_count=self._count,
            not_judged=not_judged,
            raised=dict(self.raised),
            tried={
                checker.name: checker.tried for checker in self.checkers if not checker.is_measure
            },
            more_violations=sum(
                each.more_violations for each in self.checkers if not gaps_affecting(each, gaps)
            ),
            incomplete=tuple(gap.text for gap in gaps),
            doubtful=_in_time(doubtful for _, doubtful in parts),
        )

    def is_doubtful(self, checker: Checker, violation: Violation) -> bool:
        """Whether *violation* may come from a gap that is known by now."""
        return any(
            gap.since_us <= violation.mono_us for gap in gaps_affecting(checker, self._gaps())
        )

    def _gaps(self) -> list[Gap]:
        seen_as = self.cluster.roles.seen_as
        last = {seen_as.get(node, node): entry for node, entry in self._last.items()}
        gaps = self.completeness.gaps(last, self._skipped)
        if self.completeness.expects_clients:
            gaps += self.early_ends.gaps(last)
        return gaps

    def _why_not(self, checker: Checker, seen: Iterable[type[Fact]], gaps: Sequence[Gap]) -> str:
        if checker.needs and not set(checker.needs) & set(seen):
            names = " or ".join(kind.__name__ for kind in checker.needs)
            return f"the journal has no {names}"
        if missing := gaps_affecting(checker, gaps):
            return "; ".join(gap.text for gap in missing)
        return checker.reason_not_judged()

    def _add(self, kind: type[Checker], shared: CheckerContext) -> None:
        try:
            checker = kind(shared)
            self._tables.append((checker.name, checker.table()))
            self.checkers.append(checker)
        except Exception as error:  # noqa: BLE001
            self.raised[kind.name] = _text_of(error)

    def _handlers_of(self, kind: type[Fact]) -> FactHandlers:
        return tuple(
            table[kind]
            for name, table in self._tables
            if kind in table and name not in self.raised
        )

    def _drop(self, take: FactHandler, error: Exception, entry: Entry) -> None:
        """Stop giving entries to the checker that owns the method *take*."""
        (name,) = {name for name, table in self._tables if take in table.values()}
        self.raised[name] = f"{_text_of(error)}, at {entry.node} {entry.seq}"
        for kind in self._handlers:
            self._handlers[kind] = self._handlers_of(kind)


class _HandlersByKind(dict[type[Fact], FactHandlers]):
    """Handlers by fact kind, each found once; its keys are the kinds that were seen."""

    def __init__(self, find: Callable[[type[Fact]], FactHandlers]) -> None:
        super().__init__()
        self._find = find

    def __missing__(self, kind: type[Fact]) -> FactHandlers:
        found = self[kind] = self._find(kind)
        return found


def _in_time(parts: Iterable[list[Violation]]) -> tuple[Violation, ...]:
    found = [violation for part in parts for violation in part]
    return tuple(sorted(found, key=lambda each: (each.mono_us, each.node)))


def _text_of(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
