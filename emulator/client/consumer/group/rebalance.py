"""One consumer's share of its topics' queues: computed locally, then carried out step by step.

Pure functions (at the end of this file) decide which queues are released and claimed.  Carrying
that out takes time: it queries offsets, locks queues and waits for listeners.  It takes the steps
in upstream's order, one after the other, because other members can observe each step.

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
    """How one kind of consumer claims and releases queues."""

    process_queue_type: type[ProcessQueue]

    async def claim(self, queue: MessageQueue) -> bool:
        """Whether *queue* may be claimed now."""
        ...

    async def release(self, queue: MessageQueue, process_queue: ProcessQueue) -> bool:
        """Release *queue*; False if it could not be released: the next pass tries again."""
        ...


class Rebalance:
    """Claims and releases queues until ``member.process_queue_table`` has the allocated ones.

    Without an *ownership* every queue can be claimed, and is released at once.
    ``on_change(topic, own queues)`` is called after a pass that changed the queues of a topic.
    *dispatch* gets the pull requests of claimed queues; None for consumers that pull themselves.
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
        """Release one queue outside of a pass; the next pass claims it again.

        Upstream: RebalanceImpl.removeProcessQueue.
        """
        if (process_queue := self._member.process_queue_table.pop(queue, None)) is not None:
            process_queue.dropped = True
            await self._release(queue, process_queue)
            self._note_released([queue], "reset")

    async def reset(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Set the offsets of held queues and release them; the next pass claims them again.

        Upstream: the end of MQClientInstance.resetOffset.
        """
        for queue, process_queue in sorted(self._member.process_queue_table.items()):
            if queue in offsets:
                self._member.offsets.table.update(queue, offsets[queue])
                await self._release(queue, process_queue)
                self._member.process_queue_table.pop(queue, None)
                self._note_released([queue], "reset")

    def drop_all(self) -> None:
        """Drop every queue when the consumer closes.  Upstream: RebalanceImpl.destroy."""
        for process_queue in self._member.process_queue_table.values():
            process_queue.dropped = True
        self._note_released(sorted(self._member.process_queue_table), "shutdown")
        self._member.process_queue_table.clear()

    def _cause_of_notice(self) -> RebalanceCause:
        """The cause of a broker's notice, which this client's own heartbeat can trigger too."""
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
        """The client's queues; [] if it is no member; None if route or members are unknown."""
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
        """The strategy's function; None if it needs members' versions and no broker answers."""
        if self._strategy.by_versions is None:
            return self._strategy.allocate
        versions = await self._member.calls.member_versions(topic)
        return None if versions is None else self._strategy.by_versions(versions)

    def _own_queues(
        self, allocate: Allocate, queues: Sequence[MessageQueue], members: Sequence[str]
    ) -> list[MessageQueue]:
        """The allocated queues; any error of the strategy becomes ``CannotAllocate``."""
        member = self._member
        try:
            return _queues_in(allocate(queues, members, member.instance.client_id))
        except CannotAllocate:
            raise
        except Exception as error:
            member.note(callback_raised(member.group, "strategy", error))
            raise CannotAllocate(str(error)) from error

    async def _carry_out(self, topic: str, wanted: frozenset[MessageQueue]) -> bool:
        """Release and claim; True if a queue changed.

        Upstream: updateProcessQueueTableInRebalance.
        """
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
            if (process_queue := held.get(queue)) is None:
                continue  # ``replace`` released it while another queue was waited for
            process_queue.dropped = True
            if await self._release(queue, process_queue):
                held.pop(queue, None)
                released.setdefault(reason, []).append(queue)
        for reason, queues in released.items():
            self._note_released(queues, reason)
        return bool(released)

    async def _release(self, queue: MessageQueue, process_queue: ProcessQueue) -> bool:
        """Release *queue*; True if released.  It does not wait for concurrent listeners."""
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
        """Find the first offset and add the queue to the table; None if it is not claimed."""
        member = self._member
        member.offsets.forget(queue)  # it may be older than the offset another owner stored
        try:
            start = await member.starts.find(queue)
        except (RemoteError, ClientError):
            return None  # not claimed; the next pass queries again
        if start < 0 or queue in member.process_queue_table or not member.is_running:
            return None  # a closed consumer claims no queues
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
    """Gives the pull requests of claimed queues to the instance's PullMessageService."""

    def __init__(self, member: PushMember) -> None:
        self._member = member

    def dispatch(self, requests: list[PullRequest]) -> None:
        """Enqueue *requests*; since 5.0.0 after ``first_pull_delay_ms``.

        Upstream: RebalancePushImpl.dispatchPullRequest.
        """
        service = self._member.instance.pull_service
        for request in requests:
            if self._member.release >= FIRST_PULL_DELAYED:
                service.pull_later(request, self._member.config.first_pull_delay_ms)
            else:
                service.pull_now(request)


# Decisions ------------------------------------------------------------------------------


def to_release(
    held: Held, topic: str, wanted: Collection[MessageQueue], now_ms: int
) -> list[tuple[MessageQueue, ReleaseReason]]:
    """Held queues of *topic* that are not *wanted*, or not pulled for two minutes.

    Queues of the second kind have lost their pull request; the same pass claims them again.
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
    """Queues of *wanted* that are not held.

    Call it after the releases: a queue that could not be released is still held and is not
    claimed again.
    """
    return sorted_queues([queue for queue in wanted if queue not in held])


def to_forget(held: Held, subscribed: Collection[str]) -> list[MessageQueue]:
    """Held queues of topics that are no longer subscribed.

    Upstream: RebalanceImpl.truncateMessageQueueNotMyTopic.
    """
    return sorted_queues([queue for queue in held if queue.topic not in subscribed])


def is_balanced(held: Held, topic: str, allocated: Collection[MessageQueue]) -> bool:
    """Whether exactly the *allocated* queues of *topic* are held, and none is dropped.

    Upstream: RebalanceImpl (5.2.0).
    """
    working = {queue for queue, pq in held.items() if queue.topic == topic and not pq.dropped}
    return working == set(allocated)


def _queues_in(allocated: Iterable[MessageQueue]) -> list[MessageQueue]:
    mine = list(allocated)
    for queue in mine:
        if not isinstance(queue, MessageQueue):
            raise TypeError(type_error_text("an allocated queue", "a MessageQueue", queue))
    return mine
