"""What a run finds in its own facts: whether an awaited fact was noted, and whether it is quiet.

The observer reads entries as they are written, in any world, and sends no request.  A run is quiet
if nothing is left to consume and no queue changes its owner.  Messages of unknown state (such as a
message that waits for its retry at a dead broker) count as not consumed.  No group subscribes the
topic of dead letters, so the run does not wait for them.

Delayed messages, retries among them, and timer messages wait at brokers for their time.  A broker
that was started again may deliver one twice, and a broker that lost power may have lost some: so
each is counted by its key, not in a sum.  A dead letter of an orderly member may be delayed, too
(up to 4.9, for an hour if brokers were down while it failed): no group consumes it, so it is not
counted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TypeAlias

import msgspec

from rocketmq_emulator.checks.state.broker_roles import ElectedMasters
from rocketmq_emulator.checks.state.queue_positions import QueuePositions
from rocketmq_emulator.checks.state.replicas import MastersAndSlaves
from rocketmq_emulator.checks.state.violation import Table
from rocketmq_emulator.facts import (
    ConsumerStopped,
    DelayedDelivered,
    DelayedMessageDropped,
    FaultEnded,
    HalfMessageSkipped,
    HalfMessageStored,
    ImmuneHalfStoredAgain,
    MessageConsumed,
    MessageEscaped,
    MessageStored,
    NodeKilled,
    Queue,
    QueuesClaimed,
    QueuesReleased,
    TimerMessageDelivered,
    TimerMessageDropped,
    TimerMessagePutAside,
    TimerMessageRecalled,
    TimerMessageRolled,
    TransactionChecked,
    TransactionEnded,
    TransactionGivenUp,
)
from rocketmq_emulator.facts.journal import Entry
from rocketmq_emulator.protocol.messages.delay_levels import (
    DEFAULT_DELAY_LEVELS,
    DelayLevels,
    parse_delay_levels,
    queue_of_level,
)
from rocketmq_emulator.protocol.messages.names import (
    SCHEDULE_TOPIC,
    TIMER_TOPIC,
    TRANS_HALF_TOPIC,
    retry_topic,
)
from rocketmq_emulator.scenarios.plan.plan import Plan, When

TEMPORARY_RELEASES = ("not mine", "pull expired", "reset")  # reasons: a later claim is expected
FOREVER = 2**31


class AwaitedFact:
    """A fact that a step waits for; *arrive* is called once."""

    def __init__(self, when: When, arrive: Callable[[], object]) -> None:
        self.when = when
        self._arrive = arrive

    def takes(self, entry: Entry) -> bool:
        """Whether *entry* has this fact; if so, *arrive* is called."""
        when, fact = self.when, entry.fact
        if type(fact).__name__ != when.kind or when.node not in ("", entry.node):
            return False
        if when.fields:
            fields = msgspec.to_builtins(fact)
            if any(fields.get(name) != value for name, value in when.fields.items()):
                return False
        self._arrive()
        return True


class RunObserver:
    """Reads the entries of one run of *plan*; call ``take`` with each."""

    def __init__(self, plan: Plan) -> None:
        self.fact_count = 0
        self.queues_changed_us = 0
        self.consumed_us = 0
        self.healed_us: int | None = None  # when the last fault ended
        self._awaited: list[AwaitedFact] = []
        levels = plan.cluster.broker_settings.get("delay_levels", DEFAULT_DELAY_LEVELS)
        self._delayed_messages = DelayedMessageCounter(parse_delay_levels(levels))
        self._open_transactions = OpenTransactions()
        self._roles = ElectedMasters()
        self._replicas = MastersAndSlaves(self._roles)
        self._positions = QueuePositions(on_lost=self._lost, replicas=self._replicas)
        self._groups = {
            group.group: (*group.topics, retry_topic(group.group))
            for group in plan.consumers
            if not group.broadcast
        }
        self._tries_max = {  # of orderly groups: a message that fails once more is a dead letter
            group.group: group.settings["reconsume_times_max"]
            for group in plan.consumers
            if group.orderly and group.settings.get("reconsume_times_max", -1) >= 0
        }
        self._broadcast = {group.group for group in plan.consumers if group.broadcast}
        self._given_up: dict[str, set[Queue]] = {}  # by running broadcasting member
        self._replica_readers = self._replicas.table()
        self._readers: Table = {
            **self._positions.table(),
            MessageStored: self._stored,
            DelayedDelivered: self._delayed_messages.delivered,
            DelayedMessageDropped: self._delayed_messages.dropped,
            TimerMessagePutAside: self._delayed_messages.timer_put_aside,
            TimerMessageRolled: self._delayed_messages.timer_rolled,
            TimerMessageDelivered: self._delayed_messages.timer_over,
            TimerMessageRecalled: self._delayed_messages.timer_over,
            TimerMessageDropped: self._delayed_messages.timer_over,
            HalfMessageStored: self._open_transactions.stored,
            TransactionChecked: self._open_transactions.checked,
            ImmuneHalfStoredAgain: self._open_transactions.checked,
            TransactionEnded: self._open_transactions.over,
            TransactionGivenUp: self._open_transactions.over,
            HalfMessageSkipped: self._open_transactions.left,
            MessageEscaped: self._escaped,
            MessageConsumed: self._consumed,
            ConsumerStopped: self._stopped,
            NodeKilled: self._killed,
            QueuesClaimed: self._claimed,
            QueuesReleased: self._released,
            FaultEnded: self._healed,
        }

    def take(self, entry: Entry) -> None:
        """Read *entry*, the next one of the run."""
        self.fact_count += 1
        kind = type(entry.fact)
        for seen in self._roles.seen(entry) if self._roles.needs(kind) else (entry,):
            for readers in (self._replica_readers, self._readers):
                if (read := readers.get(type(seen.fact))) is not None:
                    read(seen.fact, seen)
        if self._awaited:
            self._awaited = [one for one in self._awaited if not one.takes(entry)]

    def await_fact(self, when: When, arrive: Callable[[], object]) -> None:
        """Call *arrive* once, at the next fact that matches *when*."""
        self._awaited.append(AwaitedFact(when, arrive))

    def backlogs(self) -> dict[str, int]:
        """Messages that are stored and not committed, by group; groups with none are left out."""
        backlog = self._positions.backlog
        found = {
            group: sum(backlog(group, topic) for topic in topics)
            for group, topics in self._groups.items()
        }
        return {group: count for group, count in found.items() if count}

    @property
    def delayed_count(self) -> int:
        """The number of messages that wait at brokers for a retry, a delay or their time."""
        return self._delayed_messages.count

    @property
    def open_transaction_count(self) -> int:
        """The number of half messages whose transactions have not ended."""
        return self._open_transactions.count

    def given_up(self) -> dict[str, int]:
        """The number of queues with messages that a broadcasting member has released, by member.

        No other member consumes them for it: it waits for a route that has their broker again.
        """
        counts = {
            node: sum(queue in self._positions.ends for queue in queues)
            for node, queues in self._given_up.items()
        }
        return {node: count for node, count in counts.items() if count}

    # Handlers of facts ----------------------------------------------------------------

    def _escaped(self, fact: MessageEscaped, entry: Entry) -> None:
        if fact.service == "transaction check":
            self._open_transactions.left(fact, entry)
        else:
            self._delayed_messages.escaped(fact)

    def _healed(self, _fact: FaultEnded, entry: Entry) -> None:
        self.healed_us = entry.mono_us

    def _stored(self, fact: MessageStored, entry: Entry) -> None:
        self._positions.stored(fact, entry)
        self._delayed_messages.stored(entry.node, fact, entry.mono_us // 1_000)

    def _lost(self, node: str, fact: MessageStored) -> None:
        self._delayed_messages.lost(node, fact)
        self._open_transactions.lost(node, fact)

    def _consumed(self, fact: MessageConsumed, entry: Entry) -> None:
        self.consumed_us = entry.mono_us
        if not fact.ok and fact.reconsume_times >= self._tries_max.get(fact.group, FOREVER):
            self._delayed_messages.failed_for_good(fact.uniq_key)

    def _claimed(self, fact: QueuesClaimed, entry: Entry) -> None:
        self.queues_changed_us = entry.mono_us
        if fact.group in self._broadcast:
            self._given_up.get(entry.node, set()).difference_update(fact.queues)

    def _released(self, fact: QueuesReleased, entry: Entry) -> None:
        self.queues_changed_us = entry.mono_us
        if fact.group in self._broadcast and fact.reason in TEMPORARY_RELEASES:
            self._given_up.setdefault(entry.node, set()).update(fact.queues)

    def _stopped(self, _fact: ConsumerStopped, entry: Entry) -> None:
        """Forget the member's released queues: after a restart it claims its queues anew."""
        self._given_up.pop(entry.node, None)

    def _killed(self, fact: NodeKilled, _entry: Entry) -> None:
        self._given_up.pop(fact.node, None)


