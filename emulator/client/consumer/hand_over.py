"""Messages for a loop instead of a listener: each is kept until it is asked for.

The listener of such a consumer is ``HandOver.listen``.  It puts a message down and waits
for what becomes of it, as any listener that takes its time.  So a loop changes nothing
about offsets, retries, order and limits.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import trio

from emulator.client.consumer.listeners import ConsumeResult

if TYPE_CHECKING:
    from emulator.client.consumer.listeners import ConsumeContext
    from emulator.client.consumer.worker_pool import WorkerPool
    from protocol.message import MessageExt


class Offer:
    """A message whose listener waits for its ``result``."""

    __slots__ = ("_decided", "message", "result")

    def __init__(self, message: MessageExt) -> None:
        self.message = message
        self.result: ConsumeResult | None = None
        self._decided = trio.Event()

    def decide(self, result: ConsumeResult) -> None:
        """Its listener returns *result*."""
        self.result = result
        self._decided.set()

    async def wait_decided(self) -> ConsumeResult:
        """What its listener returns."""
        await self._decided.wait()
        assert self.result is not None, "an event that is set before its result"
        return self.result


class HandOver:
    """Between the listener and the loops of one consumer.  Used in trio's thread only."""

    def __init__(self) -> None:
        self.is_closed = False
        self._offers: deque[Offer] = deque()
        self._loops = trio.lowlevel.ParkingLot()
        self._undecided: set[Offer] = set()
        self._change = trio.Event()

    # The listener's side --------------------------------------------------------------

    async def listen(self, messages: list[MessageExt], _context: ConsumeContext) -> ConsumeResult:
        """Offer the one message to the loops; its listener is busy until one has decided."""
        offer = Offer(messages[0])
        self._undecided.add(offer)
        self.tell_change()
        self._offers.append(offer)
        self._loops.unpark()
        try:
            return await offer.wait_decided()
        finally:
            self._undecided.discard(offer)
            if offer.result is None and offer in self._offers:  # cancelled: the consumer ends
                self._offers.remove(offer)  # and gets it again when it is started again

    def tell_change(self) -> None:
        """A job of the consumer's workers is over, or one more waits here."""
        self._change.set()

    async def finish(self, pool: WorkerPool[object], wait_ms_max: int) -> None:
        """End the loops, and wait until what was decided is acknowledged or sent back."""
        self.is_closed = True
        self._loops.unpark_all()
        with trio.move_on_after(wait_ms_max / 1000):
            while pool.busy_count > len(self._undecided):
                self._change = trio.Event()
                await self._change.wait()

    # The loops' side ------------------------------------------------------------------

    async def wait_offer(self, timeout_s: float | None) -> Offer | None:
        """The next one; None if there is none in *timeout_s*, or the consumer ends."""
        with trio.move_on_after(float("inf") if timeout_s is None else timeout_s):
            await trio.lowlevel.checkpoint()
            while not self._offers and not self.is_closed:
                await self._loops.park()
        return None if self.is_closed or not self._offers else self._offers.popleft()

    def decide(self, offer: Offer, result: ConsumeResult) -> None:
        """The message of *offer* is done with; too late if its consumer has ended."""
        self._undecided.discard(offer)
        offer.decide(result)

    def give_back(self, offer: Offer) -> None:
        """Nobody has seen the message of *offer*: the next loop to ask gets it."""
        if offer in self._undecided:  # else its listener was cancelled
            self._offers.appendleft(offer)
            self._loops.unpark()


class InHand:
    """The message that one loop has in hand."""

    def __init__(self, hand_over: HandOver) -> None:
        # Set by the loop, in whatever thread it runs: a loop that is cancelled, or
        # interrupted by Ctrl-C, may not have got the message that was on its way to it.
        self.is_received = False
        self._hand_over = hand_over
        self._offer: Offer | None = None

    async def wait_next(self, timeout_s: float | None) -> MessageExt | None:
        """Acknowledge the one in hand and wait for the next.

        None if there is none in *timeout_s*, or the consumer has ended.
        """
        if self.is_received:
            self.leave(ConsumeResult.SUCCESS)
        if self._offer is None:
            self._offer = await self._hand_over.wait_offer(timeout_s)
            self.is_received = False
        if self._offer is None or self._hand_over.is_closed:
            return None
        return self._offer.message

    def leave(self, result: ConsumeResult) -> None:
        """*result* is that of the message in hand, if the loop has seen one."""
        offer, self._offer = self._offer, None
        if offer is not None and self.is_received:
            self._hand_over.decide(offer, result)
        elif offer is not None:
            self._hand_over.give_back(offer)
