"""The tasks that pull a lite pull consumer's queues, one per queue, and the pulled batches.

A task pulls, waits for the reply, keeps the messages for ``poll``, and pulls again.  The number of
tasks that do so at once is limited; tasks whose pull is held by the broker count.  The release of
a queue does not cancel its running pull: the pull ends by itself and its result is discarded.  A
seek cancels the pull.

Each assigned queue has three offsets: that of the next pull, that after the polled messages (which
a commit stores), and the one that the application has sought.

Upstream: DefaultLitePullConsumerImpl.PullTaskImpl, consumeRequestCache; AssignedMessageQueue.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import trio

from rocketmq_emulator.client.consumer.group.process_queue import MIB, ProcessQueue, as_fact
from rocketmq_emulator.client.consumer.group.pull_kernel import PullOptions, PullStatus, flag_of
from rocketmq_emulator.errors.call_errors import ClientError, RemoteError
from rocketmq_emulator.facts import OffsetRepaired, PullFailed
from rocketmq_emulator.protocol.codes import ResponseCode
from rocketmq_emulator.protocol.messages.message import MessageExt
from rocketmq_emulator.protocol.queues import MessageQueue, sorted_queues
from rocketmq_emulator.settings.releases import (
    BUSY_PULL_IS_SHORT,
    LITE_POLL_TRACED,
    PULLS_KNOW_THEIR_QUEUE,
    START_ERRORS_WAIT_LONGER,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from rocketmq_emulator.client.consumer.group.member import LitePullMember
    from rocketmq_emulator.client.consumer.group.pull_kernel import PullKernel, PullResult
    from rocketmq_emulator.protocol.messages.subscription import SubscriptionData


AT_ONCE = 0


class PullTask:
    """The task of one queue; a cancelled task stays cancelled and may be replaced by another."""

    def __init__(self, queue: MessageQueue) -> None:
        self.queue = queue
        self.is_cancelled = False
        self.scope = trio.CancelScope()


class StartUnknown(NamedTuple):
    """The first offset is unknown because of *error*; try again after ``delay_ms``."""

    delay_ms: int
    error: Exception


class PullTasks:
    """The tasks of one consumer; they pull topics for which *subscription_to* is not None."""

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
        """Start a task for each of *wanted*; cancel all others, of *topic* or of all topics."""
        for queue in list(self._tasks):
            if topic in (None, queue.topic) and queue not in wanted:
                self._tasks.pop(queue).is_cancelled = True
        for queue in sorted_queues(wanted):
            if queue not in self._tasks and self._member.is_running:
                self._start(queue)

    def restart(self, queue: MessageQueue) -> None:
        """Cancel the running pull of *queue* and start a new task."""
        if (task := self._tasks.pop(queue, None)) is not None:
            task.is_cancelled = True
            task.scope.cancel()
        self._start(queue)

    def _start(self, queue: MessageQueue) -> None:
        task = self._tasks[queue] = PullTask(queue)
        self._member.start_soon(lambda: self._run(task))

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
        """Do upstream's checks, in upstream's order, and pull; the delay (ms) or None to end."""
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

    async def _pull_next(self, task: PullTask, state: MessageQueueState) -> int | None:
        process_queue = state.process_queue
        offset = await self._next_offset(task.queue, state)
        if isinstance(offset, StartUnknown):
            self._note_failed(task.queue, offset.error)
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

    async def _next_offset(
        self, queue: MessageQueue, state: MessageQueueState
    ) -> int | StartUnknown:
        """The sought offset, or the one after the last pull, or the group's start."""
        if state.seek_offset is not None:
            sought = state.consume_offset = state.seek_offset
            state.seek_offset = None
            return sought
        known = state.pull_offset
        return await self._start_of(queue) if known is None else known

    async def _start_of(self, queue: MessageQueue) -> int | StartUnknown:
        """The group's start; an error is never used as an offset (rocketmq #10176)."""
        starts, config = self._member.starts, self._member.config
        try:
            stored = await starts.stored(queue)
        except (RemoteError, ClientError) as error:
            return StartUnknown(config.pull_error_delay_ms, error)
        if stored is not None:
            return stored
        try:
            return await starts.of_new_group(queue)
        except (RemoteError, ClientError) as error:
            delay_ms = config.start_error_delay_ms
            if self._member.release < START_ERRORS_WAIT_LONGER:
                delay_ms = config.pull_error_delay_ms
            return StartUnknown(delay_ms, error)

    async def _pull(self, task: PullTask, process_queue: ProcessQueue, offset: int) -> int:
        """Pull once; returns the delay until the next pull, in ms."""
        config, queue = self._member.config, task.queue
        if (subscription := self._subscription_to(queue.topic)) is None:
            return config.pull_error_delay_ms  # unsubscribed a moment ago
        options = PullOptions(
            offset=offset,
            messages_max=config.pull_batch_max,
            flag=flag_of(suspend=True, lite_pull=True),
            hold_ms_max=config.pull_hold_ms_max,
            timeout_ms=config.pull_held_timeout_ms,
        )
        try:
            result = await self._kernel.pull(queue, subscription, options)
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
            if self._member.traces is not None and self._member.release < LITE_POLL_TRACED:
                self._member.traces.polled(result.messages)
            self._batches.put(PulledBatch(result.messages, queue, process_queue))
        if result.status is PullStatus.OFFSET_ILLEGAL:
            moved = result.next_begin_offset
            self._member.note(OffsetRepaired(self._member.group, as_fact(queue), offset, moved))
        if state is None or seeks:
            return
        # Earlier releases also update the offset if the queue was released and claimed again in
        # the meantime.  Then the messages of this pull, which were discarded, are skipped and
        # lost (rocketmq #2732).
        is_mine = state.process_queue is process_queue
        if is_mine or self._member.release < PULLS_KNOW_THEIR_QUEUE:
            state.pull_offset = result.next_begin_offset

    def _is_over(self, task: PullTask, process_queue: ProcessQueue) -> bool:
        """Whether the queue was released, or the task cancelled, while the task waited."""
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


