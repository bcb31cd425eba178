"""Checks of the arguments that an application passes to a client's methods.

Each raises ``BadArgument`` with one sentence, in the call itself and before anything is sent.
Without these checks a wrong argument would fail later in a task of the client, far from the line
that passes it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from types import FunctionType, MethodType
from typing import Any

from rocketmq_emulator.errors.call_errors import BadArgument, BadSubscription, MessageIllegal
from rocketmq_emulator.protocol.messages.message import Message, MessageExt
from rocketmq_emulator.protocol.messages.subscription import TAG
from rocketmq_emulator.protocol.messages.validation import is_legal, short_repr, type_error_text
from rocketmq_emulator.protocol.queues import MessageQueue

# Sends --------------------------------------------------------------------------------


def check_message(message: object) -> None:
    """Check for a ``Message`` whose fields still have their types."""
    if not isinstance(message, Message):
        raise BadArgument(
            f"{type_error_text('the message', 'a Message', message)}: Message('topic', b'body')"
        )
    if type(message.body) is not bytes:
        raise BadArgument(type_error_text("body", "bytes", message.body))
    if not isinstance(message.topic, str):
        raise BadArgument(type_error_text("topic", "a str", message.topic))
    if not isinstance(message.flag, int):
        raise BadArgument(type_error_text("flag", "an int", message.flag))
    if not isinstance(message.properties, dict):
        raise BadArgument(
            type_error_text("properties", "a dict of str to str", message.properties)
        )


def check_background_send(
    message: object, callback: object, queue: object, timeout_ms: object, worker: object
) -> None:
    """Check the arguments of ``start_send`` before its task starts."""
    check_timing(timeout_ms, worker)
    check_message(message)
    if queue is not None:
        check_queue(queue, message.topic)  # type: ignore[attr-defined]
    if callback is not None:
        check_plain_function("callback", callback, takes="result")


def check_request(request: object) -> None:
    """Check for a consumed message, to which a reply is sent."""
    if not isinstance(request, MessageExt):
        raise BadArgument(type_error_text("the request", "a consumed MessageExt", request))


def messages_of(batch: object) -> list[Message]:
    """*batch* as a list; its messages are checked later, by ``prepare_batch``."""
    if isinstance(batch, Iterable) and not isinstance(batch, str | bytes | Mapping):
        return list(batch)
    raise BadArgument(type_error_text("a batch", "a list of Messages", batch))


def check_queue(queue: object, topic: str) -> None:
    """Check for a ``MessageQueue`` of *topic*."""
    check_is_queue(queue)
    if queue.topic != topic:  # type: ignore[attr-defined]
        raise MessageIllegal(f"a message of topic {topic} cannot be sent to {queue}")


def check_is_queue(queue: object) -> None:
    """Check for a ``MessageQueue`` whose fields have their types."""
    if not isinstance(queue, MessageQueue):
        raise BadArgument(type_error_text("queue", "a MessageQueue", queue))
    if not isinstance(queue.queue_id, int) or not isinstance(queue.broker_name, str):
        raise BadArgument(f"a MessageQueue is a topic, a broker's name and an int, not {queue!r}")


def queues_of(several: object) -> list[MessageQueue]:
    """*several* queues as a list, each checked."""
    if not isinstance(several, Iterable) or isinstance(several, str | bytes):
        raise BadArgument(type_error_text("queues", "a list of MessageQueues", several))
    queues = list(several)
    for queue in queues:
        check_is_queue(queue)
    return queues


def check_timing(timeout_ms: object, worker: object = 0) -> None:
    """Check for milliseconds not below 0, or None (as configured); and a worker's number."""
    if timeout_ms is not None:
        if not _is_whole(timeout_ms):
            raise BadArgument(type_error_text("timeout_ms", "an int or None", timeout_ms))
        if timeout_ms < 0:  # type: ignore[operator]
            raise BadArgument(f"timeout_ms is at least 0, not {timeout_ms}")
    if not _is_whole(worker):
        raise BadArgument(type_error_text("worker", "an int", worker))


def check_whole(name: str, value: object, *, least: int = 0) -> None:
    """Check for an int that is not below *least*."""
    if not _is_whole(value):
        raise BadArgument(type_error_text(name, "an int", value))
    if value < least:  # type: ignore[operator]
        raise BadArgument(f"{name} is at least {least}, not {value}")


def check_loop(timeout_s: object, count: object) -> None:
    """Check a loop's wait for one message and its number of messages; None is no limit."""
    check_timeout_s(timeout_s)
    if count is not None:
        if not _is_whole(count):
            raise BadArgument(type_error_text("count", "an int or None", count))
        if count < 0:  # type: ignore[operator]
            raise BadArgument(f"count is at least 0, not {count}")


def check_timeout_s(timeout_s: object) -> None:
    """Check for a number of seconds not below 0, or None (no limit)."""
    if timeout_s is not None:
        if not isinstance(timeout_s, int | float) or isinstance(timeout_s, bool):
            raise BadArgument(
                type_error_text("timeout_s", "a number of seconds or None", timeout_s)
            )
        if not timeout_s >= 0:
            raise BadArgument(f"timeout_s is at least 0, not {timeout_s}")


