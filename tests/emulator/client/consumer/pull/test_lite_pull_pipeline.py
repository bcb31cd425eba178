"""Messages that lite pull consumers of some releases lose or repeat, and later ones do not."""

from __future__ import annotations

import pytest
import trio

from rocketmq_emulator.facts import QueuesClaimed
from rocketmq_emulator.net.results import Reply
from rocketmq_emulator.protocol.codes import ResponseCode
from rocketmq_emulator.protocol.messages.message import Message
from tests.support.client.client_cluster import SILENT
from tests.support.client.pulled_broker import PULL, a_queue, in_group
from tests.support.client.whole_cluster import in_cluster

LITE_PULL, QUERY = 361, 14
FIRST = {"consume_from": "CONSUME_FROM_FIRST_OFFSET"}


async def send(cluster, body) -> None:
    process = cluster.process("producer")
    async with process, cluster.a_producer(process) as producer:
        await producer.send(Message("orders", body))


async def polled(consumer) -> list[bytes]:
    """Poll until no message comes for a second; return all bodies."""
    bodies = []
    while messages := await consumer.poll(1_000):
        bodies += [message.body for message in messages]
    return bodies


def offsets_pulled(broker) -> list[int]:
    return [
        request.queue_offset for code in (PULL, LITE_PULL) for request in broker.requests(code)
    ]


@pytest.mark.parametrize(
    ("release", "delivered"),
    [("4.8.0", [b"first", b"after"]), ("4.9.0", [b"first", b"meanwhile", b"after"])],
)
def test_s13_a_pull_that_outlives_its_queue_moves_the_next_owner_until_4_9_0(
    release, delivered
) -> None:
    """rocketmq #2732, fixed by #2832: a message is lost, and the committed offset is after it.

    The queue goes to another member and comes back while the first pull is still held.  There
    is one thread, so the new task waits for the old one.
    """

    async def main(cluster):
        other, app = cluster.process("other"), cluster.process("app")
        topics, old = {"orders": "*"}, {"release": release, "pull_threads_max": 1, **FIRST}
        async with app, cluster.a_lite_consumer(app, topics, auto_commit=False, **old) as one:
            await trio.sleep(2)
            bodies = await polled(one)
            one.commit()
            async with other, cluster.a_lite_consumer(other, topics, **FIRST):
                await trio.sleep(2)
                assert one.queues == [], "the other's id is the first in the order of members"
            await trio.sleep(0.1)
            assert len(one.queues) == 1
            await send(cluster, b"meanwhile")
            await send(cluster, b"after")
            bodies += await polled(one)
            one.commit()
            [queue] = one.queues
            claims = len(cluster.facts_of(QueuesClaimed))
            return bodies, await one.committed(queue), claims

    bodies, committed, claims = in_cluster(main, orders=1)
    assert claims == 3
    assert (bodies, committed) == (delivered, 3)


@pytest.mark.parametrize(
    ("quirks", "committed", "again"),
    [(("count_pulled_as_consumed",), 31, []), ((), 10, list(range(10, 31)))],
)
def test_s14_with_the_bug_of_1470_every_pull_counts_as_consumed(quirks, committed, again) -> None:
    """rocketmq #1470, fixed by #1461 before 4.6.0, the first release with this consumer."""

    async def main(cluster, broker):
        broker.store(30)
        settings = {"release": "4.6.0", "quirks": quirks, "auto_commit": False, **FIRST}
        app, heir = cluster.process("app"), cluster.process("heir")
        async with app, cluster.a_lite_consumer(app, **settings) as consumer:
            consumer.assign([a_queue()])
            await consumer.poll()
            broker.store(1)
            await trio.sleep(0.1)
            consumer.commit([a_queue()], persist=True)
            await trio.sleep(0.1)
            stored = broker.offsets["T", 0]
        async with heir, cluster.a_lite_consumer(heir, **settings) as consumer:
            consumer.assign([a_queue()])
            offsets = []
            while messages := await consumer.poll(1_000):
                offsets += [message.queue_offset for message in messages]
            return stored, offsets

    assert in_group(main) == (committed, again)


@pytest.mark.parametrize(("release", "began"), [("4.9.8", 0), ("5.0.0", 7)])
def test_s30_until_5_0_an_error_about_the_offset_begins_at_the_first_message(
    release, began
) -> None:
    """rocketmq #10176: a group that has consumed begins again at the first offset.

    4.x reads an error answer as: no offset is stored.
    """

    async def main(cluster, broker):
        broker.store(9)
        broker.offsets["T", 0] = 7
        broker.replies[QUERY].append(Reply(code=ResponseCode.SYSTEM_ERROR, remark="no memory"))
        app = cluster.process()
        async with app, cluster.a_lite_consumer(app, release=release, **FIRST) as consumer:
            consumer.assign([a_queue()])
            (first, *_) = await consumer.poll()
            return first.queue_offset

    assert in_group(main) == began


@pytest.mark.parametrize("release", ["4.9.8", "5.0.0", "5.3.3"])
def test_s30_no_release_pulls_at_an_offset_that_it_could_not_learn(release) -> None:
    """#10176 warns of such a pull; upstream's client refuses it below 0, and queries again."""

    async def main(cluster, broker):
        broker.store(9)
        broker.offsets["T", 0] = 7
        broker.replies[QUERY] += [SILENT, SILENT]
        app = cluster.process()
        async with app, cluster.a_lite_consumer(app, release=release, **FIRST) as consumer:
            consumer.assign([a_queue()])
            began_s = cluster.now_s()
            (first, *_) = await consumer.poll(60_000)
            return first.queue_offset, cluster.now_s() - began_s, min(offsets_pulled(broker))

    began, took_s, lowest = in_group(main)
    assert (began, lowest) == (7, 7)
    assert took_s == pytest.approx(12, abs=0.1), "two timeouts of 5 s, two delays of 1 s"
