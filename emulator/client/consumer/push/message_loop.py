"""Loops over the messages of a consumer that has no listener.

    async for message in consumer:
        print(message.body)

A message is acknowledged when the loop requests the next one, when the loop ends by itself, or
when it is left by ``break`` or ``return``.  If an exception leaves the loop, the message has
failed: it is delivered again later, as after a listener that raised.

The listener of such a consumer is ``HandOver.listen``: it keeps each message until a loop requests
it, and waits for the result like a slow listener.  So offsets, retries, order and limits are the
same as with a listener.
"""

from __future__ import annotations

import contextlib
import dis
import sys
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Self, TypeAlias

import trio

from rocketmq_emulator.client.consumer.group.listeners import ConsumeResult
from rocketmq_emulator.client.settings.arguments import check_loop
from rocketmq_emulator.errors.call_errors import NotRunning

if TYPE_CHECKING:
    from rocketmq_emulator.client.consumer.group.listeners import ConsumeContext
    from rocketmq_emulator.client.consumer.push.worker_pool import WorkerPool
    from rocketmq_emulator.protocol.messages.message import MessageExt


Soon: TypeAlias = Callable[[Callable[[ConsumeResult], None], ConsumeResult], None]

DROPS_AN_ITERATOR = ("POP_TOP", "POP_ITER")  # the instructions of a break and of a return


class MessageLoop:
    """Base of the loops of trio, threads and asyncio: the current message, and the loop's end.

    ``soon(function, result)`` calls ``function(result)`` in trio's thread.
    """

    _is_over = True  # also if Ctrl-C or a bad argument interrupts ``__init__``: see ``__del__``

    def __init__(
        self, hand_over: HandOver, soon: Soon, timeout_s: float | None, count: int | None
    ) -> None:
        check_loop(timeout_s, count)
        self._current = CurrentMessage(hand_over)
        self._soon = soon
        self._timeout_s = timeout_s
        self._remaining_count = count  # None: any number
        self._is_over = False

    def _wants_more(self) -> bool:
        """Whether the loop takes another message; after *count* it acknowledges the last one."""
        if self._remaining_count == 0:
            self._leave(ConsumeResult.SUCCESS)
        return not self._is_over

    def _receive(self, message: MessageExt | None) -> MessageExt | None:
        """Mark *message* as received by the loop; None ends the loop."""
        if message is None:
            self._is_over = True
            return None
        self._current.is_received = True
        if self._remaining_count is not None:
            self._remaining_count -= 1
        return message

    def _leave(self, result: ConsumeResult) -> None:
        if not self._is_over:
            self._is_over = True
            with contextlib.suppress(NotRunning, trio.RunFinishedError):
                self._soon(self._current.leave, result)

    def __del__(self) -> None:
        is_done = is_left_by_break(2)
        self._leave(ConsumeResult.SUCCESS if is_done else ConsumeResult.RECONSUME_LATER)


class Messages(MessageLoop):
    """A loop in a trio task, made by ``PushConsumer.messages``."""

    def __init__(self, hand_over: HandOver, timeout_s: float | None, count: int | None) -> None:
        super().__init__(
            hand_over, _RunSyncSoon(trio.lowlevel.current_trio_token()), timeout_s, count
        )

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> MessageExt:
        message = None
        if self._wants_more():
            message = self._receive(await self._current.wait_next(self._timeout_s))
        if message is None:
            raise StopAsyncIteration
        return message


def is_left_by_break(depth: int) -> bool:
    """Whether the frame *depth* levels above just dropped its iterator by break or return.

    Python does not report why a loop is left.  In CPython the current instruction shows it: a
    break or return drops the iterator with an instruction of its own, an exception drops it at
    the instruction that raised.  If that cannot be read, this returns False, and the message is
    delivered once more than needed.
    """
    try:
        frame = sys._getframe(depth)  # noqa: SLF001  # there is no public function for it
        code = frame.f_code.co_code[frame.f_lasti]
    except (AttributeError, ValueError, IndexError):
        return False
    return dis.opname[code] in DROPS_AN_ITERATOR


class _RunSyncSoon:
    """Calls a function in the trio run of *token*: at once from its tasks, else soon."""

    def __init__(self, token: trio.lowlevel.TrioToken) -> None:
        self._token = token

    def __call__(self, act: Callable[[ConsumeResult], None], result: ConsumeResult) -> None:
        with contextlib.suppress(RuntimeError):
            if trio.lowlevel.current_trio_token() is self._token:
                act(result)
                return
        self._token.run_sync_soon(act, result)


