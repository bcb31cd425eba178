"""Message traces of one client: a buffer of records, and the task that sends them.

Clients append the records of an attempt or of a listener's call.  A ``TraceDispatcher`` sends
them together, with a producer of its own on an instance of its own, as upstream: traces
never wait for messages, and messages never for traces.  Above ``TraceRules.queue_max``
records are dropped and counted.

Upstream: AsyncTraceDispatcher.  Its worker polls; here the next time to send is computed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from math import inf
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, NoReturn, Protocol, TypeAlias

import trio

from rocketmq_emulator.client.instance import interfaces
from rocketmq_emulator.client.settings.config import ClientConfig
from rocketmq_emulator.errors.call_errors import ClientError, GroupTaken
from rocketmq_emulator.facts import TracesLost
from rocketmq_emulator.protocol.messages.message import Message
from rocketmq_emulator.protocol.messages.names import TRACE_TOPIC
from rocketmq_emulator.protocol.messages.traces import encode_trace, keys_of
from rocketmq_emulator.settings.releases import (
    TRACE_GROUPS_NUMBERED,
    TRACES_GATHERED,
    TRACES_GO_IN_TENS,
    Release,
)

if TYPE_CHECKING:
    from contextlib import AsyncExitStack

    from rocketmq_emulator.client.instance.instance import ClientInstance
    from rocketmq_emulator.client.instance.process import ClientProcess
    from rocketmq_emulator.protocol.messages.traces import Trace


# The buffer ---------------------------------------------------------------------------


Since: TypeAlias = Literal["sending", "first", "last"]


class TraceRules(NamedTuple):
    """When traces are sent, of one range of releases."""

    queue_max: int  # appends that wait; more are dropped
    batch_max: int  # appends that are sent at once, without a pause
    wait_s: float  # until fewer are sent
    since: Since  # the pause begins at the last sending, or at the first or last append
    by_topic: bool  # a message for each topic of the traced messages
    needs_region: bool  # traces without a region (of messages from 4.9 brokers) are dropped


BATCH_MAX_MAX = 20  # of traceMsgBatchNum
TEXT_CHARACTERS_MAX = 118_000  # of one trace message; maxMsgSize is 128,000


def trace_rules(release: Release, batch_max: int) -> TraceRules:
    """The rules of *release*; *batch_max* is the setting, since 5.3.1."""
    if release >= TRACES_GO_IN_TENS:
        batch_max = min(batch_max, BATCH_MAX_MAX)
        return TraceRules(2_048, batch_max, 5.0, "sending", by_topic=True, needs_region=True)
    if release >= TRACES_GATHERED:
        return TraceRules(1_024, 1_024, 0.5, "first", by_topic=False, needs_region=False)
    return TraceRules(1_024, 100, 0.005, "last", by_topic=True, needs_region=False)


class TraceContext(NamedTuple):
    """The traces of one attempt or one call of a listener.  Upstream: TraceContext."""

    topic: str  # of the messages that are traced
    region: str | None
    traces: Sequence[Trace]


class TraceBuffer:
    """Appended traces, until they are taken as messages for *topic*; times are seconds."""

    def __init__(self, rules: TraceRules, topic: str, release: Release, now_s: float) -> None:
        self._rules = rules
        self._topic = topic
        self._release = release
        self._waiting: deque[TraceContext] = deque()
        self._characters = 0  # of the texts that wait, roughly
        self._since_s = now_s

    def append(self, context: TraceContext, now_s: float) -> bool:
        """Keep the traces of *context*; False if they were dropped."""
        if len(self._waiting) >= self._rules.queue_max:
            return False
        since = self._rules.since
        if since == "last" or (since == "first" and not self._waiting):
            self._since_s = now_s
        self._waiting.append(context)
        self._characters += CHARACTERS_OF_A_TRACE * len(context.traces)
        return True

    @property
    def due_s(self) -> float:
        """When the next messages are to be sent; infinite while nothing waits."""
        if not self._waiting:
            return inf
        is_full = len(self._waiting) >= self._rules.batch_max
        if is_full or self._characters >= TEXT_CHARACTERS_MAX:
            return -inf
        return self._since_s + self._rules.wait_s

    def take(self, now_s: float) -> list[tuple[Message, int]]:
        """The next messages to send, each with the count of its traces."""
        count = min(len(self._waiting), self._rules.batch_max)
        taken = [self._waiting.popleft() for _ in range(count)]
        self._characters = CHARACTERS_OF_A_TRACE * sum(len(each.traces) for each in self._waiting)
        self._since_s = now_s
        texts: dict[str, list[Trace]] = {}
        for context in taken:
            if context.region is not None or not self._rules.needs_region:
                topic = context.topic if self._rules.by_topic else ""
                texts.setdefault(topic, []).extend(context.traces)
        return [each for traces in texts.values() for each in self._messages(traces)]

    def _messages(self, traces: list[Trace]) -> Iterator[tuple[Message, int]]:
        text, inside = "", list[Any]()
        for trace in traces:
            text += encode_trace(trace, self._release)
            inside.append(trace)
            if len(text) >= TEXT_CHARACTERS_MAX:
                yield self._message(text, inside), len(inside)
                text, inside = "", []
        if inside:
            yield self._message(text, inside), len(inside)

    def _message(self, text: str, traces: list[Trace]) -> Message:
        return Message(self._topic, text.encode(), keys=keys_of(traces))


CHARACTERS_OF_A_TRACE = 200  # a typical length


# The dispatcher -----------------------------------------------------------------------


class PendingSend(Protocol):
    """A send in the background."""

    async def wait_sent(self) -> object:
        """Wait for its end.  Raises ``SendError``."""
        ...


class TraceProducer(interfaces.RegisteredProducer, Protocol):
    """The producer of trace messages."""

    def start_send(
        self, message: Message, callback: Callable[[Any], object] | None = None
    ) -> PendingSend:
        """Send in the background; the callback gets the result or the error.

        Raises ``Misuse``, ``TooManySends``.
        """
        ...

    def close(self) -> None:
        """End all sends that have no answer."""
        ...


Role: TypeAlias = Literal["PRODUCE", "CONSUME"]
FLUSH_S_MAX = 5.0  # at the end; AsyncTraceDispatcher.WAIT_FOR_SHUTDOWN


class TraceDispatcher:
    """Takes the traces of one client, and sends them with *producer*."""

    def __init__(
        self, instance: ClientInstance, producer: TraceProducer, config: ClientConfig, group: str
    ) -> None:
        self.topic = config.trace_topic or TRACE_TOPIC
        self.group = group  # of the client
        self.client_id = instance.client_id
        self.now_ms = instance.now_ms
        rules = trace_rules(config.rules, config.trace_batch_max)
        self._buffer = TraceBuffer(rules, self.topic, config.rules, trio.current_time())
        self._alarm = instance.clock.new_alarm()
        self._producer = producer
        self._note = instance.note
        self._dropped = 0  # since the last sending
        self._started = 0  # sends
        self._pending: dict[int, PendingSend | None] = {}  # None: it is being started

    def append(self, context: TraceContext) -> None:
        """Send the traces of *context* soon; never waits and never raises."""
        if context.topic.startswith(self.topic):
            return  # traces of traces would never end
        if self._buffer.append(context, trio.current_time()):
            self._alarm.ring_by(self._buffer.due_s)
        else:
            self._dropped += len(context.traces)

    async def run(self) -> NoReturn:
        """Send what is due, until cancelled."""
        while True:
            await self._alarm.wait_due(lambda: self._buffer.due_s)
            self._send()

    async def wait_flushed(self) -> None:
        """Send all the rest and wait for the answers, at most five seconds; not when cancelled."""
        await trio.lowlevel.checkpoint_if_cancelled()
        while self._buffer.due_s < inf:
            self._send()
        with trio.move_on_after(FLUSH_S_MAX):
            for sending in list(self._pending.values()):
                if sending is not None:
                    with suppress(ClientError):  # its callback has noted it
                        await sending.wait_sent()

    def _send(self) -> None:
        if self._dropped:
            self._lost(self._dropped, "the queue of traces was full")
            self._dropped = 0
        for message, count in self._buffer.take(trio.current_time()):
            self._start(message, count)

    def _start(self, message: Message, count: int) -> None:
        number = self._started = self._started + 1

        def sent(result: object) -> None:
            del self._pending[number]
            if isinstance(result, Exception):
                self._lost(count, str(result))

        self._pending[number] = None
        try:
            sending = self._producer.start_send(message, sent)
        except ClientError as error:
            sent(error)
            return
        if number in self._pending:  # else it has failed at once, as without a master
            self._pending[number] = sending

    def _lost(self, count: int, reason: str) -> None:
        self._note(TracesLost(self.group, self.topic, count, reason))


# From start to end --------------------------------------------------------------------


GROUP_PREFIX = "_INNER_TRACE_PRODUCER"
ALL_TRACES = 0  # a count in TracesLost
INSTANCE_NAME = "PID_CLIENT_INNER_TRACE_PRODUCER"


async def start_tracing(
    stack: AsyncExitStack, process: ClientProcess, config: ClientConfig, group: str, role: Role
) -> TraceDispatcher | None:
    """The dispatcher of a client of *group*, which ends with *stack*; None if it does not trace.

    All trace producers of a process share an instance for each list of NameServers.
    Upstream: AsyncTraceDispatcher.start, getAndCreateTraceProducer.
    """
    if not config.trace:
        return None
    name = f"{INSTANCE_NAME}_{config.namesrv}"
    shared = {field: getattr(config, field) for field in ClientConfig.__struct_fields__}
    own = ClientConfig(**{**shared, "trace": False, "instance_name": name, "quirks": ()})
    instance = await process.instance(own)
    stack.callback(process.release, instance)
    process.trace_producers += 1
    number = f"-{process.trace_producers}" if config.rules >= TRACE_GROUPS_NUMBERED else ""
    assert interfaces.make_trace_producer is not None, "rocketmq_emulator.client provides one"
    producer: TraceProducer = interfaces.make_trace_producer(
        instance, f"{GROUP_PREFIX}-{group}-{role}{number}"
    )
    try:
        instance.register_producer(producer)
    except GroupTaken as error:  # upstream logs it, and the client starts
        topic = config.trace_topic or TRACE_TOPIC
        instance.note(TracesLost(group, topic, ALL_TRACES, str(error)))
        return None
    stack.push_async_callback(instance.unregister_producer, producer.group)
    stack.callback(producer.close)
    dispatcher = TraceDispatcher(instance, producer, config, group)
    stack.push_async_callback(dispatcher.wait_flushed)
    instance.nursery.start_soon(dispatcher.run)
    return dispatcher
