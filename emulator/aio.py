"""The client for asyncio: FastAPI, aiohttp, pytest-asyncio.

    from rocketmq_emulator.aio import Message, Producer

    async with Producer(namesrv="127.0.0.1:9876", group="shop") as producer:
        await producer.send(Message("orders", b"two cups"))

Names, settings and errors are those of the trio client, which does the work in one
background thread.  A client may be used from several loops.  If ``async with`` cannot be used,
``await start()`` and ``await close()`` do the same.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar, cast

from rocketmq_emulator.client import LitePullConsumer as CoreLitePullConsumer
from rocketmq_emulator.client import Producer as CoreProducer
from rocketmq_emulator.client import PullConsumer as CorePullConsumer
from rocketmq_emulator.client import PushConsumer as CoreConsumer
from rocketmq_emulator.client import TransactionProducer as CoreTransactionProducer
from rocketmq_emulator.client.consumer.group.listeners import takes_context
from rocketmq_emulator.client.consumer.push.message_loop import MessageLoop
from rocketmq_emulator.client.settings.arguments import (
    TRANSACTION_METHODS,
    check_background_send,
    check_listener,
    check_transaction_listener,
    is_coroutine_function,
)
from rocketmq_emulator.portal import public_names
from rocketmq_emulator.portal.aio_client import CallFuture, ClientProcess, LoopFunction, LoopInbox
from rocketmq_emulator.portal.aio_methods import (
    LitePullConsumerMethods,
    ProducerMethods,
    PullConsumerMethods,
    PushConsumerMethods,
    TransactionProducerMethods,
)
from rocketmq_emulator.portal.client_host import PortalClient, core_of, start_in_background
from rocketmq_emulator.portal.public_names import *  # noqa: F403  # its __all__ is ours
from rocketmq_emulator.portal.public_names import (
    AVG,
    ConsumeContext,
    ConsumeResult,
    LitePullConsumerConfig,
    Message,
    MessageExt,
    MessageQueue,
    ProducerConfig,
    PullConsumerConfig,
    PushConsumerConfig,
    RequestUnanswered,
    SendError,
    SendResult,
    Strategy,
    TransactionListener,
    TransactionProducerConfig,
)
from rocketmq_emulator.protocol.messages.subscription import SUB_ALL, TAG

if TYPE_CHECKING:
    from rocketmq_emulator.client.consumer.group.listeners import Listener
    from rocketmq_emulator.client.consumer.group.member import Expression, QueuesChanged
    from rocketmq_emulator.client.consumer.pull.lite_pull_pipeline import TopicQueuesChanged
    from rocketmq_emulator.client.consumer.push.message_loop import HandOver
    from rocketmq_emulator.client.instance.interfaces import Documents
    from rocketmq_emulator.client.producer.requests import RequestCallback
    from rocketmq_emulator.client.producer.send_attempts import Callback
    from rocketmq_emulator.portal.client_host import ClientTask


__all__ = [
    "ClientProcess",
    "LitePullConsumer",
    "Messages",
    "Producer",
    "PullConsumer",
    "PushConsumer",
    "Requesting",
    "Sending",
    "TransactionProducer",
]
__all__ += public_names.__all__

T = TypeVar("T")


class Producer(ProducerMethods):
    """Sends messages of one producer group.

    Settings are those of ``ProducerConfig``: give a whole one, or single fields by name.
    """

    def __init__(
        self,
        config: ProducerConfig | None = None,
        *,
        process: ClientProcess | None = None,
        **settings: object,
    ) -> None:
        core = CoreProducer(config, process=core_of(process, ClientProcess), **settings)
        super().__init__(core)

    @property
    def config(self) -> ProducerConfig:
        """The settings."""
        return self._core.config

    def start_send(
        self,
        message: Message,
        callback: Callback | None = None,
        *,
        queue: MessageQueue | None = None,
        timeout_ms: int | None = None,
        worker: int = 0,
    ) -> Sending:
        """Begin a send without waiting; ``await sending.wait_sent()`` returns the result.

        *callback* gets the result or the ``SendError``, in the loop of the caller.
        Raises ``Misuse``; ``TooManySends`` above ``async_sends_max``.
        """
        check_background_send(message, callback, queue, timeout_ms, worker)
        return start_in_background(
            self,
            message,
            lambda: Sending(LoopInbox.of_running_loop(), callback),
            lambda call: self._core.start_send(
                message, call.end, queue=queue, timeout_ms=timeout_ms, worker=worker
            ),
        )

    def start_request(
        self,
        message: Message,
        callback: RequestCallback | None = None,
        *,
        queue: MessageQueue | None = None,
        timeout_ms: int | None = None,
    ) -> Requesting:
        """Begin a request without waiting; ``await requesting.wait_reply()`` returns the reply.

        *callback* gets the reply, the ``SendError`` or ``RequestUnanswered``, the last up to a
        second late, in the loop of the caller.
        Raises ``Misuse``; ``TooManySends`` above ``async_sends_max``.
        """
        check_background_send(message, callback, queue, timeout_ms, 0)
        return start_in_background(
            self,
            message,
            lambda: Requesting(LoopInbox.of_running_loop(), callback),
            lambda call: self._core.start_request(
                message, call.end, queue=queue, timeout_ms=timeout_ms
            ),
        )


class TransactionProducer(TransactionProducerMethods, Producer):
    """A producer that also sends transactional messages, whose local transactions *listener* runs.

    A method of *listener* that is a coroutine function runs in the loop that the producer is
    started in; a plain function runs in threads.  Settings are those of
    ``TransactionProducerConfig``: give a whole one, or single fields by name.
    """

    def __init__(
        self,
        listener: TransactionListener,
        config: TransactionProducerConfig | None = None,
        *,
        process: ClientProcess | None = None,
        **settings: object,
    ) -> None:
        check_transaction_listener(listener)
        methods = {name: getattr(listener, name) for name in TRANSACTION_METHODS}
        self._in_loop = {
            name: _InStartLoop(method)
            for name, method in methods.items()
            if is_coroutine_function(method)
        }
        core = CoreTransactionProducer(
            cast("TransactionListener", SimpleNamespace(**{**methods, **self._in_loop})),
            config,
            process=core_of(process, ClientProcess),
            **settings,
        )
        PortalClient.__init__(self, core)

    @property
    def config(self) -> TransactionProducerConfig:
        """The settings."""
        return self._core.config

    def _before_open(self, host: ClientTask) -> None:
        for method in self._in_loop.values():
            method.start(self._loop_inbox, host)


class _InStartLoop:
    """A coroutine function that trio's thread calls, and that runs in the start loop."""

    def __init__(self, function: Callable[..., Awaitable[Any]]) -> None:
        self._function = function
        self._running: LoopFunction[Any] | None = None

    def start(self, home: LoopInbox, host: ClientTask) -> None:
        self._running = LoopFunction(home, host, self._function)

    async def __call__(self, *arguments: object) -> object:
        assert self._running is not None, "_before_open runs first"
        return await self._running.wait_done(*arguments)


