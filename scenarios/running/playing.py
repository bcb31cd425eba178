"""A client's part, played in a client process of any world until it is ended.

A producer sends on time whatever became of the message before; a member consumes.  Both come
back to their part after a kill: a producer goes on with what is due then.
"""

from __future__ import annotations

import contextlib
import heapq
import random
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import trio

from emulator.client import (
    ClientError,
    LitePullConsumer,
    Message,
    Misuse,
    Producer,
    PushConsumer,
    SendError,
    by_hash,
)
from emulator.net.plain_nursery import whole_nursery
from scenarios.running.functions import function_named
from scenarios.running.listening import PlannedListener
from scenarios.running.loads import Contents, due_messages
from scenarios.running.parts import AnyPart, MemberPart, ProducerPart, ProgramPart
from scenarios.strategies import strategy_named

if TYPE_CHECKING:
    from emulator.client import ClientProcess

Tell = Callable[[Callable[[], str]], None]  # takes what says, when asked, what is under way

SENDS_UNDER_WAY_MAX = 2_000  # of one producer; what falls due above it is not sent
START_AGAIN_S = 1.0
STARTING_MS_MAX = 1_000  # what falls due while a producer starts is sent when it has started


async def play(part: AnyPart, process: ClientProcess, tell: Tell, ending: trio.Event) -> None:
    """Until the part is over, or *ending* is set: then the client leaves its block in order.

    Raises what a program of the user's own raises.
    """
    while not ending.is_set():
        try:
            match part:
                case MemberPart():
                    await _consume(part, process, tell, ending)
                case ProducerPart():
                    await _produce(part, process, tell, ending)
                case ProgramPart():
                    await _until(ending, lambda: _run(part, process))
        except Misuse:
            raise
        except ClientError:  # it could not start: an application would be started again
            with trio.move_on_after(START_AGAIN_S):
                await ending.wait()
        else:
            return


async def _until(ending: trio.Event, work: Callable[[], Awaitable[object]]) -> None:
    """*work*, which is cancelled when *ending* is set."""

    async def do() -> None:
        await work()
        nursery.cancel_scope.cancel()

    async with whole_nursery() as nursery:
        nursery.start_soon(do)
        await ending.wait()
        nursery.cancel_scope.cancel()


# Consumers ------------------------------------------------------------------------------------


async def _consume(
    part: MemberPart, process: ClientProcess, tell: Tell, ending: trio.Event
) -> None:
    plan = part.consumers
    settings: dict[str, Any] = {
        "namesrv": part.namesrv,
        "release": part.release,
        "quirks": part.quirks,
        "group": plan.group,
        **({"model": "BROADCASTING"} if plan.broadcast else {}),
        **plan.settings,
        **plan.settings_of.get(part.name, {}),
    }
    listener = PlannedListener(
        plan.listener,
        _rng(part, process),
        lambda: (process.clock.mono_us() - part.began_us) / 1_000,
        process.clock.new_alarm,
        salt=f"{part.seed}/{plan.group}",
    )
    tell(lambda: f"{listener.under_way} messages at its listener" if listener.under_way else "")
    strategy = strategy_named(plan.strategy)
    topics = dict(plan.topics)
    if plan.kind == "push":
        async with PushConsumer(
            listener.listen,
            topics,
            process=process,
            strategy=strategy,
            orderly=plan.orderly,
            **settings,
        ):
            await ending.wait()
        return
    async with LitePullConsumer(
        topics, process=process, strategy=strategy, **settings
    ) as consumer:

        async def poll() -> None:
            async for message in consumer:
                await listener.listen([message])

        async def poll_and_seek() -> None:
            async with whole_nursery() as nursery:
                nursery.start_soon(_seek_on_time, part, process, consumer)
                await poll()

        await _until(ending, poll_and_seek if plan.seeks_ms else poll)


