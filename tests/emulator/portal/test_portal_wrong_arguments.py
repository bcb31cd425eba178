"""Wrong values for every public argument: the call itself raises an error of one sentence.

The sentence begins with the name of the wrong argument, and nothing is sent: the broker has no
topic, and the next send of the same producer succeeds.
"""

from __future__ import annotations

import datetime as dt
import inspect
from collections.abc import Iterator
from typing import Any

import pytest

from rocketmq_emulator import (
    BadArgument,
    Cluster,
    ClusterEnded,
    ClusterSpec,
    LitePullConsumer,
    Message,
    MessageIllegal,
    MessageQueue,
    Misuse,
    NotStarted,
    Producer,
    ProducerConfig,
    PullConsumer,
    PushConsumer,
    by_hash,
)

QUEUE = MessageQueue("t", "broker-a", 0)
NOON = dt.datetime(2026, 11, 22, 12)  # noqa: DTZ001  # without a time zone, as is usual


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=1) as cluster:
        yield cluster


# Constructors -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "settings", "words"),
    [
        ((None, b"x"), {}, "topic is a str, not None"),
        ((b"t", b"x"), {}, "topic is a str, not bytes b't': decode it, b't'.decode()"),
        (("t", "text"), {}, "body is bytes, not str 'text': encode it, 'text'.encode()"),
        (("t", None), {}, "body is bytes, not None"),
        (("t", {"a": 1}), {}, "body is bytes, not dict {'a': 1}"),
        (("t", 5), {}, "body is bytes, not int 5"),
        (("t", b"x", b"paid"), {}, "tags is a str, not bytes b'paid'"),
        (("t", b"x", ["a", "b"]), {}, "tags is a str, not list ['a', 'b']"),
        (("t", b"x", "a || b"), {}, "a message has one tag, not 'a || b'"),
        (("t", b"x"), {"keys": 7}, "keys is a str, or several, not int 7"),
        (("t", b"x"), {"keys": b"k"}, "keys is a str, or several, not bytes b'k'"),
        (("t", b"x"), {"keys": ["a", 7]}, "keys is a str, or several, not int 7"),
        (("t", b"x"), {"flag": "1"}, "flag is an int, not str '1'"),
        (("t", b"x"), {"flag": 2**31}, "flag is between"),
        (("t", b"x"), {"delay_level": "3"}, "delay_level is an int, not str '3'"),
        (("t", b"x"), {"delay_level": -1}, "delay_level is between 0"),
        (("t", b"x"), {"delay_ms": -5}, "delay_ms is between 0"),
        (("t", b"x"), {"delay_ms": 1.5}, "delay_ms is an int, not float 1.5"),
        (
            ("t", b"x"),
            {"delay_ms": dt.timedelta(seconds=3)},
            "int(duration.total_seconds() * 1000)",
        ),
        (("t", b"x"), {"deliver_at_ms": NOON}, "int(when.timestamp() * 1000)"),
        (("t", b"x"), {"deliver_at_ms": None}, "deliver_at_ms is an int, not None"),
        (("t", b"x"), {"wait_store_ok": "no"}, "wait_store_ok is a bool, not str 'no'"),
        (("t", b"x"), {"properties": [("a", "b")]}, "properties is a dict of str to str"),
        (("t", b"x"), {"properties": {"a": 1}}, "the property 'a' is a str, not int 1"),
        (("t", b"x"), {"properties": {1: "a"}}, "the name of a property is a str, not int 1"),
        (("t", b"x"), {"properties": {"a": None}}, "the property 'a' is a str, not None"),
        (("t", b"x"), {"properties": {"a": ""}}, "the property 'a' is empty: brokers drop it"),
        (("t", b"x"), {"properties": {"": "a"}}, "a property has a name without \\x01 and \\x02"),
        (("t", b"x"), {"properties": {"a\x01b": "c"}}, "not 'a\\x01b'"),
        (("t", b"x"), {"properties": {"a\x02b": "c"}}, "not 'a\\x02b'"),
        (("t", b"x"), {"properties": {"a": "b\x02c"}}, "the property 'a' may not hold \\x02"),
        (("t", b"x", "a\x02b"), {}, "tags may not hold \\x02"),
        (("t", b"x"), {"keys": ["a", "b\x02c"]}, "keys may not hold \\x02"),
    ],
)
def test_a_message_is_refused_where_it_is_made(arguments, settings, words) -> None:
    with pytest.raises((TypeError, ValueError)) as caught:
        Message(*arguments, **settings)
    assert words in str(caught.value)


