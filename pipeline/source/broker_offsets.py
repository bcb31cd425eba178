"""The bounds of queues, the offset of a time, and the offsets that a group has committed.

Each request is for many queues: all calls to one broker are sent before the first answer is read.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

import msgspec

from rocketmq_emulator.pipeline.source.connection import BlockingConnection
from rocketmq_emulator.pipeline.source.errors import MessagesLost, ServerUnavailable
from rocketmq_emulator.protocol.catalog import (
    GET_MAX_OFFSET,
    GET_MIN_OFFSET,
    PULL_MESSAGE,
    SEARCH_OFFSET_BY_TIMESTAMP,
    UPDATE_CONSUMER_OFFSET,
)
from rocketmq_emulator.protocol.flags import pull_flag
from rocketmq_emulator.protocol.messages.names import TOOLS_CONSUMER_GROUP
from rocketmq_emulator.protocol.messages.records import stored_at_ms
from rocketmq_emulator.protocol.messages.subscription import (
    SUB_ALL,
    SubscriptionData,
    build_subscription,
)
from rocketmq_emulator.protocol.queues import MessageQueue
from rocketmq_emulator.protocol.requests.offsets import (
    GetMaxOffsetRequest,
    GetMinOffsetRequest,
    OffsetReply,
    SearchOffsetRequest,
    UpdateConsumerOffsetRequest,
)
from rocketmq_emulator.protocol.requests.pulling import PullMessageRequest

T = TypeVar("T")


class Bounds(msgspec.Struct, frozen=True):
    """A queue has the offsets from ``first`` to below ``end``."""

    first: int
    end: int


class BrokerConnections:
    """One connection to each broker that was called; a failed one is replaced."""

    def __init__(self, timeout_ms: int) -> None:
        self._timeout_ms = timeout_ms
        self._open: dict[str, BlockingConnection] = {}

    def to(self, address: str) -> BlockingConnection:
        """The connection to *address*.  Raises ``ServerUnavailable``."""
        if address not in self._open:
            self._open[address] = BlockingConnection(address, self._timeout_ms)
        return self._open[address]

    def asked(self, address: str, question: Callable[[BlockingConnection], T]) -> T:
        """The result of *question*, retried once over a new connection if an old one fails.

        Raises ``SourceError``.
        """
        is_old = address in self._open
        try:
            return question(self.to(address))
        except ServerUnavailable:
            self.drop(address)
            if is_old:
                return self.asked(address, question)
            raise

    def drop(self, address: str) -> None:
        """Closes the connection to *address*, if there is one."""
        if (connection := self._open.pop(address, None)) is not None:
            connection.close()

    def all(self) -> list[BlockingConnection]:
        """The open connections."""
        return list(self._open.values())

    def close(self) -> None:
        """Closes all of them."""
        for address in list(self._open):
            self.drop(address)


def bounds_of(
    connection: BlockingConnection, queues: Iterable[MessageQueue]
) -> dict[MessageQueue, Bounds]:
    """The bounds of each of *queues*, all of one broker.  Raises ``SourceError``."""
    asked = []
    for queue in queues:
        topic, queue_id = queue.topic, queue.queue_id
        low = GetMinOffsetRequest(topic=topic, queue_id=queue_id)
        high = GetMaxOffsetRequest(topic=topic, queue_id=queue_id)
        calls = connection.send(GET_MIN_OFFSET, low), connection.send(GET_MAX_OFFSET, high)
        asked.append((queue, *calls))
    return {
        queue: Bounds(_offset(connection, low), _offset(connection, high))
        for queue, low, high in asked
    }


def offset_at(
    connection: BlockingConnection, queue: MessageQueue, bounds: Bounds, at_ms: int
) -> int:
    """The first offset whose message was stored at *at_ms* or later; the queue's end if none.

    Brokers answer with the nearest message, which may be an earlier one, or one of several of
    the same millisecond; so the neighbours are read too.  Raises ``SourceError``.
    """
    first, end = bounds.first, bounds.end
    if first >= end:
        return end
    header = SearchOffsetRequest(topic=queue.topic, queue_id=queue.queue_id, timestamp=at_ms)
    found = connection.call(SEARCH_OFFSET_BY_TIMESTAMP, header).decode(OffsetReply).offset
    near = min(max(found, first), end)

    def stored_ms(offset: int) -> int:
        return _stored_ms(connection, queue, offset)

    if near > first and stored_ms(near - 1) >= at_ms:
        left = range(first, near)
    elif near < end and stored_ms(near) < at_ms:
        left = range(near, end)
    else:
        return near
    return left.start + bisect_left(left, at_ms, key=stored_ms)


def commit(
    connection: BlockingConnection, group: str, offsets: Mapping[MessageQueue, int]
) -> None:
    """Commits the offsets of *group* at the broker.  Raises ``SourceError``."""
    asked = []
    for queue, offset in offsets.items():
        header = UpdateConsumerOffsetRequest(
            consumer_group=group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            commit_offset=offset,
        )
        asked.append(connection.send(UPDATE_CONSUMER_OFFSET, header))
    for number in asked:
        connection.done(number)


def pull_request(
    group: str, wanted: SubscriptionData, queue: MessageQueue, offset: int, *, count: int
) -> PullMessageRequest:
    """A pull request that is answered at once, commits nothing and carries its subscription."""
    return PullMessageRequest(
        consumer_group=group,
        topic=queue.topic,
        queue_id=queue.queue_id,
        queue_offset=offset,
        max_msg_nums=count,
        sys_flag=pull_flag(subscription=True),
        commit_offset=0,
        suspend_timeout_millis=0,
        sub_version=0,
        subscription=wanted.sub_string,
        expression_type=wanted.expression_type,
    )


def _offset(connection: BlockingConnection, number: int) -> int:
    return connection.done(number).decode(OffsetReply).offset


def _stored_ms(connection: BlockingConnection, queue: MessageQueue, offset: int) -> int:
    everything = build_subscription(queue.topic, SUB_ALL)
    header = pull_request(TOOLS_CONSUMER_GROUP, everything, queue, offset, count=1)
    body = connection.call(PULL_MESSAGE, header).body
    if not body:
        raise MessagesLost(f"{queue} has no message at {offset}, which is within its bounds")
    return stored_at_ms(body)
