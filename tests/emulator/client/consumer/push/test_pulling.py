"""Pulls from a broker with scripted answers: the time and the offset of the next pull."""

from __future__ import annotations

import pytest
import trio

from rocketmq_emulator.facts import ConnectionOpened, OffsetRepaired, PullFailed, QueuesClaimed
from rocketmq_emulator.net.results import Reply
from rocketmq_emulator.protocol.codes import ResponseCode
from rocketmq_emulator.protocol.requests.offsets import OffsetReply
from tests.support.client.client_cluster import SILENT
from tests.support.client.pulled_broker import PULL, a_queue, in_group

QUERY_OFFSET = 14


def pulled(story_seconds, prepare, *, queues=1, listener=lambda messages: None, **settings):
    """Prepare the broker, consume for some seconds; return (cluster, broker)."""

    async def main(cluster, broker):
        prepare(broker)
        async with cluster.process() as app, cluster.a_consumer(app, listener, **settings):
            await trio.sleep(story_seconds)
        return cluster, broker

    return in_group(main, queues=queues)


def answering(*replies):
    def prepare(broker) -> None:
        broker.replies[PULL].extend(replies)

    return prepare


@pytest.mark.parametrize(("release", "first_s"), [("4.9.7", 0.0), ("5.1.3", 0.5), ("5.3.3", 1.5)])
def test_client_invariant_37_the_first_pull_of_a_new_queue(release, first_s) -> None:
    # 5.3.3: the first pass is a second after the start.
    _, broker = pulled(2, answering(), release=release)
    assert broker.pulls()[0] == (first_s, 0)


def test_client_invariant_38_one_pull_at_a_time_and_a_bounded_cache() -> None:
    async def stuck(messages) -> None:
        await trio.sleep_forever()

    def prepare(broker) -> None:
        broker.offsets["T", 0] = 0
        broker.store(5_000)

    _, broker = pulled(30, prepare, listener=stuck)
    offsets = [offset for _, offset in broker.pulls()]
    assert offsets == list(range(0, 1_024, 32))  # 1,024 are more than a thousand: no more pulls
    assert max(offsets) + 32 <= 1_032


@pytest.mark.parametrize(
    ("reply", "release", "delay_s"),
    [
        (Reply(code=ResponseCode.SYSTEM_ERROR), "4.9.7", 1.0),
        (Reply(code=ResponseCode.SUBSCRIPTION_NOT_LATEST), "4.9.7", 1.0),
        (Reply(code=ResponseCode.FLOW_CONTROL), "4.9.4", 1.0),
        (Reply(code=ResponseCode.FLOW_CONTROL), "4.9.5", 0.02),
        (Reply(code=ResponseCode.FLOW_CONTROL), "5.0.0", 1.0),
        (Reply(code=ResponseCode.FLOW_CONTROL), "5.3.3", 0.02),
        (Reply(code=ResponseCode.SUCCESS), "4.9.7", 1.0),  # none of its required fields
    ],
)
def test_client_invariant_39_a_pull_that_fails_comes_again(reply, release, delay_s) -> None:
    cluster, broker = pulled(4, answering(reply), release=release)
    first, second, *_ = (at for at, _ in broker.pulls())
    assert round(second - first, 3) == delay_s
    assert [fact.queue.queue_id for fact in cluster.facts_of(PullFailed)] == [0]


@pytest.mark.parametrize(
    ("finished_s", "next_pull_s"), [(3.31, 3.35), (3.36, 3.4), (3.42, 3.45), (3.49, 3.5)]
)
def test_client_invariant_39_a_full_queue_is_checked_every_50_ms(finished_s, next_pull_s) -> None:
    async def all_at_once(messages) -> None:
        await trio.sleep_until(finished_s)

    def prepare(broker) -> None:
        broker.offsets["T", 0] = 0
        broker.store(2_000)

    _, broker = pulled(3.9, prepare, listener=all_at_once, consume_batch_max=1024)
    # 1,024 messages are cached at once, which is above the limit until the listener ends.
    assert [at for at, offset in broker.pulls() if offset < 1_024] == [0.0] * 32
    assert min(at for at, offset in broker.pulls() if offset >= 1_024) == next_pull_s


def test_client_invariant_39_a_paused_consumer_checks_once_a_second() -> None:
    async def main(cluster, broker):
        broker.offsets["T", 0] = 0
        async with cluster.process() as app, cluster.a_consumer(app) as consumer:
            await trio.sleep(5)
            consumer.suspend()
            broker.store(1)  # it ends the held pull; the next one waits for the end of the pause
            await trio.sleep(3.5)
            paused_until = len(broker.pulls())
            await consumer.resume()
            await trio.sleep(2)
        return broker.pulls(), paused_until

    pulls, paused_until = in_group(main)
    assert paused_until == 1
    assert pulls[1] == (9.0, 1)


