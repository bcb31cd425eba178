"""Is a journal whole?  What is missing, since when, and whose rules cannot be judged without it.

A pass is worth what the evidence is worth.  So this fold looks for what a journal should have and
does not have: numbers that a node left out, nodes that others name and that have no journal, the
end of a run, a second run, an order of time that is none.  Each is a ``Gap``: rules that need the
whole journal are judged up to its moment, and what they say of later is not relied on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from emulator.checks.checker import Checker
from emulator.checks.disturbances import ENDING
from emulator.checks.folding import Table
from emulator.checks.named_nodes import NamedNodes
from emulator.checks.reading import Skipped
from emulator.checks.scene import Scene
from emulator.checks.violation import Gap, Violation, Whose
from emulator.facts import (
    ConsumerStopped,
    Fact,
    FaultBegan,
    MemberLeft,
    NodeKilled,
    NodeStopped,
    PowerLost,
    QueuesReleased,
    RunStarted,
    all_facts,
)
from emulator.journal import Entry

QUIET_US = 60_000_000  # brokers register every 30 s: after a longer silence clocks are compared
SILENT_US_MAX = 24 * 3_600_000_000  # nobody notes anything for so long: a clock was wrong
SLACK_US = 1_000  # two processes of a machine tell the time alike to a millisecond
GAPS_MAX = 50  # that are named; more are counted
# What only clients tell.  A release is left out: rules for clients of any kind read it if it is
# there, and do without.
CLIENTS_FACTS = frozenset(
    kind for kind in all_facts() if kind.__module__ == "emulator.facts.clients"
) - {QueuesReleased}


class Completeness:
    """``odd`` is told what comes out of turn; ``gaps`` are what was found, at the end.

    *expects_clients*: clients have journals, too; else only servers are expected to.
    *slack_us*: by so much an entry may be older than the one before it.
    """

    def __init__(
        self, scene: Scene, *, expects_clients: bool = True, slack_us: int = SLACK_US
    ) -> None:
        self._scene = scene
        self.expects_clients = expects_clients
        self._slack_us = slack_us
        self.is_over = False  # a second run has begun: what comes is not of this one
        self._gaps: dict[tuple[str, str], Gap] = {}
        self._more_gaps = 0
        self._named = NamedNodes(scene, expects_clients=expects_clients)
        self._ended: set[str] = set()  # nodes whose process is known to have ended

    def table(self) -> Table:
        """What it reads."""
        return {
            **self._named.table(),
            MemberLeft: self._left,
            ConsumerStopped: self._ends,
            NodeStopped: self._ends,
            PowerLost: self._ends,
            NodeKilled: self._killed,
            FaultBegan: self._fault_began,
        }

    def odd(self, entry: Entry, last: Entry | None, before: Entry | None) -> None:
        """*entry* is out of turn: not the next of its node after *last*, or far from *before*.

        *last* is the last entry of the same node, *before* the last one of all.
        """
        if isinstance(entry.fact, RunStarted) and self._scene.run is not None:
            self._second_run(entry, entry.fact)
            return
        if before is not None:
            self._time(entry, before)
        if last is None:
            if entry.seq != 1:
                self._begins_late(entry)
        elif entry.seq == 1:
            self._began_again(entry, last)
        elif entry.seq > last.seq + 1:
            text = f"the journal of {entry.node} lacks what is before its number {entry.seq}"
            self._note("hole", entry.node, text, last.mono_us)
        elif entry.seq <= last.seq:
            text = (
                f"the journal of {entry.node} goes back from its number {last.seq} to {entry.seq}"
            )
            text += ": facts are out of order, or there twice"
            self._note("hole", entry.node, text, min(entry.mono_us, last.mono_us))

    def gaps(self, nodes: Iterable[str], skipped: Skipped | None = None) -> list[Gap]:
        """All that is missing, when *nodes* have noted something and the journal is over."""
        found = list(self._gaps.values())
        if skipped is not None and skipped.count:
            found.append(_left_out(skipped))
        found += self._named.without_journal(set(nodes))
        if self._scene.run is not None and self._scene.run_ended is None:
            text = "the run has no end in the journal (RunEnded): it was cut off"
            found.append(Gap(text, self._scene.now_us, "none"))
        if self._more_gaps:
            found.append(Gap(f"and {self._more_gaps:,} more places like these", 0))
        return found

    # Out of turn --------------------------------------------------------------------------

    def _time(self, entry: Entry, before: Entry) -> None:
        ahead_us = entry.mono_us - before.mono_us
        where = f"at {entry.node} {entry.seq}"
        if ahead_us < -self._slack_us:
            text = f"the time goes back by {-ahead_us / 1e6:,.3f} s {where}, behind {before.node} "
            text += f"{before.seq}: facts are out of order, or a clock has jumped"
            self._note("back", "", text, entry.mono_us)
        elif ahead_us > SILENT_US_MAX or (ahead_us > QUIET_US and self._is_jump(entry, before)):
            text = f"the time jumps ahead by {ahead_us / 1e6:,.3f} s {where}, behind "
            text += f"{before.node} {before.seq}: a clock has jumped"
            self._note("ahead", "", text, before.mono_us)

    def _is_jump(self, entry: Entry, before: Entry) -> bool:
        """The wall clock knows nothing of that time, and no fault had changed it."""
        if any(fault.word.startswith("clock") for fault in self._scene.all_faults):
            return False
        return (entry.at_ms - before.at_ms) * 1_000 * 2 < entry.mono_us - before.mono_us

    def _begins_late(self, entry: Entry) -> None:
        text = f"the journal of {entry.node} begins in its middle, at number {entry.seq}"
        self._note("hole", entry.node, text, 0)

    def _began_again(self, entry: Entry, last: Entry) -> None:
        node = entry.node
        if node in self._ended or isinstance(entry.fact, PowerLost):
            self._ended.discard(node)
        else:
            text = (
                f"{node} was started again at {entry.mono_us / 1e6:.3f} s and no fact tells how "
            )
            text += "it had ended: what it noted last may be missing"
            self._note("again", node, text, last.mono_us)

    def _second_run(self, entry: Entry, fact: RunStarted) -> None:
        self.is_over = True
        text = f"a second run ({fact.scenario}, seed {fact.seed}) begins in this journal: "
        text += "what follows is not judged; each run is judged by itself"
        self._note("run", "", text, entry.mono_us, "none")

    def _note(self, kind: str, node: str, text: str, since_us: int, whose: Whose = "all") -> None:
        """The first of a kind at a node is enough: what comes later is not relied on."""
        known = self._gaps.get((kind, node))
        if known is not None:
            if since_us < known.since_us:
                self._gaps[kind, node] = Gap(known.text, since_us, known.whose)
        elif len(self._gaps) < GAPS_MAX:
            self._gaps[kind, node] = Gap(text, since_us, whose)
        else:
            self._more_gaps += 1

    # How processes end --------------------------------------------------------------------

    def _left(self, fact: MemberLeft, entry: Entry) -> None:
        self._ended.add(self._named.nodes_of.get(fact.client, ""))

    def _ends(self, fact: Fact, entry: Entry) -> None:
        self._ended.add(entry.node)

    def _killed(self, fact: NodeKilled, entry: Entry) -> None:
        self._ended.add(fact.node)

    def _fault_began(self, fact: FaultBegan, entry: Entry) -> None:
        held = self._scene.faults.get(fact.fault_id)
        if held is not None and held.word in ENDING:
            self._ended.update(fact.nodes)


def _left_out(skipped: Skipped) -> Gap:
    lines = f"{skipped.count:,} lines" if skipped.count > 1 else "1 line"
    text = f"{lines} could not be read and {'are' if skipped.count > 1 else 'is'} left out"
    return Gap(f"{text}, the first: {skipped.places[0]}", skipped.since_us)


def needed_by(checker: Checker, gaps: Sequence[Gap]) -> list[Gap]:
    """Those of *gaps* that the rules of *checker* cannot do without."""
    if not gaps or not checker.needs_whole:
        return []
    table = checker.table()
    # Without a table it asks the progress, which knows both sides.
    needs_clients = not table or not CLIENTS_FACTS.isdisjoint({*checker.needs, *table})
    whose = ("all", "clients") if needs_clients else ("all",)
    return [gap for gap in gaps if gap.whose in whose]


def divided(checker: Checker, gaps: Sequence[Gap]) -> tuple[list[Violation], list[Violation]]:
    """What *checker* objected to while the journal was whole, and later."""
    since_us = min((gap.since_us for gap in needed_by(checker, gaps)), default=None)
    if since_us is None:
        return checker.violations, []
    sure = [each for each in checker.violations if each.mono_us < since_us]
    return sure, [each for each in checker.violations if each.mono_us >= since_us]