# Whether it is quiet ------------------------------------------------------------------


CONSUMED_SETTLED_S = 2.0


def reasons_not_quiet(
    watch: RunObserver, now_us: int, settled_from_us: int, settled_s: float
) -> str:
    """Why the run is not quiet, in one line; empty if it is.

    Queues must stay with their owners for *settled_s* after *settled_from_us*.
    """
    reasons = [
        f"{group} has {count} messages to consume" for group, count in watch.backlogs().items()
    ]
    reasons += [
        f"{node} waits for {count} queues that it gave up"
        for node, count in watch.given_up().items()
    ]
    if watch.delayed_count:
        reasons.append(f"{watch.delayed_count} messages wait for their retry or delay")
    if watch.open_transaction_count:
        reasons.append(f"{watch.open_transaction_count} transactions have not ended")
    if now_us - watch.consumed_us < CONSUMED_SETTLED_S * 1_000_000:
        reasons.append("messages were consumed just now")
    settling_s = settled_s - ((now_us - max(watch.queues_changed_us, settled_from_us)) / 1_000_000)
    if settling_s > 0:
        reasons.append(f"queues must stay with their owners for {settling_s:.0f} s more")
    return "; ".join(reasons)


# Messages that wait at brokers for their time -----------------------------------------


TimerOver: TypeAlias = TimerMessageDelivered | TimerMessageDropped | TimerMessageRecalled