def test_a_pull_that_is_never_answered_is_given_up_after_30_seconds() -> None:
    cluster, broker = pulled(40, answering(SILENT))
    assert [at for at, _ in broker.pulls()][:2] == [0.0, 31.0]
    assert len(cluster.facts_of(PullFailed)) == 1


def test_client_invariant_60_a_pull_that_is_never_answered_leaves_its_connection_open() -> None:
    cluster, broker = pulled(40, answering(SILENT))
    assert len(cluster.facts_of(PullFailed)) == 1
    opened = [fact.peer for fact in cluster.facts_of(ConnectionOpened)]
    assert opened.count(broker.address) == 1


def test_client_invariant_40_an_empty_queue_costs_one_pull_in_15_seconds() -> None:
    _, broker = pulled(50, answering())
    assert broker.pulls() == [(0.0, 0), (15.0, 0), (30.0, 0), (45.0, 0)]


def test_client_invariant_40_a_message_that_arrives_is_pulled_at_once() -> None:
    seen = []

    async def main(cluster, broker):
        def listen(messages) -> None:
            seen.append(cluster.now_s())

        async with cluster.process() as app, cluster.a_consumer(app, listen):
            await trio.sleep(7)
            broker.store(1)
            await trio.sleep(1)
        return broker.pulls()

    assert in_group(main) == [(0.0, 0), (7.0, 1)]
    assert seen == [7.0]


def test_client_invariant_41_a_lost_pull_request_is_replaced_but_a_full_queue_is_not() -> None:
    async def stuck(messages) -> None:
        await trio.sleep_forever()

    async def main(cluster, broker):
        broker.offsets["T", 0] = broker.offsets["T", 1] = 0
        broker.store(2_000, queue_id=0)
        async with cluster.process() as app, cluster.a_consumer(app, stuck) as consumer:
            await trio.sleep(1)
            held = consumer._running.member.process_queue_table
            full, lost = held[a_queue(0)], held[a_queue(1)]
            service = consumer.instance.pull_service
            # The next pull request is lost, as with a thread that died.
            pull_now = service.pull_now
            service.pull_now = lambda r: r.process_queue is lost or pull_now(r)
            await trio.sleep(160)
            return held[a_queue(0)] is full, held[a_queue(1)] is lost

    assert in_group(main, queues=2) == (True, False)


def test_client_invariant_42_up_to_5_1_a_queue_with_an_illegal_offset_rests_10_seconds() -> None:
    held = []

    async def main(cluster, broker) -> None:
        broker.offsets["T", 0] = 500
        broker.store(100)
        async with cluster.process() as app, cluster.a_consumer(app) as consumer:
            for until_s in (9.99, 10.01, 19.99, 20.01):
                await trio.sleep_until(until_s)
                held.append((until_s, len(consumer.queues)))

    in_group(main)
    assert held == [(9.99, 1), (10.01, 0), (19.99, 0), (20.01, 1)]


@pytest.mark.parametrize(("release", "after_s"), [("4.9.7", (10, 30)), ("5.3.3", (0.5, 1.6))])
def test_client_invariant_42_an_illegal_offset_is_repaired(release, after_s) -> None:
    def prepare(broker) -> None:
        broker.offsets["T", 0] = 500
        broker.store(100)

    cluster, broker = pulled(45, prepare, release=release)
    (illegal, _), (next_at, next_offset), *_ = broker.pulls()
    assert after_s[0] <= next_at - illegal <= after_s[1]
    assert next_offset == 100
    (fact,) = cluster.facts_of(OffsetRepaired)
    assert (fact.asked, fact.corrected) == (500, 100)
    assert broker.offsets["T", 0] == 100


@pytest.mark.parametrize(
    ("policy", "stored", "start"),
    [
        ("CONSUME_FROM_LAST_OFFSET", None, 50),
        ("CONSUME_FROM_LAST_OFFSET", 0, 0),  # a broker's answer for a new queue
        ("CONSUME_FROM_LAST_OFFSET", 20, 20),
        ("CONSUME_FROM_FIRST_OFFSET", None, 0),
        ("CONSUME_FROM_TIMESTAMP", None, 7),
        ("CONSUME_FROM_TIMESTAMP", 20, 20),
    ],
)
def test_client_invariant_44_where_a_group_starts(policy, stored, start) -> None:
    def prepare(broker) -> None:
        broker.store(50)
        if stored is not None:
            broker.offsets["T", 0] = stored

    _, broker = pulled(1, prepare, consume_from=policy)
    assert broker.pulls()[0][1] == start