def test_bodies_of_other_kinds_of_bytes_are_taken() -> None:
    assert [Message("t", kind(b"x")).body for kind in (bytes, bytearray, memoryview)] == [b"x"] * 3


SETTINGS = [
    ({"group": None}, "group is a str, not None"),
    ({"group": b"g"}, "group is a str, not bytes b'g': decode it"),
    ({"group": ""}, "group is blank"),
    ({"namesrv": None}, "namesrv is a str, not None"),
    ({"namesrv": ["a:1", "b:2"]}, "namesrv is one str, not list ['a:1', 'b:2']: separate several"),
    ({"namesrv": "banana"}, "an address looks like 127.0.0.1:9876, not 'banana'"),
    ({"namesrv": "127.0.0.1:99999"}, "not '127.0.0.1:99999'"),
    ({"namesrv": "http://127.0.0.1:9876"}, "namesrv: it is host:port, several separated by ';'"),
    ({"namesrv": "a:1,b:2"}, "namesrv: it is host:port, several separated by ';'"),
    ({"namesrv": ""}, "namesrv has no address"),
    ({"release": 5}, "release is a str, not int 5"),
    ({"release": "banana"}, "banana"),
    ({"client_ip": None}, "client_ip is a str, not None"),
    ({"unit_mode": "yes"}, "unit_mode is a bool, not str 'yes'"),
    ({"heartbeat_interval_ms": 0}, "heartbeat_interval_ms is at least 1, not 0"),
    ({"api_timeout_ms": "3s"}, "api_timeout_ms is an int, not str '3s'"),
    ({"api_timeout_ms": dt.timedelta(seconds=3)}, "int(duration.total_seconds() * 1000)"),
    ({"net": 5}, "net is a NetConfig, not int 5"),
    ({"net": {"frames": 1}}, "net: Object contains unknown field `frames`"),
    ({"namesrvAddr": "a:1"}, "has no setting 'namesrvAddr': did you mean namesrv?"),
    ({"bootstrap_servers": "a:1"}, "did you mean namesrv?"),
    ({"process": 5}, "process is a ClientProcess, not int 5"),
    ({"colour": "red"}, "has no setting 'colour'"),
]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        *SETTINGS,
        ({"sync_retry": 3}, "Producer has no setting 'sync_retry': did you mean sync_retries?"),
        ({"retryTimesWhenSendFailed": 3}, "did you mean sync_retries?"),
        ({"retry_times_when_send_failed": 3}, "did you mean sync_retries?"),
        ({"producerGroup": "g"}, "did you mean group?"),
        ({"consume_from": "x"}, "Producer has no setting 'consume_from'"),
        ({"sync_retries": -1}, "sync_retries is at least 0, not -1"),
        ({"sync_retries": None}, "sync_retries is an int, not None"),
        ({"send_timeout_ms": 0}, "send_timeout_ms is at least 1, not 0"),
        ({"send_timeout_ms": 2.5}, "send_timeout_ms is an int, not float 2.5"),
        ({"compress_level": 10}, "compress_level is between 0 and 9, not 10"),
        ({"config": "shop"}, "config is a ProducerConfig, not str 'shop'"),
    ],
)
def test_a_producer_is_refused_where_it_is_made(settings, words) -> None:
    with pytest.raises(Misuse) as caught:
        Producer(**{"group": "g", **settings})
    assert words in str(caught.value)
    assert isinstance(caught.value, ValueError)


def test_a_producer_without_a_group_is_told_how_to_give_one() -> None:
    with pytest.raises(BadArgument, match=r"Producer needs a group: Producer\(group=…\)"):
        Producer()


def test_a_config_of_another_kind_is_refused() -> None:
    with pytest.raises(BadArgument, match="config is a PushConsumerConfig, not ProducerConfig"):
        PushConsumer(print, {}, ProducerConfig(group="g"))


async def an_async_callback(_result: object) -> None: ...


