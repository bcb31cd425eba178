"""The tasks that pull a lite pull consumer's queues, one for each.

A task pulls, waits for the answer, keeps the messages for ``poll``, and pulls again; a
limited number of them does so at once, and a held pull counts.  A queue that is given away
leaves its task alone: the pull under way ends by itself and is discarded.  A seek cancels it.

Upstream: DefaultLitePullConsumerImpl.PullTaskImpl.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import trio

from emulator.client.consumer.process_queue import MIB, as_fact
from emulator.client.consumer.pull_kernel import Asked, PullStatus, flag_of
from emulator.client.consumer.pulled_batches import PulledBatch
from emulator.client.errors import ClientError
from emulator.facts import OffsetRepaired, PullFailed
from emulator.net.errors import RemoteError
from emulator.releases import (
    BUSY_PULL_IS_SHORT,
    PULLS_KNOW_THEIR_QUEUE,
    START_ERRORS_WAIT_LONGER,
)
from protocol.codes import ResponseCode
from protocol.queues import in_order

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from emulator.client.consumer.assigned_queues import AssignedQueues, QueueState
    from emulator.client.consumer.member import LitePullMember
    from emulator.client.consumer.process_queue import ProcessQueue
    from emulator.client.consumer.pull_kernel import PullKernel, PullResult
    from emulator.client.consumer.pulled_batches import PulledBatches
    from protocol.queues import MessageQueue
    from protocol.subscription import SubscriptionData

AT_ONCE = 0


class PullTask:
    """One queue's; once cancelled it stays cancelled, and another may take its place."""

    def __init__(self, queue: MessageQueue) -> None:
        self.queue = queue
        self.is_cancelled = False
        self.scope = trio.CancelScope()


class Later(NamedTuple):
    """Where the next pull begins is not known yet."""

    delay_ms: int
    why: Exception


