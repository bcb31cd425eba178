"""A committed offset never passes an unfinished message, and never goes back.

The committed offset is the smallest unfinished one (client invariant 43).  A restarted group
resumes there, so unfinished messages before it are lost.  While a member holds a queue its commits
only rise: a lower one comes from a tool, or from a queue that it gave up.  A pull that an orderly
member began before it gave up the queue may be answered after it has claimed that again: the end
of the queue then counts as consumed, until the member has consumed the next message.
Upstream: DefaultMQPushConsumerImpl.correctTagsOffset, which does not look whether the queue of the
pull was dropped; ConsumeMessageOrderlyService.processConsumeResult, whose offset replaces that.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

import msgspec

from rocketmq_emulator.checks.state.checker import (
    Checker,
    CheckerContext,
    Metric,
    key_of,
)
from rocketmq_emulator.checks.state.cluster_state import ConsumerRecord
from rocketmq_emulator.checks.state.queue_claims import QueueClaim
from rocketmq_emulator.checks.state.queue_records import QueueReading
from rocketmq_emulator.checks.state.violation import Table, place_of
from rocketmq_emulator.facts import (
    ConsumerStarted,
    MemberJoined,
    MessageConsumed,
    MessagePolled,
    OffsetCommitted,
    OffsetRepaired,
    PullAnswered,
    PullHeld,
    Queue,
    QueuesClaimed,
    QueuesReleased,
)
from rocketmq_emulator.facts.journal import Entry, EntryKey
from rocketmq_emulator.facts.replication import TOPICS_TABLE

NO_RELEASES: Mapping[str, EntryKey] = {}
WRITTEN_US = 15_000_000  # offsets are written every 5 s
REORDERED_US = 10_000_000  # a request that a fault held up may come so long after its end
RESET_US = 11_000_000  # a member corrects an illegal offset after 10 s
RELEASED_US = 10_000_000  # requests sent before a release have arrived by then
HELD_MAX = 10_000  # pulls of orderly members that wait for messages
CLAIMED_US = 3_000_000  # claims are noted at the end of a pass, within one request's timeout


class _ExpectedCommit(msgspec.Struct):
    """A client gave up a queue, and has to commit *offset*: it consumed all messages before."""

    key: EntryKey
    group: str
    queue: Queue
    client: str
    offset: int
    is_written: bool = False


class _LateCommit(msgspec.Struct):
    """A commit of a queue that its client had given up, if the client does not claim it now."""

    entry: Entry
    fact: OffsetCommitted
    client: str
    released: EntryKey


class CommitsFollowDelivery(Checker):
    """Client invariant 43, and S13."""

    name = "commits"
    rule = (
        "the committed offset never passes an unfinished message (client invariant 43), and never "
        "goes back while a member holds the queue"
    )
    metrics = (
        Metric("early_commits", "commits", "that passed an unfinished message", "group"),
        Metric(
            "excused_early_commits",
            "commits",
            "the same, of places that were used before its broker lost the end of its log",
            "group",
        ),
        Metric("lower_commits", "commits", "lower than an earlier one of the member", "group"),
        Metric(
            "excused_lower_commits",
            "commits",
            "the same, at a broker that a fault touched, or after one that an older pull raised",
            "group",
        ),
        Metric("late_offsets", "queues", "consumed further than committed for long", "group"),
        Metric(
            "excused_late_offsets",
            "queues",
            "the same, as a fault of the broker or the member delayed the request, or as the pull "
            "after a seek failed",
            "group",
        ),
        Metric("lost_offsets", "queues", "given up without a commit of their offset", "group"),
        Metric(
            "excused_lost_offsets",
            "queues",
            "the same, as the broker was in no route of the member, or only a slave that has "
            "copied no topics yet, or a fault may have stopped the request",
            "group",
        ),
        Metric("late_commits", "commits", "by a member that had given the queue up", "group"),
        Metric(
            "excused_late_commits",
            "commits",
            "the same, as a fault of the broker or the member delayed them",
            "group",
        ),
    )
    needs = (OffsetCommitted,)

    def __init__(self, shared: CheckerContext) -> None:
        super().__init__(shared)
        self._clients: dict[tuple[str, str, str], str] = {}  # by broker, group and peer
        self._expected_commits: deque[_ExpectedCommit] = deque()  # in the order of their releases
        self._late_commits: deque[_LateCommit] = deque()  # in the order of time
        # What each client of a group released, by queue.
        self._released: dict[str, dict[Queue, dict[str, EntryKey]]] = {}
        # By client, group and queue: the offset that its broker named instead, and when.
        self._corrected: dict[tuple[str, str, Queue], tuple[int, int]] = {}
        # By broker, peer and request: since when pulls of orderly members wait.
        self._held: dict[tuple[str, str, int], int] = {}

    def table(self) -> Table:
        """Return the handler of each fact type that it reads."""
        return {
            OffsetCommitted: self._committed,
            MemberJoined: self._joined,
            QueuesClaimed: self._claimed,
            QueuesReleased: self._gave_away,
            OffsetRepaired: self._repaired,
            PullHeld: self._pull_held,
            PullAnswered: self._pull_answered,
        }

    def end(self) -> None:
        """Check final offsets, and set every metric of every known group."""
        for group in self.cluster.consumers:
            for metric in self.metrics:
                self.add_to_metric(metric.name, 0, group)
        if self.cluster.last is not None:
            self._check_lost_offsets(self.cluster.last)
        while self._late_commits:
            self._report_late_commit(self._late_commits.popleft())
        for reader, reading in self.progress.readings():
            if reader in self.cluster.consumers:
                self._check_final_offset(reader, reading)

    def reason_not_judged(self) -> str:
        """Commits alone prove nothing: clients must note what they consume."""
        if not self.cluster.consumers:
            return f"the journal has no {ConsumerStarted.__name__}: no group is known"
        if not any(reading.consumed_us for _, reading in self.progress.readings()):
            return f"the journal has no {MessageConsumed.__name__} or {MessagePolled.__name__}"
        return ""

    def _committed(self, fact: OffsetCommitted, entry: Entry) -> None:
        while self._late_commits and (
            entry.mono_us - self._late_commits[0].entry.mono_us > CLAIMED_US
        ):
            self._report_late_commit(self._late_commits.popleft())
        if (all_released := self._released.get(fact.group)) is not None:
            self._check_late_commit(fact, all_released.get(fact.queue, NO_RELEASES), entry)
        reading = self.progress.reading
        self.tried += 1
        if self._expected_commits:
            self._check_lost_offsets(entry)
            self._match_commit(fact, entry)
        self._check_lower_commit(fact, reading, entry)
        if not self.progress.has_passed:
            return
        start = max(reading.start, self._reused_to(fact, reading, entry), reading.stale_to)
        if fact.offset <= reading.done.first_missing(start):
            if start > reading.start and fact.offset > reading.done.first_missing(reading.start):
                self.add_to_metric("excused_early_commits", 1, fact.group)
            return
        if not self._is_judged(fact):
            return
        passed = self.progress.messages.pending.unsettled(reading, start, fact.offset)
        unfinished = next((offset for offset in passed if self._has(fact, offset, entry)), None)
        if unfinished is None:
            return
        self.add_to_metric("early_commits", 1, fact.group)
        given = reading.given_entries(unfinished)
        by = f"which {given[0].node} has not finished" if given else "which no member was given"
        self.report_violation(
            f"{fact.group} committed {fact.offset} of {place_of(fact.queue)} and passed "
            f"{unfinished}, {by}",
            *reading.records.entries_of_message(unfinished)[:1],
            *(key_of(each) for each in given[:1]),
            entry,
            node=reading.owner,
        )

    def _reused_to(self, fact: OffsetCommitted, reading: QueueReading, entry: Entry) -> int:
        """Places below were used before a loss; a former owner's last commit may pass them.

        The owner reads them, if it has claimed the queue at an older offset.
        """
        before, claimed_us = reading.reused_before
        if entry.mono_us - claimed_us > RELEASED_US or before <= reading.reused_to:
            return reading.reused_to
        client = self._clients.get((entry.node, fact.group, fact.peer), "")
        hold = self._hold_of(fact.group, client, reading)
        is_former = hold is not None and hold.ended_us is not None
        return before if is_former else reading.reused_to

    def _check_final_offset(self, group: str, reading: QueueReading) -> None:
        """Report a running member that did not commit its last offset; it commits every 5 s."""
        hold = reading.claims.get(reading.owner)
        consumer = self.cluster.consumer(group, reading.owner)
        if (
            hold is None
            or hold.ended_us is not None
            or consumer is None
            or not consumer.is_running
        ):
            return
        if reading.committed is None or consumer.started.consumer_kind == "pull":
            return
        since_us = self.cluster.now_us - WRITTEN_US
        # Messages consumed before their broker lost them do not count: an elected slave may have
        # them, and give them again.
        next_one = max(reading.committed, reading.start)
        starts = (next_one, max(next_one, reading.reused_to))
        ends = ((start, reading.done.first_missing(start)) for start in starts)
        done = max((end for start, end in ends if end > start), default=0)
        done = min(
            done, reading.records.end_offset
        )  # a log that lost its end was consumed further
        last_us = reading.consumed_us
        if done <= reading.committed or last_us > since_us or self.cluster.last is None:
            return
        nodes = reading.owner, reading.queue.broker
        quiet_us = self.cluster.undisturbed_us(nodes, last_us, self.cluster.now_us)
        if quiet_us <= WRITTEN_US or reading.has_lost_seek:
            self.add_to_metric("excused_late_offsets", 1, group)
            return
        self.add_to_metric("late_offsets", 1, group)
        self.report_violation(
            f"{reading.owner} has consumed {place_of(reading.queue)} up to {done} and committed "
            f"{reading.committed}",
            key_of(self.cluster.last),
            node=reading.owner,
            rule="a member commits its offset within 5 s (client invariant 1)",
        )

    def _check_lower_commit(
        self, fact: OffsetCommitted, reading: QueueReading, entry: Entry
    ) -> None:
        """Report a commit lower than an earlier one of the member that holds the queue."""
        client = self._clients.get((entry.node, fact.group, fact.peer))
        hold = None if client is None else self._hold_of(fact.group, client, reading)
        if hold is None or hold.ended_us is not None:
            return
        before = hold.committed
        hold.committed = fact.offset, EntryKey(entry.mono_us, entry.node, entry.seq)
        if before is None or fact.offset >= before[0]:
            return
        if hold.seek_offset is not None and fact.offset >= hold.seek_offset:
            hold.seek_offset = (
                None  # until the next poll a lite pull member commits as before its seek
            )
            return
        if hold.raised_to == before[0] and fact.offset >= hold.start:
            hold.raised_to = None
            self.add_to_metric("excused_lower_commits", 1, fact.group)
            return
        # A busy or paused broker takes requests of different thread pools out of order.
        since_us = entry.mono_us - REORDERED_US
        if self.cluster.touched((entry.node, hold.node), since_us, entry.mono_us):
            self.add_to_metric("excused_lower_commits", 1, fact.group)
            return
        self.add_to_metric("lower_commits", 1, fact.group)
        self.report_violation(
            f"{hold.node} commits {fact.offset} of {place_of(fact.queue)} after {before[0]}",
            before[1],
            entry,
            node=hold.node,
        )

    def _pull_held(self, fact: PullHeld, entry: Entry) -> None:
        if fact.group in self.cluster.orderly:
            if len(self._held) >= HELD_MAX:
                del self._held[next(iter(self._held))]
            self._held[entry.node, fact.peer, fact.opaque] = entry.mono_us

    def _pull_answered(self, fact: PullAnswered, entry: Entry) -> None:
        """An empty answer to a pull of a former claim raises the offset of the present one."""
        held_us = self._held.pop((entry.node, fact.peer, fact.opaque), None)
        if held_us is None or fact.message_count:
            return
        reading = self.progress.readers.get(fact.group, {}).get(fact.queue)
        client = self._clients.get((entry.node, fact.group, fact.peer))
        if reading is None or client is None:
            return
        hold = self._hold_of(fact.group, client, reading)
        if hold is not None and hold.ended_us is None and held_us < hold.began_us:
            hold.raised_to = fact.next_offset

    def _hold_of(self, group: str, client: str, reading: QueueReading) -> QueueClaim | None:
        for consumer in reversed(self.cluster.consumers.get(group, ())):
            if consumer.started.client == client and consumer.started.consumer_kind != "pull":
                return reading.claims.get(consumer.node)
        return None

    def _check_late_commit(
        self, fact: OffsetCommitted, released: Mapping[str, EntryKey], entry: Entry
    ) -> None:
        if not released:
            return
        client = self._clients.get((entry.node, fact.group, fact.peer), "")
        key = released.get(client)
        if key is None or entry.mono_us - key.mono_us <= RELEASED_US:
            return
        if self._is_reset(fact, client, entry.mono_us):
            return
        # A stalled link delivers late; a member notes a claim after all brokers have answered.
        since_us = entry.mono_us - RELEASED_US
        nodes = {entry.node, key.node, *self.cluster.topics.brokers_of(fact.queue.topic)}
        if self.cluster.touched(nodes, since_us, entry.mono_us):
            self.add_to_metric("excused_late_commits", 1, fact.group)
            return
        self._late_commits.append(_LateCommit(entry, fact, client, key))

    def _report_late_commit(self, late: _LateCommit) -> None:
        fact, key = late.fact, late.released
        self.add_to_metric("late_commits", 1, fact.group)
        self.report_violation(
            f"{late.client} commits {fact.offset} of {place_of(fact.queue)}, which it gave up "
            f"{(late.entry.mono_us - key.mono_us) // 1_000_000} s before",
            key,
            late.entry,
            node=key.node,
            rule="a member commits nothing of queues it gave up (client invariant 56)",
        )

    def _is_reset(self, fact: OffsetCommitted, client: str, now_us: int) -> bool:
        """Whether this corrects an illegal offset: 10 s later, also if the queue has moved.

        Upstream: DefaultMQPushConsumerImpl.pullMessage, OFFSET_ILLEGAL.
        """
        corrected, at_us = self._corrected.get((client, fact.group, fact.queue), (None, 0))
        return corrected == fact.offset and now_us - at_us <= RESET_US

    def _repaired(self, fact: OffsetRepaired, entry: Entry) -> None:
        consumer = self.cluster.consumer(fact.group, entry.node)
        if consumer is not None:
            known = consumer.started.client, fact.group, fact.queue
            self._corrected[known] = fact.corrected, entry.mono_us

    def _joined(self, fact: MemberJoined, entry: Entry) -> None:
        self._clients[entry.node, fact.group, fact.peer] = fact.client

    def _claimed(self, fact: QueuesClaimed, entry: Entry) -> None:
        consumer = self.cluster.consumer(fact.group, entry.node)
        for queue in fact.queues:
            released = self._released.get(fact.group, {}).get(queue)
            if consumer is not None and released is not None:
                released.pop(consumer.started.client, None)
                self._forget_late_commits(fact.group, queue, consumer.started.client, entry)

    def _forget_late_commits(self, group: str, queue: Queue, client: str, claimed: Entry) -> None:
        """A commit between the claim of its queue and the end of the pass is not late.

        Upstream: RebalanceImpl.updateProcessQueueTableInRebalance.
        """
        if not self._late_commits:
            return
        self._late_commits = deque(
            late
            for late in self._late_commits
            if (late.fact.group, late.fact.queue, late.client) != (group, queue, client)
            or claimed.mono_us - late.entry.mono_us > CLAIMED_US
        )

    def _gave_away(self, fact: QueuesReleased, entry: Entry) -> None:
        consumer = self.cluster.consumer(fact.group, entry.node)
        if consumer is None or consumer.started.consumer_kind == "pull":
            return  # the application of a pull consumer commits freely
        key = EntryKey(entry.mono_us, entry.node, entry.seq)
        released = self._released.setdefault(fact.group, {})
        for queue in fact.queues:
            released.setdefault(queue, {})[consumer.started.client] = key
            if fact.reason == "not mine" and self._persists(consumer):
                self._expect_commit(fact.group, queue, consumer, key)

    def _persists(self, consumer: ConsumerRecord) -> bool:
        """Whether a member must commit a released queue's offset at once: concurrent push only.

        An orderly member commits before its last call; a lite pull consumer commits only what it
        committed itself, which polls do not.
        Upstream: RebalancePushImpl.removeUnnecessaryMessageQueue.
        """
        group = consumer.started.group
        return consumer.started.consumer_kind == "push" and (
            group not in self.cluster.broadcast | self.cluster.orderly
        )

    def _expect_commit(
        self, group: str, queue: Queue, consumer: ConsumerRecord, key: EntryKey
    ) -> None:
        """Expect a commit of the first offset that the member has not finished."""
        reading = self.progress.readers.get(group, {}).get(queue)
        hold = None if reading is None else reading.claims.get(consumer.node)
        if reading is None or hold is None or not hold.given.ends:
            return
        first = hold.given.starts[0]
        open_ones = (*hold.in_flight, *hold.earlier_in_flight, *hold.to_redeliver)
        done = min((hold.given.first_missing(first), reading.records.end_offset, *open_ones))
        written = hold.committed[0] if hold.committed is not None else reading.committed or 0
        if done <= max(written, first):
            return
        escapes = self.progress.messages.escapes
        if escapes.may_be_asked(queue.broker, key.mono_us):  # a slave may lack the topic yet
            self.add_to_metric("excused_lost_offsets", 1, group)
        elif not self.cluster.has_in_route(consumer.node, queue) or self._asks_in_vain(
            consumer.node, queue.broker
        ):
            self.add_to_metric("excused_lost_offsets", 1, group)  # no broker takes it
        else:
            self._expected_commits.append(
                _ExpectedCommit(key, group, queue, consumer.started.client, done)
            )

    def _asks_in_vain(self, node: str, broker: str) -> bool:
        """Whether the routes of *node* name only slaves of *broker*, which have no topics yet.

        Upstream: RemoteBrokerOffsetStore.updateConsumeOffsetToBroker asks any of the name; since
        5.0.0 ConsumerManageProcessor.updateConsumerOffset refuses a topic that it does not have.
        """
        master = self.cluster.replicas.of(broker)
        if master is None or self.cluster.has_master_address(node, broker):
            return False
        return not all(slave.knows_to_us(TOPICS_TABLE) for slave in master.slaves.values())

    def _match_commit(self, fact: OffsetCommitted, entry: Entry) -> None:
        client = self._clients.get((entry.node, fact.group, fact.peer), "")
        for owed in self._expected_commits:
            is_its = client in ("", owed.client)  # "": no heartbeat yet on a new connection
            if owed.group == fact.group and owed.queue == fact.queue and is_its:
                owed.is_written = owed.is_written or fact.offset >= owed.offset

    def _check_lost_offsets(self, now: Entry) -> None:
        while (
            self._expected_commits
            and now.mono_us - self._expected_commits[0].key.mono_us > RELEASED_US
        ):
            owed = self._expected_commits.popleft()
            key = owed.key
            if owed.is_written:
                continue
            if self.cluster.touched(
                (key.node, owed.queue.broker), key.mono_us - RELEASED_US, key.mono_us + RELEASED_US
            ):
                self.add_to_metric("excused_lost_offsets", 1, owed.group)
                continue
            self.add_to_metric("lost_offsets", 1, owed.group)
            self.report_violation(
                f"{key.node} gave up {place_of(owed.queue)}, of which it had consumed all before "
                f"{owed.offset}, and did not commit that",
                key,
                key_of(now),
                node=key.node,
                rule="a member that gives up a queue commits its offset (client invariant 56)",
            )

    def _is_judged(self, fact: OffsetCommitted) -> bool:
        """Whether the group's commits are judged: applications of pull consumers are free."""
        kinds = self.cluster.kinds(fact.group)
        if not kinds or "pull" in kinds:
            return False
        return "lite_pull" not in kinds or self._polls_are_known(fact.group)

    def _has(self, fact: OffsetCommitted, offset: int, entry: Entry) -> bool:
        """Whether the journal has the stored message and all members that ran since want it."""
        records = self.progress.messages.records(fact.queue)
        first = records.first
        if first is None or not first <= offset < records.end_offset:
            return False
        since_us = records.stored_us(offset) or 0
        return self.cluster.is_wanted(
            fact.group, fact.queue.topic, records.labels_at(offset), since_us, entry.mono_us
        )

    def _polls_are_known(self, group: str) -> bool:
        readings = self.progress.readers.get(group, {})
        return any(each.consumed_us for each in readings.values())
