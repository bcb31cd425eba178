"""The client for plain functions and threads: scripts, Django, Jupyter, pytest.

    from rocketmq_emulator.sync import Message, Producer

    with Producer(namesrv="127.0.0.1:9876", group="shop") as producer:
        producer.send(Message("orders", b"two cups"))

Names, settings and errors are those of the trio client, which does the work in one
background thread.  A client may be used from any number of threads.  Where a ``with`` does
not fit, ``start`` and ``close`` do the same.  Ctrl-C cancels the call that waits.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

from emulator.client import Producer as CoreProducer
from emulator.client import PushConsumer as CoreConsumer
from emulator.client.arguments import (
    check_background_send,
    check_timeout_s,
    is_coroutine_function,
)
from emulator.client.consumer.message_loop import MessageLoop
from emulator.client.producer.outgoing_message import check
from rocketmq_emulator import _names
from rocketmq_emulator._host import core_of
from rocketmq_emulator._names import *  # noqa: F403  # its __all__ is ours
from rocketmq_emulator._names import (
    AVG,
    Message,
    MessageExt,
    MessageQueue,
    Misuse,
    ProducerConfig,
    PushConsumerConfig,
    SendError,
    SendResult,
    Strategy,
    TooManySends,
)
from rocketmq_emulator._portal import Portal
from rocketmq_emulator._sync_client import ClientProcess, called_back
from rocketmq_emulator._sync_methods import ProducerMethods, PushConsumerMethods
from rocketmq_emulator._sync_pull import LitePullConsumer, PullConsumer

if TYPE_CHECKING:
    from emulator.client.consumer.consume_pipeline import QueuesChanged
    from emulator.client.consumer.hand_over import HandOver
    from emulator.client.consumer.listeners import Listener
    from emulator.client.instance.interfaces import Documents
    from emulator.client.producer.async_send import Callback

__all__ = [
    "ClientProcess",
    "LitePullConsumer",
    "Messages",
    "Producer",
    "PullConsumer",
    "PushConsumer",
    "Sending",
]
__all__ += _names.__all__


class Producer(ProducerMethods):
    """Sends messages of one producer group.

    Settings are those of ``ProducerConfig``: give a whole one, or single fields by name.
    """

    def __init__(
        self,
        config: ProducerConfig | None = None,
        *,
        process: ClientProcess | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(CoreProducer(config, process=core_of(process, ClientProcess), **settings))

    @property
    def config(self) -> ProducerConfig:
        """Its settings."""
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
        """Begin a send and go on; ``sending.wait_sent()`` for the result.

        *callback* gets the result or the ``SendError``, in a thread of the callbacks: one at
        a time, so it should be quick; what it raises is logged.
        Raises ``Misuse``; ``TooManySends`` above ``async_sends_max``.
        """
        check_background_send(message, callback, queue, timeout_ms, worker)
        check(message, self.config)
        if self.portal.backlog >= self.config.async_sends_max:
            raise TooManySends(f"{self.portal.backlog} sends have not begun yet")
        sending = Sending(self.portal, callback)

        def begin() -> None:
            try:
                self._core.start_send(
                    message, sending.end, queue=queue, timeout_ms=timeout_ms, worker=worker
                )
            except Exception as error:  # noqa: BLE001  # whatever it raises is its end
                sending.end(error)

        self.portal.soon(begin)
        return sending


class Sending:
    """A send under way.  ``result`` is there once it is over."""

    def __init__(self, portal: Portal, callback: Callback | None = None) -> None:
        self.result: SendResult | SendError | None = None
        self._portal = portal
        self._callback = callback
        self._failure: Exception | None = None
        self._is_under_way = threading.Lock()
        self._is_under_way.acquire()  # until it ends

    def wait_sent(self, timeout_s: float | None = None) -> SendResult:
        """Where the message was stored.  Raises the ``SendError`` it ended with.

        Raises ``TimeoutError`` when it is still under way after *timeout_s*; ``BadArgument``.
        """
        check_timeout_s(timeout_s)
        patience_s = -1 if timeout_s is None else min(timeout_s, threading.TIMEOUT_MAX)
        if not self._is_under_way.acquire(timeout=patience_s):
            raise TimeoutError(f"the send is still under way after {timeout_s} s")
        self._is_under_way.release()
        if self._failure is not None:
            raise self._failure
        assert isinstance(self.result, SendResult), "over without a result"
        return self.result

    def end(self, result: SendResult | Exception) -> None:
        """Called once, in trio's thread, with what the send came to."""
        if isinstance(result, Exception):
            self._failure = result
        if isinstance(result, SendResult | SendError):
            self.result = result
            if self._callback is not None:
                self._portal.call_back(self._callback, result)
        self._is_under_way.release()


class PushConsumer(PushConsumerMethods):
    """Consumes topics as a member of one group.

    With a *listener*, a plain function of the messages or of the messages and a
    ``ConsumeContext``: it is called in threads, ``consume_threads_max`` at most.  Without one
    its messages come in a loop: ``for message in consumer``.

    *subscriptions* are expressions by topic: ``*``, ``TagA || TagB``, or a pair of an
    expression and its type, such as ``("price > 5", "SQL92")``.  Settings are those of
    ``PushConsumerConfig``: give a whole one, or single fields by name.
    ``on_queues(topic, all, mine)`` is called after every change of the queues it holds, in
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
        **settings: Any,
    ) -> None:
        if listener is not None and is_coroutine_function(listener):
            raise Misuse(
                "a listener of rocketmq_emulator.sync is a plain function; "
                "for async ones there is rocketmq_emulator.aio"
            )
        core = CoreConsumer(
            listener,
            subscriptions,
            config,
            process=core_of(process, ClientProcess),
            strategy=strategy,
            documents=documents,
            on_queues=called_back("on_queues", on_queues),
            **settings,
        )
        super().__init__(core)

    @property
    def config(self) -> PushConsumerConfig:
        """Its settings."""
        return self._core.config

    def messages(self, *, timeout_s: float | None = None, count: int | None = None) -> Messages:
        """A loop over its messages; ``for message in consumer`` is one without limits.

        It ends when none comes for *timeout_s*, after *count*, and when the consumer ends.
        Asking for the next message acknowledges the last one; so does leaving the loop by
        ``break`` or ``return``.  After an exception it comes again later.
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
            found = self._portal.wait(self._in_hand.wait_next, self._timeout_s)
            message = self._receive(found)
        if message is None:
            raise StopIteration
        return message
