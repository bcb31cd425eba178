"""Arguments and results of listeners, and failed messages."""

from __future__ import annotations

from functools import partial

import pytest
import trio

from rocketmq_emulator.client.consumer.group.listeners import ConsumeContext, ConsumeResult
from rocketmq_emulator.facts import MessageConsumed
from rocketmq_emulator.net.results import Reply
from rocketmq_emulator.protocol.codes import ResponseCode
from rocketmq_emulator.protocol.messages.properties import CONSUME_START_TIME, RETRY_TOPIC
from tests.support.client.client_cluster import SILENT
from tests.support.client.pulled_broker import BACK, LOCK, a_queue, in_group

REFUSED = Reply(code=ResponseCode.SYSTEM_ERROR, remark="as scripted")


class Log:
    """A listener that records (seconds, offsets) of its calls; its last answer is repeated."""

    def __init__(self, *answers) -> None:
        self.answers = list(answers)
        self.calls = []
        self.now_s = lambda: 0.0

    def __call__(self, messages: list, context: ConsumeContext):
        self.calls.append((round(self.now_s(), 3), [m.queue_offset for m in messages]))
        answer = self.answers.pop(0) if len(self.answers) > 1 else (self.answers or [None])[0]
        if isinstance(answer, Exception):
            raise answer
        return answer(context) if callable(answer) else answer


def consumed(log, *, messages=1, seconds=2.0, prepare=lambda broker: None, **settings):
    """Consume *messages* of one queue for some seconds; return (cluster, broker)."""

    async def main(cluster, broker):
        log.now_s = cluster.now_s
        broker.offsets["T", 0] = 0
        broker.store(messages)
        prepare(broker)
        async with cluster.process() as app, cluster.a_consumer(app, log, **settings):
            await trio.sleep(seconds)
        return cluster, broker

    return in_group(main)


def routes_retries(broker) -> None:
    """Add a route of the group's retry topic."""
    broker.cluster.namesrv.routes["%RETRY%cg"] = broker.cluster.route(1)


# Concurrent -----------------------------------------------------------------------------


def test_batches_are_as_large_as_configured() -> None:
    log = Log()
    consumed(log, messages=5, consume_batch_max=2)
    assert [offsets for _, offsets in log.calls] == [[0, 1], [2, 3], [4]]


def test_what_succeeded_is_acknowledged_and_noted() -> None:
    cluster, broker = consumed(Log(), messages=3)
    assert broker.offsets["T", 0] == 3
    assert [(f.offset, f.ok) for f in cluster.facts_of(MessageConsumed)] == [
        (0, True),
        (1, True),
        (2, True),
    ]


@pytest.mark.parametrize("answer", [ValueError("no"), ConsumeResult.RECONSUME_LATER])
def test_what_failed_is_sent_back_and_then_acknowledged(answer) -> None:
    cluster, broker = consumed(Log(answer))
    (request,) = broker.requests(BACK)
    assert (request.offset, request.group, request.origin_topic) == (0, "cg", "T")
    assert (request.delay_level, request.max_reconsume_times) == (0, 16)
    assert broker.offsets["T", 0] == 1
    assert [fact.ok for fact in cluster.facts_of(MessageConsumed)] == [False]


def test_a_listener_may_choose_the_delay_level() -> None:
    def straight_to_the_dead(context):
        context.delay_level = -1
        return ConsumeResult.RECONSUME_LATER

    _, broker = consumed(Log(straight_to_the_dead))
    assert [request.delay_level for request in broker.requests(BACK)] == [-1]


def test_client_invariant_49_an_ack_index_splits_a_batch() -> None:
    def two_of_them(context):
        context.ack_index = 1

    cluster, broker = consumed(Log(two_of_them), messages=5, consume_batch_max=5)
    assert [request.offset for request in broker.requests(BACK)] == [2_000, 3_000, 4_000]
    assert broker.offsets["T", 0] == 5
    assert [fact.ok for fact in cluster.facts_of(MessageConsumed)] == [True] * 2 + [False] * 3