class _InBackground(Generic[T]):
    """A call in progress.  ``result`` is set once it has ended."""

    results: ClassVar[tuple[type, ...]]  # all others are misuses, which get no callback

    def __init__(self, inbox: LoopInbox, callback: Callable[..., object] | None = None) -> None:
        self.result: Any = None
        self._inbox = inbox
        self._callback = callback
        self._done: asyncio.Future[T | Exception] = inbox.loop.create_future()

    def end(self, result: T | Exception) -> None:
        """Called once, in trio's thread, with the result of the call."""
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._inbox.soon(self._end, result)

    async def _wait(self) -> T:
        result = await asyncio.shield(self._done)
        if isinstance(result, Exception):
            raise result
        return result

    def _end(self, result: T | Exception) -> None:
        self._done.set_result(result)
        if isinstance(result, self.results):
            self.result = result
            if self._callback is not None:
                self._inbox.loop.call_soon(self._callback, result)


class Sending(_InBackground[SendResult]):
    """A send in progress.  ``result`` is set once it has ended."""

    results = (SendResult, SendError)

    async def wait_sent(self) -> SendResult:
        """Wait for the result.  Raises the ``SendError`` of the send.

        Cancelling this does not cancel the send.
        """
        return await self._wait()


class Requesting(_InBackground[MessageExt]):
    """A request in progress.  ``result`` is set once it has ended."""

    results = (MessageExt, SendError, RequestUnanswered)

    async def wait_reply(self) -> MessageExt:
        """Wait for the reply.  Raises ``SendError`` or ``RequestUnanswered``.

        Cancelling this does not cancel the request.
        """
        return await self._wait()


