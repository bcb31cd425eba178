"""No queue with two owners, and none without: in seconds, by group.

Owning is what consumers say: from QueuesClaimed to QueuesReleased, or to their end. A member
whose brokers all lost it, and that notes nothing, has ended without a word: nobody may have
noted who killed it. A queue needs an owner from the moment when its broker has it and the group
has a member that subscribes its topic, whether or not somebody ever claims it. For orderly
groups the broker's lock forbids two owners, so an overlap of two that run is a violation there;
elsewhere it happens, and is measured.
"""

from __future__ import annotations

from emulator.checks.checker import Checker, Metric, Shared, place_of
from emulator.checks.folding import Table
from emulator.checks.scene import ENDING
from emulator.facts import (
    BrokerExpired,
    BrokerRegistered,
    BrokerUnregistered,
    ConsumerStarted,
    ConsumerStopped,
    FaultBegan,
    MemberLeft,
    MessageConsumed,
    NodeKilled,
    PullFailed,
    Queue,
    QueuesClaimed,
    QueuesLocked,
    QueuesReleased,
    RebalancePassed,
    TopicChanged,
    TopicCreated,
)
from emulator.journal import Entry, EntryKey
from protocol.names import RETRY_GROUP_TOPIC_PREFIX

US_A_SECOND = 1_000_000
READABLE = 4  # the bit of a topic's perm
SETTLED_US = 60_000_000  # heartbeats within 30 s, a rebalance within 20 s, and some


