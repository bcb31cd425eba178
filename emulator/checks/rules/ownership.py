"""Each queue has one owner: seconds with two owners or without one, by group.

Members own queues from QueuesClaimed to QueuesReleased, or to their end.  A member that all its
brokers lost, and that writes no facts, has ended, also if no fact of its end was noted.  A queue
needs an owner as soon as its broker has it and the group has a member that subscribes its topic,
also if no member ever claims it: a queue without owner for 180 s without a fault is a violation.
For orderly groups the broker's lock forbids two owners, so an overlap of two running owners is a
violation there; in other groups it happens, and is measured.  The time in which a group starts up
(``StartUps``) is measured apart; rules hold in it, too.  ``OwnerSpan`` has the times of each queue
with two owners or none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

from rocketmq_emulator.checks.rules.split_shares import all_allocate_alike, shares, unchanged_us
from rocketmq_emulator.checks.state.broker_roles import SLAVE
from rocketmq_emulator.checks.state.checker import (
    Checker,
    CheckerContext,
    Metric,
    key_of,
)
from rocketmq_emulator.checks.state.disturbances import PROCESS_ENDING
from rocketmq_emulator.checks.state.start_ups import Passed, StartUps, Times
from rocketmq_emulator.checks.state.violation import Table, place_of
from rocketmq_emulator.facts import (
    BrokerExpired,
    BrokerRegistered,
    BrokerRoleChanged,
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
from rocketmq_emulator.facts.journal import Entry, EntryKey
from rocketmq_emulator.protocol.messages.names import RETRY_GROUP_TOPIC_PREFIX

US_A_SECOND = 1_000_000
READABLE = 4  # the bit of a topic's perm
SETTLED_US = 60_000_000  # a heartbeat within 30 s, a rebalance within 20 s, and 10 s of margin
LOCK_US = 60_000_000  # rocketmq.broker.rebalance.lockMaxLiveTime
TAKEN_US = 180_000_000  # member expiry 120 s, broker check 10 s, rebalance 20 s, routes 30 s


class _BrokerLock(NamedTuple):
    """The lock of a queue at one broker: each broker of a name has locks of its own.

    Upstream: RebalanceLockManager.
    """

    client: str
    at_us: int


class OwnerTime(NamedTuple):
    """The longest time for which a queue of a group had no owner, or two."""

    group: str
    queue: Queue
    from_us: int
    until_us: int


class OneOwner(Checker):
    """S18, S36; client invariant 27."""

    name = "ownership"
    rule = (
        "a queue of an orderly group has one owner, under the broker's lock (client invariant 51)"
    )
    metrics = (
        Metric(
            "startup_s",
            "s",
            "the group's start-up: until all members that start within 2 s of the first one list "
            "each other and have their queues, or a fault",
            "group",
            "max",
        ),
        Metric(
            "overlap_s",
            "s",
            "the longest time a queue had two owners, without the group's start-up",
            "group",
            "max",
        ),
        Metric(
            "startup_overlap_s",
            "s",
            "the same in start-up",
            "group",
            "max",
        ),
        Metric(
            "excused_overlap_s",
            "s",
            "the same, of two owners for 60 s or more, explained by faults or routes",
            "group",
            "max",
        ),
        Metric(
            "overlap_queue_s",
            "s",
            "time with two owners, summed over queues, without start-up",
            "group",
        ),
        Metric(
            "unowned_s",
            "s",
            "the longest time a running broker's queue had none, without start-up",
            "group",
            "max",
        ),
        Metric("startup_unowned_s", "s", "the same in start-up", "group", "max"),
        Metric(
            "excused_unowned_s",
            "s",
            "the same, of queues that no member takes, as some route lacks a topic and "
            "members count different queues (apache/rocketmq#4522)",
            "group",
            "max",
        ),
        Metric(
            "unowned_queue_s",
            "s",
            "no owner, summed over running brokers' queues, without start-up",
            "group",
        ),
        Metric("starved_queues", "queues", "that had no owner for 60 s or more", "group"),
        Metric(
            "excused_unclaimed",
            "queues",
            "without an owner for 180 s or more, as faults went on, members or topics changed, or "
            "some member does not subscribe the topic",
            "group",
        ),
    )
    needs = (QueuesClaimed, RebalancePassed)

    def __init__(self, shared: CheckerContext) -> None:
        super().__init__(shared)
        self._spans: dict[str, dict[Queue, OwnerSpan]] = {}
        self._silent: dict[str, int] = {}  # nodes that brokers lost, without facts since
        self._down: set[str] = set()  # brokers that ended, or that some route lacks
        self._sizes: dict[str, dict[str, int]] = {}  # topic: broker: readable queues
        # By group and queue, then the broker that granted it: the client with the last lock.
        self._locked: dict[tuple[str, Queue], dict[str, _BrokerLock]] = {}
        self._passes: dict[tuple[str, str], dict[str, EntryKey]] = {}  # group, topic: by node

    def table(self) -> Table:
        """Return the handler of each fact type that it reads."""
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
            BrokerRoleChanged: self._role_changed,
            BrokerUnregistered: self._lost,
            BrokerExpired: self._lost,
            BrokerRegistered: self._registered,
            MemberLeft: self._left,
            MessageConsumed: self._note_activity,
            RebalancePassed: self._passed,
            PullFailed: self._note_activity,
        }

    def end(self) -> None:
        """Measure up to now, and set the metrics of every queue."""
        for group in self.cluster.consumers:
            for metric in self.metrics:
                self.add_to_metric(metric.name, 0, group)
            lasted_us = self.start_ups.lasted_us(group, self.cluster.now_us)
            self.set_metric("startup_s", lasted_us / US_A_SECOND, group)
        for group, spans in self._spans.items():
            self._count_members(group, self.cluster.now_us)
            for queue, span in spans.items():
                self._move(span, self.cluster.now_us)
                if not queue.topic.startswith(RETRY_GROUP_TOPIC_PREFIX):
                    self._measure(group, span)

    def unowned(self, *, in_startup: bool = False) -> list[OwnerTime]:
        """Queues that had no owner after start-up, or in it, the longest first; after ``end``."""
        return self._longest(lambda span: span.unowned, in_startup=in_startup)

    def overlaps(self, *, in_startup: bool = False) -> list[OwnerTime]:
        """The same of queues that had two owners."""
        return self._longest(lambda span: span.overlap, in_startup=in_startup)

    def _longest(
        self, times_of: Callable[[OwnerSpan], Times], *, in_startup: bool
    ) -> list[OwnerTime]:
        found = []
        for group, spans in self._spans.items():
            for queue, span in spans.items():
                times = times_of(span)
                lasted_us, until_us = times.longest_us, times.longest_until_us
                if in_startup:
                    lasted_us, until_us = times.startup_us, times.startup_until_us
                if lasted_us and not queue.topic.startswith(RETRY_GROUP_TOPIC_PREFIX):
                    found.append(OwnerTime(group, queue, until_us - lasted_us, until_us))
        return sorted(found, key=lambda each: each.from_us - each.until_us)

    def _measure(self, group: str, span: OwnerSpan) -> None:
        self.add_to_metric("excused_unclaimed", span.unclaimed == "excused", group)
        self.add_to_metric("starved_queues", span.unowned.with_startup_us >= SETTLED_US, group)
        for name, times in (("overlap", span.overlap), ("unowned", span.unowned)):
            self.add_to_metric(f"{name}_queue_s", times.sum_us / US_A_SECOND, group)
            self._at_least(f"{name}_s", times.longest_us, group)
            self._at_least(f"startup_{name}_s", times.startup_us, group)
        self._at_least("excused_unowned_s", span.left.longest_us, group)

    def _at_least(self, name: str, lasted_us: int, group: str) -> None:
        known = self.measured.get(f"{name}.{group}", 0.0)
        self.set_metric(name, max(known, lasted_us / US_A_SECOND), group)

    # Handlers -----------------------------------------------------------------------------

    def _claimed(self, fact: QueuesClaimed, entry: Entry) -> None:
        if fact.group in self.cluster.broadcast:
            return
        self._silent.pop(entry.node, None)
        for queue in fact.queues:
            span = self._span(fact.group, queue, entry.mono_us)
            self._drop_silent(span, entry.mono_us)
            self.count_tried(span.last_owner not in ("", entry.node))
            span.last_owner = entry.node
            self._object_to_two(fact.group, queue, span, entry)
            self._move(span, entry.mono_us)
            span.owners[entry.node] = EntryKey(entry.mono_us, entry.node, entry.seq)

    def _object_to_two(self, group: str, queue: Queue, span: OwnerSpan, entry: Entry) -> None:
        """Report a claim while another orderly owner still runs and has the lock."""
        claiming = self.cluster.consumer(group, entry.node)
        if group not in self.cluster.orderly:
            return
        client = "" if claiming is None else claiming.started.client
        locks = self._locked.get((group, queue), {}).values()
        since_us = entry.mono_us - LOCK_US
        if any(lock.client == client and lock.at_us > since_us for lock in locks):
            return  # the old owner may not consume, or has the lock of another broker of the name
        for node, claimed in span.owners.items():
            consumer = self.cluster.consumer(group, node)
            if node == entry.node or consumer is None:
                continue
            if all(lock.client != consumer.started.client for lock in locks):
                continue
            place = place_of(queue)
            self.report_violation(
                f"{entry.node} claimed {place} of {node}, which has its lock", claimed, entry
            )

    def _released(self, fact: QueuesReleased, entry: Entry) -> None:
        spans = self._spans.get(fact.group, {})
        for queue in fact.queues:
            if (span := spans.get(queue)) is not None:
                self._take_from(fact.group, span, entry.node, entry.mono_us)

    def _granted(self, fact: QueuesLocked, entry: Entry) -> None:
        lock = _BrokerLock(fact.client, entry.mono_us)
        for queue in fact.granted:
            self._locked.setdefault((fact.group, queue), {})[entry.node] = lock

    def _started(self, fact: ConsumerStarted, entry: Entry) -> None:
        """A new process on the node: the last one has ended."""
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
        if self.cluster.all_faults[-1].word in PROCESS_ENDING:
            for node in fact.nodes:
                self._want(node, entry.mono_us, is_up=False)
        for node in fact.nodes:
            self._end_if_stopped(node, entry.mono_us)

    def _killed(self, fact: NodeKilled, entry: Entry) -> None:
        self._want(fact.node, entry.mono_us, is_up=False)
        self._end_if_stopped(fact.node, entry.mono_us)

    def _end_if_stopped(self, node: str, now_us: int) -> None:
        """End the node's claims if its members have ended: not every fault ends a process."""
        for group in self._spans:
            consumer = self.cluster.consumer(group, node)
            if consumer is not None and not consumer.is_running:
                self._take_all(node, now_us, group)
                self._count_members(group, now_us)

    def _count_members(self, group: str, now_us: int) -> None:
        """A group without running members needs no owners."""
        has_members = bool(self.cluster.running(group))
        for span in self._spans.get(group, {}).values():
            if span.has_members is not has_members:
                span.moves(now_us)
                span.has_members = has_members

    def _lost(self, fact: BrokerUnregistered | BrokerExpired, entry: Entry) -> None:
        self._want(fact.broker, entry.mono_us, is_up=False)

    def _registered(self, fact: BrokerRegistered, entry: Entry) -> None:
        if fact.broker in self._down or self.cluster.topics.partial.were_there(fact.broker):
            self._want(fact.broker, entry.mono_us, is_up=True)

    def _want(self, broker: str, now_us: int, *, is_up: bool) -> None:
        """Queues of a broker that is down need no owner."""
        (self._down.discard if is_up else self._down.add)(broker)
        for spans in self._spans.values():
            for queue, span in spans.items():
                if queue.broker == broker:
                    span.moves(now_us)
                    span.is_wanted = self._needs_owner(queue, span)
        for group in self._spans:
            self._compare(group, "", now_us)

    def _passed(self, fact: RebalancePassed, entry: Entry) -> None:
        self._note_activity(fact, entry)
        passes = self._passes.setdefault((fact.group, fact.topic), {})
        passes[entry.node] = EntryKey(entry.mono_us, entry.node, entry.seq)
        self._compare(fact.group, fact.topic, entry.mono_us)

    def _compare(self, group: str, topic: str, now_us: int) -> None:
        """Mark queues that may have no owner, as members count different queues of the topic."""
        if not self.cluster.topics.partial.were_any:
            return
        for queue, span in self._spans.get(group, {}).items():
            if topic in ("", queue.topic):
                span.moves(now_us)
                span.is_unassigned = self.cluster.counts_differ(group, queue.topic)

    def _shaped(self, fact: TopicCreated | TopicChanged, entry: Entry) -> None:
        """The entry's node is the broker whose topic was created or changed.

        Topics that a slave creates while it acts are in routes as those of its master, until it
        copies the master's again; no queue of the slave's own needs an owner.
        Upstream: TopicConfigManager.createTopicInSendMessageMethod, SlaveSynchronize.
        """
        if SLAVE.fullmatch(entry.node):
            return
        count = fact.read_queue_count if fact.perm & READABLE else 0
        self._sizes.setdefault(fact.topic, {})[entry.node] = count
        for group in self.cluster.consumers:
            self._expect(group, fact.topic, entry.node, count, entry.mono_us)

    def _role_changed(self, fact: BrokerRoleChanged, entry: Entry) -> None:
        """An elected slave has the topics that it copied last."""
        if self.cluster.roles.move is None:
            return
        for topic, sizes in self._sizes.items():
            count = self.cluster.topics.readable_count(topic, entry.node)
            if sizes.get(entry.node, 0) != count:
                sizes[entry.node] = count
                for group in self.cluster.consumers:
                    self._expect(group, topic, entry.node, count, entry.mono_us)

    def _expect(self, group: str, topic: str, broker: str, count: int, now_us: int) -> None:
        """If *group* has subscribers, require an owner for these *count* queues, and no others."""
        if not any(shares(consumer.started, topic) for consumer in self.cluster.running(group)):
            return
        spans = self._spans.setdefault(group, {})
        for number in range(count):
            self._span(group, Queue(topic, broker, number), now_us)
        for queue, span in spans.items():
            if queue.topic == topic and queue.broker == broker:
                span.moves(now_us)
                span.is_wanted = self._needs_owner(queue, span)

    def _needs_owner(self, queue: Queue, span: OwnerSpan) -> bool:
        """Whether its broker runs and has the queue, as far as is known, and all routes have it.

        A queue that never had an owner may be gone if the topic's settings were lost, any if an
        elected master may have an older topic.
        """
        topics = self.cluster.topics
        if topics.is_partial(queue) or topics.has_lost(queue):
            return False
        if not span.last_owner and not topics.is_sure(queue.topic, queue.broker):
            return False
        count = self._sizes.get(queue.topic, {}).get(queue.broker)
        return queue.broker not in self._down and (count is None or queue.queue_id < count)

    def _span(self, group: str, queue: Queue, now_us: int) -> OwnerSpan:
        spans = self._spans.setdefault(group, {})
        span = spans.get(queue)
        if span is None:
            span = spans[queue] = OwnerSpan(group, queue, now_us, self.start_ups)
            span.is_wanted = self._needs_owner(queue, span)
        return span

    def _left(self, fact: MemberLeft, entry: Entry) -> None:
        for consumer in self.cluster.running(fact.group):
            if consumer.started.client == fact.client:
                self._silent.setdefault(consumer.node, entry.mono_us)

    def _note_activity(
        self, fact: MessageConsumed | RebalancePassed | PullFailed, entry: Entry
    ) -> None:
        if self._silent and self._silent.pop(entry.node, None) is not None:
            self._restore_owner(entry.node, entry.mono_us)

    def _restore_owner(self, node: str, now_us: int) -> None:
        """A silent *node* has not ended: it still owns the queues that it has not released."""
        for spans in self._spans.values():
            for span in spans.values():
                if (claimed := span.dropped.pop(node, None)) is not None:
                    self._move(span, now_us)
                    span.owners[node] = claimed

    def _move(self, span: OwnerSpan, now_us: int) -> None:
        """Add the time passed, and report two owners, or none, for too long."""
        span.moves(now_us)
        self._check_overlap(span, now_us)
        if span.unowned.now_us >= TAKEN_US and span.unclaimed != "named":
            self._check_unowned(span, now_us)

    def _check_overlap(self, span: OwnerSpan, now_us: int) -> None:
        """Report two owners for ``SETTLED_US`` without a fault."""
        began_us = now_us - span.overlap.now_us
        if span.was_named or now_us - began_us < SETTLED_US:
            return
        undisturbed_us = self._undisturbed_us(span, began_us, now_us)
        if undisturbed_us < SETTLED_US or any(node in self._silent for node in span.owners):
            self._at_least("excused_overlap_s", span.overlap.now_us, span.group)
        else:
            span.was_named = True
            both, keys = " and ".join(span.owners), sorted(span.owners.values())
            self.report_violation(
                f"{both} hold {place_of(span.queue)} for {undisturbed_us // 1_000_000} s, while "
                "no fault touches them, its brokers or NameServers",
                *keys,
                rule="a queue has one owner once a rebalance has settled",
            )

    def _check_unowned(self, span: OwnerSpan, now_us: int) -> None:
        """Report a queue without an owner for ``TAKEN_US`` without a fault."""
        group, topic = span.group, span.queue.topic
        lasted_us = unchanged_us(self.cluster, group, topic, now_us - span.unowned.now_us, now_us)
        if lasted_us < TAKEN_US or not all_allocate_alike(self.cluster, group, topic):
            span.unclaimed = "excused"
            return
        span.unclaimed = "named"
        running = {consumer.node for consumer in self.cluster.running(group)}
        passes = self._passes.get((group, topic), {})
        last = () if self.cluster.last is None else (key_of(self.cluster.last),)
        self.report_violation(
            f"no member of {group} takes {place_of(span.queue)} for {lasted_us // 1_000_000} s, "
            "while members, brokers and routes do not change and have no fault",
            *sorted(key for node, key in passes.items() if node in running),
            *last,
            rule="every queue has an owner 180 s after the last fault or change",
        )

    def _undisturbed_us(self, span: OwnerSpan, since_us: int, now_us: int) -> int:
        """The longest time in which all members must have had the same members and routes."""
        topics = self.cluster.topics
        brokers = topics.brokers_of(span.queue.topic) | {span.queue.broker}
        nodes = {*span.owners, *brokers, *topics.name_servers}
        lacking = [*topics.partial.spans(brokers, span.queue.topic, now_us)]
        for owner in span.owners:
            for broker in brokers:  # one that registers again is in a member's routes 30 s later
                if (missing := self.cluster.missing_route(owner, broker)) is not None:
                    until_us = now_us if missing.until_us is None else missing.until_us
                    lacking.append((missing.from_us, until_us))
        return self.cluster.undisturbed_us(nodes, since_us, now_us, lacking)

    # Owners -------------------------------------------------------------------------------

    def _drop_silent(self, span: OwnerSpan, now_us: int) -> None:
        for node in [each for each in span.owners if each in self._silent]:
            span.moves(max(span.since_us, self._silent[node]))
            span.dropped[node] = span.owners.pop(node)
        self._move(span, now_us)

    def _take_all(self, node: str, now_us: int, group: str) -> None:
        for span in self._spans.get(group, {}).values():
            self._take_from(group, span, node, now_us)

    def _take_from(self, group: str, span: OwnerSpan, node: str, now_us: int) -> None:
        span.dropped.pop(node, None)
        if node in span.owners:
            self._move(span, now_us)
            del span.owners[node]