def check_text(name: str, value: object) -> None:
    """Check for a str."""
    if not isinstance(value, str):
        raise BadArgument(type_error_text(name, "a str", value))


# Functions ----------------------------------------------------------------------------


def check_plain_function(name: str, function: object, *, takes: str) -> None:
    """Check for a plain function with the parameters *takes*, as in ``queues, message``."""
    if _is_plain_taking(function, takes.count(",") + 1):
        return
    if not callable(function):
        raise BadArgument(type_error_text(name, f"a function of ({takes})", function))
    if is_coroutine_function(function):
        raise BadArgument(
            f"{name} is called, not awaited: make {_named(function)} a plain function"
        )
    _check_parameters(name, function, takes, {len(takes.split(", "))})


def check_listener(listener: object) -> None:
    """Check for a function of (messages) or (messages, context); it may be async."""
    takes = "messages) or (messages, context"
    if isinstance(listener, type) or not callable(listener):
        raise BadArgument(type_error_text("a listener", f"a function of ({takes})", listener))
    call = getattr(listener, "__call__", listener)  # noqa: B004  # an object's own call
    if any(map(_yields, (listener, call))):
        named = _named(listener)
        raise BadArgument(f"a listener returns its result: {named} is a generator function")
    _check_parameters("a listener", listener, takes, {1, 2})


def check_transaction_listener(listener: object) -> None:
    """Check for an object with the two methods of a ``TransactionListener``."""
    for name, takes in TRANSACTION_METHODS.items():
        method = getattr(listener, name, None)
        if isinstance(listener, type) or not callable(method):
            both = " and ".join(f"{name}({takes})" for name, takes in TRANSACTION_METHODS.items())
            raise BadArgument(type_error_text("listener", f"an object with {both}", listener))
        if _yields(method):
            raise BadArgument(
                f"{name} returns its state: {_named(method)} is a generator function"
            )
        _check_parameters(name, method, takes, {len(takes.split(", "))})


TRANSACTION_METHODS = {
    "execute_local_transaction": "message, argument",
    "check_local_transaction": "message",
}


def is_coroutine_function(function: object) -> bool:
    """Whether *function* is async, or an object whose ``__call__`` is."""
    call = getattr(function, "__call__", None)  # noqa: B004  # an object's own call may be async
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)


def _is_plain_taking(function: object, count: int) -> bool:
    """Whether *function* is surely a plain one that *count* arguments fit; False: look closer.

    For the callback of every send: ``inspect.signature`` costs a third of the send, and a cache
    would not help, as most callbacks are functions that the application makes for one send.
    """
    if type(function) is MethodType:
        function, count = function.__func__, count + 1
    if type(function) is not FunctionType or function.__dict__:  # it may be a decorated one
        return False
    code = function.__code__
    if code.co_flags & NOT_PLAIN or code.co_kwonlyargcount:
        return False
    optional = len(function.__defaults__ or ())
    return code.co_argcount - optional <= count <= code.co_argcount


NOT_PLAIN = inspect.CO_COROUTINE | inspect.CO_ITERABLE_COROUTINE | inspect.CO_ASYNC_GENERATOR


def _check_parameters(
    name: str, function: Callable[..., Any], takes: str, counts: set[int]
) -> None:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some functions written in C have no signature
        return
    for count in counts:
        try:
            signature.bind(*range(count))
        except TypeError:
            continue
        return
    shown_as = f"{_named(function)}{signature}"
    raise BadArgument(f"{name} is a function of ({takes}), not {shown_as}")


def _yields(function: object) -> bool:
    return inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)


def _named(function: object) -> str:
    return getattr(function, "__qualname__", None) or short_repr(function)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


# Subscriptions ------------------------------------------------------------------------


def check_subscriptions(given: object) -> None:
    """Check for expressions by topic, each a str or a pair of an expression and its type."""
    if not isinstance(given, Mapping):
        raise BadArgument(
            f"{type_error_text('subscriptions', 'a dict of expressions by topic', given)}: "
            "{'orders': '*'} for all of orders"
        )
    for topic, wanted in given.items():
        check_subscribed(topic)
        pair = wanted if isinstance(wanted, tuple) else (wanted, TAG)
        if len(pair) != 2 or not all(isinstance(part, str) for part in pair):
            wish = "a str such as '*' or 'TagA || TagB', or a pair such as ('price > 5', 'SQL92')"
            raise BadArgument(type_error_text(f"the expression of {topic}", wish, wanted))


def check_subscribed(topic: object) -> None:
    """Check the name of a topic; no length limit, because retry topics may be long."""
    check_text("topic", topic)
    if not topic.strip():  # type: ignore[attr-defined]
        raise BadSubscription("a subscription's topic is blank")
    if not is_legal(topic):  # type: ignore[arg-type]
        raise BadSubscription(f"the topic {topic!r} contains illegal characters")
