"""Runs one planned client in its client process, in any world, until it is stopped.

A producer sends each message on time, whatever the result of the send before; a member consumes
with a listener that takes time, fails, raises and hangs by chance; a program is a
``module:function`` of the user's own.  A client that starts again after a kill continues: a
producer with the messages that are due then.

Message *n* of a load is the same from any producer, however often producers were killed: its due
time, size, key, tag and delay follow from the seed, the load and *n*.  The producers of a load
divide the numbers among them.
"""

from __future__ import annotations

import contextlib
import heapq
import importlib
import itertools
import random
import zlib
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec
import trio

from rocketmq_emulator.client import (
    ClientError,
    ConsumeResult,
    LitePullConsumer,
    LocalTransactionState,
    Message,
    Producer,
    PushConsumer,
    SendError,
    TransactionProducer,
    by_hash,
)
from rocketmq_emulator.clocks.clock import Alarm, TrioAlarm
from rocketmq_emulator.net.tasks import joining_nursery
from rocketmq_emulator.protocol.error_families import Misuse
from rocketmq_emulator.protocol.messages.subscription import typed_expression
from rocketmq_emulator.scenarios.plan.plan import ListenerPlan, LoadPlan
from rocketmq_emulator.scenarios.plan.strategies import strategy_named
from rocketmq_emulator.scenarios.running.client_specs import (
    AnyClientSpec,
    MemberSpec,
    ProducerSpec,
    ProgramSpec,
)
from rocketmq_emulator.text.old_names import renamed, renamed_import

if TYPE_CHECKING:
    from rocketmq_emulator.client import ClientProcess
    from rocketmq_emulator.protocol.messages.message import MessageExt
    from rocketmq_emulator.protocol.queues import MessageQueue


ReportOpenWork = Callable[
    [Callable[[], str]], None
]  # its argument is a function that describes the client's open work

SENDS_IN_FLIGHT_MAX = 2_000  # of one producer; messages that are due above it are not sent
START_AGAIN_S = 1.0
STARTING_MS_MAX = 1_000  # messages due while a producer starts are sent once it has started


async def run_client(
    part: AnyClientSpec,
    process: ClientProcess,
    report_open_work: ReportOpenWork,
    ending: trio.Event,
) -> None:
    """Run the client of *part* until it ends, or until *ending* is set: then it closes in order.

    Raises the errors of a program of the user's own.
    """
    while not ending.is_set():
        try:
            match part:
                case MemberSpec():
                    await _consume(part, process, report_open_work, ending)
                case ProducerSpec():
                    await _produce(part, process, report_open_work, ending)
                case ProgramSpec():
                    await _until(ending, lambda: _run(part, process))
        except Misuse:
            raise
        except ClientError:  # it could not start: an application would be started again
            with trio.move_on_after(START_AGAIN_S):
                await ending.wait()
        else:
            return


async def _until(ending: trio.Event, work: Callable[[], Awaitable[object]]) -> None:
    """Run *work*, and cancel it when *ending* is set."""

    async def do() -> None:
        await work()
        nursery.cancel_scope.cancel()

    async with joining_nursery() as nursery:
        nursery.start_soon(do)
        await ending.wait()
        nursery.cancel_scope.cancel()


# Consumers ------------------------------------------------------------------------------------


