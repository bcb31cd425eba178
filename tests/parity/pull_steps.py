"""Steps of our pull consumers: the result of each step, and the calls that it made to the broker.

The same steps run on our cluster and on a real RocketMQ of the same release; the answers of
the real one are recorded.  Before the first step the topic has one queue and one message.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import trio

from rocketmq_emulator.client import (
    ClientError,
    ClientProcess,
    LitePullConsumer,
    Message,
    MessageExt,
    MessageQueue,
    Producer,
    PullConsumer,
    PullResult,
    by_hash,
)
from rocketmq_emulator.protocol.fields import fields_of

RECORDING = "pulls"
SENT = 23
LEFT_ALONE = {34, 35, 38, 105}  # heartbeats, member lists, routes: sent by timers, not by steps
PULLS = {11, 361}
SHOWN = ("queueOffset", "maxMsgNums", "sysFlag", "commitOffset", "subscription", "expressionType")

Answers = dict[str, Any]


async def answers_of(process: ClientProcess, namesrv: str, release: str, topic: str) -> Answers:
    """The answer of each step, by its title."""
    steps = _Pulls(process, {"namesrv": namesrv, "release": release}, topic)
    await steps.send()
    await steps.explicit_pulls()
    await steps.offsets()
    await steps.assigned()
    await steps.subscribed()
    return steps.answers


class _Pulls:
    def __init__(self, process: ClientProcess, client: dict[str, Any], topic: str) -> None:
        self.answers: Answers = {}
        self._process, self._client, self._topic = process, client, topic
        self._calls: list[Any] = []

    async def send(self) -> None:
        async with Producer(process=self._process, group="pullers", **self._client) as producer:
            for number in range(SENT):
                message = Message(self._topic, b"%d" % number, tags="AB"[number % 2])
                await producer.send_to_selected(message, by_hash, "one queue")

    async def explicit_pulls(self) -> None:
        async with self._puller("explicit") as consumer:
            self._listen(consumer)
            [queue] = await consumer.fetch_subscribe_message_queues(self._topic)
            pulls: tuple[tuple[str, int, dict[str, Any]], ...] = (
                ("the first five", 0, {"messages_max": 5}),
                ("from the middle", 20, {}),
                ("one tag", 0, {"expression": "B", "messages_max": 6}),
                ("no tag of it", 0, {"expression": "C"}),
                ("at the end", SENT + 1, {}),
                ("far behind the end", 1_000, {}),
                ("an expression of a type that is off", 0, {"expression": ("a > 1", "SQL92")}),
            )
            for title, offset, more in pulls:
                await self._step(title, partial(consumer.pull, queue, offset, **more))
            beyond = MessageQueue(queue.topic, queue.broker_name, 7)
            await self._step("a queue there is not", lambda: consumer.pull(beyond, 0))
            nowhere = MessageQueue("no-such-topic-1", queue.broker_name, 0)
            await self._step("a topic there is not", lambda: consumer.pull(nowhere, 0))
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._send_later)
                end = SENT + 1
                await self._step(
                    "held until a message comes",
                    lambda: consumer.pull_block_if_not_found(queue, end),
                )

    async def offsets(self) -> None:
        async with self._puller("offsets") as consumer:
            self._listen(consumer)
            [queue] = await consumer.fetch_subscribe_message_queues(self._topic)
            await self._step("min offset", lambda: consumer.min_offset(queue))
            await self._step("max offset", lambda: consumer.max_offset(queue))
            await self._step("by a time before all", lambda: consumer.search_offset(queue, 1))
            await self._step("a new group's", lambda: consumer.fetch_consume_offset(queue))
            consumer.update_consume_offset(queue, 9)
            await self._step("in memory", lambda: consumer.fetch_consume_offset(queue))
            consumer.persist(queue)
            await trio.sleep(0.3)  # the commit is one-way
            stored = lambda: consumer.fetch_consume_offset(queue, from_store=True)  # noqa: E731
            await self._step("stored", stored)

    async def assigned(self) -> None:
        async with self._lite("assigned", auto_commit=False) as consumer:
            self._listen(consumer)
            [queue] = await consumer.fetch_message_queues(self._topic)
            consumer.assign([queue])
            await self._step("the first poll", consumer.poll)
            await self._step("committed before", lambda: consumer.committed(queue))
            consumer.commit([queue], persist=True)
            await self._step("committed after", lambda: consumer.committed(queue))
            await self._step("seek there", lambda: consumer.seek(queue, 20))
            await self._step("polled from there", consumer.poll)
            await self._step("seek too far", lambda: consumer.seek(queue, 1_000))
            await self._step("seek to the end", lambda: consumer.seek_to_end(queue))
            await self._step("nothing at the end", lambda: consumer.poll(500))
            await self._step("seek to the beginning", lambda: consumer.seek_to_begin(queue))
            await self._step("polled from the beginning", consumer.poll)
            time = lambda: consumer.offset_for_timestamp(queue, 1)  # noqa: E731
            await self._step("the offset of a time before all", time)
        async with self._puller("assigned") as consumer:
            self._listen(consumer)
            await self._step("stored by it", lambda: consumer.fetch_consume_offset(queue))

    async def subscribed(self) -> None:
        async with self._lite("subscribed", auto_commit=False) as consumer:
            await consumer.subscribe(self._topic, "A")
            messages: list[MessageExt] = []
            with trio.fail_after(40):
                while len(messages) < 12:
                    messages += await consumer.poll(1_000)
            [queue] = consumer.queues
            self.answers["polled of a subscription"] = _shown(messages)
            consumer.commit()
            self.answers["committed of it"] = await consumer.committed(queue)

    # Inside ---------------------------------------------------------------------------

    async def _step(self, title: str, act: Callable[[], Awaitable[object]]) -> None:
        self._calls.clear()
        try:
            answer = _shown(await act())
        except ClientError as error:
            answer = f"{type(error).__name__} {error.code}"
        calls = [call for call in self._calls if call["code"] not in LEFT_ALONE]
        self.answers[title] = {"answer": answer, "calls": calls}

    def _listen(self, consumer: PullConsumer | LitePullConsumer) -> None:
        """Record the requests of *consumer*, and the codes of their answers.

        Of the pulls that the tasks of a lite pull consumer send, only the first is recorded.
        """
        tasks_pull = isinstance(consumer, LitePullConsumer)
        remoting = consumer.instance.remoting
        invoke = remoting.invoke

        async def heard(
            address: str, rpc: Any, header: Any = None, *rest: Any, **more: Any
        ) -> Any:
            reply = await invoke(address, rpc, header, *rest, **more)
            said = _fields(header)
            call = {"code": rpc.code, "answer": reply.code}
            call |= {name: said[name] for name in SHOWN if name in said}
            if tasks_pull and rpc.code in PULLS:
                self.answers.setdefault("what its tasks ask first", call)
            else:
                self._calls.append(call)
            return reply

        remoting.invoke = heard  # type: ignore[method-assign]

    async def _send_later(self) -> None:
        await trio.sleep(0.3)
        async with Producer(process=self._process, group="pullers", **self._client) as producer:
            await producer.send_to_selected(Message(self._topic, b"late"), by_hash, "one queue")

    def _puller(self, group: str) -> PullConsumer:
        named = f"{self._topic}-{group}"
        return PullConsumer(process=self._process, group=named, **self._client)

    def _lite(self, group: str, **more: Any) -> LitePullConsumer:
        first = {"consume_from": "CONSUME_FROM_FIRST_OFFSET", **more}
        named = f"{self._topic}-{group}"
        return LitePullConsumer(process=self._process, group=named, **self._client, **first)


def _fields(header: Any) -> dict[str, Any]:
    return {} if header is None else fields_of(header)


def _shown(answer: object) -> Any:
    if isinstance(answer, PullResult):
        ends = answer.next_begin_offset, answer.min_offset, answer.max_offset
        return [answer.status.name, *ends, _shown(answer.messages)]
    if isinstance(answer, list):
        return [[message.queue_offset, message.body.decode()] for message in answer]
    return answer