# Between the listener and the loops ---------------------------------------------------


class PendingMessage:
    """A message in ``HandOver.listen``, which waits for its ``result``."""

    __slots__ = ("_decided", "message", "result")

    def __init__(self, message: MessageExt) -> None:
        self.message = message
        self.result: ConsumeResult | None = None
        self._decided = trio.Event()

    def decide(self, result: ConsumeResult) -> None:
        """Set the result, which ``HandOver.listen`` then returns."""
        self.result = result
        self._decided.set()

    async def wait_result(self) -> ConsumeResult:
        """Wait until ``decide`` is called; returns the result."""
        await self._decided.wait()
        assert self.result is not None, "the event was set before the result"
        return self.result


class HandOver:
    """Passes messages from one consumer's listener to its loops.  For trio's thread only."""

    def __init__(self) -> None:
        self.is_closed = False
        self._offers: deque[PendingMessage] = deque()
        self._loops = trio.lowlevel.ParkingLot()
        self._undecided: set[PendingMessage] = set()
        self._change = trio.Event()

    # For the listener -----------------------------------------------------------------

    async def listen(self, messages: list[MessageExt], _context: ConsumeContext) -> ConsumeResult:
        """Offer the one message to the loops; returns the result that a loop decides."""
        offer = PendingMessage(messages[0])
        self._undecided.add(offer)
        self.notify_change()
        self._offers.append(offer)
        self._loops.unpark()
        try:
            return await offer.wait_result()
        finally:
            self._undecided.discard(offer)
            if offer.result is None and offer in self._offers:  # cancelled: the consumer closes,
                self._offers.remove(offer)  # and the message is delivered again later

    def notify_change(self) -> None:
        """Wake ``finish``: a worker's job is over, or one more message is undecided."""
        self._change.set()

    async def finish(self, pool: WorkerPool[object], wait_ms_max: int) -> None:
        """End the loops; wait until decided messages are acknowledged or sent back."""
        self.is_closed = True
        self._loops.unpark_all()
        with trio.move_on_after(wait_ms_max / 1000):
            while pool.busy_count > len(self._undecided):
                self._change = trio.Event()
                await self._change.wait()

    # For the loops --------------------------------------------------------------------

    async def wait_pending(self, timeout_s: float | None) -> PendingMessage | None:
        """Take the next message; None after *timeout_s* without one, or at the consumer's end."""
        with trio.move_on_after(float("inf") if timeout_s is None else timeout_s):
            await trio.lowlevel.checkpoint()
            while not self._offers and not self.is_closed:
                await self._loops.park()
        return None if self.is_closed or not self._offers else self._offers.popleft()

    def decide(self, offer: PendingMessage, result: ConsumeResult) -> None:
        """Pass *result* to the listener; no effect if the consumer has closed."""
        self._undecided.discard(offer)
        offer.decide(result)

    def requeue(self, offer: PendingMessage) -> None:
        """Put *offer*, which no loop received, first: the next loop that requests one gets it."""
        if offer in self._undecided:  # otherwise its listener was cancelled
            self._offers.appendleft(offer)
            self._loops.unpark()


class CurrentMessage:
    """The message that one loop has received and not yet decided."""

    def __init__(self, hand_over: HandOver) -> None:
        # Set by the loop in its own thread: a loop that is cancelled, or interrupted by
        # Ctrl-C, may not have received the message that was sent to it.
        self.is_received = False
        self._hand_over = hand_over
        self._offer: PendingMessage | None = None

    async def wait_next(self, timeout_s: float | None) -> MessageExt | None:
        """Acknowledge the current message and wait for the next one.

        Returns None after *timeout_s* without a message, or when the consumer has closed.
        """
        if self.is_received:
            self.leave(ConsumeResult.SUCCESS)
        if self._offer is None:
            self._offer = await self._hand_over.wait_pending(timeout_s)
            self.is_received = False
        if self._offer is None or self._hand_over.is_closed:
            return None
        return self._offer.message

    def leave(self, result: ConsumeResult) -> None:
        """Decide the current message if the loop received it; otherwise requeue it."""
        offer, self._offer = self._offer, None
        if offer is not None and self.is_received:
            self._hand_over.decide(offer, result)
        elif offer is not None:
            self._hand_over.requeue(offer)