async def _consume(
    part: MemberSpec, process: ClientProcess, report_open_work: ReportOpenWork, ending: trio.Event
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
    report_open_work(
        lambda: f"{listener.in_flight} messages at its listener" if listener.in_flight else ""
    )
    strategy = strategy_named(plan.strategy)
    topics = {topic: typed_expression(text) for topic, text in plan.topics.items()}
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
            async with joining_nursery() as nursery:
                nursery.start_soon(_seek_on_time, part, process, consumer)
                await poll()

        await _until(ending, poll_and_seek if plan.seeks_ms else poll)


async def _seek_on_time(
    part: MemberSpec, process: ClientProcess, consumer: LitePullConsumer
) -> None:
    """At each planned time seek back in a random queue of *consumer*, if it has any."""
    rng, alarm = _rng(part, process, "seeks"), process.clock.new_alarm()
    passed_ms = (process.clock.mono_us() - part.began_us) / 1_000
    began_s = trio.current_time() - passed_ms / 1_000
    for at_ms in sorted(part.consumers.seeks_ms):
        if at_ms < passed_ms:
            continue  # it was due before the client's last start
        await alarm.wait_until(began_s + at_ms / 1_000)
        if not (queues := consumer.queues):
            continue
        queue, back = rng.choice(queues), rng.randint(0, part.consumers.seek_back_max)
        with contextlib.suppress(ClientError):  # its broker is down, or the queue was released
            committed = await consumer.committed(queue)
            await consumer.seek(queue, max(0, (committed or 0) - back))


# Producers ------------------------------------------------------------------------------------


async def _produce(
    part: ProducerSpec,
    process: ClientProcess,
    report_open_work: ReportOpenWork,
    ending: trio.Event,
) -> None:
    settings = {
        "namesrv": part.namesrv,
        "release": part.release,
        "quirks": part.quirks,
        "group": part.name,
        **part.load.settings,
    }
    if part.load.mode == "transaction":
        await _produce_transactions(part, process, settings, report_open_work, ending)
        return
    async with Producer(process=process, **settings) as producer:
        sender = _Sender(producer, part)
        report_open_work(sender.open_work)
        await _until(ending, lambda: sender.send_all(process))


async def _produce_transactions(
    part: ProducerSpec,
    process: ClientProcess,
    settings: dict[str, Any],
    report_open_work: ReportOpenWork,
    ending: trio.Event,
) -> None:
    """Send, and stay until *ending*: brokers may ask about the last transactions."""
    decided = PlannedTransactions(part.load, part.seed)
    async with TransactionProducer(decided, process=process, **settings) as producer:
        sender = _Sender(producer, part)
        report_open_work(sender.open_work)

        async def send_and_stay() -> None:
            await sender.send_all(process)
            await ending.wait()

        await _until(ending, send_and_stay)


class _Sender:
    """Sends the messages that are due, each call in a task of its own."""

    def __init__(self, producer: Producer | TransactionProducer, part: ProducerSpec) -> None:
        self._producer = producer
        self._part = part
        self._contents = Contents(part.load, part.seed)
        self._send = {
            "sync": self._sync,
            "async": self._async,
            "oneway": self._one_way,
            "transaction": self._transaction,
        }[part.load.mode]
        self._free_workers: list[int] = []  # a heap: each is a thread with its own round robin
        self.in_flight = 0

    async def send_all(self, process: ClientProcess) -> None:
        """Send until the load has ended; returns after its last send."""
        load, passed_ms = self._part.load, (process.clock.mono_us() - self._part.began_us) / 1_000
        began_s = trio.current_time() - passed_ms / 1_000
        is_first_life = passed_ms - load.from_ms < STARTING_MS_MAX
        from_ms = load.from_ms if is_first_life else passed_ms
        alarm = process.clock.new_alarm()  # cheaper than a cancel scope in virtual time
        async with joining_nursery() as nursery:
            for due in due_messages(load, self._part.index, from_ms):
                await alarm.wait_until(began_s + due.at_ms / 1_000)
                if self.in_flight < SENDS_IN_FLIGHT_MAX:
                    nursery.start_soon(self._send_call, due.numbers)

    def open_work(self) -> str:
        """The sends under way, in a few words; empty if there are none."""
        return f"{self.in_flight} sends under way" if self.in_flight else ""

    async def _send_call(self, numbers: tuple[int, ...]) -> None:
        messages = [self._contents.message(number) for number in numbers]
        worker = heapq.heappop(self._free_workers) if self._free_workers else self.in_flight
        self.in_flight += 1
        try:
            if self._part.load.batch > 1:
                await self._producer.send_batch(messages, worker=worker)
            else:
                await self._send(messages[0], worker)
        except SendError:
            return  # the journal has the failed send
        finally:
            self.in_flight -= 1
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
        await self._producer.send_oneway(message, queue=queue, worker=worker)

    async def _transaction(self, message: Message, worker: int) -> None:
        """Send a half message; a crash of its local transaction cancels the call."""
        assert isinstance(self._producer, TransactionProducer)
        with trio.CancelScope() as crash:
            await self._producer.send_in_transaction(message, crash, worker=worker)

    async def _queue_of(self, message: Message) -> MessageQueue | None:
        if message.keys is None:
            return None
        return by_hash(await self._producer.publish_queues(message.topic), message, message.keys)


COMMIT, ROLLBACK = LocalTransactionState.COMMIT_MESSAGE, LocalTransactionState.ROLLBACK_MESSAGE
UNKNOWN = LocalTransactionState.UNKNOW
NOT_KNOWN = ("unknowns", "crashes", "raises", "undecided")  # shares of a load


class PlannedTransactions:
    """The local transactions of a load: their outcome follows from the seed and the number.

    A broker that asks gets the outcome that an application has written down by then: it is known,
    also after the producer has died, and also if it was not known when the message was sent; only
    an undecided transaction stays unknown.
    """

    def __init__(self, load: LoadPlan, seed: int) -> None:
        self._load = load
        self._seed = seed

    async def execute_local_transaction(
        self, message: Message, crash: trio.CancelScope
    ) -> LocalTransactionState:
        """The outcome; a crash cancels *crash*, so that the broker is told nothing.

        Raises ``LookupError`` for the share that raises.
        """
        if self._load.decides_ms:
            await trio.sleep(self._load.decides_ms / 1_000)
        how, state = self._decided(message.body)
        if how == "crashes":
            crash.cancel()
            await trio.sleep_forever()
        if how == "raises":
            raise LookupError("the database of the local transaction does not answer")
        return UNKNOWN if how else state

    async def check_local_transaction(self, message: MessageExt) -> LocalTransactionState:
        """The outcome, for a broker that asks; what this application never sent is no success."""
        if message.topic != self._load.topic:
            return ROLLBACK
        how, state = self._decided(message.body)
        return UNKNOWN if how == "undecided" else state

    def _decided(self, body: bytes) -> tuple[str, LocalTransactionState]:
        """The share of those whose outcome is not known at once (else empty), and the outcome."""
        load, number = self._load, body[:HEAD_BYTES].split()[1].decode()
        rng = random.Random(f"{self._seed}/{load.topic}/{number}/transaction")
        shares = [(name, getattr(load, name)) for name in NOT_KNOWN]
        drawn, up_to = rng.random(), 1 - sum(share for _, share in shares)
        if drawn < up_to:
            return "", ROLLBACK if drawn < load.rollbacks else COMMIT
        state = ROLLBACK if rng.random() * up_to < load.rollbacks else COMMIT
        for name, share in shares:
            up_to += share
            if drawn < up_to:
                return name, state
        return shares[-1][0], state


# Programs -------------------------------------------------------------------------------------


async def _run(part: ProgramSpec, process: ClientProcess) -> None:
    program = function_named(part.program.run, "a client program")
    await program(process, part.namesrv, **part.program.arguments)


def _rng(part: AnyClientSpec, process: ClientProcess, purpose: str = "") -> random.Random:
    """The random numbers of a client for *purpose*; they differ after each of its starts."""
    since_us = process.clock.mono_us() - part.began_us
    return random.Random(f"{part.seed}/{part.name}/{since_us}{purpose}")


# Loads: the due times of messages, and their contents ---------------------------------


class Due(msgspec.Struct, frozen=True):
    """The messages of one call, and the time of the call, in ms since the load began."""

    numbers: tuple[int, ...]
    at_ms: float


def due_messages(load: LoadPlan, index: int, not_before_ms: float) -> Iterator[Due]:
    """The calls of the *index*-th producer from *not_before_ms* on."""
    burst_ms = load.burst * 1_000 / load.rate
    bursts_past = max(0, int((not_before_ms - load.from_ms) / burst_ms) - 1)
    for call in itertools.count(bursts_past * load.burst // load.batch):
        numbers = range(call * load.batch, (call + 1) * load.batch)
        sent = [(n, at_ms) for n in numbers if (at_ms := _due_ms(load, n, burst_ms)) is not None]
        if not sent:
            return
        last_ms = sent[-1][1]
        if call % load.producers == index and last_ms >= not_before_ms:
            yield Due(tuple(number for number, _ in sent), last_ms)


def _due_ms(load: LoadPlan, number: int, burst_ms: float) -> float | None:
    """When message *number* is due; None if the load has no such message."""
    at_ms = load.from_ms + number // load.burst * burst_ms
    if load.count_max is not None and number >= load.count_max:
        return None
    return at_ms if load.until_ms is None or at_ms < load.until_ms else None


class Contents:
    """Makes the messages of one load: size, key, tag and delay."""

    def __init__(self, load: LoadPlan, seed: int) -> None:
        self._load = load
        self._seed = seed
        weights = [1 / rank**load.key_skew for rank in range(1, load.keys + 1)]
        self._key_weights = list(itertools.accumulate(weights))
        self._is_random = bool(
            load.keys
            or load.tags
            or load.size_jitter_bytes
            or load.delay_levels
            or load.timer_ms
            or load.properties
        )

    def message(self, number: int) -> Message:
        """Message *number*; its key, if it has one, chooses its queue."""
        load, key, tag, size_bytes = self._load, None, None, self._load.size_bytes
        level = timer_ms = 0
        properties: dict[str, str] = {}
        if self._is_random:
            rng = random.Random(f"{self._seed}/{load.topic}/{number}")
            size_bytes += rng.randint(0, load.size_jitter_bytes)
            if load.tags:
                tag = rng.choice(load.tags)
            if load.keys:
                rank = rng.choices(range(load.keys), cum_weights=self._key_weights)[0]
                key = f"key-{rank + 1}"
            if load.delay_levels:
                level = rng.choice(load.delay_levels)
            if load.timer_ms:
                timer_ms = rng.choice(load.timer_ms)
            drawn = {
                name: values if isinstance(values, str) else rng.choice(values)
                for name, values in load.properties.items()
            }
            properties = {name: value for name, value in drawn.items() if value}
        body = f"{load.topic} {number} ".encode().ljust(size_bytes, b".")[: max(1, size_bytes)]
        return Message(
            load.topic,
            body,
            tags=tag,
            keys=key,
            delay_level=level,
            delay_ms=timer_ms,
            properties=properties,
        )


# Listeners as a plan describes them ---------------------------------------------------


HEAD_BYTES = 64  # the start of a body, which has the load's topic and the message's number


class PlannedFailure(Exception):
    """The error that a listener raises according to its plan."""


class PlannedListener:
    """The listener of a plan: a consumer calls ``listen``, and *rng* draws what each call does.

    *now_ms* returns the time since the load began.  Which messages always fail follows from their
    bodies and from *salt*, so such a message fails at each member and each delivery.  It waits
    with alarms of *new_alarm*: in virtual time they cost less than a cancel scope.
    """

    def __init__(
        self,
        plan: ListenerPlan,
        rng: random.Random,
        now_ms: Callable[[], float],
        new_alarm: Callable[[], Alarm] = TrioAlarm,
        *,
        salt: str = "",
    ) -> None:
        self._plan = plan
        self._now_ms = now_ms
        self._rng = rng
        self._has_chances = bool(plan.fails or plan.raises or plan.hangs or plan.always_fails)
        self._salt = zlib.crc32(salt.encode())
        self._new_alarm = new_alarm
        self._free_alarms: list[Alarm] = []
        self.in_flight = 0

    async def listen(self, messages: list[MessageExt]) -> ConsumeResult:
        """Wait as planned; return a result or raise ``PlannedFailure``, by chance."""
        self.in_flight += 1
        try:
            return await self._act(messages)
        finally:
            self.in_flight -= 1

    async def _act(self, messages: list[MessageExt]) -> ConsumeResult:
        plan, chance = self._plan, self._rng.random
        is_troubled = self._has_chances and self._is_its_time()
        if is_troubled and chance() < plan.hangs:
            await self._wait(plan.hang_ms)
        await self._wait(plan.takes_ms + chance() * plan.jitter_ms)
        if is_troubled and chance() < plan.raises:
            raise PlannedFailure("the scenario makes this listener raise")
        if is_troubled and (chance() < plan.fails or any(map(self._always_fails, messages))):
            return ConsumeResult.RECONSUME_LATER
        return ConsumeResult.SUCCESS

    def _always_fails(self, message: MessageExt) -> bool:
        drawn = zlib.crc32(message.body[:HEAD_BYTES], self._salt) / 2**32
        return drawn < self._plan.always_fails

    def _is_its_time(self) -> bool:
        now_ms, until_ms = self._now_ms(), self._plan.until_ms
        return now_ms >= self._plan.from_ms and (until_ms is None or now_ms < until_ms)

    async def _wait(self, ms: float) -> None:
        alarm = self._free_alarms.pop() if self._free_alarms else self._new_alarm()
        await alarm.wait_until(trio.current_time() + ms / 1_000)
        self._free_alarms.append(alarm)  # an alarm whose wait was cancelled is not used again


# Functions of the user's own ----------------------------------------------------------


class BadFunction(Misuse, ValueError):
    """A plan names a function that does not exist."""


def function_named(name: str, what: str) -> Callable[..., Any]:
    """The function *name*, ``module:function``.  Raises ``BadFunction``.

    *what* the function should be is for the error's text: "a client program".
    """
    module, _, function = name.partition(":")
    if not function:
        raise BadFunction(f"{name!r} is not {what}: it must be module:function")
    try:
        found = getattr(importlib.import_module(module), function, None)
    except ImportError as error:
        why = renamed(module, function) or renamed_import(error) or str(error)
        raise BadFunction(f"{name!r} cannot be imported: {why}") from error
    if not callable(found):
        raise BadFunction(f"{module} has no function {function!r}")
    return found  # type: ignore[no-any-return]
