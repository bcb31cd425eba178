"""Find the gaps of a journal: what is missing, since when, and which rules need it.

A verdict is only as reliable as its journal.  So these folds look for missing entry numbers of a
node, a missing end of the run, a second run, entries out of time order, nodes that other nodes
name and that have no journal, and journals that end before their nodes.  Each is a ``Gap``: rules
that need the whole journal are judged up to its moment; later objections are doubtful.

A broker is named by clients with a route to it and by NameServers, a client by its brokers and the
other members of its group, a NameServer by brokers, a producer by the plan.  A file cut off at the
end of a line has no torn line and no missing number.  It is found because other nodes still note
what its node did (a send acknowledged, messages given, a commit, a message stored).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import repeat
from typing import NamedTuple

from rocketmq_emulator.checks.judging.reading import Skipped
from rocketmq_emulator.checks.state.checker import Checker, key_of
from rocketmq_emulator.checks.state.cluster_state import ClusterState
from rocketmq_emulator.checks.state.disturbances import PROCESS_ENDING
from rocketmq_emulator.checks.state.progress import Progress
from rocketmq_emulator.checks.state.stored_messages import KEY_CHARS, PROCESS_CHARS
from rocketmq_emulator.checks.state.violation import AffectedRules, Gap, Table, Violation
from rocketmq_emulator.facts import (
    BrokerRegistered,
    BrokerRoleChanged,
    ConsumerStarted,
    ConsumerStopped,
    Fact,
    FactsLeftOut,
    FaultBegan,
    MemberJoined,
    MemberLeft,
    MessageSent,
    NodeKilled,
    NodeStarted,
    NodeStopped,
    OffsetCommitted,
    PowerLost,
    PullAnswered,
    QueuesReleased,
    RebalancePassed,
    RegisteredWith,
    RouteChanged,
    RunStarted,
    all_facts,
)
from rocketmq_emulator.facts.journal import Entry
from rocketmq_emulator.protocol.messages.names import RETRY_GROUP_TOPIC_PREFIX

QUIET_US = 60_000_000  # brokers register every 30 s: after a longer silence clocks are compared
SILENT_US_MAX = 24 * 3_600_000_000  # no journal is silent for so long: a clock was wrong
SLACK_US = 1_000  # clocks of two processes on one machine differ by at most 1 ms
GAPS_MAX = 50  # gaps named in the judgement; more are counted
# Facts that only clients write.  QueuesReleased is left out: rules for clients of any kind read
# it if it is there, and work without it.
CLIENTS_FACTS = frozenset(
    kind for kind in all_facts() if kind.__module__ == "rocketmq_emulator.facts.clients"
) - {QueuesReleased}


class Completeness:
    """``note_out_of_order`` takes entries that are out of order; ``gaps`` returns all gaps found.

    *expects_clients*: clients have journals, too; if False only servers do.
    *slack_us*: how much older an entry may be than the entry before it.
    """

    def __init__(
        self, cluster: ClusterState, *, expects_clients: bool = True, slack_us: int = SLACK_US
    ) -> None:
        self._cluster = cluster
        self.expects_clients = expects_clients
        self._slack_us = slack_us
        self.is_over = False  # a second run has begun: later entries belong to it
        self._gaps: dict[tuple[str, str], Gap] = {}
        self._more_gaps = 0
        self._named = MissingJournals(cluster, expects_clients=expects_clients)
        self._ended: set[str] = set()  # nodes whose process has ended by a fact
        self._full: dict[str, FactsMissing] = {}  # by node

    def table(self) -> Table:
        """Return the handler of each fact type that it reads."""
        return {
            **self._named.table(),
            MemberLeft: self._left,
            ConsumerStopped: self._ends,
            FactsLeftOut: self._left_out,
            NodeStopped: self._ends,
            PowerLost: self._ends,
            NodeKilled: self._killed,
            FaultBegan: self._fault_began,
            BrokerRoleChanged: self._role_changed,
        }

    def note_out_of_order(self, entry: Entry, last: Entry | None, before: Entry | None) -> None:
        """*entry* does not follow *last* by number, or is far in time from *before*.

        *last* is the last entry of the same node, *before* the last entry of all nodes.
        """
        if isinstance(entry.fact, RunStarted) and self._cluster.run is not None:
            self._second_run(entry, entry.fact)
            return
        if before is not None:
            self._time(entry, before)
        if last is None:
            if entry.seq != 1:
                self._begins_late(entry)
        elif entry.seq == 1:
            self._began_again(entry, last)
        elif entry.seq > last.seq + _count_in(last):
            text = f"the journal of {entry.node} lacks entries before number {entry.seq}"
            self._note("hole", entry.node, text, last.mono_us)
        elif entry.seq <= last.seq:
            text = (
                f"the journal of {entry.node} goes back from its number {last.seq} to {entry.seq}"
            )
            text += ": facts are out of order, or there twice"
            self._note("hole", entry.node, text, min(entry.mono_us, last.mono_us))

    def gaps(self, last: Mapping[str, Entry], skipped: Skipped | None = None) -> list[Gap]:
        """All gaps of the journal, once it is over; *last* is each node's last entry in it."""
        found = list(self._gaps.values())
        found += [left_out.gap(last[node]) for node, left_out in self._full.items()]
        if skipped is not None and skipped.count:
            found.append(_unreadable(skipped))
        found += self._named.without_journal(set(last))
        if self._cluster.run is not None and self._cluster.run_ended is None:
            text = "the run has no end in the journal (RunEnded): it was cut off"
            found.append(Gap(text, self._cluster.now_us, "none"))
        if self._more_gaps:
            found.append(Gap(f"and {self._more_gaps:,} more places like these", 0))
        return found

    # Out of order -------------------------------------------------------------------------

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
        """Whether the wall clock did not move by that time, and no fault had changed it."""
        if any(fault.word.startswith("clock") for fault in self._cluster.all_faults):
            return False
        return (entry.at_ms - before.at_ms) * 1_000 * 2 < entry.mono_us - before.mono_us

    def _begins_late(self, entry: Entry) -> None:
        text = f"the journal of {entry.node} begins in its middle, at number {entry.seq}"
        self._note("hole", entry.node, text, 0)

    def _began_again(self, entry: Entry, last: Entry) -> None:
        node = self._cluster.roles.seen_as.get(entry.node, entry.node)
        if node in self._ended or isinstance(entry.fact, PowerLost):
            self._ended.discard(node)
        else:
            text = f"{entry.node} was started again at {entry.mono_us / 1e6:.3f} s and no fact "
            text += "shows how it had ended: its last entries may be missing"
            self._note("again", node, text, last.mono_us)

    def _second_run(self, entry: Entry, fact: RunStarted) -> None:
        self.is_over = True
        text = f"a second run ({fact.scenario}, seed {fact.seed}) begins in this journal: "
        text += "later entries are not judged; judge each run by itself"
        self._note("run", "", text, entry.mono_us, "none")

    def _note(
        self, kind: str, node: str, text: str, since_us: int, affects: AffectedRules = "all"
    ) -> None:
        """Keep the first gap of a kind at a node: all later entries are doubtful anyway."""
        known = self._gaps.get((kind, node))
        if known is not None:
            if since_us < known.since_us:
                self._gaps[kind, node] = Gap(known.text, since_us, known.affects)
        elif len(self._gaps) < GAPS_MAX:
            self._gaps[kind, node] = Gap(text, since_us, affects)
        else:
            self._more_gaps += 1

    def _left_out(self, fact: FactsLeftOut, entry: Entry) -> None:
        before = self._full.get(entry.node, FactsMissing(entry, 0))
        self._full[entry.node] = FactsMissing(before.first, before.facts + fact.missing_count)

    # How processes end --------------------------------------------------------------------

    def _left(self, fact: MemberLeft, entry: Entry) -> None:
        self._ended.add(self._named.nodes_of.get(fact.client, ""))

    def _ends(self, fact: Fact, entry: Entry) -> None:
        self._ended.add(entry.node)

    def _killed(self, fact: NodeKilled, entry: Entry) -> None:
        self._ended.add(fact.node)

    def _role_changed(self, fact: BrokerRoleChanged, entry: Entry) -> None:
        if (move := self._cluster.roles.move) is not None:
            self._ended = set(map(move.after, self._ended))

    def _fault_began(self, fact: FaultBegan, entry: Entry) -> None:
        held = self._cluster.faults.get(fact.fault_id)
        if held is not None and held.word in PROCESS_ENDING:
            self._ended.update(fact.nodes)