async def a_listener(_messages: list[Any]) -> None: ...


def a_generator(_messages: list[Any]) -> Iterator[None]:
    yield


CONSUMERS = [
    (("orders",), "a listener is a function of (messages) or (messages, context), not str 'ord"),
    (({"t": "*"}, print), "a listener is a function of (messages)"),
    ((dict,), "a listener is a function of (messages) or (messages, context), not the class dict"),
    ((lambda: None,), "not <lambda>()"),
    ((lambda _a, _b, _c: None,), "<lambda>(_a, _b, _c)"),
    ((a_generator,), "a listener returns its result: a_generator is a"),
    ((print, "orders"), "subscriptions is a dict of expressions by topic, not str 'orders'"),
    ((print, ["orders"]), "subscriptions is a dict of expressions by topic, not list ['orders']"),
    ((print, {b"t": "*"}), "topic is a str, not bytes b't'"),
    ((print, {"t": None}), "the expression of t is a str such as '*' or 'TagA || TagB'"),
    ((print, {"t": ["a", "b"]}), "the expression of t is a str"),
    ((print, {"t": ("a", "b", "c")}), "the expression of t is a str"),
    ((print, {"t": ("a",)}), "the expression of t is a str"),
    ((print, {"t": b"*"}), "the expression of t is a str"),
    ((print, {"": "*"}), "a subscription's topic is blank"),
    ((print, {"a b": "*"}), "illegal characters"),
]


@pytest.mark.parametrize(("arguments", "words"), CONSUMERS)
def test_a_consumer_is_refused_where_it_is_made(arguments, words) -> None:
    with pytest.raises(Misuse) as caught:
        PushConsumer(*arguments, group="g")
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        *SETTINGS,
        ({"model": "BROADCAST"}, "model is one of BROADCASTING, CLUSTERING, not str 'BROADCAST'"),
        ({"messageModel": "CLUSTERING"}, "did you mean model?"),
        ({"consume_from": "earliest"}, "consume_from is one of CONSUME_FROM_LAST_OFFSET"),
        ({"consume_from_time_ms": NOON}, "int(when.timestamp() * 1000)"),
        ({"consume_from_time_ms": -1}, "consume_from_time_ms is at least 0, not -1"),
        ({"consume_threads_max": 0}, "consume_threads_max is between 1 and 1000"),
        ({"orderly": 1}, "orderly is a bool, not int 1"),
        ({"listener_ms": -1}, "listener_ms is at least 0"),
        ({"pull_hold_ms_max": 30_000}, "pull_timeout_ms = 30000 must be above pull_hold_ms_max"),
        ({"strategy": "AVG"}, "strategy is a Strategy, as AVG is, not str 'AVG'"),
        ({"on_queues": 5}, "on_queues is a function of (topic, all, mine), not int 5"),
        ({"on_queues": a_listener}, "on_queues is called, not awaited: make a_listener a plain"),
        ({"on_queues": lambda: None}, "on_queues is a function of (topic, all, mine), not"),
        ({"documents": "folder"}, "documents is an OffsetFolder"),
        ({"sync_retries": 3}, "PushConsumer has no setting 'sync_retries'"),
    ],
)
def test_a_consumer_s_settings_are_refused_where_it_is_made(settings, words) -> None:
    with pytest.raises(Misuse) as caught:
        PushConsumer(print, {"t": "*"}, **{"group": "g", **settings})
    assert words in str(caught.value)


# Methods ----------------------------------------------------------------------------------


def changed(**fields: Any) -> Message:
    """A valid message, changed after it was made."""
    message = Message("t", b"x")
    for name, value in fields.items():
        setattr(message, name, value)
    return message