class PushConsumer(PushConsumerMethods):
    """Consumes topics as a member of one group.

    A *listener* is a function of the messages, or of the messages and a ``ConsumeContext``: a
    coroutine function runs in the loop that the consumer is started in, in at most
    ``consume_threads_max`` tasks; a plain function runs in threads.  Without a listener iterate
    over the messages: ``async for message in consumer``.

    *subscriptions* are expressions by topic: ``*``, ``TagA || TagB``, or a pair of an
    expression and its type, such as ``("price > 5", "SQL92")``.  Settings are those of
    ``PushConsumerConfig``: give a whole one, or single fields by name.
    ``on_queues(topic, all, mine)`` is called after every change of its queues, in
    the loop that the consumer is started in.
    """

    def __init__(
        self,
        listener: Listener | None = None,
        subscriptions: Mapping[str, str | tuple[str, str]] | None = None,
        config: PushConsumerConfig | None = None,
        *,
        process: ClientProcess | None = None,
        strategy: Strategy = AVG,
        documents: Documents | None = None,
        on_queues: QueuesChanged | None = None,
        **settings: object,
    ) -> None:
        self._in_loop: LoopFunction[ConsumeResult | None] | None = None
        self._listener: Callable[..., Any] | None = None
        if listener is not None and is_coroutine_function(listener):
            check_listener(listener)
            self._listener = listener if takes_context(listener) else _without_context(listener)
        core = CoreConsumer(
            listener if self._listener is None else self._listen,
            subscriptions,
            config,
            process=core_of(process, ClientProcess),
            strategy=strategy,
            documents=documents,
            on_queues=self._in_start_loop("on_queues", on_queues),
            **settings,
        )
        super().__init__(core)

    @property
    def config(self) -> PushConsumerConfig:
        """The settings."""
        return self._core.config

    def messages(self, *, timeout_s: float | None = None, count: int | None = None) -> Messages:
        """A loop over its messages; ``async for message in consumer`` is one without limits.

        It ends when none arrives for *timeout_s*, after *count*, and when the consumer ends.
        The next iteration acknowledges the message before; so does leaving the loop by
        ``break`` or ``return``.  After an exception the message is delivered again later.
        Raises ``Misuse`` if there is a listener.
        """
        return Messages(self, self._plain(lambda: self._core.loops), timeout_s, count)

    def __aiter__(self) -> Messages:
        return self.messages()

    def _before_open(self, host: ClientTask) -> None:
        if self._listener is not None:
            self._in_loop = LoopFunction(self._loop_inbox, host, self._listener)

    async def _listen(
        self, messages: list[MessageExt], context: ConsumeContext
    ) -> ConsumeResult | None:
        """Runs in trio's thread; the listener runs in the start loop."""
        assert self._in_loop is not None, "_before_open runs first"
        return await self._in_loop.wait_done(messages, context)


class Messages(MessageLoop):
    """A loop over the messages of *consumer*, in one task."""

    def __init__(
        self,
        consumer: PushConsumer,
        hand_over: HandOver,
        timeout_s: float | None,
        count: int | None,
    ) -> None:
        self._portal = consumer.portal
        super().__init__(hand_over, self._portal.soon, timeout_s, count)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> MessageExt:
        message = None
        if self._wants_more():
            inbox, ask = LoopInbox.of_running_loop(), self._current.wait_next
            message = self._receive(await CallFuture(inbox, self._portal, ask, self._timeout_s))
        if message is None:
            raise StopAsyncIteration
        return message


def _without_context(listener: Callable[..., Any]) -> Callable[..., Any]:
    return lambda messages, _context: listener(messages)


# Pull consumers -----------------------------------------------------------------------


