"""Listener outcomes: every error is noted."""

from __future__ import annotations

import functools
import threading

import pytest
import trio

import rocketmq_emulator.client
from rocketmq_emulator.client import BadSubscription, ConsumeResult, GroupCallRefused
from rocketmq_emulator.client.instance.process import ClientProcess
from rocketmq_emulator.facts import ListenerRaised, MessageConsumed, MessageGivenToListener, Queue
from rocketmq_emulator.protocol.bodies.body import decode_body
from rocketmq_emulator.protocol.bodies.running import ConsumeMessageDirectlyResult
from rocketmq_emulator.protocol.codes import RequestCode
from rocketmq_emulator.protocol.requests.groups import ConsumeMessageDirectlyRequest
from tests.support.client.pulled_broker import BACK, in_group

QUEUE_0 = Queue("T", "broker-a", 0)


def raises(messages):
    raise ValueError("no such order")


async def raises_later(messages):
    await trio.sleep(0.1)
    raise ValueError("no such order")


def consumed(listener, *, messages=1, seconds=2.0, process=lambda cluster: None, **settings):
    """Consume *messages* of one queue for some seconds; return (cluster, broker)."""

    async def main(cluster, broker):
        broker.offsets["T", 0] = 0
        broker.store(messages)
        app = process(cluster) or cluster.process()
        async with app, cluster.a_consumer(app, listener, **settings):
            await trio.sleep(seconds)
        return cluster, broker

    return in_group(main)


@pytest.mark.parametrize("listener", [raises, raises_later])
@pytest.mark.parametrize("orderly", [False, True])
def test_what_a_listener_raises_is_a_fact_with_its_traceback(listener, orderly) -> None:
    cluster, _ = consumed(listener, seconds=0.9, orderly=orderly)
    (fact,) = cluster.facts_of(ListenerRaised)
    assert (fact.group, fact.queue, fact.offset, fact.message_count) == ("cg", QUEUE_0, 0, 1)
    assert fact.error == "ValueError: no such order"
    assert f"in {listener.__name__}\n" in fact.traceback
    assert fact.severity == "error"


def test_what_a_listener_raises_in_a_thread_is_noted_by_the_event_loop() -> None:
    noted_by = set()

    def with_threads(cluster) -> ClientProcess:
        process = cluster.process()
        process.plain_functions = JoinedThreads()

        def note(fact) -> None:
            noted_by.add(threading.current_thread())
            cluster.facts.append(fact)

        process.note = note
        return process

    def every_third(messages) -> None:
        called_by.add(threading.current_thread())
        if messages[0].queue_offset % 3 == 2:
            raise ValueError("no such order")

    called_by = set()
    settings = {"messages": 9, "process": with_threads, "listeners_inline": False}
    cluster, broker = consumed(every_third, **settings)
    assert [fact.offset for fact in cluster.facts_of(ListenerRaised)] == [2, 5, 8]
    assert [request.offset for request in broker.requests(BACK)] == [2_000, 5_000, 8_000]
    assert threading.main_thread() not in called_by
    assert noted_by == {threading.main_thread()}


class JoinedThreads:
    """Worker threads that are joined at once, so that they take no virtual time."""

    one_run_s_max = 60.0

    def for_listener(self, *, threads_max, listener_ms):
        return self

    async def run(self, work):
        results = []
        thread = threading.Thread(target=lambda: results.append(work()))
        thread.start()
        thread.join()
        return results[0]


async def an_order(messages):
    return None


@pytest.mark.parametrize(
    ("returned", "result_text"),
    [(True, "True"), ("ok", "'ok'"), (0, "0"), (ConsumeResult, "<enum 'ConsumeResult'>")],
)
@pytest.mark.parametrize("orderly", [False, True])
def test_a_return_value_that_is_no_result_counts_as_a_failure_and_is_a_fact(
    returned, result_text, orderly
) -> None:
    cluster, broker = consumed(lambda messages: returned, seconds=0.9, orderly=orderly)
    (fact,) = cluster.facts_of(ListenerRaised)
    assert (
        fact.error == f"TypeError: a listener returns None or a ConsumeResult, not {result_text}"
    )
    assert [fact.ok for fact in cluster.facts_of(MessageConsumed)] == [False]
    assert len(broker.received[BACK]) == (0 if orderly else 1)


def test_a_plain_function_that_returns_a_coroutine_has_failed() -> None:
    def forgets_to_await(messages):
        return an_order(messages)

    cluster, _ = consumed(forgets_to_await)
    (fact,) = cluster.facts_of(ListenerRaised)
    assert "not <coroutine object an_order" in fact.error