class DelayedMessageCounter:
    """Counts the messages that wait at brokers for their time."""

    def __init__(self, levels: DelayLevels) -> None:
        self._levels = levels
        # By broker, level's queue and key: when they are due, in ms.
        self._delayed: dict[tuple[str, int, str], deque[int]] = {}
        self._timers: dict[tuple[str, int], str] = {}  # by broker, offset in the timer topic: key
        self._last_stored: dict[str, MessageStored] = {}  # by broker
        self._last_timer: dict[str, int] = {}  # last offset in the timer topic, by broker
        self._dying: set[str] = set()  # keys whose next delayed record is a dead letter

    @property
    def count(self) -> int:
        """The number of waiting messages."""
        return sum(map(len, self._delayed.values())) + len(self._timers)

    def failed_for_good(self, key: str) -> None:
        """Expect a dead letter of *key*: an orderly member will send it back."""
        self._dying.add(key)

    def stored(self, node: str, fact: MessageStored, now_ms: int) -> None:
        """Count the message if its record is in the topic of delayed or timer messages."""
        self._last_stored[node] = fact
        queue = fact.queue
        if queue.topic == SCHEDULE_TOPIC and fact.uniq_key in self._dying:
            self._dying.discard(fact.uniq_key)
        elif queue.topic == SCHEDULE_TOPIC:
            due_ms = self._levels.deliver_ms(queue.queue_id + 1, now_ms)
            place = node, queue.queue_id, fact.uniq_key
            self._delayed.setdefault(place, deque()).append(due_ms)
        elif queue.topic == TIMER_TOPIC:
            self._last_timer[node] = fact.offset

    def lost(self, node: str, fact: MessageStored) -> None:
        """Remove a message whose record was lost with the broker's power."""
        queue = fact.queue
        if queue.topic == SCHEDULE_TOPIC:
            self._take(node, queue.queue_id, fact.uniq_key)
        elif queue.topic == TIMER_TOPIC:
            self._timers.pop((node, fact.offset), None)

    def delivered(self, fact: DelayedDelivered, entry: Entry) -> None:
        """Remove a delayed message: the broker stored it in its topic just before this fact."""
        stored = self._last_stored.get(entry.node)
        key = "" if stored is None else stored.uniq_key
        self._take(entry.node, queue_of_level(fact.delay_level), key)

    def dropped(self, fact: DelayedMessageDropped, entry: Entry) -> None:
        """Remove a delayed message that the broker dropped."""
        self._take(entry.node, queue_of_level(fact.delay_level), fact.uniq_key)

    def timer_put_aside(self, fact: TimerMessagePutAside, entry: Entry) -> None:
        """Count a timer message."""
        self._timers[entry.node, fact.offset] = fact.uniq_key

    def timer_rolled(self, fact: TimerMessageRolled, entry: Entry) -> None:
        """Move a timer message to its new offset: it was stored again just before this fact."""
        key = self._timers.pop((entry.node, fact.offset), fact.uniq_key)
        self._timers[entry.node, self._last_timer.get(entry.node, fact.offset)] = key

    def timer_over(self, fact: TimerOver, entry: Entry) -> None:
        """Remove a timer message that was delivered, recalled or dropped.

        A slave that acts as the master drops those of its broker name.
        """
        self._timers.pop((fact.queue.broker or entry.node, fact.offset), None)

    def escaped(self, fact: MessageEscaped) -> None:
        """Remove the message that waited and was sent to another broker.

        Of delayed ones with this key it is the first that is due: the fact names no level.
        """
        broker, key = fact.queue.broker, fact.uniq_key
        if fact.service == "timer":
            timers = [place for place, own in self._timers.items() if own == key]
            for timer in [each for each in timers if each[0] == broker][:1]:
                del self._timers[timer]
        else:
            delayed = [place for place in self._delayed if (place[0], place[2]) == (broker, key)]
            if delayed:
                self._take(*min(delayed, key=lambda place: self._delayed[place][0]))

    def _take(self, node: str, queue_id: int, key: str) -> None:
        place = node, queue_id, key
        if (due_ms := self._delayed.get(place)) is not None:
            due_ms.popleft()
            if not due_ms:
                del self._delayed[place]