class PullConsumer(PullConsumerMethods):
    """Pulls queues when its application calls it, as a member of one group.

    *subscriptions* are the topics in its heartbeats; it may pull others too.  The other parameters
    are those of ``PushConsumer``; settings by name are those of ``PullConsumerConfig``.
    """

    def __init__(
        self,
        subscriptions: Mapping[str, Expression] | None = None,
        config: PullConsumerConfig | None = None,
        *,
        process: ClientProcess | None = None,
        strategy: Strategy = AVG,
        documents: Documents | None = None,
        on_queues: QueuesChanged | None = None,
        **settings: object,
    ) -> None:
        core = CorePullConsumer(
            subscriptions,
            config,
            process=core_of(process, ClientProcess),
            strategy=strategy,
            documents=documents,
            on_queues=self._in_start_loop("on_queues", on_queues),
            **settings,
        )
        super().__init__(core)

    @property
    def config(self) -> PullConsumerConfig:
        """The settings."""
        return self._core.config


class LitePullConsumer(LitePullConsumerMethods):
    """Hands out messages by ``poll`` or in a loop, as a member of one group.

    *subscriptions* are as with ``PushConsumer``; without any, subscribe or assign later.
    *assign_expressions* are tags by topic, for assigned queues.  Settings by name are those
    of ``LitePullConsumerConfig``.  Callbacks of queues are called in the loop that the
    consumer is started in.
    """

    def __init__(
        self,
        subscriptions: Mapping[str, Expression] | None = None,
        config: LitePullConsumerConfig | None = None,
        *,
        process: ClientProcess | None = None,
        strategy: Strategy = AVG,
        documents: Documents | None = None,
        assign_expressions: Mapping[str, str] | None = None,
        on_queues: QueuesChanged | None = None,
        **settings: object,
    ) -> None:
        core = CoreLitePullConsumer(
            subscriptions,
            config,
            process=core_of(process, ClientProcess),
            strategy=strategy,
            documents=documents,
            assign_expressions=assign_expressions,
            on_queues=self._in_start_loop("on_queues", on_queues),
            **settings,
        )
        super().__init__(core)

    @property
    def config(self) -> LitePullConsumerConfig:
        """The settings."""
        return self._core.config

    async def subscribe(
        self,
        topic: str,
        expression: str = SUB_ALL,
        kind: str = TAG,
        *,
        on_queues: QueuesChanged | None = None,
    ) -> None:
        """Subscribe *topic* too, or with another expression; sends heartbeats at once.

        Its queues are assigned after the brokers have notified the group.  *on_queues* replaces
        the present callback, for all topics.  Raises ``BadSubscription``, and ``Misuse`` if queues
        are assigned by hand.
        """
        callback = self._in_start_loop("on_queues", on_queues)
        await self._call(self._core.subscribe, topic, expression, kind, on_queues=callback)

    async def register_topic_message_queue_change_listener(
        self, topic: str, listener: TopicQueuesChanged
    ) -> None:
        """Call ``listener(topic, queues)`` when the queues of *topic* change; checked every 30 s.

        One listener per topic: a second one replaces the first.  Raises the errors of
        ``fetch_message_queues``.
        """
        callback = self._in_start_loop("listener", listener, takes="topic, queues")
        assert callback is not None, "a listener was given"
        await self._call(self._core.register_topic_message_queue_change_listener, topic, callback)

    async def poll(self, timeout_ms: int | None = None) -> list[MessageExt]:
        """The messages of one pull; [] if none arrived within *timeout_ms*.

        First commits the messages of earlier polls, if that is due.  *timeout_ms* is by default
        ``poll_timeout_ms``.  A cancelled poll loses no message: the next poll returns it.
        """
        return await self._call_or_requeue(self._core.requeue, self._core.poll, timeout_ms)

    def __aiter__(self) -> Self:
        """``async for message in consumer`` polls repeatedly, until the loop is left."""
        return self

    async def __anext__(self) -> MessageExt:
        """The next message; a batch is committed after its last one."""
        return await self._call_or_requeue(self._requeue_one, self._core.__anext__)

    def _requeue_one(self, message: MessageExt) -> None:
        self._core.requeue([message])