# One queue's owners -------------------------------------------------------------------


class OwnerSpan:
    """One queue of one group: its owners, and how long it had two or none."""

    __slots__ = (
        "dropped",
        "group",
        "has_members",
        "is_unassigned",
        "is_wanted",
        "last_owner",
        "left",
        "overlap",
        "owners",
        "queue",
        "since_us",
        "start_ups",
        "unclaimed",
        "unowned",
        "was_named",
    )

    def __init__(self, group: str, queue: Queue, now_us: int, start_ups: StartUps) -> None:
        self.group, self.queue = group, queue
        self.start_ups = start_ups
        self.owners: dict[str, EntryKey] = {}
        self.last_owner = ""  # node
        self.dropped: dict[str, EntryKey] = {}  # former owners that became silent
        self.was_named = False  # a violation named it
        # No member took it for 180 s: a violation named that, or it was excused.
        self.unclaimed: Literal["", "excused", "named"] = ""
        self.since_us = now_us
        self.has_members = True
        self.is_wanted = True
        self.is_unassigned = False  # members count different queues: some have no owner
        self.overlap = Times()
        self.unowned = Times()
        self.left = Times()  # unowned because is_unassigned

    def moves(self, now_us: int) -> None:
        """Add the time up to *now_us* with the current owners."""
        since_us, self.since_us = self.since_us, now_us
        up_us = self.start_ups.until_us(self.group, now_us)
        startup_us = (now_us if up_us is None else min(now_us, up_us)) - since_us
        passed = Passed(now_us, now_us - since_us, max(0, startup_us))
        is_unowned = not self.owners and self.is_wanted and self.has_members
        self.overlap.add(passed, holds=len(self.owners) > 1)
        self.unowned.add(passed, holds=is_unowned and not self.is_unassigned)
        self.left.add(passed, holds=is_unowned and self.is_unassigned)
