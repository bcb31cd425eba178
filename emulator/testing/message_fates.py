"""What became of a test's messages, at one moment: one pass over the facts up to that moment.

A message has a fate in each group that reads its topic, and in a broadcasting group one for each
member, of which the group's is the one that is least done.  It is found from the facts of the
group's clients, if they are clients of this program; for other clients from the facts of brokers
only, so what a listener does with a message is then unknown until its offset is committed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypeAlias

import msgspec

from rocketmq_emulator.facts import (
    ConsumerStarted,
    ConsumerStopped,
    Fact,
    FaultBegan,
    FaultEnded,
    HalfMessageStored,
    ListenerRaised,
    MemberJoined,
    MemberLeft,
    MessageConsumed,
    MessageGivenToListener,
    MessageStored,
    NodeKilled,
    NodePaused,
    NodeResumed,
    NodeStarted,
    NodeStopped,
    OffsetCommitted,
    PowerLost,
    PullAnswered,
    PullFailed,
    PullHeld,
    Queue,
    QueuesClaimed,
    QueuesReleased,
    SubscriptionChanged,
    TransactionEnded,
    TransactionGivenUp,
)
from rocketmq_emulator.facts.journal import Entry
from rocketmq_emulator.protocol.messages.delay_levels import parse_delay_levels
from rocketmq_emulator.protocol.messages.names import (
    SCHEDULE_TOPIC,
    dlq_topic,
    is_dlq_topic,
    is_retry_topic,
    is_system_topic,
)
from rocketmq_emulator.scenarios.descriptions.names import NodeNames, word_of
from rocketmq_emulator.scenarios.descriptions.sentences import many

State: TypeAlias = Literal[
    "consumed", "filtered", "skipped", "running", "retried", "dropped", "dead", "lost", "waits"
]
OPEN: tuple[State, ...] = ("retried", "running", "waits")  # the group has more to do with it
OF_MEMBERS: tuple[State, ...] = (  # a broadcasting group's state is the first that a member has
    *OPEN,
    "dropped",
    "dead",
    "lost",
    "consumed",
    "skipped",
    "filtered",
)
assert set(OF_MEMBERS) == set(State.__args__)  # type: ignore[attr-defined]
Place: TypeAlias = tuple[str, Queue, str]  # a group's queue, and when broadcasting the member


class Fate(msgspec.Struct, frozen=True):
    """The state of a message in one group, and the reason in words."""

    state: State
    why: str = ""


class PlacedMessage(msgspec.Struct):
    """A message of an application, as a broker stored it."""

    at_us: int
    queue: Queue
    offset: int
    tags: str
    uniq_key: str
    end_position: int = 0  # of its record in the commit log
    is_lost: bool = False  # it was not flushed when its broker lost power

    @property
    def place(self) -> str:
        """Its queue: ``broker-a/0``."""
        return place_of(self.queue)


class _Handling(msgspec.Struct):
    """What the listeners of a group, or of a broadcasting member, did with one message."""

    given_us: int = 0  # when a listener got it that has not returned; 0: none has it
    node: str = ""
    attempts: int = 0  # that ended
    ok: bool = False
    error: str = ""
    retry_us: int = 0  # when it is delivered again
    is_dead: bool = False


def most_common(whys: Counter[str]) -> str:
    """The commonest reason, and how many others there are."""
    (why, _), *others = whys.most_common()
    return f"{why} (and {many(len(others), 'other reason')})" if why and others else why


class MessageFates:
    """The messages, members and owners of queues at the time *until_us*.

    *queried* are groups that the test named, with topics.
    """

    def __init__(
        self,
        entries: Iterable[Entry],
        until_us: int,
        queried: Mapping[str, Iterable[str]] | None = None,
    ) -> None:
        known = [entry for entry in entries if entry.mono_us <= until_us]
        self.until_us = until_us
        self.names = NodeNames(known)
        self.messages: list[PlacedMessage] = []
        self.open_halves: dict[str, str] = {}  # by key: the topics of half messages without an end
        self.members: dict[str, dict[str, str]] = {}  # by group: name, and how it left or ""
        self.expressions: dict[tuple[str, str], str] = {}  # by group and topic
        self.topics: dict[str, set[str]] = {}  # that a group reads
        self.owners: dict[Place, str] = {}
        self.conditions: dict[str, str] = {}  # of nodes that do not run: "was killed"
        self._broadcasting: set[str] = set()  # groups
        self._orderly: set[str] = set()  # groups whose listeners get a failed message again
        self._begins: dict[Place, int] = {}
        self._pulled: dict[Place, int] = {}  # the next offset
        self._committed: dict[tuple[str, Queue], int] = {}
        self.pull_errors: dict[tuple[str, Queue], str] = {}  # of last pulls
        # By unique key, and by group and (when broadcasting) member.
        self._of_key: dict[str, dict[tuple[str, str], _Handling]] = {}
        self._told: set[str] = set()  # groups whose clients have facts here
        self._faults: dict[int, tuple[str, ...]] = {}
        for group, topics in (queried or {}).items():
            self.members.setdefault(group, {})
            self.topics.setdefault(group, set()).update(topics)
        table = self._table()
        for entry in known:
            if (take := table.get(type(entry.fact))) is not None:
                take(entry, entry.fact)

    def _table(self) -> Mapping[type[Fact], Callable[[Entry, Any], None]]:
        return {
            MessageStored: self._stored,
            HalfMessageStored: self._half_stored,
            TransactionEnded: self._transaction_over,
            TransactionGivenUp: self._transaction_over,
            ConsumerStarted: self._started,
            ConsumerStopped: self._ended,
            MemberJoined: self._joined,
            MemberLeft: self._ended,
            SubscriptionChanged: self._subscribed,
            QueuesClaimed: self._claimed,
            QueuesReleased: self._released,
            PullAnswered: self._pull,
            PullHeld: lambda _, fact: self._pull_succeeded(fact.group, fact.queue),
            PullFailed: self._pull_failed,
            OffsetCommitted: self._commit,
            MessageGivenToListener: self._given,
            MessageConsumed: self._consumed,
            ListenerRaised: self._raised,
            NodeKilled: lambda _, fact: self._down(fact.node, "was killed"),
            NodePaused: lambda _, fact: self._down(fact.node, "is paused"),
            NodeResumed: lambda _, fact: self._up(fact.node),
            NodeStopped: lambda entry, _: self._down(entry.node, "was stopped"),
            PowerLost: self._power_lost,
            NodeStarted: lambda entry, _: self._up(entry.node),
            FaultBegan: self._fault_began,
            FaultEnded: self._fault_ended,
        }

    # Questions ------------------------------------------------------------------------

    def groups_of(self, topic: str) -> list[str]:
        """The groups that read *topic*; those of the test's queries if they named no topic."""
        return sorted(
            group
            for group in self.members
            if topic in (read := self.topics.get(group, set())) or not read
        )

    def fate_of(self, message: PlacedMessage, group: str) -> Fate:
        """The fate of *message* in *group*."""
        if group not in self._broadcasting:
            return self._fate_at(message, group, "")
        by_member = self._of_key.get(message.uniq_key, {})
        handled = [member for name, member in by_member if name == group]
        members = [*dict.fromkeys((*self._present(group), *handled))]
        if not members:
            return self._fate_at(message, group, "")
        fates = [(member, self._fate_at(message, group, member)) for member in members]
        member, fate = min(fates, key=lambda pair: OF_MEMBERS.index(pair[1].state))
        others = sum(other.state != fate.state for _, other in fates)
        if not fate.why or not others or member in fate.why:
            return fate
        return Fate(fate.state, f"{member}: {fate.why}")

    def reasons(self, messages: Iterable[PlacedMessage], group: str) -> dict[State, Counter[str]]:
        """The states of *messages* in *group*, with how many there are for each reason."""
        found: dict[State, Counter[str]] = {}
        for message in messages:
            fate = self.fate_of(message, group)
            found.setdefault(fate.state, Counter())[fate.why] += 1
        return found

    def unconsumed_at(self, node: str, group: str) -> list[PlacedMessage]:
        """The messages that broker *node* stored and with which *group* has more to do."""
        reads = {message.queue.topic for message in self.messages if message.queue.broker == node}
        reads = {topic for topic in reads if group in self.groups_of(topic)}
        return [
            message
            for message in self.messages
            if message.queue.broker == node
            and message.queue.topic in reads
            and self.fate_of(message, group).state in OPEN
        ]

    def _fate_at(self, message: PlacedMessage, group: str, member: str) -> Fate:
        """The fate in *group*, of a broadcasting group at *member*."""
        handling = self._of_key.get(message.uniq_key, {}).get((group, member))
        if handling is not None:
            return self._fate_of_handled(handling, group)
        expression = self.expressions.get((group, message.queue.topic), "*")
        if not matches(expression, message.tags):
            tag = f"tag {message.tags}" if message.tags else "no tag"
            return Fate("filtered", f"{tag}, and {group} reads only {expression}")
        return self._fate_of_unhandled(message, (group, message.queue, member))

    def _fate_of_unhandled(self, message: PlacedMessage, place: Place) -> Fate:
        group, queue, member = place
        if message.is_lost:
            return Fate("lost", f"{queue.broker} lost power before it was flushed")
        if message.offset < self._begins.get(place, 0):
            began = f"{self.owners.get(place, member or group)} began after it"
            return Fate("skipped", f"{began}: a new group reads from the end (consume_from)")
        if message.offset < self._committed.get((group, queue), 0):
            return Fate("consumed")
        if message.offset < self._pulled.get(place, 0):
            return Fate("running", f"given to {self.owners.get(place, 'a member')}, not committed")
        return Fate("waits", self._why_waiting(message, place))

    def _fate_of_handled(self, handling: _Handling, group: str) -> Fate:
        count = f"{handling.attempts} attempt{'s' * (handling.attempts != 1)}"
        if handling.is_dead:
            return Fate("dead", f"after {count}: {handling.error}")
        if handling.given_us:
            since_s = (self.until_us - handling.given_us) / 1e6
            return Fate("running", f"the listener of {handling.node} has it for {since_s:.1f} s")
        if handling.ok:
            return Fate("consumed", f"at attempt {handling.attempts}" * (handling.attempts > 1))
        error = handling.error or "not consumed"
        if group in self._broadcasting and group not in self._orderly:
            return Fate("dropped", f"{handling.node}: {error}; broadcasting has no retries")
        left_s = (handling.retry_us - self.until_us) / 1e6
        again = f", again in {left_s:.0f} s" if left_s > 0 else ", not delivered again yet"
        return Fate("retried", f"{count} failed: {handling.error or 'sent back'}{again}")

    def _why_waiting(self, message: PlacedMessage, place: Place) -> str:
        broker, (group, queue, _) = message.queue.broker, place
        if broker in self.conditions:
            return f"{broker} {self.conditions[broker]}"
        owner = self.owners.get(place)
        if owner in self.conditions:
            return f"its owner {owner} {self.conditions[owner]}"
        if not self._present(group):
            left = [f"{name} {why}" for name, why in self.members[group].items()]
            return "; ".join(left) if left else f"{group} has no member"
        if owner is None:
            return f"{message.place} has no owner in {group}"
        failed = self.pull_errors.get((group, queue))
        return f"{owner} has not pulled it yet" + (f": {failed}" if failed else "")

    def _present(self, group: str) -> list[str]:
        return [name for name, left in self.members[group].items() if not left]

    # Facts ----------------------------------------------------------------------------

    def _stored(self, entry: Entry, fact: MessageStored) -> None:
        topic = fact.queue.topic
        if topic == SCHEDULE_TOPIC:
            delay_ms = parse_delay_levels().delay_ms.get(fact.queue.queue_id + 1, 0)
            for handling in self._of_key.get(fact.uniq_key, {}).values():
                if handling.attempts:
                    handling.retry_us = entry.mono_us + delay_ms * 1_000
        elif is_dlq_topic(topic):
            for (group, _), handling in self._of_key.get(fact.uniq_key, {}).items():
                handling.is_dead |= topic == dlq_topic(group)
        elif not is_system_topic(topic) and not is_retry_topic(topic):
            self.messages.append(
                PlacedMessage(
                    entry.mono_us,
                    fact.queue,
                    fact.offset,
                    fact.tags,
                    fact.uniq_key,
                    fact.position + fact.size_bytes,
                )
            )

    def _half_stored(self, _: Entry, fact: HalfMessageStored) -> None:
        self.open_halves[fact.uniq_key] = fact.queue.topic

    def _transaction_over(self, _: Entry, fact: TransactionEnded | TransactionGivenUp) -> None:
        self.open_halves.pop(fact.uniq_key, None)

    def _started(self, entry: Entry, fact: ConsumerStarted) -> None:
        self._told.add(fact.group)
        if fact.broadcast:
            self._broadcasting.add(fact.group)
        if fact.orderly:
            self._orderly.add(fact.group)
        self.members.setdefault(fact.group, {})[entry.node] = ""
        for topic, expression in zip(fact.topics, fact.expressions, strict=False):
            self.topics.setdefault(fact.group, set()).add(topic)
            self.expressions[fact.group, topic] = expression

    def _joined(self, _: Entry, fact: MemberJoined) -> None:
        if not fact.group.startswith(SYSTEM_GROUPS):
            if fact.message_model == "BROADCASTING":
                self._broadcasting.add(fact.group)
            self.members.setdefault(fact.group, {})[self.names.node_of(fact.client)] = ""

    def _ended(self, _: Entry, fact: ConsumerStopped | MemberLeft) -> None:
        name = self.names.node_of(fact.client)
        if name in self.members.get(fact.group, {}):
            reason = fact.reason if isinstance(fact, MemberLeft) else "unregistered"
            why = "has left" if reason == "unregistered" else f"is gone ({reason})"
            self.members[fact.group][name] = self.members[fact.group][name] or why

    def _subscribed(self, _: Entry, fact: SubscriptionChanged) -> None:
        topics = {topic for topic in fact.added if not is_retry_topic(topic)}
        self.topics.setdefault(fact.group, set()).update(topics)

    def _claimed(self, entry: Entry, fact: QueuesClaimed) -> None:
        for number, queue in enumerate(fact.queues):
            place = self._place(fact.group, queue, entry.node)
            self.owners[place] = entry.node
            if number < len(fact.offsets):
                self._begins.setdefault(place, fact.offsets[number])

    def _released(self, entry: Entry, fact: QueuesReleased) -> None:
        for queue in fact.queues:
            place = self._place(fact.group, queue, entry.node)
            if self.owners.get(place) == entry.node:
                del self.owners[place]

    def _pull(self, entry: Entry, fact: PullAnswered) -> None:
        self._pull_succeeded(fact.group, fact.queue)
        if fact.group not in self._told:
            member = self.names.at(entry.node, fact.peer, entry.mono_us)
            place = self._place(fact.group, fact.queue, member)
            self._pulled[place] = max(self._pulled.get(place, 0), fact.next_offset)
            self.owners[place] = member

    def _pull_succeeded(self, group: str, queue: Queue) -> None:
        self.pull_errors.pop((group, queue), None)

    def _pull_failed(self, _: Entry, fact: PullFailed) -> None:
        self.pull_errors[fact.group, fact.queue] = fact.error

    def _commit(self, _: Entry, fact: OffsetCommitted) -> None:
        self._committed[fact.group, fact.queue] = fact.offset

    def _given(self, entry: Entry, fact: MessageGivenToListener) -> None:
        handling = self._handling(entry, fact)
        handling.given_us, handling.node, handling.ok = entry.mono_us, entry.node, False

    def _raised(self, entry: Entry, fact: ListenerRaised) -> None:
        self._handling(entry, fact).error = fact.error

    def _consumed(self, entry: Entry, fact: MessageConsumed) -> None:
        handling = self._handling(entry, fact)
        handling.given_us, handling.node, handling.ok = 0, entry.node, fact.ok
        handling.attempts += 1

    def _handling(
        self, entry: Entry, fact: MessageGivenToListener | ListenerRaised | MessageConsumed
    ) -> _Handling:
        member = entry.node if fact.group in self._broadcasting else ""
        of_message = self._of_key.setdefault(fact.uniq_key, {})
        return of_message.setdefault((fact.group, member), _Handling())

    def _place(self, group: str, queue: Queue, node: str) -> Place:
        return group, queue, node if group in self._broadcasting else ""

    def _down(self, node: str, how: str) -> None:
        self.conditions[node] = how

    def _power_lost(self, entry: Entry, fact: PowerLost) -> None:
        self._down(entry.node, "has lost power")
        for message in self.messages:
            is_after = message.end_position > fact.kept_position
            message.is_lost |= is_after and message.queue.broker == entry.node

    def _up(self, node: str) -> None:
        self.conditions.pop(node, None)

    def _fault_began(self, _: Entry, fact: FaultBegan) -> None:
        if word_of(fact.fault) == "pause":
            self._faults[fact.fault_id] = fact.nodes
            self.conditions |= dict.fromkeys(fact.nodes, "is paused")

    def _fault_ended(self, _: Entry, fact: FaultEnded) -> None:
        for node in self._faults.pop(fact.fault_id, ()):
            self.conditions.pop(node, None)


SYSTEM_GROUPS = ("CID_RMQ_SYS_", "TOOLS_CONSUMER", "CLIENT_INNER")


def matches(expression: str, tags: str) -> bool:
    """Whether *expression* selects a message; True if it is not a list of tags."""
    wanted = {tag.strip() for tag in expression.split("||")}
    is_list_of_tags = not any(" " in tag or "(" in tag for tag in wanted)
    return expression in ("", "*") or not is_list_of_tags or tags in wanted


def place_of(queue: Queue) -> str:
    """A queue of a topic that is named before: ``broker-a/0``."""
    return f"{queue.broker}/{queue.queue_id}"
