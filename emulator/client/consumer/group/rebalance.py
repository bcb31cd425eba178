"""One consumer's share of its topics' queues: computed alone, then carried out step by step.

Which queues go and which come is decided by pure functions (at the end of this file).
Carrying it out takes time: an offset is queried, a queue is locked, a listener is
waited for.  The steps are taken in upstream's order, one after the other, because that
is when other members see them.

Upstream: RebalanceImpl, RebalancePushImpl.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

from rocketmq_emulator.client.consumer.group.process_queue import (
    ProcessQueue,
    PullRequest,
    as_fact,
)
from rocketmq_emulator.client.instance.plain_functions import callback_raised
from rocketmq_emulator.errors.call_errors import ClientError, RemoteError
from rocketmq_emulator.facts import QueuesClaimed, QueuesReleased, RebalancePassed
from rocketmq_emulator.protocol.allocation import CannotAllocate
from rocketmq_emulator.protocol.messages.names import is_retry_topic
from rocketmq_emulator.protocol.messages.validation import type_error_text
from rocketmq_emulator.protocol.queues import MessageQueue, java_order, sorted_queues
from rocketmq_emulator.settings.releases import (
    ALL_ARE_DROPPED_FIRST,
    FIRST_PULL_DELAYED,
    LOCK_REFUSED_WAKES,
    NEW_QUEUE_IS_LOCKED,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from rocketmq_emulator.client.consumer.group.allocation import Allocate, Strategy
    from rocketmq_emulator.client.consumer.group.member import Member, PushMember
    from rocketmq_emulator.facts.clients import RebalanceCause, ReleaseReason

Held: TypeAlias = Mapping[MessageQueue, ProcessQueue]

LOCK_REFUSED_WAKE_MS = 500  # RebalancePushImpl, since 5.0.0


class Ownership(Protocol):
    """How one kind of consumer claims its queues and gives them up."""

    process_queue_type: type[ProcessQueue]

    async def claim(self, queue: MessageQueue) -> bool:
        """Whether *queue* may be taken now."""
        ...

    async def release(self, queue: MessageQueue, process_queue: ProcessQueue) -> bool:
        """Whether *queue* was given up; if not, the next pass tries again."""
        ...


class Rebalance:
    """Makes ``member.held`` what the strategy has allocated.

    Without an *ownership* a queue is claimed by who wants it, and released at once.
    *on_change(topic, own queues)* is called after a pass that changed any; *dispatch* gets
    the pull requests of new queues, where an instance does the pulls.
    """

    def __init__(
        self,
        member: Member,
        strategy: Strategy,
        ownership: Ownership | None,
        on_change: Callable[[str, Collection[MessageQueue]], Awaitable[object]],
        dispatch: Callable[[list[PullRequest]], object] | None = None,
    ) -> None:
        self.queues: dict[str, frozenset[MessageQueue]] = {}  # by topic: those in its route
        self._member = member
        self._strategy = strategy
        self._ownership = ownership
        self._process_queue_type: type[ProcessQueue] = (
            ProcessQueue if ownership is None else ownership.process_queue_type
        )
        self._on_change = on_change
        self._dispatch = dispatch
        self._has_passed = False

    async def run_pass(self, cause: RebalanceCause) -> bool:
        """Rebalance every subscribed topic once; True if all are balanced.

        Upstream: RebalanceImpl.doRebalance.
        """
        if cause == "notice":
            cause = self._cause_of_notice()
        self._has_passed, self._member.subscription_changed = True, False
        balanced = True
        for topic in list(self._member.subscriptions):
            balanced = await self._topic(topic, cause) and balanced
        for queue in to_forget(self._member.process_queue_table, self._member.subscriptions):
            self._member.process_queue_table.pop(queue).dropped = True
            self._note_released([queue], "unsubscribed")
        return balanced

    async def replace(self, queue: MessageQueue) -> None:
        """Give up one queue outside of a pass; the next pass brings it back.

        Upstream: RebalanceImpl.removeProcessQueue.
        """
        if (process_queue := self._member.process_queue_table.pop(queue, None)) is not None:
            process_queue.dropped = True
            await self._release(queue, process_queue)
            self._note_released([queue], "reset")

    async def reset(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Move held queues to other offsets and give them up; the next pass brings them back.

        Upstream: the end of MQClientInstance.resetOffset.
        """
        for queue, process_queue in sorted(self._member.process_queue_table.items()):
            if queue in offsets:
                self._member.offsets.table.update(queue, offsets[queue])
                await self._release(queue, process_queue)
                self._member.process_queue_table.pop(queue, None)
                self._note_released([queue], "reset")

    def drop_all(self) -> None:
        """Drop every queue at the end.  Upstream: RebalanceImpl.destroy."""
        for process_queue in self._member.process_queue_table.values():
            process_queue.dropped = True
        self._note_released(sorted(self._member.process_queue_table), "shutdown")
        self._member.process_queue_table.clear()

    def _cause_of_notice(self) -> RebalanceCause:
        """Our own heartbeat causes a notice too: the first one, or one with new subscriptions."""
        if not self._has_passed:
            return "started"
        return "subscription changed" if self._member.subscription_changed else "notice"

    # One topic ------------------------------------------------------------------------

    async def _topic(self, topic: str, cause: RebalanceCause) -> bool:
        if self._member.is_broadcasting:
            queues = self.queues.get(topic)
            mine: Collection[MessageQueue] | None = queues
        else:
            try:
                mine = await self._allocated(topic, cause)
            except CannotAllocate:
                return is_retry_topic(topic)
        if mine is None:
            return True  # no route yet: keep the held queues until the next pass, in 20 seconds
        wanted = frozenset(mine)
        if await self._carry_out(topic, wanted):
            await self._on_change(topic, mine)
        return is_balanced(self._member.process_queue_table, topic, wanted)

    async def _allocated(self, topic: str, cause: RebalanceCause) -> list[MessageQueue] | None:
        """The queues of this client, [] if it is not a member; None if members are unknown."""
        member = self._member
        ids = await member.calls.members(topic)
        queues = self.queues.get(topic)
        if queues is None or not ids:
            return None
        allocate = await self._allocate_function(topic)
        if allocate is None:
            return None
        members = tuple(sorted(ids, key=java_order))
        mine = self._own_queues(allocate, sorted_queues(queues), members)
        member.note(
            RebalancePassed(
                group=member.group,
                topic=topic,
                queue_count=len(queues),
                members=members,
                own_count=len(mine),
                cause=cause,
            )
        )
        return mine

    async def _allocate_function(self, topic: str) -> Allocate | None:
        """The strategy's; None when it needs the versions of members and nobody answers."""
        if self._strategy.by_versions is None:
            return self._strategy.allocate
        versions = await self._member.calls.member_versions(topic)
        return None if versions is None else self._strategy.by_versions(versions)

    def _own_queues(
        self, allocate: Allocate, queues: Sequence[MessageQueue], members: Sequence[str]
    ) -> list[MessageQueue]:
        """Raises ``CannotAllocate``, whatever the application's strategy raises or returns."""
        member = self._member
        try:
            return _queues_in(allocate(queues, members, member.instance.client_id))
        except CannotAllocate:
            raise
        except Exception as error:
            member.note(callback_raised(member.group, "strategy", error))
            raise CannotAllocate(str(error)) from error

    async def _carry_out(self, topic: str, wanted: frozenset[MessageQueue]) -> bool:
        """Whether anything changed.  Upstream: updateProcessQueueTableInRebalance."""
        released = await self._release_all(topic, wanted)
        claimed = await self._claim(wanted)
        return bool(released or claimed)

    async def _release_all(self, topic: str, wanted: frozenset[MessageQueue]) -> bool:
        held = self._member.process_queue_table
        leaving = to_release(held, topic, wanted, self._member.now_ms())
        if self._member.release >= ALL_ARE_DROPPED_FIRST:
            for queue, _ in leaving:
                held[queue].dropped = True
        released: dict[ReleaseReason, list[MessageQueue]] = {}
        for queue, reason in leaving:
            process_queue = held[queue]
            process_queue.dropped = True
            if await self._release(queue, process_queue):
                held.pop(queue, None)
                released.setdefault(reason, []).append(queue)
        for reason, queues in released.items():
            self._note_released(queues, reason)
        return bool(released)

    async def _release(self, queue: MessageQueue, process_queue: ProcessQueue) -> bool:
        """Whether *queue* was released; a concurrent listener is not waited for."""
        if self._ownership is not None:
            return await self._ownership.release(queue, process_queue)
        self._member.offsets.persist(queue)
        self._member.offsets.forget(queue)
        return True

    async def _claim(self, wanted: frozenset[MessageQueue]) -> bool:
        requests = []
        for queue in to_claim(self._member.process_queue_table, wanted):
            if self._ownership is not None and not await self._ownership.claim(queue):
                if self._member.release >= LOCK_REFUSED_WAKES:
                    self._member.call_later(LOCK_REFUSED_WAKE_MS, self._wake)
                continue
            if (request := await self._begin(queue)) is not None:
                requests.append(request)
        if requests:
            claimed = tuple(as_fact(request.queue) for request in requests)
            offsets = tuple(request.next_offset for request in requests)
            self._member.note(QueuesClaimed(self._member.group, claimed, offsets))
        if self._dispatch is not None:
            self._dispatch(requests)
        return bool(requests)

    async def _begin(self, queue: MessageQueue) -> PullRequest | None:
        """Find where to start and put the queue into the table."""
        member = self._member
        member.offsets.forget(queue)  # ours may be older than what another owner stored
        try:
            start = await member.starts.find(queue)
        except (RemoteError, ClientError):
            return None  # not claimed; the next pass queries again
        if start < 0 or queue in member.process_queue_table or not member.is_running:
            return None  # who was closed meanwhile has nothing any more
        process_queue = self._process_queue_type(
            member.now_ms(), locked=member.release >= NEW_QUEUE_IS_LOCKED
        )
        member.process_queue_table[queue] = process_queue
        return PullRequest(member.group, queue, process_queue, start)

    def _wake(self) -> None:
        self._member.instance.rebalance_service.wake("lock refused")

    def _note_released(self, queues: list[MessageQueue], reason: ReleaseReason) -> None:
        if queues:
            released = tuple(as_fact(queue) for queue in queues)
            self._member.note(QueuesReleased(self._member.group, released, reason))


