"""docs/live.svg: the live view of ``up`` some seconds after a broker was killed.

    python -m docs.generate.live_picture

A real cluster on the usual ports, with a producer and two consumers of this project; only the
size of the window and the times are chosen here.
"""

from __future__ import annotations

import contextlib
import time
from functools import partial

import trio
from rich.console import Group

from docs.generate.sections import DOCS
from docs.generate.terminal_picture import picture
from rocketmq_emulator.admin.calls import admin_over_tcp
from rocketmq_emulator.admin.overview import ClusterSnapshot, changes_between
from rocketmq_emulator.cli.screens.live import ClusterWatch
from rocketmq_emulator.cli.screens.live_screen import (
    ClusterEvent,
    ClusterSummary,
    LiveFrame,
    LiveScreen,
)
from rocketmq_emulator.client import Message, Producer, PushConsumer
from rocketmq_emulator.cluster.spec import ClusterSpec
from rocketmq_emulator.cluster.worlds.processes import ProcessCluster
from rocketmq_emulator.errors.call_errors import ClientError
from rocketmq_emulator.net.tasks import cancelling_nursery
from rocketmq_emulator.protocol.bodies.topics import TopicConfig

PICTURE = DOCS / "live.svg"
COLUMNS, ROWS = 100, 28
TOPICS = {"orders": 4, "payments": 2, "shipments": 2}  # with their queues on each broker
EVERY_S = 0.004
SECOND_CONSUMER_S, KILL_S, END_S = 4.0, 9.0, 17.0


def main() -> None:
    with ProcessCluster(ClusterSpec(brokers=2, port=9876)) as cluster:
        cluster.open_control(9875)
        trio.run(_play, cluster)


async def _play(cluster: ProcessCluster) -> None:
    async with cancelling_nursery() as nursery:
        watch = ClusterWatch(cluster)
        nursery.start_soon(watch.run)
        nursery.start_soon(_draw, cluster, watch)
        await _make_topics(cluster.namesrv)
        nursery.start_soon(_produce, cluster.namesrv)
        nursery.start_soon(_consume, cluster.namesrv)
        await trio.sleep(SECOND_CONSUMER_S)
        nursery.start_soon(_consume, cluster.namesrv)
        await trio.sleep(KILL_S - SECOND_CONSUMER_S)
        await trio.to_thread.run_sync(cluster.kill, "broker-b")
        await trio.sleep(END_S - KILL_S)
        nursery.cancel_scope.cancel()


async def _draw(cluster: ProcessCluster, watch: ClusterWatch) -> None:
    screen = LiveScreen(
        ClusterSummary(cluster.spec.release, cluster.namesrv, control=cluster.control)
    )
    news = [ClusterEvent(_now_ms(), f"ready in {cluster.ready_s:.2f} s")]
    began_s, before = trio.current_time(), None
    await watch.wait_first_answers()
    while True:
        snapshot: ClusterSnapshot = watch.snapshot()
        if before is not None:
            news += [ClusterEvent(_now_ms(), text) for text in changes_between(before, snapshot)]
        before = snapshot
        frame = LiveFrame(_now_ms(), trio.current_time() - began_s, snapshot, news)
        lines = screen.draw(frame, COLUMNS, ROWS)
        watch.shown_groups = screen.shown_groups
        PICTURE.write_text(picture(Group(*lines), columns=COLUMNS, title="rmqemu up"))
        await trio.sleep(1)


async def _make_topics(namesrv: str) -> None:
    async with admin_over_tcp(namesrv) as admin:
        for name, queues in TOPICS.items():
            topic = TopicConfig(topic_name=name, read_queue_nums=queues, write_queue_nums=queues)
            await admin.create_topic_everywhere(topic)


async def _produce(namesrv: str) -> None:
    async with Producer(namesrv=namesrv, group="shop") as producer, trio.open_nursery() as sends:
        for number in range(1_000_000):
            topic = "payments" if number % 5 == 0 else "orders"
            sends.start_soon(partial(_send, producer, Message(topic, b"x" * 200)))
            await trio.sleep(EVERY_S)


async def _send(producer: Producer, message: Message) -> None:
    with contextlib.suppress(ClientError):  # a broker dies here; an application would send again
        await producer.send(message)


async def _consume(namesrv: str) -> None:
    async def bill(_messages: object, _context: object) -> None:
        """Every message succeeds."""

    async with PushConsumer(bill, {"orders": "*"}, namesrv=namesrv, group="billing"):
        await trio.sleep_forever()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


if __name__ == "__main__":
    main()
