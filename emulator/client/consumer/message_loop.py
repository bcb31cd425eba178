"""Loops over the messages of a consumer that has no listener.

    async for message in consumer:
        print(message.body)

A message is acknowledged when the loop asks for the next one, when it ends by itself, or
is left by ``break`` or ``return``.  A loop that is left by an exception has failed: the
message comes again later, as after a listener that raised.
"""

from __future__ import annotations

import contextlib
import dis
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Self, TypeAlias

import trio

from emulator.client.arguments import check_loop
from emulator.client.consumer.hand_over import InHand
from emulator.client.consumer.listeners import ConsumeResult
from emulator.client.errors import NotRunning

if TYPE_CHECKING:
    from emulator.client.consumer.hand_over import HandOver
    from protocol.message import MessageExt

Soon: TypeAlias = Callable[[Callable[[ConsumeResult], None], ConsumeResult], None]

DROPS_AN_ITERATOR = ("POP_TOP", "POP_ITER")  # the instruction of a break, and of a return


class MessageLoop:
    """What loops of trio, of threads and of asyncio share: one message, and the loop's end.

    *soon* calls a function of a result in trio's thread.
    """

    _is_over = True  # so is one that Ctrl-C, or a bad argument, kept from being made

    def __init__(
        self, hand_over: HandOver, soon: Soon, timeout_s: float | None, count: int | None
    ) -> None:
        check_loop(timeout_s, count)
        self._in_hand = InHand(hand_over)
        self._soon = soon
        self._timeout_s = timeout_s
        self._left = count  # None: any number
        self._is_over = False

    def _wants_more(self) -> bool:
        """Ask before the next one; a loop that had its *count* acknowledges the last."""
        if self._left == 0:
            self._leave(ConsumeResult.SUCCESS)
        return not self._is_over

    def _receive(self, message: MessageExt | None) -> MessageExt | None:
        """*message* is in the hands of the loop from here on; None ends it."""
        if message is None:
            self._is_over = True
            return None
        self._in_hand.is_received = True
        if self._left is not None:
            self._left -= 1
        return message

    def _leave(self, result: ConsumeResult) -> None:
        if not self._is_over:
            self._is_over = True
            with contextlib.suppress(NotRunning, trio.RunFinishedError):
                self._soon(self._in_hand.leave, result)

    def __del__(self) -> None:
        is_done = is_left_by_break(2)
        self._leave(ConsumeResult.SUCCESS if is_done else ConsumeResult.RECONSUME_LATER)


class Messages(MessageLoop):
    """A loop in trio, made by ``PushConsumer.messages``."""

    def __init__(self, hand_over: HandOver, timeout_s: float | None, count: int | None) -> None:
        super().__init__(hand_over, _SoonIn(trio.lowlevel.current_trio_token()), timeout_s, count)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> MessageExt:
        message = None
        if self._wants_more():
            message = self._receive(await self._in_hand.wait_next(self._timeout_s))
        if message is None:
            raise StopAsyncIteration
        return message


def is_left_by_break(depth: int) -> bool:
    """Whether the frame *depth* above has just dropped its iterator, by break or return.

    Python does not say why a loop is left.  In CPython the instruction that drops the
    iterator does: an exception drops it where it was raised.  In doubt it is an exception,
    and a message comes once more than needed.
    """
    try:
        frame = sys._getframe(depth)  # noqa: SLF001  # there is no other way to it
        code = frame.f_code.co_code[frame.f_lasti]
    except (AttributeError, ValueError, IndexError):
        return False
    return dis.opname[code] in DROPS_AN_ITERATOR


class _SoonIn:
    """In the run of *token*: at once from its own tasks, else as soon as it can."""

    def __init__(self, token: trio.lowlevel.TrioToken) -> None:
        self._token = token

    def __call__(self, act: Callable[[ConsumeResult], None], result: ConsumeResult) -> None:
        with contextlib.suppress(RuntimeError):
            if trio.lowlevel.current_trio_token() is self._token:
                act(result)
                return
        self._token.run_sync_soon(act, result)