class OneOwner(Checker):
    """S18, S36; client invariant 27."""

    name = "ownership"
    rule = (
        "a queue of an orderly group has one owner, under the broker's lock (client invariant 51)"
    )
    metrics = (
        Metric("overlap_s", "s", "the longest time a queue had two owners", "group", "max"),
        Metric("overlap_queue_s", "s", "two owners, summed over queues", "group"),
        Metric(
            "unowned_s", "s", "the longest time a live broker's queue had none", "group", "max"
        ),
        Metric("unowned_queue_s", "s", "no owner, summed over queues of live brokers", "group"),
        Metric("starved_queues", "queues", "that had no owner for 60 s or more", "group"),
    )
    needs = (QueuesClaimed, RebalancePassed)

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._spans: dict[str, dict[Queue, _Span]] = {}
        self._silent: dict[str, int] = {}  # nodes that brokers lost, and note nothing since
        self._down: set[str] = set()  # brokers that ended, or are not in every route as they are
        self._sizes: dict[str, dict[str, int]] = {}  # topic: broker: queues that may be read
        self._locked: dict[tuple[str, Queue], str] = {}  # client, by the broker's last grant

    def table(self) -> Table:
        """What it reads."""
        return {
            QueuesClaimed: self._claimed,
            QueuesReleased: self._released,
            QueuesLocked: self._granted,
            ConsumerStarted: self._started,
            ConsumerStopped: self._stopped,
            FaultBegan: self._fault_began,
            NodeKilled: self._killed,
            TopicCreated: self._shaped,
            TopicChanged: self._shaped,
            BrokerUnregistered: self._lost,
            BrokerExpired: self._lost,
            BrokerRegistered: self._registered,
            MemberLeft: self._left,
            MessageConsumed: self._speaks,
            RebalancePassed: self._speaks,
            PullFailed: self._speaks,
        }

    def end(self) -> None:
        """Close what is open."""
        for group in self.scene.seats:
            for metric in self.metrics:
                self.adds(metric.name, 0, group)
        for group, spans in self._spans.items():
            self._count_members(group, self.scene.now_us)
            for queue, span in spans.items():
                self._move(span, self.scene.now_us)
                if not queue.topic.startswith(RETRY_GROUP_TOPIC_PREFIX):
                    self._measure(group, span)

    def _measure(self, group: str, span: _Span) -> None:
        self.adds("starved_queues", span.unowned.longest_us >= SETTLED_US, group)
        for name, times in (("overlap", span.overlap), ("unowned", span.unowned)):
            self.adds(f"{name}_queue_s", times.sum_us / US_A_SECOND, group)
            known = self.measured.get(f"{name}_s.{group}", 0.0)
            self.measures(f"{name}_s", max(known, times.longest_us / US_A_SECOND), group)

    # What happens -------------------------------------------------------------------------

    def _claimed(self, fact: QueuesClaimed, entry: Entry) -> None:
        if fact.group in self.scene.broadcast:
            return
        self._silent.pop(entry.node, None)
        spans = self._spans.setdefault(fact.group, {})
        for queue in fact.queues:
            span = self._span(spans, queue, entry.mono_us)
            self._drop_silent(span, entry.mono_us)
            self._object_to_two(fact.group, queue, span, entry)
            self._move(span, entry.mono_us)
            span.owners[entry.node] = EntryKey(entry.mono_us, entry.node, entry.seq)

    def _object_to_two(self, group: str, queue: Queue, span: _Span, entry: Entry) -> None:
        """An orderly owner that still runs, and whose lock another one did not take."""
        if group not in self.scene.orderly:
            return
        for node, claimed in span.owners.items():
            seat = self.scene.seat(group, node)
            if node == entry.node or seat is None or self.scene.held_by(node):
                continue
            if self._locked.get((group, queue)) != seat.started.client:
                continue  # the broker has given it to the new owner: the old one may not go on
            place = place_of(queue)
            self.objects(
                f"{entry.node} claimed {place} of {node}, which has its lock", claimed, entry
            )

    def _released(self, fact: QueuesReleased, entry: Entry) -> None:
        spans = self._spans.get(fact.group, {})
        for queue in fact.queues:
            if (span := spans.get(queue)) is not None:
                self._take_from(fact.group, span, entry.node, entry.mono_us)

    def _granted(self, fact: QueuesLocked, entry: Entry) -> None:
        for queue in fact.granted:
            self._locked[fact.group, queue] = fact.client

    def _started(self, fact: ConsumerStarted, entry: Entry) -> None:
        """A new process on a node: the one before it has ended."""
        self._silent.pop(entry.node, None)
        self._take_all(entry.node, entry.mono_us, fact.group)
        self._count_members(fact.group, entry.mono_us)
        for topic in fact.topics:
            for broker, count in self._sizes.get(topic, {}).items():
                self._expect(fact.group, topic, broker, count, entry.mono_us)

    def _stopped(self, fact: ConsumerStopped, entry: Entry) -> None:
        self._take_all(entry.node, entry.mono_us, fact.group)
        self._count_members(fact.group, entry.mono_us)

    def _fault_began(self, fact: FaultBegan, entry: Entry) -> None:
        if self.scene.all_faults[-1].word in ENDING:
            for node in fact.nodes:
                self._want(node, entry.mono_us, is_up=False)
        for node in fact.nodes:
            self._dies(node, entry.mono_us)

    def _killed(self, fact: NodeKilled, entry: Entry) -> None:
        self._want(fact.node, entry.mono_us, is_up=False)
        self._dies(fact.node, entry.mono_us)

    def _dies(self, node: str, now_us: int) -> None:
        """If it has: not every fault ends a process."""
        for group in self._spans:
            seat = self.scene.seat(group, node)
            if seat is not None and not seat.lives:
                self._take_all(node, now_us, group)
                self._count_members(group, now_us)

    def _count_members(self, group: str, now_us: int) -> None:
        """A group that nobody is left of owns nothing by right."""
        has_members = bool(self.scene.living(group))
        for span in self._spans.get(group, {}).values():
            if span.has_members is not has_members:
                span.moves(now_us)
                span.has_members = has_members

    def _lost(self, fact: BrokerUnregistered | BrokerExpired, entry: Entry) -> None:
        self._want(fact.broker, entry.mono_us, is_up=False)

    def _registered(self, fact: BrokerRegistered, entry: Entry) -> None:
        is_known = fact.broker not in self.scene.topics.partial
        if (fact.broker in self._down) is is_known:
            self._want(fact.broker, entry.mono_us, is_up=is_known)

    def _want(self, broker: str, now_us: int, *, is_up: bool) -> None:
        """Queues of a broker that is not there need no owner."""
        (self._down.discard if is_up else self._down.add)(broker)
        for spans in self._spans.values():
            for queue, span in spans.items():
                if queue.broker == broker:
                    span.moves(now_us)
                    span.is_wanted = self._needs_owner(queue)

    def _shaped(self, fact: TopicCreated | TopicChanged, entry: Entry) -> None:
        """The node is the broker that has it so now."""
        count = fact.read_queue_count if fact.perm & READABLE else 0
        self._sizes.setdefault(fact.topic, {})[entry.node] = count
        for group in self.scene.seats:
            self._expect(group, fact.topic, entry.node, count, entry.mono_us)

    def _expect(self, group: str, topic: str, broker: str, count: int, now_us: int) -> None:
        """Each of these queues needs an owner of *group*, if it has subscribers; no others do."""
        if not any(_shares(seat.started, topic) for seat in self.scene.living(group)):
            return
        spans = self._spans.setdefault(group, {})
        for number in range(count):
            self._span(spans, Queue(topic, broker, number), now_us)
        for queue, span in spans.items():
            if queue.topic == topic and queue.broker == broker:
                span.moves(now_us)
                span.is_wanted = self._needs_owner(queue)

    def _needs_owner(self, queue: Queue) -> bool:
        """Its broker is there, and has it as far as is known."""
        count = self._sizes.get(queue.topic, {}).get(queue.broker)
        return queue.broker not in self._down and (count is None or queue.queue_id < count)

    def _span(self, spans: dict[Queue, _Span], queue: Queue, now_us: int) -> _Span:
        span = spans.get(queue)
        if span is None:
            span = spans[queue] = _Span(queue, now_us)
            span.is_wanted = self._needs_owner(queue)
        return span

    def _left(self, fact: MemberLeft, entry: Entry) -> None:
        for seat in self.scene.living(fact.group):
            if seat.started.client == fact.client:
                self._silent.setdefault(seat.node, entry.mono_us)

    def _speaks(self, fact: MessageConsumed | RebalancePassed | PullFailed, entry: Entry) -> None:
        if self._silent:
            self._silent.pop(entry.node, None)

    def _move(self, span: _Span, now_us: int) -> None:
        """Time has passed; two owners for long, and undisturbed, are one too many."""
        span.moves(now_us)
        began_us = now_us - span.overlap.now_us
        undisturbed_us = now_us - max(began_us, self.scene.healed_us or 0)
        if undisturbed_us < SETTLED_US or span.was_named:
            return
        if self.scene.faults or self.scene.topics.partial:  # members see different routes
            return
        if span.overlap.now_us and not any(node in self._silent for node in span.owners):
            span.was_named = True
            both, keys = " and ".join(span.owners), sorted(span.owners.values())
            self.objects(
                f"{both} hold {place_of(span.queue)} for {undisturbed_us // 1_000_000} s, while "
                "no fault holds",
                *keys,
                rule="a queue has one owner once a rebalance has settled",
            )

    # Owners -------------------------------------------------------------------------------

    def _drop_silent(self, span: _Span, now_us: int) -> None:
        for node in [each for each in span.owners if each in self._silent]:
            span.moves(max(span.since_us, self._silent[node]))
            del span.owners[node]
        self._move(span, now_us)

    def _take_all(self, node: str, now_us: int, group: str) -> None:
        for span in self._spans.get(group, {}).values():
            self._take_from(group, span, node, now_us)

    def _take_from(self, group: str, span: _Span, node: str, now_us: int) -> None:
        if node in span.owners:
            self._move(span, now_us)
            del span.owners[node]


