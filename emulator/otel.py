"""OpenTelemetry: spans for messages that are sent, received and processed, in one trace.

    from rocketmq_emulator import otel

    producer = otel.instrument(Producer(namesrv=…, group="shop"))
    consumer = PushConsumer(otel.traced(on_orders, group="billing"), {"orders": "*"}, …)

    for message in consumer.messages():  # without a listener
        with otel.processing([message], group="billing"):
            ...

It works alike for the clients for trio, threads and asyncio.  The context of a send is carried in
the message's properties (W3C ``traceparent``, by OpenTelemetry's global propagator).  Names follow
OpenTelemetry's semantic conventions for messaging, ``SCHEMA_URL``.  Needs the extra ``otel``
(``pip install 'rocketmq-emulator[otel]'``), which nothing else in this package imports.
"""

from __future__ import annotations

import functools
import inspect
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar, cast

try:
    from opentelemetry import propagate, trace
    from opentelemetry.context import Context
    from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode
except ModuleNotFoundError as error:
    error.add_note("it is in the extra otel: pip install 'rocketmq-emulator[otel]'")
    raise

from rocketmq_emulator.client.consumer.group.listeners import ConsumeResult
from rocketmq_emulator.errors.call_errors import BadArgument
from rocketmq_emulator.protocol.messages import properties as prop
from rocketmq_emulator.protocol.messages.message import Message
from rocketmq_emulator.protocol.messages.properties import split_keys

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

    from rocketmq_emulator.client import MessageExt, SendError, SendResult
    from rocketmq_emulator.client.producer.send_attempts import Callback

__all__ = ["SCHEMA_URL", "instrument", "processing", "traced"]

SCHEMA_URL = "https://opentelemetry.io/schemas/1.44.0"
SYSTEM = "rocketmq"
FAILED_RESULTS = frozenset(
    {ConsumeResult.RECONSUME_LATER, ConsumeResult.SUSPEND, ConsumeResult.ROLLBACK}
)

Client = TypeVar("Client")
Listener = TypeVar("Listener", bound=Callable[..., Any])


def instrument(client: Client, *, provider: TracerProvider | None = None) -> Client:
    """*client* itself, whose sends, or polls and pulls, make spans from now on.

    A producer gets a PRODUCER span ``send <topic>`` a message, and its context goes with the
    message; a batch gets a ``create`` span a message, and a CLIENT span ``send`` linked to them.
    A consumer that polls or pulls gets a CLIENT span ``receive <topic>``, linked to the contexts.
    *provider* replaces the global one.  Raises ``BadArgument`` for an object without such calls.
    """
    spans = _Spans(provider)
    found = [name for name in _WRAPPERS if callable(getattr(client, name, None))]
    if not found:
        kind = type(client).__name__
        raise BadArgument(f"a {kind} sends, polls and pulls nothing: use traced for a listener")
    for name in found:
        setattr(client, name, _WRAPPERS[name](getattr(client, name), spans, _group_of(client)))
    return client


def traced(listener: Listener, *, group: str, provider: TracerProvider | None = None) -> Listener:
    """A listener that calls *listener* in a CONSUMER span ``process <topic>``.

    The span is linked to the contexts of the messages' sends; that of a single message is also
    its parent, so one trace shows both ends.  An exception or a result that is a failure sets
    ``error.type``.
    """
    if inspect.iscoroutinefunction(listener):

        @functools.wraps(listener)
        async def listening(messages: list[MessageExt], *context: object) -> object:
            with processing(messages, group=group, provider=provider) as span:
                return _noted(span, await listener(messages, *context))

        return listening  # type: ignore[return-value]

    @functools.wraps(listener)
    def called(messages: list[MessageExt], *context: object) -> object:
        with processing(messages, group=group, provider=provider) as span:
            return _noted(span, listener(messages, *context))

    return called  # type: ignore[return-value]


@contextmanager
def processing(
    messages: Sequence[MessageExt], *, group: str, provider: TracerProvider | None = None
) -> Iterator[Span]:
    """A CONSUMER span ``process <topic>`` around a block that handles *messages*."""
    spans = _Spans(provider)
    links = _links(messages)
    parent = None
    if len(messages) == 1 and links:
        parent = trace.set_span_in_context(trace.NonRecordingSpan(links[0].context))
    with spans.tracer.start_as_current_span(
        f"process {messages[0].topic}",
        parent,
        SpanKind.CONSUMER,
        _consumed(messages, "process", group),
        links,
        record_exception=True,
        set_status_on_exception=False,
    ) as span:
        try:
            yield span
        except Exception as error:
            _fail(span, type(error).__qualname__, str(error))
            raise


