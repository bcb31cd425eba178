import trio
from whole_cluster import in_cluster

from emulator.facts import MessageConsumed, QueuesClaimed
from protocol.message import Message


def test_every_message_reaches_the_listener() -> None:
    bodies = []

    def listen(messages) -> None:
        bodies.extend(message.body for message in messages)

    async def story(cluster) -> None:
        async with cluster.process("producer") as p, cluster.a_producer(p) as producer:
            for number in range(20):
                await producer.send(Message("orders", b"%d" % number))
        async with cluster.process("app") as a, cluster.a_consumer(a, listen, {"orders": "*"}):
            await trio.sleep(5)

    in_cluster(story, orders=4)
    assert sorted(bodies) == sorted([b"first", *(b"%d" % n for n in range(20))])