def test_a_listener_bound_to_arguments_is_still_async() -> None:
    async def listen(seen, messages) -> None:
        seen.append(messages[0].queue_offset)

    seen = []
    cluster, _ = consumed(functools.partial(listen, seen))
    assert seen == [0]
    assert cluster.facts_of(ListenerRaised) == []


@pytest.mark.parametrize("field", ["ack_index", "delay_level", "suspend_ms"])
def test_a_context_field_that_is_no_number_fails_the_call_and_not_the_consumer(field) -> None:
    def sets_nonsense(messages, context) -> ConsumeResult:
        setattr(context, field, "soon")
        return ConsumeResult.RECONSUME_LATER

    cluster, broker = consumed(sets_nonsense, messages=2)
    facts = cluster.facts_of(ListenerRaised)
    assert [fact.offset for fact in facts] == [0, 1]
    assert {fact.error for fact in facts} == {
        f"TypeError: a ConsumeContext's {field} is an int, not 'soon'"
    }
    assert [request.offset for request in broker.requests(BACK)] == [0, 1_000]


def test_an_ack_index_below_the_batch_acknowledges_nothing() -> None:
    def none_of_them(messages, context) -> None:
        context.ack_index = -5

    _, broker = consumed(none_of_them, messages=8, consume_batch_max=8)
    assert [request.offset for request in broker.requests(BACK)] == [n * 1_000 for n in range(8)]


def test_reconsume_later_is_no_error() -> None:
    cluster, broker = consumed(lambda messages: ConsumeResult.RECONSUME_LATER)
    assert len(broker.received[BACK]) == 1
    assert cluster.facts_of(ListenerRaised) == []


def test_consume_directly_answers_with_a_wrong_return_value() -> None:
    async def main(cluster, broker):
        broker.offsets["T", 0] = 1
        broker.store(1)
        async with cluster.process() as app, cluster.a_consumer(app, lambda messages: "ok"):
            await trio.sleep(1)
            (connection,) = broker.server.connections.values()
            request = ConsumeMessageDirectlyRequest(consumer_group="cg", broker_name="broker-a")
            replies = []
            connection.invoke(
                RequestCode.CONSUME_MESSAGE_DIRECTLY,
                request,
                broker.queues["T", 0][0],
                trio.current_time() + 10,
                replies.append,
            )
            await trio.sleep(1)
        return decode_body(replies[0].body, ConsumeMessageDirectlyResult)

    result_text = in_group(main)
    assert result_text.consume_result == "CR_THROW_EXCEPTION"
    assert "not 'ok'" in result_text.remark


# On demand ------------------------------------------------------------------------------


def wanting_all(cluster) -> ClientProcess:
    process = cluster.process()
    process.wants = lambda kind: True
    return process


@pytest.mark.parametrize("orderly", [False, True])
@pytest.mark.parametrize("inline", [False, True])
def test_on_demand_every_message_given_to_a_listener_is_a_fact_before_its_outcome(
    orderly, inline
) -> None:
    def process(cluster) -> ClientProcess:
        it = wanting_all(cluster)
        it.plain_functions = JoinedThreads()
        return it

    def listen(messages) -> None:
        if messages[0].queue_offset == 2:
            raise ValueError("no such order")

    settings = {"listeners_inline": inline, "orderly": orderly, "consume_batch_max": 2}
    cluster, _ = consumed(listen, messages=4, seconds=0.5, process=process, **settings)
    kinds = (MessageGivenToListener, ListenerRaised, MessageConsumed)
    main = [(type(f).__name__, f.offset) for f in cluster.facts if isinstance(f, kinds)]
    given, raised, after = "MessageGivenToListener", "ListenerRaised", "MessageConsumed"
    assert main == [
        *((given, 0), (given, 1), (after, 0), (after, 1)),
        *((given, 2), (given, 3), (raised, 2), (after, 2), (after, 3)),
    ]
    assert cluster.facts_of(MessageGivenToListener)[0].queue == QUEUE_0


def test_messages_given_to_listeners_are_no_facts_by_default() -> None:
    cluster, _ = consumed(lambda messages: None)
    assert cluster.facts_of(MessageConsumed)
    assert cluster.facts_of(MessageGivenToListener) == []


def test_the_errors_that_consumers_raise_are_exported() -> None:
    assert rocketmq_emulator.client.BadSubscription is BadSubscription
    assert {"BadSubscription", "GroupCallRefused"} <= set(rocketmq_emulator.client.__all__)
    assert issubclass(GroupCallRefused, rocketmq_emulator.client.ClientError)
