"""A consumer's bugs by name: some of its parts exchanged for wrong ones."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary

from emulator.client.consumer.consume_concurrently import LATER, ConsumeConcurrently
from emulator.client.consumer.listeners import ConsumeContext, ListenerOutcome
from emulator.client.consumer.pull_tasks import Later, PullTasks
from emulator.client.errors import ClientError
from emulator.net.errors import RemoteError
from emulator.quirks import quirks_of

if TYPE_CHECKING:
    from emulator.client.consumer.assigned_queues import QueueState
    from emulator.client.consumer.consume_concurrently import Batch
    from emulator.client.consumer.consume_orderly import ConsumeOrderly
    from emulator.client.consumer.member import PushMember
    from emulator.client.consumer.process_queue import ProcessQueue, PullRequest
    from emulator.client.consumer.pulling import Pulling
    from emulator.client.consumer.queue_ownership import LockedOwnership
    from emulator.client.consumer.rebalance import Rebalance
    from protocol.message import MessageExt
    from protocol.queues import MessageQueue


class ConsumerParts(NamedTuple):
    """What a quirk may reach; *ownership* is None for consumers without order."""

    member: PushMember
    rebalance: Rebalance
    pulling: Pulling
    ownership: LockedOwnership | None
    service: ConsumeOrderly | ConsumeConcurrently
    pipeline: object  # the ConsumePipeline, which knows this file


def switch_on(names: Iterable[str], parts: ConsumerParts) -> None:
    """Those of *names* that are a push consumer's; called once, before it starts."""
    for name in quirks_of("consumer", names):
        if name in SWITCHES:
            SWITCHES[name](parts)


def _commit_when_pulled(parts: ConsumerParts) -> None:
    pulling, submit = parts.pulling, parts.pulling._submit
    table = parts.member.offsets.table

    def submit_and_commit(
        found: list[MessageExt], process_queue: ProcessQueue, queue: MessageQueue, wake: bool
    ) -> None:
        submit(found, process_queue, queue, wake)
        table.raise_to(queue, found[-1].queue_offset + 1)

    pulling._submit = submit_and_commit


def _keep_queues(parts: ConsumerParts) -> None:
    async def release_nothing(_topic: str, _wanted: frozenset[MessageQueue]) -> bool:
        return False

    vars(parts.rebalance)["_release_all"] = release_nothing


def _ignore_lock(parts: ConsumerParts) -> None:
    if parts.ownership is None:
        return
    locks, lock = parts.ownership.locks, parts.ownership.locks.lock

    async def lock_anyway(queue: MessageQueue) -> bool:
        await lock(queue)
        return True

    async def renew_anyway() -> None:
        locks._mark(frozenset(parts.member.held), locked=True)

    vars(locks).update(lock=lock_anyway, renew=renew_anyway)


def _keep_offsets(parts: ConsumerParts) -> None:
    offsets = parts.member.offsets

    def persist_everything(_held: Collection[MessageQueue]) -> None:
        for queue in offsets.table:
            offsets.persist(queue)

    def forget_nothing(_queue: MessageQueue) -> None:
        return

    vars(offsets).update(persist_all=persist_everything, forget=forget_nothing)


def _forget_full_queues(parts: ConsumerParts) -> None:
    """Upstream notes the time of a pull before it looks whether the queue is full."""
    pulling, delay_ms = parts.pulling, parts.pulling._delay_ms
    flow = pulling._flow
    pulled_ms: WeakKeyDictionary[ProcessQueue, int] = WeakKeyDictionary()

    def delay_and_forget(request: PullRequest) -> int | None:
        queue = request.process_queue
        if flow.is_full(queue):
            queue.last_pull_ms = pulled_ms.get(queue, queue.last_pull_ms)
        pulled_ms[queue] = queue.last_pull_ms
        return delay_ms(request)

    vars(pulling)["_delay_ms"] = delay_and_forget


def _persist_in_series(parts: ConsumerParts) -> None:
    member = parts.member

    async def persist_one_by_one() -> None:
        for queue in list(member.held) if member.is_running else []:
            with suppress(RemoteError, ClientError):
                await member.calls.query_offset(queue)  # a wait as upstream's for a connection
            member.offsets.persist(queue)

    vars(parts.pipeline)["persist_offsets"] = persist_one_by_one


def _fail_when_interrupted(parts: ConsumerParts) -> None:
    """As in Java, where a listener that waits is interrupted, and raises.

    Upstream: ThreadUtils.shutdownGracefully, called by ConsumeMessageConcurrentlyService.shutdown
    before DefaultMQPushConsumerImpl.shutdown writes the offsets.
    """
    service = parts.service
    if not isinstance(service, ConsumeConcurrently):
        return
    finish = service._finish

    def fail(batch: Batch) -> None:
        failed = ListenerOutcome(ConsumeContext(batch.queue), LATER)
        parts.member.beside(lambda: finish(batch, failed))

    service.pool.on_interrupted = fail


class PulledIsConsumed(PullTasks):
    """Up to where it pulls next counts as consumed.  Upstream: nextPullOffset before #1461."""

    async def _next_offset(self, queue: MessageQueue, state: QueueState) -> int | Later:
        offset = await super()._next_offset(queue, state)
        if not isinstance(offset, Later):
            state.consume_offset = offset
        return offset


PULL_TASKS: Mapping[str, type[PullTasks]] = {"count_pulled_as_consumed": PulledIsConsumed}


def pull_tasks_type(names: Iterable[str]) -> type[PullTasks]:
    """How a lite pull consumer pulls with these quirks on."""
    for name in quirks_of("consumer", names):
        if name in PULL_TASKS:
            return PULL_TASKS[name]
    return PullTasks


SWITCHES: Mapping[str, Callable[[ConsumerParts], None]] = {
    "fail_when_interrupted": _fail_when_interrupted,
    "persist_in_series": _persist_in_series,
    "commit_when_pulled": _commit_when_pulled,
    "keep_queues": _keep_queues,
    "ignore_lock": _ignore_lock,
    "keep_offsets": _keep_offsets,
    "forget_full_queues": _forget_full_queues,
}
