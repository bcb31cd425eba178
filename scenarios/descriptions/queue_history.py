"""The history of a queue in a group: its owners, their last actions there, and refusals.

A missing event (a message that no member consumed, a queue without an owner) leaves no fact.  So
the history ends with the last of each action that should have continued: the last pull, the last
message that was given out, the last that was finished, the last commit, the last rebalance.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, TypeAlias

import msgspec

from rocketmq_emulator.checks.state.disturbances import PROCESS_ENDING
from rocketmq_emulator.checks.state.violation import place_of
from rocketmq_emulator.facts import (
    ConsumerStarted,
    ConsumerStopped,
    Fact,
    FaultBegan,
    GroupOffsetMoved,
    MemberLeft,
    MessageConsumed,
    MessageGivenToListener,
    MessagePolled,
    NodeKilled,
    OffsetCommitted,
    OffsetRepaired,
    PullAnswered,
    PullFailed,
    PullHeld,
    Queue,
    QueuesClaimed,
    QueuesLocked,
    QueuesReleased,
    RebalancePassed,
    SendRefused,
    TopicChanged,
    TopicCreated,
)
from rocketmq_emulator.facts.journal import Entry
from rocketmq_emulator.protocol.messages.names import RETRY_GROUP_TOPIC_PREFIX
from rocketmq_emulator.scenarios.descriptions.names import NodeNames, word_of
from rocketmq_emulator.scenarios.descriptions.sentences import (
    code_in_words,
    many,
    sentence_of,
    without_advice,
)
from rocketmq_emulator.scenarios.descriptions.summaries import ROUTINE_CODES, line_of_run, runs_of

REFUSALS_SHOWN_MAX = 4  # lines
REBALANCES_SHOWN_MAX = 4  # members
SILENT_US = 30_000_000  # a pull is held for 20 s at most: then the member pulls again

Pair: TypeAlias = tuple[str, Queue]  # a group and a queue that it reads


class OwnershipPeriod(msgspec.Struct):
    """A period in which a member owned a queue; *ended*: how it ended, empty while it lasts."""

    node: str
    from_us: int
    offset: int | None  # the first offset that it consumes
    committed: int | None  # by the group, before the period
    until_us: int | None = None
    ended: str = ""


class GroupQueueHistory:
    """One queue of one group, from the facts up to *until_us*."""

    def __init__(self, group: str, queue: Queue, until_us: int) -> None:
        self.group, self.queue, self.until_us = group, queue, until_us
        self.holds: list[OwnershipPeriod] = []
        self.acts: dict[str, dict[str, Entry]] = {}  # by node: its last actions in the queue
        self.refusals: list[Entry] = []
        self.passes: dict[str, Entry] = {}  # by running member: its last pass of the queue's topic
        self.committed: int | None = None
        self.is_broadcast = False  # each member owns the queue, and stores its offset itself
        self.shape: TopicCreated | TopicChanged | None = None  # of the topic at the broker
        self.lock: Entry | None = None  # the last lock that a broker granted

    def owners(self) -> list[OwnershipPeriod]:
        """The periods that have not ended: one for each member that owns the queue now."""
        return [hold for hold in self.holds if hold.until_us is None]

    def of_node(self, node: str) -> GroupQueueHistory:
        """A copy without the periods of other members."""
        one = copy.copy(self)
        one.holds = [hold for hold in self.holds if hold.node == node]
        return one

    def claims(self, node: str, at_us: int, offset: int | None) -> None:
        """*node* claimed the queue: begin a period; an earlier one of *node* ends."""
        self.ends(node, at_us, "claimed it again")
        self.holds.append(OwnershipPeriod(node, at_us, offset, self.committed))

    def ends(self, node: str, at_us: int, ended: str) -> None:
        """*node* no longer owns the queue: end its period."""
        for hold in self.holds:
            if hold.node == node and hold.until_us is None:
                hold.until_us, hold.ended = at_us, ended


def queue_histories_of(
    entries: Iterable[Entry], names: NodeNames, pairs: Collection[Pair], until_us: int
) -> dict[Pair, GroupQueueHistory]:
    """The history of each of *pairs* up to *until_us*."""
    reader = _HistoryReader(names, pairs, until_us)
    for entry in entries:
        if entry.mono_us > until_us:
            break
        if (take := HANDLERS.get(type(entry.fact))) is not None:
            take(reader, entry.fact, entry)
    return reader.histories


AnyAction: TypeAlias = (
    PullHeld
    | PullAnswered
    | PullFailed
    | MessageGivenToListener
    | MessagePolled
    | MessageConsumed
    | OffsetCommitted
)
AnyRefusal: TypeAlias = PullAnswered | PullFailed | GroupOffsetMoved | OffsetRepaired


class _HistoryReader:
    def __init__(self, names: NodeNames, pairs: Collection[Pair], until_us: int) -> None:
        self.names = names
        self.histories = {
            (group, queue): GroupQueueHistory(group, queue, until_us) for group, queue in pairs
        }

    def of(self, group: str, queue: Queue | None = None) -> list[GroupQueueHistory]:
        """The histories of a group, or of one of its queues."""
        if queue is not None:
            found = self.histories.get((group, queue))
            return [] if found is None else [found]
        return [history for (name, _), history in self.histories.items() if name == group]

    # Members ------------------------------------------------------------------------------

    def claimed(self, fact: QueuesClaimed, entry: Entry) -> None:
        offsets = fact.offsets or (None,) * len(fact.queues)
        for queue, offset in zip(fact.queues, offsets, strict=False):
            for history in self.of(fact.group, queue):
                history.claims(entry.node, entry.mono_us, offset)

    def released(self, fact: QueuesReleased, entry: Entry) -> None:
        for queue in fact.queues:
            for history in self.of(fact.group, queue):
                history.ends(entry.node, entry.mono_us, f"released it ({fact.reason})")

    def started(self, fact: ConsumerStarted, entry: Entry) -> None:
        self._gone(self.of(fact.group), entry.node, entry.mono_us, "was started again")
        for history in self.of(fact.group):
            history.is_broadcast = fact.broadcast

    def stopped(self, fact: ConsumerStopped, entry: Entry) -> None:
        self._gone(self.of(fact.group), entry.node, entry.mono_us, "left the group")

    def killed(self, fact: NodeKilled, entry: Entry) -> None:
        self._gone(self.histories.values(), fact.node, entry.mono_us, "was killed")

    def fault(self, fact: FaultBegan, entry: Entry) -> None:
        if (word := word_of(fact.fault)) in PROCESS_ENDING:
            for node in fact.nodes:
                self._gone(self.histories.values(), node, entry.mono_us, f"met the fault {word}")

    def passed(self, fact: RebalancePassed, entry: Entry) -> None:
        for history in self.of(fact.group):
            if history.queue.topic == fact.topic:
                history.passes[entry.node] = entry

    def locked(self, fact: QueuesLocked, entry: Entry) -> None:
        for queue in fact.granted:
            for history in self.of(fact.group, queue):
                history.lock = entry
        for queue in fact.refused:
            for history in self.of(fact.group, queue):
                if queue.broker == entry.node:
                    one = QueuesLocked(fact.group, fact.client, (), (queue,))
                    history.refusals.append(msgspec.structs.replace(entry, fact=one))

    def shaped(self, fact: TopicCreated | TopicChanged, entry: Entry) -> None:
        for history in self.histories.values():
            if (history.queue.topic, history.queue.broker) == (fact.topic, entry.node):
                history.shape = fact

    def left(self, fact: MemberLeft, entry: Entry) -> None:
        for history in self.of(fact.group):
            if history.queue.broker == entry.node and fact.reason != "unregistered":
                history.refusals.append(entry)

    def _gone(
        self, histories: Iterable[GroupQueueHistory], node: str, at_us: int, ended: str
    ) -> None:
        for history in histories:
            history.ends(node, at_us, ended)
            history.passes.pop(node, None)

    # Actions ------------------------------------------------------------------------------

    def acted(self, fact: AnyAction, entry: Entry) -> None:
        """A member acted in the queue, or a broker recorded the member's action."""
        name = LAST_ACTIONS[type(fact)]
        peer = getattr(fact, "peer", "")
        node = self.names.at(entry.node, peer, entry.mono_us) if peer else entry.node
        for history in self.of(fact.group, fact.queue):
            history.acts.setdefault(node, {})[name] = entry

    def answered(self, fact: PullAnswered, entry: Entry) -> None:
        self.acted(fact, entry)
        if fact.response_code not in ROUTINE_CODES:
            self.refused(fact, entry)

    def pull_failed(self, fact: PullFailed, entry: Entry) -> None:
        self.acted(fact, entry)
        self.refused(fact, entry)

    def refused(self, fact: AnyRefusal, entry: Entry) -> None:
        for history in self.of(fact.group, fact.queue):
            history.refusals.append(entry)

    def committed(self, fact: OffsetCommitted, entry: Entry) -> None:
        self.acted(fact, entry)
        for history in self.of(fact.group, fact.queue):
            history.committed = fact.offset

    def moved(self, fact: GroupOffsetMoved, entry: Entry) -> None:
        self.refused(fact, entry)
        for history in self.of(fact.group, fact.queue):
            history.committed = fact.offset

    def send_refused(self, fact: SendRefused, entry: Entry) -> None:
        for history in self.of(fact.topic.removeprefix(RETRY_GROUP_TOPIC_PREFIX)):
            if history.queue.broker == entry.node:
                history.refusals.append(entry)


