"""Requests: a message is sent, and a reply comes back from whoever consumes it.

A request is an ordinary message with three more properties: a correlation id, this client's id
and the time that the requester waits.  Its consumer sends the reply to a topic of the cluster, and
the broker pushes it to the client id, so the broker must have had a heartbeat of this client.  If
the topic's route is not known yet, heartbeats are sent before the request.
A reply can only go to a broker that this client knows: brokers in routes of its topics.

Requests end once: with the reply, with the ``SendError`` of a send that failed, or with
``RequestUnanswered``, which has the place where the request is stored.  Upstream's callback is
also called when the request was *sent*, without a message, and 5.3.1 to 5.3.3 end an awaited
request then; here the reply alone ends it.

Upstream: DefaultMQProducerImpl.request, prepareSendRequest; RequestResponseFuture; MessageUtil.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeAlias

import trio

from rocketmq_emulator.client.instance.plain_functions import callback_raised
from rocketmq_emulator.errors.call_errors import (
    ClientErrorCode,
    NotARequest,
    RequestUnanswered,
    SendError,
    SendNotWritten,
    TooManySends,
)
from rocketmq_emulator.facts import ReplyReceived, RequestGivenUp, RequestSent
from rocketmq_emulator.protocol.messages.message import Message, MessageExt
from rocketmq_emulator.protocol.messages.names import reply_topic
from rocketmq_emulator.protocol.messages.properties import (
    CLUSTER,
    CORRELATION_ID,
    MSG_TYPE,
    REPLY,
    REPLY_TO_CLIENT,
    TTL,
)

if TYPE_CHECKING:
    from rocketmq_emulator.client.instance.instance import ClientInstance
    from rocketmq_emulator.client.producer.publish_info import TopicPublishInfoTable
    from rocketmq_emulator.client.producer.send_attempts import Callback
    from rocketmq_emulator.client.producer.send_kernel import SendResult
    from rocketmq_emulator.client.settings.config import ProducerConfig
    from rocketmq_emulator.facts.clients import RequestEnd
    from rocketmq_emulator.net.timers import Timer
    from rocketmq_emulator.protocol.queues import MessageQueue

RequestResult: TypeAlias = "MessageExt | SendError | RequestUnanswered"
RequestCallback: TypeAlias = Callable[[RequestResult], object]


def create_reply_message(request: MessageExt, body: bytes) -> Message:
    """A reply to *request*, which was consumed, to send by any producer.

    Raises ``NotARequest``.  Upstream: MessageUtil.createReplyMessage.
    """
    given = request.properties
    for name in (CLUSTER, REPLY_TO_CLIENT, CORRELATION_ID):
        if not given.get(name):
            raise NotARequest(
                f"create reply message fail, requestMessage error, property[{name}] is null.",
                code=ClientErrorCode.CREATE_REPLY_MESSAGE,
            )
    copied = (CORRELATION_ID, REPLY_TO_CLIENT, TTL)
    properties = {MSG_TYPE: REPLY, **{name: given[name] for name in copied if given.get(name)}}
    return Message(reply_topic(given[CLUSTER]), body, properties=properties)


class Requesting:
    """A request in the background; ``result`` is set when it is over."""

    __slots__ = ("_callback", "_done", "result")

    def __init__(self, callback: RequestCallback | None = None) -> None:
        self.result: RequestResult | None = None
        self._callback = callback
        self._done = trio.Event()

    async def wait_reply(self) -> MessageExt:
        """Wait for the reply.  Raises ``SendError`` or ``RequestUnanswered``."""
        await self._done.wait()
        if isinstance(self.result, Exception):
            raise self.result
        assert self.result is not None, "over without a result"
        return self.result

    def end(self, result: RequestResult) -> None:
        """Set the result and call the callback; called once by the producer."""
        self.result = result
        self._done.set()
        if self._callback is not None:
            self._callback(result)


class Sender(Protocol):
    """What requests need of a producer group: ``SendPipeline``."""

    config: ProducerConfig
    group: str
    instance: ClientInstance
    table: TopicPublishInfoTable

    def start_send(
        self,
        message: Message,
        callback: Callback | None = None,
        *,
        queue: MessageQueue | None = None,
        timeout_ms: int | None = None,
    ) -> object:
        """Start a send in the background; *callback* gets its result or error."""
        ...


class RequestSender:
    """The requests of one producer group."""

    def __init__(self, pipeline: Sender) -> None:
        self._pipeline = pipeline
        self._under_way: dict[_Request, None] = {}

    async def request(
        self, message: Message, queue: MessageQueue | None, timeout_ms: int
    ) -> MessageExt:
        """Send *message*, and wait for its reply; *timeout_ms* is for both together.

        Raises ``Misuse``, ``NotStored``, ``MaybeStored``, ``RequestUnanswered``.
        """
        request = self._begin(message, Requesting(), timeout_ms)
        try:
            with trio.move_on_at(request.began_s + timeout_ms / 1_000):
                await self._prepare(message.topic)
                self._send(request, message, queue)
                await request.requesting.wait_reply()
            request.time_out()
            return await request.requesting.wait_reply()
        finally:
            request.give_up("cancelled")  # no effect if it is over

    def start_request(
        self,
        message: Message,
        callback: RequestCallback | None,
        queue: MessageQueue | None,
        timeout_ms: int,
    ) -> Requesting:
        """Start a request in the background; it times out at a sweep.

        Raises ``Misuse``, ``TooManySends``.
        """
        request = self._begin(message, Requesting(callback), timeout_ms)
        instance = self._pipeline.instance
        if message.topic in instance.routes.table:
            try:
                self._send(request, message, queue)
            except Exception:
                request.give_up("not sent")  # only the caller gets the error
                raise
        else:
            instance.nursery.start_soon(self._send_later, request, message, queue)
        due_s = request.began_s + timeout_ms / 1_000
        at_s = instance.requests.sweep_after(due_s)
        request.timer = instance.remoting.timers.at(at_s, request.time_out)
        return request.requesting

    def close(self) -> None:
        """End all requests: their callbacks get ``RequestUnanswered``."""
        for request in list(self._under_way):
            request.fail("closed", "the producer was closed before a reply came")

    # Inside ---------------------------------------------------------------------------

    def _begin(self, message: Message, requesting: Requesting, timeout_ms: int) -> _Request:
        """Mark *message* as a request that waits.  Upstream: prepareSendRequest."""
        pipeline = self._pipeline
        if len(self._under_way) >= pipeline.config.async_sends_max:
            raise TooManySends(f"{len(self._under_way)} requests wait for their replies")
        random_bits = pipeline.instance.rng.getrandbits(128)
        correlation_id = str(uuid.UUID(int=random_bits, version=4))
        message.properties[CORRELATION_ID] = correlation_id
        message.properties[REPLY_TO_CLIENT] = pipeline.instance.client_id
        message.properties[TTL] = str(timeout_ms)
        request = _Request(pipeline, message, requesting, timeout_ms, self._under_way.pop)
        self._under_way[request] = None
        return request

    async def _prepare(self, topic: str) -> None:
        """Without a known route: query it, and let its brokers know this client."""
        instance = self._pipeline.instance
        if topic not in instance.routes.table:
            await self._pipeline.table.find(topic)
            await instance.heartbeats.send_round()

    def _send(self, request: _Request, message: Message, queue: MessageQueue | None) -> None:
        left_ms = request.timeout_ms - request.waited_ms()
        self._pipeline.start_send(message, request.sent, queue=queue, timeout_ms=max(0, left_ms))

    async def _send_later(
        self, request: _Request, message: Message, queue: MessageQueue | None
    ) -> None:
        """Prepare and send; any error ends only this request."""
        try:
            await self._prepare(message.topic)
            if not request.is_over:
                self._send(request, message, queue)
        except SendError as error:
            request.sent(error)
        except Exception as error:  # noqa: BLE001
            request.sent(SendNotWritten(f"{message.topic}: {error!r}"))


class _Request:
    """One request, from its call to its end."""

    def __init__(
        self,
        pipeline: Sender,
        message: Message,
        requesting: Requesting,
        timeout_ms: int,
        on_end: Callable[[_Request], object],
    ) -> None:
        self.requesting = requesting
        self.timeout_ms = timeout_ms
        self.began_s = trio.current_time()
        self.is_over = False
        self.timer: Timer | None = None
        self._on_end = on_end
        self._pipeline = pipeline
        self._instance = pipeline.instance
        self._message = message
        self._topic = message.topic
        self._correlation_id = message.properties[CORRELATION_ID]
        self._stored: SendResult | None = None
        self._instance.requests.add(self._correlation_id, self._replied)

    def waited_ms(self) -> int:
        """Since the call."""
        return round((trio.current_time() - self.began_s) * 1_000)

    def sent(self, result: SendResult | SendError) -> None:
        """The send has ended: the request waits for its reply, or has failed."""
        if self.is_over:
            return
        if isinstance(result, SendError):
            self.give_up("not sent")
            self._finish(result)
            return
        self._stored = result
        key = result.msg_id
        self._instance.note(RequestSent(self._topic, self._correlation_id, key, self.timeout_ms))

    def time_out(self) -> None:
        """The time is over: end without a reply, unless it is over already."""
        self.fail("timeout", f"no reply within {self.timeout_ms} ms")

    def fail(self, why: RequestEnd, text: str) -> None:
        """End with ``RequestUnanswered``, unless it is over already."""
        if self.is_over:
            return
        self.give_up(why)
        stored = self._stored
        error = RequestUnanswered(
            f"{self._topic}: {text}; {_where(stored)}",
            code=ClientErrorCode.REQUEST_TIMEOUT,
            queue=None if stored is None else stored.queue,
            queue_offset=None if stored is None else stored.queue_offset,
        )
        self._finish(error)

    def give_up(self, why: RequestEnd) -> None:
        """End without a result, unless it is over already."""
        if not self.is_over:
            self._instance.requests.end(self._correlation_id, why)
            self._end()
            waited_ms, is_stored = self.waited_ms(), self._stored is not None
            self._instance.note(
                RequestGivenUp(self._topic, self._correlation_id, waited_ms, is_stored, why)
            )

    def _replied(self, reply: MessageExt) -> None:
        self._end()
        took_ms = self.waited_ms()
        self._instance.note(ReplyReceived(self._topic, self._correlation_id, took_ms))
        self._finish(reply)

    def _end(self) -> None:
        self.is_over = True
        self._on_end(self)
        if self.timer is not None:
            self.timer.cancel()

    def _finish(self, result: RequestResult) -> None:
        try:
            self.requesting.end(result)
        except Exception as error:  # noqa: BLE001  # any error of the callback is noted
            self._instance.note(callback_raised(self._pipeline.group, "callback", error))


def _where(stored: SendResult | None) -> str:
    if stored is None:
        return "its send was not answered, so the request may be stored"
    queue = stored.queue
    return (
        f"the request is stored in queue {queue.queue_id} of {queue.broker_name} at offset "
        f"{stored.queue_offset}, so it may still be consumed, and its reply dropped"
    )