async def _seek_on_time(
    part: MemberPart, process: ClientProcess, consumer: LitePullConsumer
) -> None:
    """At each planned time back in one of its queues, by chance; without queues it stays."""
    rng, alarm = _rng(part, process, "seeks"), process.clock.new_alarm()
    passed_ms = (process.clock.mono_us() - part.began_us) / 1_000
    began_s = trio.current_time() - passed_ms / 1_000
    for at_ms in sorted(part.consumers.seeks_ms):
        if at_ms < passed_ms:
            continue  # of an earlier life
        await alarm.wait_until(began_s + at_ms / 1_000)
        if not (queues := consumer.queues):
            continue
        queue, back = rng.choice(queues), rng.randint(0, part.consumers.seek_back_max)
        with contextlib.suppress(ClientError):  # its broker is away, or it lost the queue just now
            committed = await consumer.committed(queue)
            await consumer.seek(queue, max(0, (committed or 0) - back))


# Producers ------------------------------------------------------------------------------------


async def _produce(
    part: ProducerPart, process: ClientProcess, tell: Tell, ending: trio.Event
) -> None:
    settings = {
        "namesrv": part.namesrv,
        "release": part.release,
        "quirks": part.quirks,
        "group": part.name,
        **part.load.settings,
    }
    async with Producer(process=process, **settings) as producer:
        sender = _Sender(producer, part)
        tell(lambda: f"{sender.under_way} sends under way" if sender.under_way else "")
        await _until(ending, lambda: sender.send_all(process))


class _Sender:
    """Sends what is due, each message in a task of its own."""

    def __init__(self, producer: Producer, part: ProducerPart) -> None:
        self._producer = producer
        self._part = part
        self._contents = Contents(part.load, part.seed)
        self._send = {"sync": self._sync, "async": self._async, "oneway": self._one_way}[
            part.load.mode
        ]
        self._free_workers: list[int] = []  # a heap: upstream's threads, each with a round robin
        self.under_way = 0

    async def send_all(self, process: ClientProcess) -> None:
        """Until the load has ended, and its last send."""
        load, passed_ms = self._part.load, (process.clock.mono_us() - self._part.began_us) / 1_000
        began_s = trio.current_time() - passed_ms / 1_000
        is_first_life = passed_ms - load.from_ms < STARTING_MS_MAX
        from_ms = load.from_ms if is_first_life else passed_ms
        alarm = process.clock.new_alarm()  # cheaper than a cancel scope in virtual time
        async with whole_nursery() as nursery:
            for due in due_messages(load, self._part.index, from_ms):
                await alarm.wait_until(began_s + due.at_ms / 1_000)
                if self.under_way < SENDS_UNDER_WAY_MAX:
                    nursery.start_soon(self._send_call, due.numbers)

    async def _send_call(self, numbers: tuple[int, ...]) -> None:
        messages = [self._contents.message(number) for number in numbers]
        worker = heapq.heappop(self._free_workers) if self._free_workers else self.under_way
        self.under_way += 1
        try:
            if self._part.load.batch > 1:
                await self._producer.send_batch(messages, worker=worker)
            else:
                await self._send(messages[0], worker)
        except SendError:
            return  # the journal knows
        finally:
            self.under_way -= 1
            heapq.heappush(self._free_workers, worker)

    async def _sync(self, message: Message, worker: int) -> None:
        if message.keys is None:
            await self._producer.send(message, worker=worker)
        else:
            await self._producer.send_to_selected(message, by_hash, message.keys)

    async def _async(self, message: Message, worker: int) -> None:
        queue = await self._queue_of(message)
        await self._producer.start_send(message, queue=queue, worker=worker).wait_sent()

    async def _one_way(self, message: Message, worker: int) -> None:
        queue = await self._queue_of(message)
        await self._producer.send_one_way(message, queue=queue, worker=worker)

    async def _queue_of(self, message: Message) -> Any:
        if message.keys is None:
            return None
        return by_hash(await self._producer.publish_queues(message.topic), message, message.keys)


# Programs -------------------------------------------------------------------------------------


async def _run(part: ProgramPart, process: ClientProcess) -> None:
    program = function_named(part.program.run, "a client program")
    await program(process, part.namesrv, **part.program.arguments)


def _rng(part: AnyPart, process: ClientProcess, purpose: str = "") -> random.Random:
    """Of one life of a client: the next life draws other numbers."""
    since_us = process.clock.mono_us() - part.began_us
    return random.Random(f"{part.seed}/{part.name}/{since_us}{purpose}")
