"""Listeners: functions of the application that take messages and return a ``ConsumeResult``.

    async def on_orders(messages: list[MessageExt]) -> None: ...
    def on_orders(messages: list[MessageExt], context: ConsumeContext) -> ConsumeResult: ...

Returning None means SUCCESS; an exception means failure.  Async functions run on the event loop.
Plain functions run as the world defines (``plain_functions``): in worker threads, or in virtual
time; with ``listeners_inline`` they run on the event loop in every world.
"""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Awaitable, Callable, Sequence
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias, cast

import msgspec

from rocketmq_emulator.client.consumer.group.process_queue import as_fact
from rocketmq_emulator.client.settings.arguments import is_coroutine_function
from rocketmq_emulator.facts import ListenerRaised, MessageConsumed, MessageGivenToListener
from rocketmq_emulator.protocol.messages.properties import RETRY_TOPIC
from rocketmq_emulator.protocol.queues import MessageQueue

if TYPE_CHECKING:
    from rocketmq_emulator.client.instance.plain_functions import PlainCalls
    from rocketmq_emulator.facts import Fact, Note
    from rocketmq_emulator.protocol.messages.message import MessageExt

FULL_BATCH = 2**31 - 1
BROKER_DECIDES = 0


class ConsumeResult(Enum):
    """The result of a batch.  Upstream: ConsumeConcurrentlyStatus, ConsumeOrderlyStatus."""

    SUCCESS = "success"
    RECONSUME_LATER = "reconsume later"  # orderly listeners: the same as SUSPEND
    SUSPEND = "suspend the queue a moment"  # orderly only, like the next two
    COMMIT = "commit"  # with auto_commit off
    ROLLBACK = "rollback"  # with auto_commit off


class ConsumeContext(msgspec.Struct):
    """The queue of the messages, and the options that a listener may set besides its result."""

    queue: MessageQueue
    delay_level: int = BROKER_DECIDES  # for sent-back messages; -1: to dead letters at once
    ack_index: int = FULL_BATCH  # concurrent: the last message of the batch that succeeded
    auto_commit: bool = True  # orderly
    suspend_ms: int = -1  # orderly: pause of the queue; -1: as configured


Outcome: TypeAlias = ConsumeResult | None
Listener: TypeAlias = (
    Callable[[list["MessageExt"]], Outcome | Awaitable[Outcome]]
    | Callable[[list["MessageExt"], ConsumeContext], Outcome | Awaitable[Outcome]]
)


class ListenerOutcome(msgspec.Struct):
    """The outcome of one call of the listener."""

    context: ConsumeContext
    result: ConsumeResult
    error: Exception | None = None  # raised by it, or for its invalid return value


class ListenerInvoker:
    """Calls a listener; an exception becomes a ``ListenerOutcome`` and a ``ListenerRaised`` fact.

    *plain_calls* runs plain functions; None: they run on the event loop and take no virtual
    time.  The *on_error* of each method is the result that stands for an exception.
    """

    def __init__(
        self, listener: Listener, facts: ConsumptionFacts, plain_calls: PlainCalls | None
    ) -> None:
        self._listener: Callable[..., Outcome | Awaitable[Outcome]] = listener
        self._facts = facts
        self._wants_context = takes_context(listener)
        self._is_async = is_coroutine_function(listener)
        self.plain_calls = None if self._is_async else plain_calls

    async def wait_outcome(
        self, messages: list[MessageExt], context: ConsumeContext, on_error: ConsumeResult
    ) -> ListenerOutcome:
        """Call the listener, on the event loop or by ``plain_calls``, and wait for its outcome."""
        if self._facts.wants_given:
            self._facts.note_given(context.queue, messages)
        if self._is_async:
            try:
                called = cast("Awaitable[Outcome]", self._call(messages, context))
                outcome = self._outcome(context, await called)
            except Exception as error:  # noqa: BLE001  # any exception is its outcome
                outcome = _failure(context, on_error, error)
        elif self.plain_calls is None:
            outcome = self.invoke(messages, context, on_error)
        else:
            outcome = await self.plain_calls.run(lambda: self.invoke(messages, context, on_error))
        if outcome.error is not None:
            self._facts.note_raised(messages, outcome.context.queue, outcome.error)
        return outcome

    def invoke(
        self, messages: list[MessageExt], context: ConsumeContext, on_error: ConsumeResult
    ) -> ListenerOutcome:
        """Call a plain function in the current thread; the caller notes the facts."""
        try:
            return self._outcome(context, self._call(messages, context))
        except Exception as error:  # noqa: BLE001  # any exception is its outcome
            return _failure(context, on_error, error)

    def _call(
        self, messages: list[MessageExt], context: ConsumeContext
    ) -> Outcome | Awaitable[Outcome]:
        if self._wants_context:
            return self._listener(messages, context)
        return self._listener(messages)

    def _outcome(self, context: ConsumeContext, returned: object) -> ListenerOutcome:
        """Raise ``TypeError`` for an invalid return value, or an invalid field of *context*."""
        if self._wants_context:
            _check_context(context)
        if returned is None:
            return ListenerOutcome(context, ConsumeResult.SUCCESS)
        if isinstance(returned, ConsumeResult):
            return ListenerOutcome(context, returned)
        if inspect.iscoroutine(returned):
            returned.close()  # otherwise Python warns that it was never awaited
        raise TypeError(f"a listener returns None or a ConsumeResult, not {returned!r:.100}")