LAST_ACTIONS: Mapping[type[Fact], str] = {  # shown for a member, in this order
    PullHeld: "pull",
    PullAnswered: "pull",
    PullFailed: "pull",
    MessageGivenToListener: "given",
    MessagePolled: "given",
    MessageConsumed: "finished",
    OffsetCommitted: "committed",
}
HANDLERS: Mapping[type[Fact], Callable[[_HistoryReader, Any, Entry], None]] = {
    QueuesClaimed: _HistoryReader.claimed,
    QueuesReleased: _HistoryReader.released,
    ConsumerStarted: _HistoryReader.started,
    ConsumerStopped: _HistoryReader.stopped,
    NodeKilled: _HistoryReader.killed,
    FaultBegan: _HistoryReader.fault,
    RebalancePassed: _HistoryReader.passed,
    QueuesLocked: _HistoryReader.locked,
    MemberLeft: _HistoryReader.left,
    TopicCreated: _HistoryReader.shaped,
    TopicChanged: _HistoryReader.shaped,
    PullHeld: _HistoryReader.acted,
    PullAnswered: _HistoryReader.answered,
    PullFailed: _HistoryReader.pull_failed,
    MessageGivenToListener: _HistoryReader.acted,
    MessagePolled: _HistoryReader.acted,
    MessageConsumed: _HistoryReader.acted,
    OffsetCommitted: _HistoryReader.committed,
    GroupOffsetMoved: _HistoryReader.moved,
    OffsetRepaired: _HistoryReader.refused,
    SendRefused: _HistoryReader.send_refused,
}


