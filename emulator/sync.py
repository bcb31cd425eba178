"""The client for plain functions and threads: scripts, Django, Jupyter, pytest.

    from rocketmq_emulator.sync import Message, Producer

    with Producer(namesrv="127.0.0.1:9876", group="shop") as producer:
        producer.send(Message("orders", b"two cups"))

Names, settings and errors are those of the trio client, which does the work in one
background thread.  A client may be used from any number of threads.  If ``with`` cannot be
used, ``start`` and ``close`` do the same.  Ctrl-C cancels the call that waits.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar

from rocketmq_emulator.client import LitePullConsumer as CoreLitePullConsumer
from rocketmq_emulator.client import Producer as CoreProducer
from rocketmq_emulator.client import PullConsumer as CorePullConsumer
from rocketmq_emulator.client import PushConsumer as CoreConsumer
from rocketmq_emulator.client import TransactionProducer as CoreTransactionProducer
from rocketmq_emulator.client.consumer.push.message_loop import MessageLoop
from rocketmq_emulator.client.settings.arguments import (
    TRANSACTION_METHODS,
    check_background_send,
    check_timeout_s,
    check_transaction_listener,
    is_coroutine_function,
)
from rocketmq_emulator.portal import public_names
from rocketmq_emulator.portal.client_host import PortalClient, core_of, start_in_background
from rocketmq_emulator.portal.portal import Portal
from rocketmq_emulator.portal.public_names import *  # noqa: F403  # its __all__ is ours
from rocketmq_emulator.portal.public_names import (
    AVG,
    ClientMisuse,
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
from rocketmq_emulator.portal.sync_client import ClientProcess, in_callback_thread
from rocketmq_emulator.portal.sync_methods import (
    LitePullConsumerMethods,
    ProducerMethods,
    PullConsumerMethods,
    PushConsumerMethods,
    TransactionProducerMethods,
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
        super().__init__(CoreProducer(config, process=core_of(process, ClientProcess), **settings))

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
        """Begin a send without waiting; ``sending.wait_sent()`` returns the result.

        *callback* gets the result or the ``SendError``, in the thread of the callbacks: one at
        a time, so it should be quick; its exceptions are logged.
        Raises ``Misuse``; ``TooManySends`` above ``async_sends_max``.
        """
        check_background_send(message, callback, queue, timeout_ms, worker)
        return start_in_background(
            self,
            message,
            lambda: Sending(self.portal, callback),
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
        """Begin a request without waiting; ``requesting.wait_reply()`` returns the reply.

        *callback* gets the reply, the ``SendError`` or ``RequestUnanswered``, the last up to a
        second late, in the thread of the callbacks.
        Raises ``Misuse``; ``TooManySends`` above ``async_sends_max``.
        """
        check_background_send(message, callback, queue, timeout_ms, 0)
        return start_in_background(
            self,
            message,
            lambda: Requesting(self.portal, callback),
            lambda call: self._core.start_request(
                message, call.end, queue=queue, timeout_ms=timeout_ms
            ),
        )


class TransactionProducer(TransactionProducerMethods, Producer):
    """A producer that also sends transactional messages, whose local transactions *listener* runs.

    The methods of *listener* are plain functions; they are called in threads.  Settings are those
    of ``TransactionProducerConfig``: give a whole one, or single fields by name.
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
        for name in TRANSACTION_METHODS:
            if is_coroutine_function(getattr(listener, name)):
                raise ClientMisuse(
                    f"{name} of a listener of rocketmq_emulator.sync is a plain function; "
                    "for async functions use rocketmq_emulator.aio"
                )
        core = CoreTransactionProducer(
            listener, config, process=core_of(process, ClientProcess), **settings
        )
        PortalClient.__init__(self, core)

    @property
    def config(self) -> TransactionProducerConfig:
        """The settings."""
        return self._core.config


class _InBackground(Generic[T]):
    """A call in progress.  ``result`` is set once it has ended."""

    name: ClassVar[str]
    results: ClassVar[tuple[type, ...]]  # all others are misuses, which get no callback

    def __init__(self, portal: Portal, callback: Callable[..., object] | None = None) -> None:
        self.result: Any = None
        self._portal = portal
        self._callback = callback
        self._failure: Exception | None = None
        self._done_lock = threading.Lock()
        self._done_lock.acquire()  # until it ends

    def end(self, result: T | Exception) -> None:
        """Called once, in trio's thread, with the result of the call."""
        if isinstance(result, Exception):
            self._failure = result
        if isinstance(result, self.results):
            self.result = result
            if self._callback is not None:
                self._portal.call_back(self._callback, result)
        self._done_lock.release()

    def _wait(self, timeout_s: float | None) -> T:
        check_timeout_s(timeout_s)
        patience_s = -1 if timeout_s is None else min(timeout_s, threading.TIMEOUT_MAX)
        if not self._done_lock.acquire(timeout=patience_s):
            raise TimeoutError(f"the {self.name} is still under way after {timeout_s} s")
        self._done_lock.release()
        if self._failure is not None:
            raise self._failure
        result: T = self.result
        return result