def _count_in(entry: Entry) -> int:
    """How many facts *entry* stands for: more than one after a full disk."""
    return entry.fact.missing_count if isinstance(entry.fact, FactsLeftOut) else 1


class FactsMissing(NamedTuple):
    """How many facts a full disk left out of a node's journal, since the entry *first*."""

    first: Entry
    facts: int

    def gap(self, last: Entry) -> Gap:
        """The gap; *last* is the node's last entry."""
        how = "ends early" if isinstance(last.fact, FactsLeftOut) else "has gaps"
        what = "1 fact is" if self.facts == 1 else f"{self.facts:,} facts are"
        since_us = self.first.mono_us
        text = f"the journal of {self.first.node} {how}: {what} missing since "
        return Gap(f"{text}{since_us / 1e6:.3f} s, when its disk was full", since_us)


def _unreadable(skipped: Skipped) -> Gap:
    lines = f"{skipped.count:,} lines" if skipped.count > 1 else "1 line"
    text = f"{lines} could not be read and {'are' if skipped.count > 1 else 'is'} left out"
    return Gap(f"{text}, the first: {skipped.places[0]}", skipped.since_us)


def gaps_affecting(checker: Checker, gaps: Sequence[Gap]) -> list[Gap]:
    """The *gaps* in facts that the rules of *checker* need."""
    if not gaps or not checker.needs_whole:
        return []
    table = checker.table()
    # A checker without a table reads the progress, which needs servers and clients.
    needs_clients = not table or not CLIENTS_FACTS.isdisjoint({*checker.needs, *table})
    wanted = ("all", "clients") if needs_clients else ("all",)
    return [gap for gap in gaps if gap.affects in wanted]