# In words -----------------------------------------------------------------------------------


def history_lines(history: GroupQueueHistory, names: NodeNames, since_us: int = 0) -> list[str]:
    """The owners, their last actions there, and refusals from *since_us* on; one line each."""
    lines = [whose(history)]
    lines += _last_actions(history)
    if not history.owners():
        lines += _passes(history, names)
    lines += _lock(history, names)
    runs = runs_of((e for e in history.refusals if e.mono_us >= since_us), names)
    runs.sort(key=lambda run: -run.entries[-1].mono_us)
    for run in sorted(runs[:REFUSALS_SHOWN_MAX], key=lambda run: run.first.mono_us):
        line = line_of_run(run, names)
        at = "" if line.count > 1 else f" at {line.at_s:.3f} s"
        lines.append(f"meanwhile{at}, {line.node}: {line.text}")
    if (more := len(runs) - REFUSALS_SHOWN_MAX) > 0:
        lines.append(f"and {more} more kinds of refusals before")
    return lines


def whose(history: GroupQueueHistory) -> str:
    """A sentence: the owners of the queue, or its last owner."""
    place = f"{place_of(history.queue)} of {history.group}"
    if owners := history.owners():
        return f"{place} is held by {' and by '.join(_hold(hold, history) for hold in owners)}"
    if not history.holds:
        return f"no member had claimed {place}{_beyond(history)}"
    last = max(history.holds, key=lambda hold: hold.until_us or 0)
    until_s = (last.until_us or 0) / 1_000_000
    return (
        f"no member holds {place} since {until_s:.3f} s, when {last.node} {last.ended}, which had "
        f"it since {last.from_us / 1_000_000:.3f} s"
    )