# Transactions ----------------------------------------------------------------------------


class OpenTransactions:
    """Counts the half messages whose transactions have not ended."""

    def __init__(self) -> None:
        self._places: dict[tuple[str, str], set[int]] = {}  # by broker and key: newest offsets

    @property
    def count(self) -> int:
        """The number of half messages without an end."""
        return sum(map(len, self._places.values()))

    def stored(self, fact: HalfMessageStored, entry: Entry) -> None:
        """Count a half message."""
        self._places.setdefault((entry.node, fact.uniq_key), set()).add(fact.offset)

    def checked(self, fact: TransactionChecked | ImmuneHalfStoredAgain, entry: Entry) -> None:
        """Move a half message to its new record; an ended one, asked about again, counts not."""
        places = self._places.get((entry.node, fact.uniq_key), set())
        if fact.offset in places:
            places.remove(fact.offset)
            places.add(fact.copy_offset)

    def over(self, fact: TransactionEnded | TransactionGivenUp, entry: Entry) -> None:
        """Remove a half message; *fact* may name an older record of it."""
        places = self._places.get((entry.node, fact.uniq_key), set())
        if places:
            places.remove(fact.offset if fact.offset in places else min(places))

    def left(self, fact: HalfMessageSkipped | MessageEscaped, _entry: Entry) -> None:
        """Remove a half message about which its own broker need not ask any more."""
        self._places.pop((fact.queue.broker, fact.uniq_key), None)

    def lost(self, node: str, fact: MessageStored) -> None:
        """Remove a half message whose newest record was lost with the broker's power."""
        if fact.queue.topic == TRANS_HALF_TOPIC:
            self._places.get((node, fact.uniq_key), set()).discard(fact.offset)