def split_by_gaps(
    checker: Checker, gaps: Sequence[Gap]
) -> tuple[list[Violation], list[Violation]]:
    """The violations of *checker* before the first gap that affects it, and those after it."""
    since_us = min((gap.since_us for gap in gaps_affecting(checker, gaps)), default=None)
    if since_us is None:
        return checker.violations, []
    sure = [each for each in checker.violations if each.mono_us < since_us]
    return sure, [each for each in checker.violations if each.mono_us >= since_us]


# Nodes without a journal --------------------------------------------------------------


SETTLING_US = 5_000_000  # a node first named so late may not have written anything yet
MASTER = 0
CLIENTS_MAX = 50  # clients without a journal that are named; more are counted


class MissingJournals:
    """Finds nodes that entries name and that have no journal; clients if *expects_clients*."""

    def __init__(self, cluster: ClusterState, *, expects_clients: bool) -> None:
        self._cluster = cluster
        self._expects_clients = expects_clients
        self.nodes_of: dict[str, str] = {}  # of client ids
        self._brokers: dict[str, Entry] = {}
        self._sent_to: set[str] = set()  # of these
        self._clients: dict[str, Entry] = {}
        self._groups: dict[str, Entry] = {}
        self._name_servers: set[str] = set()  # nodes that are NameServers
        self._accepted_by = 0  # the most NameServers that accepted one registration
        self._registered_with: Entry | None = None

    def table(self) -> Table:
        """Return the handler of each fact type that it reads."""
        return {
            RouteChanged: self._route_changed,
            MessageSent: self._sent,
            BrokerRegistered: self._registered,
            NodeStarted: self._node_started,
            RegisteredWith: self._has_registered,
            RebalancePassed: self._passed,
            MemberJoined: self._joined,
            OffsetCommitted: self._committed,
            ConsumerStarted: self._started,
        }

    def without_journal(self, known: Collection[str]) -> Iterator[Gap]:
        """A gap for each node that is named and not among *known*, the nodes with journals."""
        yield from self._servers(known)
        # A user's own program has no journal.
        if self._expects_clients and not self._cluster.plan.get("programs"):
            yield from self._members()
            for producer in self._producers():
                if producer not in known:
                    text = f"{producer} has no journal, and the plan of the run names it"
                    yield Gap(text, 0, "clients")

    # Missing nodes ------------------------------------------------------------------------

    def _servers(self, known: Collection[str]) -> Iterator[Gap]:
        for broker, entry in self._brokers.items():
            if broker not in known and self._has_settled(entry):
                # A broker that no client had a route to does not affect the clients.
                is_unused = isinstance(entry.fact, BrokerRegistered)
                text = f"broker {broker} has no journal, and {_names(entry)} it"
                yield Gap(text, 0, "none" if is_unused else "all")
        missing = self._accepted_by - len(self._name_servers)
        if missing > 0 and self._registered_with is not None:
            text = f"{missing} of {self._accepted_by} NameServers have no journal, and "
            yield Gap(f"{text}{_names(self._registered_with)} them", 0)

    def _members(self) -> Iterator[Gap]:
        missing = [
            (client, entry)
            for client, entry in self._clients.items()
            if client not in self.nodes_of and self._has_settled(entry)
        ]
        for client, entry in missing[:CLIENTS_MAX]:
            # Brokers note members that join; without such a fact only its name is known.
            is_known = isinstance(entry.fact, MemberJoined)
            text = f"client {client} has no journal, and {_names(entry)} it"
            yield Gap(text, 0, "clients" if is_known else "none")
        if len(missing) > CLIENTS_MAX:
            text = f"{len(missing) - CLIENTS_MAX:,} more clients have no journal"
            yield Gap(text, 0, "clients")
        for group, entry in self._groups.items():
            if not missing and group not in self._cluster.consumers and self._has_settled(entry):
                text = f"no member of group {group} has a journal, and {_names(entry)} the group"
                yield Gap(text, 0, "clients")

    def _producers(self) -> Iterator[str]:
        """Nodes that by the plan send from the start of the run; none if the run did not end."""
        ended = self._cluster.run_ended
        if ended is None or ended.reason != "finished":
            return
        begin_ms = [
            from_ms
            for load in self._cluster.plan.get("load", ())
            for from_ms in repeat(load.get("from_ms", 0), load.get("producers", 1))
        ]
        for number, from_ms in enumerate(begin_ms, 1):
            if from_ms == 0:
                yield f"producer-{number}"

    def _has_settled(self, entry: Entry) -> bool:
        return self._cluster.now_us - entry.mono_us >= SETTLING_US

    # Named nodes --------------------------------------------------------------------------

    def _route_changed(self, fact: RouteChanged, entry: Entry) -> None:
        for broker in fact.brokers:
            self._used(broker, entry)

    def _sent(self, fact: MessageSent, entry: Entry) -> None:
        broker = fact.queue.broker
        if broker not in self._sent_to:
            self._sent_to.add(broker)
            self._used(broker, entry)

    def _used(self, broker: str, entry: Entry) -> None:
        known = self._brokers.get(broker)
        if known is None or isinstance(known.fact, BrokerRegistered):
            self._brokers[broker] = entry

    def _registered(self, fact: BrokerRegistered, entry: Entry) -> None:
        self._name_servers.add(entry.node)
        if fact.broker_id == MASTER:
            self._brokers.setdefault(fact.broker, entry)

    def _node_started(self, fact: NodeStarted, entry: Entry) -> None:
        if fact.role == "nameserver":
            self._name_servers.add(entry.node)

    def _has_registered(self, fact: RegisteredWith, entry: Entry) -> None:
        if len(fact.accepted) > self._accepted_by:
            self._accepted_by, self._registered_with = len(fact.accepted), entry

    def _passed(self, fact: RebalancePassed, entry: Entry) -> None:
        for client in fact.members:
            self._clients.setdefault(client, entry)

    def _joined(self, fact: MemberJoined, entry: Entry) -> None:
        known = self._clients.get(fact.client)
        if known is None or not isinstance(known.fact, MemberJoined):
            self._clients[fact.client] = entry

    def _committed(self, fact: OffsetCommitted, entry: Entry) -> None:
        self._groups.setdefault(fact.group, entry)

    def _started(self, fact: ConsumerStarted, entry: Entry) -> None:
        self.nodes_of[fact.client] = entry.node