class Sending(_InBackground[SendResult]):
    """A send in progress.  ``result`` is set once it has ended."""

    name, results = "send", (SendResult, SendError)

    def wait_sent(self, timeout_s: float | None = None) -> SendResult:
        """Wait for the result.  Raises the ``SendError`` of the send.

        Raises ``TimeoutError`` if the send has not ended after *timeout_s*; ``BadArgument``.
        """
        return self._wait(timeout_s)


class Requesting(_InBackground[MessageExt]):
    """A request in progress.  ``result`` is set once it has ended."""

    name, results = "request", (MessageExt, SendError, RequestUnanswered)

    def wait_reply(self, timeout_s: float | None = None) -> MessageExt:
        """Wait for the reply.  Raises ``SendError`` or ``RequestUnanswered``.

        Raises ``TimeoutError`` if the request has not ended after *timeout_s*; ``BadArgument``.
        """
        return self._wait(timeout_s)


class PushConsumer(PushConsumerMethods):
    """Consumes topics as a member of one group.

    A *listener* is a plain function of the messages, or of the messages and a ``ConsumeContext``;
    it is called in at most ``consume_threads_max`` threads.  Without a listener iterate over the
    messages: ``for message in consumer``.

    *subscriptions* are expressions by topic: ``*``, ``TagA || TagB``, or a pair of an
    expression and its type, such as ``("price > 5", "SQL92")``.  Settings are those of
    ``PushConsumerConfig``: give a whole one, or single fields by name.
    ``on_queues(topic, all, mine)`` is called after every change of its queues, in
    the thread of the callbacks.
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
        if listener is not None and is_coroutine_function(listener):
            raise ClientMisuse(
                "a listener of rocketmq_emulator.sync is a plain function; "
                "for async functions use rocketmq_emulator.aio"
            )
        core = CoreConsumer(
            listener,
            subscriptions,
            config,
            process=core_of(process, ClientProcess),
            strategy=strategy,
            documents=documents,
            on_queues=in_callback_thread("on_queues", on_queues),
            **settings,
        )
        super().__init__(core)

    @property
    def config(self) -> PushConsumerConfig:
        """The settings."""
        return self._core.config

    def messages(self, *, timeout_s: float | None = None, count: int | None = None) -> Messages:
        """A loop over its messages; ``for message in consumer`` is one without limits.

        It ends when none arrives for *timeout_s*, after *count*, and when the consumer ends.
        The next iteration acknowledges the message before; so does leaving the loop by
        ``break`` or ``return``.  After an exception the message is delivered again later.
        Raises ``Misuse`` if there is a listener.
        """
        return Messages(self, self._plain(lambda: self._core.loops), timeout_s, count)

    def __iter__(self) -> Messages:
        return self.messages()


class Messages(MessageLoop):
    """A loop over the messages of *consumer*, in one thread."""

    def __init__(
        self,
        consumer: PushConsumer,
        hand_over: HandOver,
        timeout_s: float | None,
        count: int | None,
    ) -> None:
        self._portal = consumer.portal
        super().__init__(hand_over, self._portal.soon, timeout_s, count)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> MessageExt:
        message = None
        if self._wants_more():
            found = self._portal.wait(self._current.wait_next, self._timeout_s)
            message = self._receive(found)
        if message is None:
            raise StopIteration
        return message


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
            on_queues=in_callback_thread("on_queues", on_queues),
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
    of ``LitePullConsumerConfig``.  Callbacks of queues are called in the thread of the
    callbacks.
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
            on_queues=in_callback_thread("on_queues", on_queues),
            **settings,
        )
        super().__init__(core)

    @property
    def config(self) -> LitePullConsumerConfig:
        """The settings."""
        return self._core.config

    def subscribe(
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
        callback = in_callback_thread("on_queues", on_queues)
        self._call(self._core.subscribe, topic, expression, kind, on_queues=callback)

    def register_topic_message_queue_change_listener(
        self, topic: str, listener: TopicQueuesChanged
    ) -> None:
        """Call ``listener(topic, queues)`` when the queues of *topic* change; checked every 30 s.

        One listener per topic: a second one replaces the first.  Raises the errors of
        ``fetch_message_queues``.
        """
        callback = in_callback_thread("listener", listener, takes="topic, queues")
        assert callback is not None, "a listener was given"
        self._call(self._core.register_topic_message_queue_change_listener, topic, callback)

    def poll(self, timeout_ms: int | None = None) -> list[MessageExt]:
        """The messages of one pull; [] if none arrived within *timeout_ms*.

        First commits the messages of earlier polls, if that is due.  *timeout_ms* is by default
        ``poll_timeout_ms``.  A poll that Ctrl-C ends loses no message: the next poll returns it.
        """
        return self.portal.wait_or_requeue(self._core.requeue, self._core.poll, timeout_ms)

    def __iter__(self) -> Self:
        """``for message in consumer`` polls repeatedly, until the loop is left."""
        return self

    def __next__(self) -> MessageExt:
        """The next message; a batch is committed after its last one."""
        return self.portal.wait_or_requeue(self._requeue_one, self._core.__anext__)

    def _requeue_one(self, message: MessageExt) -> None:
        self._core.requeue([message])