def _beyond(history: GroupQueueHistory) -> str:
    """The queues that the broker's topic has, if this one is not among them."""
    queue, shape = history.queue, history.shape
    if shape is None or queue.queue_id < shape.read_queue_count:
        return ""
    count = many(shape.read_queue_count, "queue")
    return f": {queue.topic} has {count} to read at {queue.broker}, from 0 on"


def _hold(hold: OwnershipPeriod, history: GroupQueueHistory) -> str:
    since = f"{hold.node} since {hold.from_us / 1_000_000:.3f} s"
    if hold.offset is None:
        return since
    if history.is_broadcast:
        return f"{since}, from {hold.offset}"
    committed = "nothing" if hold.committed is None else hold.committed
    return f"{since}, from {hold.offset} ({committed} had been committed)"


def _last_actions(history: GroupQueueHistory) -> list[str]:
    """The last actions of the owners, or of the last owner, one line each."""
    nodes = [hold.node for hold in history.owners()] or [hold.node for hold in history.holds[-1:]]
    lines = []
    for node in dict.fromkeys(nodes):
        acts = history.acts.get(node, {})
        parts = [_act(acts[name]) for name in dict.fromkeys(LAST_ACTIONS.values()) if name in acts]
        if (pull := acts.get("pull")) is None:
            parts.append("no pull")
        elif not isinstance(pull.fact, PullHeld) and history.until_us - pull.mono_us > SILENT_US:
            parts[0] += f" and none since, for {(history.until_us - pull.mono_us) / 1e6:.0f} s"
        if "given" not in acts and "finished" not in acts:
            parts.append("no message")
        if "committed" not in acts and not history.is_broadcast:
            parts.append("no commit")
        lines.append(f"{node}'s last actions there: {'; '.join(parts)}")
    return lines


def _lock(history: GroupQueueHistory, names: NodeNames) -> list[str]:
    """The member that last got the queue's lock, if the group is orderly."""
    lock = history.lock
    if lock is None or not isinstance(lock.fact, QueuesLocked):
        return []
    who, at_s = names.node_of(lock.fact.client), lock.mono_us / 1_000_000
    return [f"its lock was last granted to {who}, by {lock.node} at {at_s:.3f} s"]


def _act(entry: Entry) -> str:
    fact: Any = entry.fact
    at_s = f"{entry.mono_us / 1_000_000:.3f} s"
    match fact:
        case PullHeld():
            return f"a pull from {fact.offset}, held by {entry.node} since {at_s}"
        case PullAnswered():
            with_what = f"{many(fact.message_count, 'message')}, next {fact.next_offset}"
            if fact.response_code:
                with_what = code_in_words(fact.response_code)
            return f"a pull from {fact.offset}, answered at {at_s} ({with_what})"
        case PullFailed():
            return f"a pull that failed at {at_s} ({without_advice(fact.error)})"
        case MessageConsumed():
            return f"{fact.offset} {'consumed' if fact.ok else 'failed'} at {at_s}"
        case OffsetCommitted():
            return f"{fact.offset} committed at {at_s}"
    return f"{fact.offset} given at {at_s}"


def _passes(history: GroupQueueHistory, names: NodeNames) -> list[str]:
    lines = [
        f"last rebalance: at {entry.mono_us / 1_000_000:.3f} s, {node} {sentence_of(entry, names)}"
        for node, entry in sorted(history.passes.items())
    ]
    if not lines:
        return [f"no member of {history.group} rebalances {history.queue.topic} any more"]
    return lines[:REBALANCES_SHOWN_MAX]