def test_client_invariant_48_a_broadcast_failure_is_dropped() -> None:
    log = Log(ValueError("no"))
    _, broker = consumed(
        log, seconds=30, model="BROADCASTING", consume_from="CONSUME_FROM_FIRST_OFFSET"
    )
    assert len(log.calls) == 1
    assert broker.received[BACK] == []


def test_a_send_back_that_is_refused_is_published_by_the_consumer() -> None:
    def prepare(broker) -> None:
        broker.replies[BACK].append(REFUSED)
        routes_retries(broker)

    _, broker = consumed(Log(ValueError("no"), None), prepare=prepare)
    ((_, request, body),) = broker.sends
    assert (request.topic, request.producer_group, body) == (
        "%RETRY%cg",
        "CLIENT_INNER_PRODUCER",
        b"body",
    )
    assert (request.reconsume_times, request.max_reconsume_times) == (1, 16)
    assert f"{RETRY_TOPIC}\x01T" in request.properties
    assert "DELAY\x013" in request.properties
    assert broker.offsets["T", 0] == 1


def test_client_invariant_47_what_cannot_be_sent_back_is_consumed_again_after_5_seconds() -> None:
    log = Log(ValueError("no"), None)

    async def main(cluster, broker):
        log.now_s = cluster.now_s
        broker.offsets["T", 0] = 0
        broker.store(2)
        broker.replies[BACK].append(REFUSED)  # and the retry topic has no route
        process = cluster.process()
        async with process, cluster.a_consumer(process, log) as consumer:
            await trio.sleep(4.9)
            assert consumer.offset(a_queue()) == 0  # the second message is finished, the first not
            await trio.sleep(2)
            return consumer.offset(a_queue())

    assert in_group(main) == 2
    assert log.calls == [(0.0, [0]), (0.0, [1]), (5.0, [0])]


def test_the_offset_does_not_pass_what_is_stuck() -> None:
    async def slow_first(messages) -> None:
        if messages[0].queue_offset == 0:
            await trio.sleep(12)

    async def main(cluster, broker):
        broker.offsets["T", 0] = 0
        broker.store(10)
        async with cluster.process() as app, cluster.a_consumer(app, slow_first):
            await trio.sleep(10.5)
            before = broker.offsets["T", 0]
            await trio.sleep(5)
            return before, broker.offsets["T", 0]

    assert in_group(main) == (0, 10)


def test_no_more_than_20_listeners_at_once() -> None:
    running = set()
    most = []

    async def slow(messages) -> None:
        running.add(messages[0].queue_offset)
        most.append(len(running))
        await trio.sleep(1)
        running.discard(messages[0].queue_offset)

    async def main(cluster, broker):
        broker.offsets["T", 0] = 0
        broker.store(64)
        async with cluster.process() as app, cluster.a_consumer(app, slow):
            await trio.sleep(3.9)
        return len(most)

    assert in_group(main) == 64
    assert max(most) == 20


def test_a_retried_message_shows_its_first_topic() -> None:
    seen = []

    async def main(cluster, broker):
        cluster.namesrv.routes["%RETRY%cg"] = cluster.route(1)
        broker.store(1, topic="%RETRY%cg", properties={RETRY_TOPIC: "T"}, times=2)

        def listen(messages) -> None:
            seen.extend((m.topic, m.reconsume_times) for m in messages)

        async with cluster.process() as app, cluster.a_consumer(app, listen):
            await trio.sleep(1)

    in_group(main)
    assert seen == [("T", 2)]


