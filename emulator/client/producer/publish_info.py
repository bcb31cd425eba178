"""The queues that messages of each topic can be sent to, their round robin, and queue selectors.

A producer's table is filled at the first send of a topic and updated by route polls; a topic that
no broker knows uses the brokers of the default topic until it has its own route.  A route change
makes a *new* TopicPublishInfo, so the round robin restarts at another queue.  Here every probe
steps the shared counter: when the queues of a broker are skipped, the queue behind them does not
get a larger share.

A selector is any function of (publish queues, message, argument) to one of those queues.
Upstream: TopicPublishInfo, ThreadLocalIndex, DefaultMQProducerImpl.topicPublishInfoTable,
tryToFindTopicPublishInfo, SelectMessageQueueByHash, SelectMessageQueueByRandom.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from rocketmq_emulator.client.instance.topic_routes import publish_queues, write_queues
from rocketmq_emulator.errors.call_errors import ClientErrorCode, NoRoute
from rocketmq_emulator.errors.missing_routes import why_not_writable
from rocketmq_emulator.protocol.messages.message import Message
from rocketmq_emulator.protocol.messages.names import AUTO_CREATE_TOPIC_KEY_TOPIC
from rocketmq_emulator.protocol.messages.subscription import java_hash
from rocketmq_emulator.protocol.queues import MessageQueue
from rocketmq_emulator.settings.releases import DEFAULT_TOPIC_IS_FIXED

if TYPE_CHECKING:
    from rocketmq_emulator.client.instance.instance import ClientInstance
    from rocketmq_emulator.client.settings.config import ProducerConfig
    from rocketmq_emulator.protocol.bodies.routes import TopicRouteData


_MASK = 0x7FFF_FFFF


class TopicPublishInfoTable:
    """``topic -> TopicPublishInfo`` of one producer."""

    def __init__(self, instance: ClientInstance, config: ProducerConfig) -> None:
        self._routes = instance.routes
        self._rng = instance.rng
        self._queues_max = config.default_topic_queues
        fixed = config.rules >= DEFAULT_TOPIC_IS_FIXED
        self._default_topic = AUTO_CREATE_TOPIC_KEY_TOPIC if fixed else config.create_topic_key
        self._infos: dict[str, TopicPublishInfo] = {}
        if not fixed:
            self._infos[self._default_topic] = self._empty_info()  # so that its route is polled

    # For the instance -----------------------------------------------------------------

    def topics(self) -> list[str]:
        """All topics of the table, in the order in which they were added."""
        return list(self._infos)

    def needs_route(self, topic: str) -> bool:
        """Whether no queue of *topic* is known that can be written."""
        info = self._infos.get(topic)
        return info is None or not info.is_usable

    def take_route(self, topic: str, route: TopicRouteData) -> None:
        """Replace the publish info of *topic* by that of *route*."""
        self._infos[topic] = TopicPublishInfo(
            publish_queues(topic, route),
            index=self._new_index(),
            write_queues=write_queues(route),
            has_route=True,
        )

    # For sends ------------------------------------------------------------------------

    def known(self, topic: str) -> TopicPublishInfo | None:
        """The publish info of *topic* if it is usable; does not query a NameServer."""
        info = self._infos.get(topic)
        return info if info is not None and info.is_usable else None

    async def find(self, topic: str) -> TopicPublishInfo:
        """The publish info of *topic*; queries a NameServer if none is usable.

        Raises ``NoRoute``, whose text has the reason, and ``NoNameServer``.
        """
        info = self.known(topic) or await self._look_up(topic)
        if info.is_usable:
            return info
        route = self._routes.table.get(topic) if info.has_route else None
        why = await self._routes.why_none(topic) if route is None else why_not_writable(route)
        raise NoRoute(
            f"no queue of {topic} can be written, nothing was sent: {why}",
            code=ClientErrorCode.NOT_FOUND_TOPIC,
        )

    # Inside ---------------------------------------------------------------------------

    async def _look_up(self, topic: str) -> TopicPublishInfo:
        self._infos.setdefault(topic, self._empty_info())
        await self._routes.refresh(topic)
        info = self._infos[topic]
        if not info.has_route and not info.is_usable:
            await self._routes.use_default_route(topic, self._default_topic, self._queues_max)
        return self._infos[topic]

    def _empty_info(self) -> TopicPublishInfo:
        return TopicPublishInfo(index=self._new_index())

    def _new_index(self) -> ThreadLocalIndex:
        rng = self._rng
        return ThreadLocalIndex(lambda: rng.randrange(2**31))


class TopicPublishInfo:
    """A topic's publish queues.

    ``has_route``: the topic's own route was received, even if it has no queue that can be
    written.  ``queues`` is a list because one old release writes into it.

    Upstream: TopicPublishInfo.
    """

    def __init__(
        self,
        queues: Sequence[MessageQueue] = (),
        *,
        index: ThreadLocalIndex,
        write_queues: Mapping[str, int] | None = None,
        has_route: bool = False,
    ) -> None:
        self.queues = list(queues)
        self.index = index
        self.write_queues = dict(write_queues or {})  # by broker name, as the route has them
        self.has_route = has_route

    @property
    def is_usable(self) -> bool:
        """Whether there is any queue that can be written.  Upstream: TopicPublishInfo.ok."""
        return bool(self.queues)

    def next_position(self, worker: int = 0) -> int:
        """Step the counter; the index in ``queues`` of the next queue."""
        return self.index.step(worker) % len(self.queues)

    def next_queue(self, worker: int = 0) -> MessageQueue:
        """Step the counter; the next queue.

        Upstream: TopicPublishInfo.selectOneMessageQueue.
        """
        return self.queues[self.next_position(worker)]

    def next_queue_where(
        self, wanted: Callable[[MessageQueue], bool], worker: int = 0
    ) -> MessageQueue | None:
        """The next queue for which *wanted* is true; None after one whole round."""
        for _ in self.queues:
            queue = self.next_queue(worker)
            if wanted(queue):
                return queue
        return None

    def queues_from(self, index: int) -> list[MessageQueue]:
        """All queues, from *index* on; does not step the shared counter."""
        size = len(self.queues)
        return [self.queues[_position(index + step, size)] for step in range(size)]


class ThreadLocalIndex:
    """The round-robin counter of each worker; its first step begins at ``start()``.

    A worker stands for one of upstream's calling threads: N workers have N independent round
    robins.  There is one counter for each worker number that was used.

    Upstream: ThreadLocalIndex.
    """

    def __init__(self, start: Callable[[], int]) -> None:
        self._start = start
        self._at: dict[int, int] = {}

    def step(self, worker: int = 0) -> int:
        """Increment the counter and return it, masked to 31 bits: never negative."""
        at = self._at.get(worker)
        value = ((self._start() if at is None else at) + 1) & _MASK
        self._at[worker] = value
        return value

    def restart(self, worker: int = 0) -> None:
        """Continue from a new start.  Upstream: ThreadLocalIndex.reset."""
        self._at[worker] = self._start()


def _position(index: int, size: int) -> int:
    """The index in a list of *size*, for a counter that overflows like Java's int."""
    wrapped = (index + 2**31) % 2**32 - 2**31
    return 0 if wrapped == -(2**31) else abs(wrapped) % size


