"""What an application writes: a function that takes messages and says how it went.

    async def on_orders(messages: list[MessageExt]) -> None: ...
    def on_orders(messages: list[MessageExt], context: ConsumeContext) -> ConsumeResult: ...

To return nothing is success, to raise is failure.  Async functions run on the loop,
plain ones in worker threads, unless the configuration wants them on the loop as well.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
import trio

from protocol.queues import MessageQueue

if TYPE_CHECKING:
    from protocol.message import MessageExt

FULL_BATCH = 2**31 - 1
BROKER_DECIDES = 0
TO_DEAD_LETTERS = -1


class ConsumeResult(Enum):
    """How a batch went.  Upstream: ConsumeConcurrentlyStatus, ConsumeOrderlyStatus."""

    SUCCESS = "success"
    RECONSUME_LATER = "reconsume later"  # orderly listeners: the same as SUSPEND
    SUSPEND = "suspend the queue a moment"  # orderly only, as the next two
    COMMIT = "commit"  # with auto_commit off
    ROLLBACK = "rollback"  # with auto_commit off


class ConsumeContext(msgspec.Struct):
    """What a listener may say besides its result, and which queue the messages are from."""

    queue: MessageQueue
    delay_level: int = BROKER_DECIDES  # of a message that is sent back; -1: dead letters at once
    ack_index: int = FULL_BATCH  # concurrent: the last message of the batch that succeeded
    auto_commit: bool = True  # orderly
    suspend_ms: int = -1  # orderly: how long the queue rests; -1: as configured


Outcome: TypeAlias = ConsumeResult | None
Listener: TypeAlias = (
    Callable[[list["MessageExt"]], Outcome | Awaitable[Outcome]]
    | Callable[[list["MessageExt"], ConsumeContext], Outcome | Awaitable[Outcome]]
)


class Heard(msgspec.Struct):
    """What became of one call of the listener."""

    context: ConsumeContext
    result: ConsumeResult
    error: BaseException | None = None


class Ear:
    """Calls a listener, whatever its shape; never raises what it raises.

    *on_error*, everywhere, is what raising means.
    """

    def __init__(self, listener: Listener, *, inline: bool, threads_max: int) -> None:
        self._listener: Callable[..., Any] = listener
        self._wants_context = _takes_two(listener)
        call = getattr(listener, "__call__", None)  # noqa: B004  # an object's own call may be async
        self._is_async = inspect.iscoroutinefunction(listener) or inspect.iscoroutinefunction(call)
        self.needs_threads = not self._is_async and not inline
        self.threads = trio.CapacityLimiter(threads_max)

    async def wait_heard(
        self, messages: list[MessageExt], context: ConsumeContext, on_error: ConsumeResult
    ) -> Heard:
        """On the loop or in a thread, as the listener needs it."""
        if self._is_async:
            try:
                return _heard(context, await self._call(messages, context))
            except Exception as error:  # noqa: BLE001  # it may fail in any way: that is a result
                return Heard(context, on_error, error)
        if not self.needs_threads:
            return self.hear(messages, context, on_error)
        return await trio.to_thread.run_sync(
            self.hear, messages, context, on_error, limiter=self.threads, abandon_on_cancel=True
        )

    def hear(
        self, messages: list[MessageExt], context: ConsumeContext, on_error: ConsumeResult
    ) -> Heard:
        """For plain functions, in whatever thread this is."""
        try:
            return _heard(context, self._call(messages, context))
        except Exception as error:  # noqa: BLE001  # it may fail in any way: that is a result
            return Heard(context, on_error, error)

    def _call(self, messages: list[MessageExt], context: ConsumeContext) -> Any:
        if self._wants_context:
            return self._listener(messages, context)
        return self._listener(messages)


def _heard(context: ConsumeContext, outcome: Outcome) -> Heard:
    return Heard(context, ConsumeResult.SUCCESS if outcome is None else outcome)


def _takes_two(listener: Callable[..., Any]) -> bool:
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(listener).parameters.values()
    return sum(p.kind in kinds and p.default is p.empty for p in parameters) >= 2