# Assigned queues and their offsets ----------------------------------------------------


class MessageQueueState:
    """One assigned queue.  Upstream: AssignedMessageQueue.MessageQueueState."""

    def __init__(self, process_queue: ProcessQueue) -> None:
        self.process_queue = process_queue
        self.is_paused = False
        self.pull_offset: int | None = None  # of the next pull; None: not known yet
        self.consume_offset: int | None = None  # after the polled messages; None: none polled
        self.seek_offset: int | None = None  # set by a seek until the next pull

    @property
    def committable(self) -> int | None:
        """The offset that a commit stores; None if there is none, or the queue was released."""
        return None if self.process_queue.dropped else self.consume_offset


class AssignedQueues:
    """The states of assigned queues.  *process_queue_of* finds or makes a queue's cache."""

    def __init__(self, process_queue_of: Callable[[MessageQueue], ProcessQueue]) -> None:
        self._process_queue_of = process_queue_of
        self._states: dict[MessageQueue, MessageQueueState] = {}

    @property
    def queues(self) -> list[MessageQueue]:
        """All assigned queues, in queue order."""
        return sorted_queues(self._states)

    def state(self, queue: MessageQueue) -> MessageQueueState | None:
        """The state of *queue*; None if it is not assigned."""
        return self._states.get(queue)

    def update(self, wanted: Collection[MessageQueue], topic: str | None = None) -> None:
        """Assign exactly *wanted*, of *topic* or of all topics; removed queues are dropped.

        A queue that was assigned before keeps its offsets, and stays paused if it was.
        """
        for queue in list(self._states):
            if topic in (None, queue.topic) and queue not in wanted:
                self._states.pop(queue).process_queue.dropped = True
        for queue in sorted_queues(wanted):
            if queue not in self._states:
                self._states[queue] = MessageQueueState(self._process_queue_of(queue))

    def forget(self, topic: str) -> None:
        """Drop the states of a topic; its messages may be polled until the next rebalance pass."""
        for queue in list(self._states):
            if queue.topic == topic:
                del self._states[queue]

    def process_queues(self) -> dict[MessageQueue, ProcessQueue]:
        """The process queues of assigned queues, by queue."""
        return {queue: self._states[queue].process_queue for queue in self.queues}


# Batches that were pulled and not polled ----------------------------------------------


class PulledBatch(msgspec.Struct, eq=False):
    """The messages of one pull, and their queue."""

    messages: list[MessageExt]
    queue: MessageQueue
    process_queue: ProcessQueue


class PulledBatches:
    """Pulled batches that were not polled; batches of dropped queues are skipped."""

    def __init__(self) -> None:
        self._batches: deque[PulledBatch] = deque()
        self._arrived = trio.Event()

    def __len__(self) -> int:
        return len(self._batches)

    def put(self, batch: PulledBatch) -> None:
        """Append *batch* and wake ``wait_next``."""
        self._batches.append(batch)
        self._arrived.set()

    def forget(self, queue: MessageQueue) -> None:
        """Drop the batches of *queue*."""
        self._batches = deque(batch for batch in self._batches if batch.queue != queue)

    async def wait_next(self, timeout_s: float) -> PulledBatch | None:
        """Take the first batch; None if there was none for *timeout_s*.

        A cancelled call takes no batch.
        """
        until_s = trio.current_time() + timeout_s
        await trio.lowlevel.checkpoint()
        while (batch := self._take()) is None and trio.current_time() < until_s:
            self._arrived = trio.Event() if self._arrived.is_set() else self._arrived
            with trio.move_on_at(until_s):
                await self._arrived.wait()
        return batch

    def _take(self) -> PulledBatch | None:
        while self._batches:
            batch = self._batches.popleft()
            if not batch.process_queue.dropped:
                return batch
        return None