# Queue selectors ----------------------------------------------------------------------


Selector: TypeAlias = Callable[[Sequence[MessageQueue], Message, Any], MessageQueue | None]


def by_hash(queues: Sequence[MessageQueue], _message: Message, argument: object) -> MessageQueue:
    """The same queue for equal arguments, as long as the topic keeps its queues.

    Texts and whole numbers have Java's hash codes, so a Java producer selects the same queue.
    Upstream: SelectMessageQueueByHash.
    """
    value = hash_code(argument)
    remainder = abs(value) % len(queues)  # Java's % keeps the sign: |a % n| = |a| % n
    return queues[remainder]


def by_random(rng: random.Random) -> Selector:
    """A selector of random queues.  Upstream: SelectMessageQueueByRandom."""

    def choose(
        queues: Sequence[MessageQueue], _message: Message, _argument: object
    ) -> MessageQueue:
        return rng.choice(queues)

    return choose


def hash_code(argument: object) -> int:
    """Java's ``hashCode`` of a String, an Integer, or a Long where an int is too small.

    Raises ``TypeError`` for other types: Java's hash of an object depends on its address.
    """
    if isinstance(argument, str):
        return java_hash(argument)
    if isinstance(argument, int):
        return argument if -(2**31) <= argument < 2**31 else _of_long(argument)
    raise TypeError(f"a queue is chosen by a text or a whole number, not {argument!r}")


def _of_long(value: int) -> int:
    bits = value & 0xFFFF_FFFF_FFFF_FFFF
    folded = (bits ^ bits >> 32) & 0xFFFF_FFFF
    return folded - 2**32 if folded & 2**31 else folded