def test_client_invariant_53_a_hanging_listeners_message_is_sent_back_by_the_next_round() -> None:
    async def hangs(messages) -> None:
        assert CONSUME_START_TIME in messages[0].properties
        await trio.sleep_forever()

    async def main(cluster, broker):
        broker.offsets["T", 0] = 0
        async with cluster.process() as app, cluster.a_consumer(app, hangs):
            await trio.sleep(60)
            broker.store(20)
            await trio.sleep(31 * 60)
        return broker

    broker = in_group(main)
    assert set(broker.times(BACK)) == {30 * 60.0}  # at 15 minutes it had run for 14 only
    assert [request.delay_level for request in broker.requests(BACK)] == [3] * 16


@pytest.mark.parametrize(("release", "times"), [("5.0.0", 2), ("5.1.0", 1)])
def test_since_5_1_what_the_round_sent_back_is_not_sent_back_by_its_listener_too(
    release: str, times: int
) -> None:
    async def fails_late(messages) -> ConsumeResult:
        await trio.sleep(32 * 60)
        return ConsumeResult.RECONSUME_LATER

    async def main(cluster, broker):
        broker.offsets["T", 0] = 0
        async with cluster.process() as app, cluster.a_consumer(app, fails_late, release=release):
            await trio.sleep(60)
            broker.store(1)
            await trio.sleep(40 * 60)
        return broker

    assert len(in_group(main).times(BACK)) == times


# Orderly --------------------------------------------------------------------------------


def test_orderly_messages_come_one_after_the_other() -> None:
    log = Log()
    _, broker = consumed(log, messages=40, orderly=True)
    assert [offsets for _, offsets in log.calls] == [[n] for n in range(40)]
    assert broker.offsets["T", 0] == 40


def test_client_invariant_50_an_orderly_failure_comes_again_before_anything_else() -> None:
    log = Log(None, ValueError("no"), ConsumeResult.SUSPEND, None)
    consumed(log, messages=3, seconds=5, orderly=True)
    assert log.calls == [(0.0, [0]), (0.0, [1]), (1.0, [1]), (2.0, [1]), (2.0, [2])]


def test_client_invariant_50_an_orderly_failure_is_repeated_without_end() -> None:
    log = Log(*[ValueError("no")] * 1_000)
    _, broker = consumed(log, messages=2, seconds=60.5, orderly=True, prepare=routes_retries)
    assert broker.sends == []  # the retry topic has a route, but is not used
    assert log.calls == [(float(second), [0]) for second in range(61)]


@pytest.mark.parametrize(("wanted_ms", "rest_s"), [(1, 0.01), (500, 0.5), (90_000, 30.0)])
def test_how_long_a_queue_rests_is_held_between_10_ms_and_30_s(wanted_ms, rest_s) -> None:
    def suspend(context):
        context.suspend_ms = wanted_ms
        return ConsumeResult.SUSPEND

    log = Log(suspend, None)
    consumed(log, seconds=40, orderly=True)
    (first, _), (second, _) = log.calls
    assert round(second - first, 3) == rest_s


def test_an_orderly_message_that_failed_too_often_is_published_and_skipped() -> None:
    log = Log(ConsumeResult.SUSPEND)
    limited = {"prepare": routes_retries, "reconsume_times_max": 2}
    _, broker = consumed(log, seconds=9, orderly=True, **limited)
    assert log.calls == [(0.0, [0]), (1.0, [0]), (2.0, [0])]
    ((_, request, _),) = broker.sends
    assert (request.topic, request.reconsume_times) == ("%RETRY%cg", 2)
    assert broker.offsets["T", 0] == 1


@pytest.mark.parametrize("seed", range(1, 7))
def test_a_copy_that_a_silent_broker_does_not_acknowledge_is_soon_sent_to_another(seed) -> None:
    """Each try is another thread's; one round robin would choose the silent broker each time."""

    async def main(cluster, broker):
        broker.offsets["T", 0] = 0
        broker.store(1)
        broker.always = SILENT
        other = await cluster.add_broker("broker-b")
        routes_retries(broker)
        listener = Log(ConsumeResult.SUSPEND)
        settings = {"orderly": True, "reconsume_times_max": 0}
        async with cluster.process() as app, cluster.a_consumer(app, listener, **settings):
            await trio.sleep(60)
        return len(broker.sends), len(other.sends)

    to_silent, to_other = in_group(main, seed=seed)
    assert to_other == 1
    assert to_silent < 10