class PullTasks:
    """The tasks of one consumer.  *subscription_to(topic)*: what they pull, None for nothing."""

    def __init__(
        self,
        member: LitePullMember,
        assigned: AssignedQueues,
        batches: PulledBatches,
        kernel: PullKernel,
        subscription_to: Callable[[str], SubscriptionData | None],
    ) -> None:
        self._member = member
        self._assigned = assigned
        self._batches = batches
        self._kernel = kernel
        self._subscription_to = subscription_to
        self._threads = trio.CapacityLimiter(member.config.pull_threads_max)
        self._tasks: dict[MessageQueue, PullTask] = {}

    def update(self, wanted: Collection[MessageQueue], topic: str | None = None) -> None:
        """A task for each of *wanted*; the others, of one topic or of all, are cancelled."""
        for queue in list(self._tasks):
            if topic in (None, queue.topic) and queue not in wanted:
                self._tasks.pop(queue).is_cancelled = True
        for queue in in_order(wanted):
            if queue not in self._tasks and self._member.is_running:
                self._start(queue)

    def restart(self, queue: MessageQueue) -> None:
        """Cancel the pull under way, and pull anew."""
        if (task := self._tasks.pop(queue, None)) is not None:
            task.is_cancelled = True
            task.scope.cancel()
        self._start(queue)

    def _start(self, queue: MessageQueue) -> None:
        task = self._tasks[queue] = PullTask(queue)
        self._member.beside(lambda: self._run(task))

    async def _run(self, task: PullTask) -> None:
        with task.scope:
            delay_ms: int | None = AT_ONCE
            while delay_ms is not None:
                if delay_ms > AT_ONCE:
                    await trio.sleep(delay_ms / 1000)
                async with self._threads:
                    delay_ms = await self._step(task)

    # One pull -------------------------------------------------------------------------

    async def _step(self, task: PullTask) -> int | None:
        """Upstream's checks in upstream's order, and a pull; when to go on, None: never."""
        config = self._member.config
        if task.is_cancelled:
            return None
        state = self._assigned.state(task.queue)
        if state is None or state.is_paused:
            return config.pull_paused_delay_ms
        process_queue = state.process_queue
        if process_queue.dropped:
            return None
        process_queue.last_pull_ms = self._member.now_ms()
        if self._is_full(process_queue):
            return config.pull_full_delay_ms
        return await self._pull_next(task, state)

    async def _pull_next(self, task: PullTask, state: QueueState) -> int | None:
        process_queue = state.process_queue
        offset = await self._next_offset(task.queue, state)
        if isinstance(offset, Later):
            self._note_failed(task.queue, offset.why)
            return offset.delay_ms
        if self._is_over(task, process_queue):
            return None
        delay_ms = await self._pull(task, process_queue, offset)
        return None if task.is_cancelled else delay_ms

    def _is_full(self, queue: ProcessQueue) -> bool:
        config = self._member.config
        return (
            len(self._batches) * config.pull_batch_max > config.all_messages_max
            or queue.count > config.queue_messages_max
            or queue.bytes_cached // MIB > config.queue_mib_max
            or queue.span > config.queue_span_max
        )

    async def _next_offset(self, queue: MessageQueue, state: QueueState) -> int | Later:
        """Where a seek wants to go, or where the last pull ended, or where the group starts."""
        if state.seek_offset is not None:
            sought = state.consume_offset = state.seek_offset
            state.seek_offset = None
            return sought
        known = state.pull_offset
        return await self._start_of(queue) if known is None else known

    async def _start_of(self, queue: MessageQueue) -> int | Later:
        """An error is never taken for an offset: that could begin anywhere (rocketmq #10176)."""
        starts, config = self._member.starts, self._member.config
        try:
            stored = await starts.stored(queue)
        except (RemoteError, ClientError) as error:
            return Later(config.pull_error_delay_ms, error)
        if stored is not None:
            return stored
        try:
            return await starts.of_new_group(queue)
        except (RemoteError, ClientError) as error:
            delay_ms = config.start_error_delay_ms
            if self._member.release < START_ERRORS_WAIT_LONGER:
                delay_ms = config.pull_error_delay_ms
            return Later(delay_ms, error)

    async def _pull(self, task: PullTask, process_queue: ProcessQueue, offset: int) -> int:
        """Pull once; how long until the next one."""
        config, queue = self._member.config, task.queue
        if (subscription := self._subscription_to(queue.topic)) is None:
            return config.pull_error_delay_ms  # unsubscribed a moment ago
        asked = Asked(
            offset=offset,
            messages_max=config.pull_batch_max,
            flag=flag_of(suspend=True, lite_pull=True),
            hold_ms_max=config.pull_hold_ms_max,
            timeout_ms=config.pull_held_timeout_ms,
        )
        try:
            result = await self._kernel.pull(queue, subscription, asked)
        except (RemoteError, ClientError) as error:
            self._note_failed(queue, error)
            return self._delay_after(error)
        if not self._is_over(task, process_queue):
            self._take(queue, process_queue, offset, result)
        return AT_ONCE

    def _take(
        self, queue: MessageQueue, process_queue: ProcessQueue, offset: int, result: PullResult
    ) -> None:
        state = self._assigned.state(queue)
        seeks = state is not None and state.seek_offset is not None
        if result.messages and not seeks:
            process_queue.put(result.messages)
            self._batches.put(PulledBatch(result.messages, queue, process_queue))
        if result.status is PullStatus.OFFSET_ILLEGAL:
            moved = result.next_begin_offset
            self._member.note(OffsetRepaired(self._member.group, as_fact(queue), offset, moved))
        if state is None or seeks:
            return
        # Before: also when the queue was given away and came back, so that this position, of
        # messages nobody will get, became the new owner's: they were lost (rocketmq #2732).
        is_mine = state.process_queue is process_queue
        if is_mine or self._member.release < PULLS_KNOW_THEIR_QUEUE:
            state.pull_offset = result.next_begin_offset

    def _is_over(self, task: PullTask, process_queue: ProcessQueue) -> bool:
        """Whether its queue was given away while it waited."""
        if self._member.release < PULLS_KNOW_THEIR_QUEUE:
            return False
        return task.is_cancelled or process_queue.dropped

    def _delay_after(self, error: RemoteError | ClientError) -> int:
        config = self._member.config
        is_busy = isinstance(error, ClientError) and error.code == ResponseCode.FLOW_CONTROL
        if is_busy and BUSY_PULL_IS_SHORT.reached(self._member.release):
            return config.pull_busy_delay_ms
        return config.pull_error_delay_ms

    def _note_failed(self, queue: MessageQueue, error: Exception) -> None:
        self._member.note(PullFailed(self._member.group, as_fact(queue), str(error)))