CALLS = [
    ("send", ("orders",), {}, "the message is a Message, not str 'orders'"),
    ("send", (None,), {}, "the message is a Message, not None"),
    ("send", (changed(body="text"),), {}, "body is bytes, not str 'text': encode it"),
    ("send", (changed(body=None),), {}, "body is bytes, not None"),
    ("send", (changed(topic=b"t"),), {}, "topic is a str, not bytes b't'"),
    ("send", (changed(topic=None),), {}, "topic is a str, not None"),
    ("send", (changed(properties=None),), {}, "properties is a dict of str to str, not None"),
    ("send", (changed(flag="1"),), {}, "flag is an int, not str '1'"),
    ("send", (Message("t", b""),), {}, "a message has a body"),
    ("send", (Message("", b"x"),), {}, "topic is blank"),
    ("send", (Message("a b", b"x"),), {}, "illegal characters"),
    ("send", (Message("t", b"x"),), {"queue": 0}, "queue is a MessageQueue, not int 0"),
    ("send", (Message("u", b"x"),), {"queue": QUEUE}, "a message of topic u cannot be sent to"),
    ("send", (Message("t", b"x"),), {"queue": MessageQueue("t", "b", "0")}, "a MessageQueue is"),
    ("send", (Message("t", b"x"),), {"timeout_ms": "3s"}, "timeout_ms is an int or None, not str"),
    ("send", (Message("t", b"x"),), {"timeout_ms": -1}, "timeout_ms is at least 0, not -1"),
    ("send", (Message("t", b"x"),), {"worker": "a"}, "worker is an int, not str 'a'"),
    ("send_to_selected", (None, by_hash, 1), {}, "the message is a Message, not None"),
    ("send_to_selected", (Message("t", b"x"), None), {}, "selector is a function of (queues, mes"),
    ("send_to_selected", (Message("t", b"x"), lambda: 0), {}, "selector is a function of (queues"),
    (
        "send_to_selected",
        (Message("t", b"x"), an_async_callback),
        {},
        "selector is called, not aw",
    ),
    ("send_to_selected", (Message("t", b"x"), by_hash, 1.5), {}, "chosen by a text or a whole"),
    (
        "send_to_selected",
        (Message("t", b"x"), lambda q, m, a: 3),
        {},
        "the queue selector returned 3",
    ),
    ("send_batch", (Message("t", b"x"),), {}, "a batch is a list of Messages, not Message"),
    ("send_batch", (None,), {}, "a batch is a list of Messages, not None"),
    ("send_batch", ("ab",), {}, "a batch is a list of Messages, not str 'ab'"),
    ("send_batch", ([],), {}, "a batch needs at least one message"),
    ("send_batch", ([Message("t", b"x"), "y"],), {}, "the message is a Message, not str 'y'"),
    ("send_oneway", (b"x",), {}, "the message is a Message, not bytes b'x'"),
    ("send_oneway", (changed(body="text"),), {}, "body is bytes, not str 'text'"),
    ("send_oneway", (Message("t", b"x"),), {"queue": "q"}, "queue is a MessageQueue, not str"),
    ("start_send", (changed(body="text"),), {}, "body is bytes, not str 'text'"),
    ("start_send", (Message("t", b"x"), 5), {}, "callback is a function of (result), not int 5"),
    ("start_send", (Message("t", b"x"), an_async_callback), {}, "callback is called, not awaited"),
    ("start_send", (Message("t", b"x"), lambda: None), {}, "callback is a function of (result)"),
    ("start_send", (Message("t", b"x"),), {"queue": 5}, "queue is a MessageQueue, not int 5"),
    ("request", (b"x",), {}, "the message is a Message, not bytes b'x'"),
    ("request", (Message("t", b"x"),), {"timeout_ms": "1"}, "timeout_ms is an int or None"),
    ("start_request", (Message("t", b"x"), 5), {}, "callback is a function of (result)"),
    ("start_request", (Message("t", b"x"),), {"queue": 5}, "queue is a MessageQueue, not int 5"),
    ("reply_to", (Message("t", b"x"), b"y"), {}, "the request is a consumed MessageExt, not Mess"),
    ("recall_message", (None, "h"), {}, "topic is a str, not None"),
    ("recall_message", ("t", None), {}, "recall_handle is a str, not None"),
    ("recall_message", ("t", "x"), {}, "recall handle is invalid"),
    ("publish_queues", (b"t",), {}, "topic is a str, not bytes b't'"),
    ("publish_queues", ("a b",), {}, "illegal characters"),
]


async def called(method: Any, *arguments: Any, **settings: Any) -> None:
    """Call *method*, and await its result if that is awaitable."""
    result = method(*arguments, **settings)
    if inspect.isawaitable(result):
        await result