class PullRequestDispatcher:
    """Hands the pull requests of new queues to the instance, which pulls for push consumers."""

    def __init__(self, member: PushMember) -> None:
        self._member = member

    def dispatch(self, requests: list[PullRequest]) -> None:
        """At once, or after a delay.  Upstream: RebalancePushImpl.dispatchPullRequest."""
        service = self._member.instance.pull_service
        for request in requests:
            if self._member.release >= FIRST_PULL_DELAYED:
                service.pull_later(request, self._member.config.first_pull_delay_ms)
            else:
                service.pull_now(request)


# The decisions --------------------------------------------------------------------------


def to_release(
    held: Held, topic: str, wanted: Collection[MessageQueue], now_ms: int
) -> list[tuple[MessageQueue, ReleaseReason]]:
    """Queues of *topic* that are no longer mine, and those not pulled for two minutes.

    The second kind has lost its pull request; it comes back in the same pass, fresh.
    Upstream: RebalanceImpl.updateProcessQueueTableInRebalance.
    """
    leaving: list[tuple[MessageQueue, ReleaseReason]] = []
    for queue in sorted_queues([queue for queue in held if queue.topic == topic]):
        if queue not in wanted:
            leaving.append((queue, "not mine"))
        elif held[queue].is_pull_expired(now_ms):
            leaving.append((queue, "pull expired"))
    return leaving


def to_claim(held: Held, wanted: Collection[MessageQueue]) -> list[MessageQueue]:
    """Queues of *wanted* that are not held yet.

    Called after the releases: a queue that could not be released is still held, and is
    not claimed again.
    """
    return sorted_queues([queue for queue in wanted if queue not in held])


def to_forget(held: Held, subscribed: Collection[str]) -> list[MessageQueue]:
    """Queues of topics that are not subscribed any more.

    Upstream: RebalanceImpl.truncateMessageQueueNotMyTopic.
    """
    return sorted_queues([queue for queue in held if queue.topic not in subscribed])


def is_balanced(held: Held, topic: str, allocated: Collection[MessageQueue]) -> bool:
    """Whether exactly what was allocated is held, and not dropped.

    Upstream: RebalanceImpl (5.2.0).
    """
    working = {queue for queue, pq in held.items() if queue.topic == topic and not pq.dropped}
    return working == set(allocated)


def _queues_in(allocated: Iterable[MessageQueue]) -> list[MessageQueue]:
    mine = list(allocated)
    for queue in mine:
        if not isinstance(queue, MessageQueue):
            raise TypeError(type_error_text("what a strategy allocates", "a MessageQueue", queue))
    return mine