def test_client_invariant_44_a_retry_topic_starts_at_its_beginning() -> None:
    async def main(cluster, broker):
        cluster.namesrv.routes["%RETRY%cg"] = cluster.route(1)
        broker.store(3, topic="%RETRY%cg")
        async with cluster.process() as app, cluster.a_consumer(app):
            await trio.sleep(1)
        return broker.pulls(topic="%RETRY%cg")

    assert in_group(main)[0] == (0.0, 0)


@pytest.mark.parametrize(("release", "claimed"), [("4.9.7", 1), ("5.3.3", 0)])
def test_an_error_about_the_offset_is_no_offset_in_4_and_no_queue_in_5(release, claimed) -> None:
    def prepare(broker) -> None:
        broker.store(50)
        broker.replies[14].extend([Reply(code=ResponseCode.SYSTEM_ERROR)] * 9)

    cluster, broker = pulled(3, prepare, release=release)
    assert len(cluster.facts_of(QueuesClaimed)) == claimed
    assert [offset for _, offset in broker.pulls()] == [50] * claimed


@pytest.mark.parametrize(
    ("release", "begins"),
    [("4.8.0", -1), ("4.9.7", -1), ("4.9.8", -1), ("5.0.0", 20), ("5.3.3", 20)],
)
def test_up_to_4_9_8_an_orderly_first_pull_takes_silence_about_its_offset_for_minus_one(
    release, begins
) -> None:
    """rocketmq #2708, #1825: the pass got the offset, the first pull queries it again."""

    async def main(cluster, broker):
        broker.store(50)
        broker.offsets["T", 0] = 20
        broker.replies[QUERY_OFFSET].extend([Reply(OffsetReply(offset=20)), SILENT])
        async with (
            cluster.process() as app,
            cluster.a_consumer(app, orderly=True, release=release),
        ):
            await trio.sleep(45)
        return cluster, broker

    cluster, broker = in_group(main)
    assert broker.pulls()[0][1] == begins
    repaired = [(fact.asked, fact.corrected) for fact in cluster.facts_of(OffsetRepaired)]
    assert repaired == ([(-1, 0)] if begins < 0 else [])
    assert (0 in [offset for _, offset in broker.pulls()]) is (begins < 0), "consumed again from 0"


@pytest.mark.parametrize(("release", "is_checked"), [("4.8.0", False), ("4.9.0", True)])
@pytest.mark.parametrize(
    ("policy", "code", "start"),
    [("CONSUME_FROM_LAST_OFFSET", 30, 50), ("CONSUME_FROM_TIMESTAMP", 29, 7)],
)
def test_up_to_4_8_so_it_takes_a_failed_search_of_a_new_group_s_start(
    policy, code, start, release, is_checked
) -> None:
    async def main(cluster, broker):
        broker.store(50)
        broker.replies[code].extend([Reply(OffsetReply(offset=start)), SILENT])
        settings = {"orderly": True, "release": release, "consume_from": policy}
        async with cluster.process() as app, cluster.a_consumer(app, **settings):
            await trio.sleep(45)
        return broker.pulls()

    assert in_group(main)[0][1] == (start if is_checked else -1)


@pytest.mark.parametrize("release", ["4.8.0", "4.9.7", "5.3.3"])
def test_a_pass_takes_no_queue_whose_offset_it_cannot_learn(release) -> None:
    def prepare(broker) -> None:
        broker.store(50)
        broker.replies[QUERY_OFFSET].extend([SILENT] * 9)

    cluster, broker = pulled(25, prepare, release=release)
    assert (cluster.facts_of(QueuesClaimed), broker.pulls()) == ([], [])


def test_messages_with_other_tags_are_skipped_and_committed() -> None:
    received = []

    def prepare(broker) -> None:
        broker.offsets["T", 0] = 0
        broker.store(2, properties={"TAGS": "TagA"})
        broker.store(2, properties={"TAGS": "TagB"})
        broker.store(1)

    _, broker = pulled(
        21, prepare, listener=lambda ms: received.extend(m.tags for m in ms), topics={"T": "TagB"}
    )
    assert received == ["TagB", "TagB"]
    assert broker.offsets["T", 0] == 5


def test_a_pull_carries_the_commit_offset() -> None:
    def prepare(broker) -> None:
        broker.offsets["T", 0] = 0
        broker.store(40)

    _, broker = pulled(16, prepare)
    first, second, _, last = broker.requests(PULL)
    assert (first.sys_flag, first.commit_offset) == (2, 0)
    assert second.queue_offset == 32
    assert (last.sys_flag, last.commit_offset, last.queue_offset) == (3, 40, 40)
    assert first.sub_version > 0
    assert (first.subscription, first.expression_type) == (None, "TAG")