class ConsumptionFacts:
    """Notes the facts of consumption of one group; unwanted kinds of facts are not built.

    Only the event loop's thread may call it.
    """

    def __init__(self, group: str, note: Note, wants: Callable[[type[Fact]], bool]) -> None:
        self._group = group
        self._note = note
        self._wants_consumed = wants(MessageConsumed)
        self._wants_raised = wants(ListenerRaised)
        self.wants_given = wants(MessageGivenToListener)

    def note_given(self, queue: MessageQueue, messages: Sequence[MessageExt]) -> None:
        """The listener is about to be called with *messages*; check ``wants_given`` first."""
        for message in messages:
            self._note(
                MessageGivenToListener(
                    group=self._group,
                    queue=as_fact(queue),
                    offset=message.queue_offset,
                    uniq_key=message.uniq_key or "",
                    reconsume_times=message.reconsume_times,
                )
            )

    def note_raised(
        self, messages: Sequence[MessageExt], queue: MessageQueue, error: Exception
    ) -> None:
        """The listener raised *error* for *messages*, or *error* is for its return value."""
        if not self._wants_raised:
            return
        self._note(
            ListenerRaised(
                group=self._group,
                queue=as_fact(queue),
                offset=messages[0].queue_offset,
                uniq_key=messages[0].uniq_key or "",
                error=_text_of(error),
                traceback="".join(traceback.format_exception(error)),
                message_count=len(messages),
            )
        )

    def note_consumed(
        self, queue: MessageQueue, messages: Sequence[MessageExt], acked: int
    ) -> None:
        """The first *acked* of *messages* were consumed, the others failed."""
        if not self._wants_consumed:
            return
        name = as_fact(queue)
        for index, message in enumerate(messages):
            self._note(
                MessageConsumed(
                    group=self._group,
                    topic=message.topic,
                    queue=name,
                    offset=message.queue_offset,
                    uniq_key=message.uniq_key or "",
                    reconsume_times=message.reconsume_times,
                    ok=index < acked,
                )
            )


def restore_topic(message: MessageExt, retry_topic: str) -> None:
    """Give a retried message the topic it was first sent to.

    Upstream: DefaultMQPushConsumerImpl.resetRetryAndNamespace.
    """
    if message.topic == retry_topic:
        message.topic = message.properties.get(RETRY_TOPIC, message.topic)


def _failure(
    context: ConsumeContext, on_error: ConsumeResult, error: Exception
) -> ListenerOutcome:
    """The outcome of a failed call; as upstream, valid *context* fields still count."""
    if _invalid_fields(context):
        context = ConsumeContext(context.queue)
    return ListenerOutcome(context, on_error, error)


def _check_context(context: ConsumeContext) -> None:
    for name in _invalid_fields(context):
        raise TypeError(
            f"a ConsumeContext's {name} is an int, not {getattr(context, name)!r:.100}"
        )


def _invalid_fields(context: ConsumeContext) -> list[str]:
    """The fields of the context that are no int."""
    numbers = ("delay_level", "ack_index", "suspend_ms")
    return [name for name in numbers if not isinstance(getattr(context, name), int)]


def _text_of(error: Exception) -> str:
    return "".join(traceback.format_exception_only(error)).strip()


def takes_context(listener: Callable[..., object]) -> bool:
    """Whether *listener* takes a ``ConsumeContext`` as its second argument."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    try:
        parameters = inspect.signature(listener).parameters.values()
    except (TypeError, ValueError):  # some functions written in C have no signature
        return False
    return sum(p.kind in kinds and p.default is p.empty for p in parameters) >= 2