def test_without_auto_commit_the_offset_waits_for_the_listeners_commit() -> None:
    def by_hand(result):
        def answer(context):
            context.auto_commit = False
            return result

        return answer

    log = Log(
        by_hand(ConsumeResult.SUCCESS),
        by_hand(ConsumeResult.SUCCESS),
        by_hand(ConsumeResult.ROLLBACK),
        by_hand(ConsumeResult.SUCCESS),
        by_hand(ConsumeResult.SUCCESS),
        by_hand(ConsumeResult.COMMIT),
    )
    _, broker = consumed(log, messages=3, seconds=3, orderly=True)
    assert [offsets for _, offsets in log.calls] == [[0], [1], [2], [0], [1], [2]]
    assert broker.offsets["T", 0] == 3


def test_client_invariant_51_locks_are_renewed_every_20_seconds() -> None:
    _, broker = consumed(Log(), seconds=45, orderly=True)
    assert broker.times(LOCK) == [0.0, 1.0, 21.0, 41.0]


def test_client_invariant_51_without_a_fresh_lock_no_listener_is_called() -> None:
    log = Log()

    async def main(cluster, broker):
        log.now_s = cluster.now_s
        broker.offsets["T", 0] = 0
        async with cluster.process() as app, cluster.a_consumer(app, log, orderly=True):
            await trio.sleep(2)
            broker.replies[LOCK].extend([REFUSED] * 100)  # an error keeps the flag only
            await trio.sleep(33)
            broker.store(1)
            await trio.sleep(9)
            assert log.calls == []
            broker.replies[LOCK].clear()
            await trio.sleep(10)
        return log.calls

    ((at, offsets),) = in_group(main)
    assert offsets == [0]
    assert at > 44


def test_a_lock_that_is_refused_stops_pulls_too() -> None:
    async def main(cluster, broker):
        async with cluster.process() as app, cluster.a_consumer(app, orderly=True):
            await trio.sleep(2)
            broker.refused = {0}
            await trio.sleep(60)
        return broker.pulls()

    # The renewal at 21 s is refused, so the lock is lost; the pull held then is the last one.
    assert [at for at, _ in in_group(main)] == [0.0, 15.0]


def test_an_orderly_turn_ends_after_a_minute_so_that_others_may_begin() -> None:
    order = []

    async def slow(messages) -> None:
        order.append(messages[0].queue_id)
        await trio.sleep(10)

    async def main(cluster, broker):
        for queue_id in (0, 1):
            broker.offsets["T", queue_id] = 0
            broker.store(30, queue_id=queue_id)
        settings = {"orderly": True, "consume_threads_max": 1}
        async with cluster.process() as app, cluster.a_consumer(app, slow, **settings):
            await trio.sleep(150)

    in_group(main, queues=2)
    assert order[:14] == [order[0]] * 7 + [1 - order[0]] * 7


# Forms of listeners ---------------------------------------------------------------------


def test_listeners_are_functions_or_objects_with_or_without_a_context() -> None:
    received = []

    class AnObject:
        async def __call__(self, messages) -> None:
            received.append("object")

    async def with_context(messages, context) -> ConsumeResult:
        received.append(context.queue)
        return ConsumeResult.SUCCESS

    def with_default(messages, more=None) -> None:
        received.append(more)

    async def main(cluster, broker, listener):
        broker.offsets["T", 0] = 0
        broker.store(1)
        async with cluster.process() as app, cluster.a_consumer(app, listener):
            await trio.sleep(1)
        return broker.offsets["T", 0]

    for listener in (AnObject(), with_context, with_default):
        assert in_group(partial(main, listener=listener)) == 1
    assert received == ["object", a_queue(), None]