@pytest.mark.parametrize(("method", "arguments", "settings", "words"), CALLS)
async def test_a_wrong_call_fails_alone_and_the_next_send_succeeds(
    cluster, method, arguments, settings, words
) -> None:
    async with Producer(namesrv=cluster.namesrv, group="g") as producer:
        with pytest.raises(Misuse) as caught:
            await called(getattr(producer, method), *arguments, **settings)
        assert words in str(caught.value)
        assert (await producer.send(Message("right", b"x"))).status.value == "SEND_OK"


@pytest.mark.parametrize(
    ("method", "arguments", "words"),
    [
        ("offset", (None,), "queue is a MessageQueue, not None"),
        ("subscribe", (None,), "topic is a str, not None"),
        ("subscribe", ("",), "a subscription's topic is blank"),
        ("subscribe", ("t", None), "expression is a str, not None"),
        ("subscribe", ("t", "a", None), "kind is a str, not None"),
        ("subscribe", ("t", "||"), "t: "),
        ("unsubscribe", (["t"],), "topic is a str, not list ['t']"),
    ],
)
async def test_a_wrong_call_of_a_consumer_fails_alone(cluster, method, arguments, words) -> None:
    async with PushConsumer(print, {}, namesrv=cluster.namesrv, group="g") as consumer:
        with pytest.raises(Misuse) as caught:
            await called(getattr(consumer, method), *arguments)
        assert words in str(caught.value)
        await consumer.subscribe("t", "*")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"timeout_s": "5"}, "timeout_s is a number of seconds or None, not str '5'"),
        ({"timeout_s": -1}, "timeout_s is at least 0, not -1"),
        ({"timeout_s": float("nan")}, "timeout_s is at least 0, not nan"),
        ({"count": 1.5}, "count is an int or None, not float 1.5"),
        ({"count": -1}, "count is at least 0, not -1"),
    ],
)
async def test_a_wrong_loop_is_refused_where_it_is_made(cluster, settings, words) -> None:
    async with PushConsumer(None, {"t": "*"}, namesrv=cluster.namesrv, group="g") as consumer:
        with pytest.raises(BadArgument) as caught:
            consumer.messages(**settings)
        assert str(caught.value) == words


async def test_a_client_that_runs_is_not_started_again(cluster) -> None:
    producer = Producer(namesrv=cluster.namesrv, group="g")
    async with producer:
        with pytest.raises(Misuse, match="this producer runs already"):
            await producer.__aenter__()
        await producer.send(Message("t", b"x"))


@pytest.mark.parametrize("kind", [PushConsumer, LitePullConsumer, PullConsumer])
async def test_a_consumer_that_runs_is_not_started_again(cluster, kind) -> None:
    listener = (None,) if kind is PushConsumer else ()
    consumer = kind(*listener, {"t": "*"}, namesrv=cluster.namesrv, group="twice")
    async with consumer:
        with pytest.raises(Misuse, match="this consumer runs already"):
            await consumer.__aenter__()
        assert consumer.queues is not None


def test_a_spec_says_which_field_is_wrong() -> None:
    with pytest.raises(ValueError, match=r"has no setting 'broker': did you mean brokers?"):
        Cluster(broker=3)
    with pytest.raises(ValueError, match="brokers is an int, not str '3'"):
        Cluster(ClusterSpec(), brokers="3")


def test_a_cluster_that_does_not_run_says_so() -> None:
    with pytest.raises(ValueError, match="spec is a ClusterSpec, not int 3: single fields are"):
        Cluster(3)
    cluster = Cluster(brokers=1)
    with pytest.raises(NotStarted, match="namesrv has no address yet: start it first, `with Clus"):
        _ = cluster.namesrv
    with pytest.raises(NotStarted, match="the cluster does not run: start it first"):
        cluster.start("broker-a")
    with cluster:
        pass
    with pytest.raises(ClusterEnded, match="the cluster has ended"):
        cluster.start("broker-a")
    with pytest.raises(ClusterEnded, match="a cluster starts once: make another one"):
        cluster.__enter__()


def test_misuse_that_a_broker_would_refuse_has_its_own_name() -> None:
    assert issubclass(MessageIllegal, Misuse)