def _names(entry: Entry) -> str:
    return f"{entry.node} names ({type(entry.fact).__name__}, number {entry.seq})"


# Journals that end early --------------------------------------------------------------


ACK_NOTED_US = 5_000_000  # a broker notes a message before its producer does
WRITTEN_US = 10_000_000  # offsets are written every 5 s
LISTENER_US = 65_000_000  # a member notes within this time that it was given a message


class TruncatedJournals:
    """Nodes that other nodes name, with the last such entry."""

    def __init__(self, cluster: ClusterState, progress: Progress) -> None:
        self._cluster = cluster
        self._progress = progress
        self._acked: dict[str, Entry] = {}  # by broker: the last acknowledgement
        self._answered: dict[tuple[str, str], Entry] = {}  # by broker and address: with messages
        self._went_on: dict[tuple[str, str], Entry] = {}  # by broker and address: last commit
        self._clients: dict[tuple[str, str], str] = {}  # by broker and address
        self._producers: dict[str, str] = {}  # by the process in unique keys: node

    def table(self) -> Table:
        """Return the handler of each fact type that it reads."""
        return {
            MessageSent: self._sent,
            PullAnswered: self._pulled,
            OffsetCommitted: self._committed,
            MemberJoined: self._joined,
        }

    def gaps(self, last: Mapping[str, Entry]) -> Iterator[Gap]:
        """A gap for each node whose entry in *last* is much older than others that name it."""
        for broker, named in self._acked.items():
            nodes = broker, named.node
            if self._is_behind(last.get(broker), nodes, named.mono_us, ACK_NOTED_US):
                yield _gap(last[broker], f"{named.node} names it", named.mono_us)
        for (broker, peer), named in self._answered.items():
            node = self._node_of(self._clients.get((broker, peer), ""))
            if self._is_behind(last.get(node), (node, broker), named.mono_us, LISTENER_US):
                yield _gap(last[node], f"{broker} answers its pulls", named.mono_us)
        for (broker, peer), named in self._went_on.items():
            node = self._node_of(self._clients.get((broker, peer), ""), "push")
            if self._is_behind(last.get(node), (node, broker), named.mono_us, WRITTEN_US):
                yield _gap(last[node], f"goes on to commit at {broker}", named.mono_us)
        yield from self._unanswered(last)

    def _unanswered(self, last: Mapping[str, Entry]) -> Iterator[Gap]:
        """Gaps of producers whose messages were stored long after their own last entry."""
        stored: dict[str, tuple[int, str]] = {}
        for key, places in self._progress.messages.pending.open_sends.items():
            node = self._producers.get(key[:PROCESS_CHARS], "")
            if len(key) != KEY_CHARS or not node:
                continue
            for records, offset in places:
                # Another message has the place of one that was lost.
                is_there = records.topic_kind == "topic" and records.key_at(offset) == key
                if is_there and (at_us := records.stored_us(offset)):
                    stored[node] = max(stored.get(node, (0, "")), (at_us, records.queue.broker))
        for node, (at_us, broker) in stored.items():
            if self._is_behind(last.get(node), (node, broker), at_us, ACK_NOTED_US):
                yield _gap(last[node], f"{broker} stores its messages", at_us)

    def _is_behind(
        self, last: Entry | None, nodes: tuple[str, str], named_us: int, most_us: int
    ) -> bool:
        """Whether *last* is more than *most_us* older, and no fault of *nodes* explains that."""
        if last is None or named_us - last.mono_us <= most_us or self._cluster.is_gone(last.node):
            return False
        return not self._cluster.touched(nodes, last.mono_us, named_us)

    def _node_of(self, client: str, kind: str = "") -> str:
        """The node of a running member, if it is that *kind* of consumer ("": any); else ""."""
        for consumers in self._cluster.consumers.values():
            for consumer in consumers:
                is_its = consumer.started.client == client and consumer.is_running
                if is_its and kind in ("", consumer.started.consumer_kind):
                    return consumer.node
        return ""

    # Named nodes --------------------------------------------------------------------------

    def _sent(self, fact: MessageSent, entry: Entry) -> None:
        self._acked[fact.queue.broker] = entry
        process = fact.uniq_key[:PROCESS_CHARS]
        is_own = not fact.topic.startswith(RETRY_GROUP_TOPIC_PREFIX)  # a retry keeps its key
        if is_own and process not in self._producers:
            self._producers[process] = entry.node

    def _pulled(self, fact: PullAnswered, entry: Entry) -> None:
        if fact.message_count:
            self._answered[entry.node, fact.peer] = entry

    def _committed(self, fact: OffsetCommitted, entry: Entry) -> None:
        passes = self._progress.reading.passes
        if passes and passes[-1][1] == key_of(entry):
            self._went_on[entry.node, fact.peer] = entry  # no client notes what it consumed

    def _joined(self, fact: MemberJoined, entry: Entry) -> None:
        self._clients[entry.node, fact.peer] = fact.client


def _gap(last: Entry, why: str, named_us: int) -> Gap:
    text = f"the journal of {last.node} ends at {last.mono_us / 1e6:.3f} s, and {why} at "
    return Gap(f"{text}{named_us / 1e6:.3f} s: its later entries are missing", last.mono_us)