def _noted(span: Span, result: object) -> object:
    if result in FAILED_RESULTS:
        assert isinstance(result, ConsumeResult)
        _fail(span, result.name, "the listener asks for another delivery")
    return result


# Sending ------------------------------------------------------------------------------


class _Spans:
    """Makes spans with the tracer of one provider."""

    def __init__(self, provider: TracerProvider | None) -> None:
        self.tracer = trace.get_tracer(
            "rocketmq_emulator", tracer_provider=provider, schema_url=SCHEMA_URL
        )

    def sending(self, message: Message) -> Span:
        """Start the span of a send and write its context into *message*."""
        return self._producing("send", message)

    def creating(self, messages: Sequence[Message]) -> list[Link]:
        """Write a context of its own into each message of a batch; returns links to them."""
        links = []
        for message in messages:
            span = self._producing("create", message)
            span.end()
            links.append(Link(span.get_span_context()))
        return links

    def _producing(self, operation: str, message: Message) -> Span:
        attributes = {
            **_operation(operation, message.topic),
            "messaging.message.body.size": len(message.body),
            **_rocketmq(message.properties),
        }
        span = self.tracer.start_span(
            f"{operation} {message.topic}", kind=SpanKind.PRODUCER, attributes=attributes
        )
        propagate.inject(message.properties, trace.set_span_in_context(span))
        return span

    def sending_batch(self, messages: Sequence[Message], links: list[Link]) -> Span:
        """Start the span of a batch's send."""
        topic = messages[0].topic
        attributes = {
            **_operation("send", topic),
            "messaging.batch.message_count": len(messages),
        }
        return self.tracer.start_span(
            f"send {topic}", kind=SpanKind.CLIENT, attributes=attributes, links=links
        )


def _ended(span: Span, result: SendResult | BaseException | None) -> None:
    """End the *span* of a send that returned *result*, or raised it; None: one-way."""
    if isinstance(result, BaseException):
        span.record_exception(result)
        _fail(span, type(result).__qualname__, str(result))
    elif result is not None:
        span.set_attribute("messaging.message.id", result.msg_id)
        span.set_attribute("messaging.destination.partition.id", str(result.queue.queue_id))
        if not result.is_ok:
            _fail(span, result.status.value, "stored, not as safely as configured")
    span.end()


# A wrong argument gets no span: the call itself refuses it.


def _wrap_send(send: Callable[..., Any], spans: _Spans, _group: str) -> Callable[..., Any]:
    def started(given: object) -> tuple[object, Span]:
        return given, spans.sending(given) if isinstance(given, Message) else NO_SPAN

    return _around(send, started)


def _wrap_batch(send: Callable[..., Any], spans: _Spans, _group: str) -> Callable[..., Any]:
    def started(given: object) -> tuple[object, Span]:
        if not isinstance(given, Iterable):
            return given, NO_SPAN
        messages = list(given)  # it may be an iterator
        if not messages or not all(isinstance(each, Message) for each in messages):
            return messages, NO_SPAN
        return messages, spans.sending_batch(messages, spans.creating(messages))

    return _around(send, started)


NO_SPAN = trace.INVALID_SPAN


def _around(
    send: Callable[..., Any], started: Callable[[object], tuple[object, Span]]
) -> Callable[..., Any]:
    """*send*, awaited or not, in a span; *started* starts it with the first argument."""
    if inspect.iscoroutinefunction(send):

        @functools.wraps(send)
        async def waited(given: object, *rest: object, **named: object) -> object:
            given, span = started(given)
            try:
                with trace.use_span(span, record_exception=False, set_status_on_exception=False):
                    result = await send(given, *rest, **named)
            except BaseException as error:
                _ended(span, error)
                raise
            _ended(span, result)
            return result

        return waited

    @functools.wraps(send)
    def blocked(given: object, *rest: object, **named: object) -> object:
        given, span = started(given)
        try:
            with trace.use_span(span, record_exception=False, set_status_on_exception=False):
                result = send(given, *rest, **named)
        except BaseException as error:
            _ended(span, error)
            raise
        _ended(span, result)
        return result

    return blocked