def _shares(member: ConsumerStarted, topic: str) -> bool:
    """Does it share the queues of *topic* with the others of its group?"""
    return member.consumer_kind != "pull" and not member.broadcast and topic in member.topics


class _Span:
    """One queue of one group: who owns it, and for how long it was too many or nobody."""

    __slots__ = (
        "has_members",
        "is_wanted",
        "overlap",
        "owners",
        "queue",
        "since_us",
        "unowned",
        "was_named",
    )

    def __init__(self, queue: Queue, now_us: int) -> None:
        self.queue = queue
        self.owners: dict[str, EntryKey] = {}
        self.was_named = False  # in a violation
        self.since_us = now_us
        self.has_members = True
        self.is_wanted = True
        self.overlap = _Times()
        self.unowned = _Times()

    def moves(self, now_us: int) -> None:
        """Time has passed with these owners."""
        passed, self.since_us = now_us - self.since_us, now_us
        self.overlap.adds(passed, holds=len(self.owners) > 1)
        self.unowned.adds(passed, holds=not self.owners and self.is_wanted and self.has_members)


class _Times:
    """How long something lasted, in all and at the longest."""

    __slots__ = ("longest_us", "now_us", "sum_us")

    def __init__(self) -> None:
        self.sum_us = self.now_us = self.longest_us = 0

    def adds(self, passed_us: int, *, holds: bool) -> None:
        """It held for so long, or was over."""
        self.now_us = self.now_us + passed_us if holds else 0
        self.sum_us += passed_us if holds else 0
        self.longest_us = max(self.longest_us, self.now_us)