def _wrap_start(send: Callable[..., Any], spans: _Spans, _group: str) -> Callable[..., Any]:
    """``start_send``: its span ends when the send does."""

    @functools.wraps(send)
    def start(message: Message, callback: Callback | None = None, **named: object) -> object:
        span = spans.sending(message) if isinstance(message, Message) else NO_SPAN

        def over(result: SendResult | SendError) -> None:
            _ended(span, result)
            if callback is not None:
                callback(result)

        try:
            return send(message, over, **named)
        except BaseException as error:
            _ended(span, error)
            raise

    return start


# Receiving ----------------------------------------------------------------------------


def _wrap_receive(receive: Callable[..., Any], spans: _Spans, group: str) -> Callable[..., Any]:
    """``poll`` and ``pull``; one that returns no message makes no span."""
    if inspect.iscoroutinefunction(receive):

        @functools.wraps(receive)
        async def waited(*given: object, **named: object) -> object:
            began_ns = time.time_ns()
            result = await receive(*given, **named)
            _received(spans, result, group, began_ns)
            return result

        return waited

    @functools.wraps(receive)
    def blocked(*given: object, **named: object) -> object:
        began_ns = time.time_ns()
        result = receive(*given, **named)
        _received(spans, result, group, began_ns)
        return result

    return blocked


def _received(spans: _Spans, result: object, group: str, began_ns: int) -> None:
    messages: Sequence[MessageExt] = cast("Any", getattr(result, "messages", result))
    if messages:
        spans.tracer.start_span(
            f"receive {messages[0].topic}",
            kind=SpanKind.CLIENT,
            attributes=_consumed(messages, "receive", group),
            links=_links(messages),
            start_time=began_ns,
        ).end()


_WRAPPERS: dict[str, Callable[[Callable[..., Any], _Spans, str], Callable[..., Any]]] = {
    "send": _wrap_send,
    "send_to_selected": _wrap_send,
    "send_oneway": _wrap_send,
    "send_batch": _wrap_batch,
    "start_send": _wrap_start,
    "poll": _wrap_receive,
    "pull": _wrap_receive,
}


# Attributes ---------------------------------------------------------------------------


def _operation(name: str, topic: str) -> dict[str, Any]:
    return {
        "messaging.system": SYSTEM,
        "messaging.operation.name": name,
        "messaging.operation.type": name,
        "messaging.destination.name": topic,
    }


def _consumed(messages: Sequence[MessageExt], operation: str, group: str) -> dict[str, Any]:
    """Of one message its id, size and the rest; of several only their count."""
    first = messages[0]
    attributes = {
        **_operation(operation, first.topic),
        "messaging.consumer.group.name": group,
    }
    if len(messages) > 1:
        return {**attributes, "messaging.batch.message_count": len(messages)}
    return {
        **attributes,
        "messaging.message.id": first.msg_id,
        "messaging.message.body.size": len(first.body),
        "messaging.destination.partition.id": str(first.queue_id),
        **_rocketmq(first.properties),
    }


def _rocketmq(given: Mapping[str, str]) -> dict[str, Any]:
    attributes: dict[str, Any] = {"messaging.rocketmq.message.type": _type_of(given)}
    if tag := given.get(prop.TAGS):
        attributes["messaging.rocketmq.message.tag"] = tag
    if keys := split_keys(given.get(prop.KEYS)):
        attributes["messaging.rocketmq.message.keys"] = keys
    if (level := given.get(prop.DELAY, "")).isdecimal():
        attributes["messaging.rocketmq.message.delay_time_level"] = int(level)
    if (at_ms := given.get(prop.TIMER_DELIVER_MS, "")).isdecimal():
        attributes["messaging.rocketmq.message.delivery_timestamp"] = int(at_ms)
    return attributes


DELAYS = frozenset({prop.DELAY, prop.TIMER_DELAY_MS, prop.TIMER_DELAY_SEC, prop.TIMER_DELIVER_MS})


def _type_of(given: Mapping[str, str]) -> str:
    if given.get(prop.TRAN_MSG) == "true":
        return "transaction"
    if DELAYS & given.keys():
        return "delay"
    return "fifo" if prop.SHARDING_KEY in given else "normal"


def _links(messages: Sequence[MessageExt]) -> list[Link]:
    """Links to the contexts that the messages carry; not to the current span."""
    carried = [propagate.extract(message.properties, Context()) for message in messages]
    spans = [trace.get_current_span(context).get_span_context() for context in carried]
    return [Link(span) for span in spans if span.is_valid]


def _fail(span: Span, kind: str, text: str) -> None:
    span.set_attribute("error.type", kind)
    span.set_status(Status(StatusCode.ERROR, text))


def _group_of(client: object) -> str:
    return str(getattr(getattr(client, "config", None), "group", ""))
