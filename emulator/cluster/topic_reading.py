"""Reading a topic as nobody: plain pulls, which leave no group, no offset and no trace.

A pull needs the name of a group that the broker knows; every broker has one for tools.  The
pull carries its subscription, so no heartbeat is needed, and it commits nothing.

Upstream: the pulls of mqadmin's PrintMessageSubCommand (TOOLS_CONSUMER_GROUP).
"""

from __future__ import annotations

import heapq
from collections.abc import AsyncGenerator, Iterable
from typing import TypeAlias

import msgspec

from emulator.cluster.admin import Admin, AdminRefused, NotFound
from protocol.catalog import PULL_MESSAGE
from protocol.codes import ResponseCode
from protocol.message import MessageExt, decode_messages
from protocol.names import MASTER_ID, TOOLS_CONSUMER_GROUP
from protocol.pull_flags import pull_flag
from protocol.queues import MessageQueue, in_order
from protocol.requests.pulling import PullMessageReply, PullMessageRequest
from protocol.subscription import SUB_ALL, TAG, build_subscription, wants_tag

MESSAGES_A_PULL = 32  # MessageStoreConfig.maxTransferCountOnMessageInMemory: more are not given
CALL_MS_MAX = 5_000
Age: TypeAlias = tuple[int, int, str]
EMPTY_PULLS = (ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY)


class QueueSpan(msgspec.Struct, frozen=True):
    """A queue, the address of its broker, and the offsets it has: ``first`` to below ``end``."""

    queue: MessageQueue
    address: str
    first: int
    end: int


class Pulled(msgspec.Struct, frozen=True):
    """Messages, perhaps none, and the offset from which to pull next."""

    messages: list[MessageExt]
    next_offset: int


class TopicReader:
    """Reads one topic.  *tags*: ``*`` or ``TagA || TagB``; raises ``BadExpression``."""

    def __init__(self, admin: Admin, topic: str, tags: str = SUB_ALL) -> None:
        self.topic = topic
        self._admin = admin
        self._wanted = build_subscription(topic, tags)

    async def spans(self) -> list[QueueSpan]:
        """All its queues now, in order.  Raises ``AdminError``: ``NotFound`` without a route."""
        route = await self._admin.route(self.topic)
        found: dict[MessageQueue, QueueSpan] = {}
        for broker in route.broker_datas:
            address = broker.broker_addrs.get(MASTER_ID)
            if address is None:
                continue
            stats = await self._admin.topic_stats_if_any(address, self.topic)
            for queue, offsets in stats.offset_table.items():
                span = QueueSpan(queue, address, offsets.min_offset, offsets.max_offset)
                found[queue] = span
        return [found[queue] for queue in in_order(found)]

    async def starts(self, spans: Iterable[QueueSpan], where: str, at_ms: int | None) -> list[int]:
        """For each queue the offset to begin with: the first, the last, or that of a time."""
        starts = []
        for span in spans:
            offset = span.end if where == "last" else span.first
            if at_ms is not None:
                found = await self._admin.offset_at(span.address, span.queue, at_ms)
                offset = min(max(found, span.first), span.end)
            starts.append(offset)
        return starts

    async def pull(self, span: QueueSpan, offset: int, *, hold_ms: int = 0) -> Pulled:
        """What the queue has from *offset* on; the broker may wait *hold_ms* for it.

        Raises ``AdminError``: ``NotFound`` when the topic was deleted.
        """
        header = PullMessageRequest(
            consumer_group=TOOLS_CONSUMER_GROUP,
            topic=self.topic,
            queue_id=span.queue.queue_id,
            queue_offset=offset,
            max_msg_nums=MESSAGES_A_PULL,
            sys_flag=pull_flag(suspend=hold_ms > 0, subscription=True),
            commit_offset=0,
            suspend_timeout_millis=hold_ms,
            sub_version=0,
            subscription=self._wanted.sub_string,
            expression_type=TAG,
        )
        timeout_ms = CALL_MS_MAX + 2 * hold_ms  # the broker's sweep sees the end of a hold late
        reply = await self._admin.invoke(span.address, PULL_MESSAGE, header, timeout_ms=timeout_ms)
        if reply.code == ResponseCode.SUCCESS:
            header_back = reply.decode(PullMessageReply)
            found = decode_messages(reply.body, span.queue.broker_name)
            return Pulled(list(filter(self._is_wanted, found)), header_back.next_begin_offset)
        if reply.code in EMPTY_PULLS or reply.code == ResponseCode.PULL_OFFSET_MOVED:
            return Pulled([], reply.decode(PullMessageReply).next_begin_offset)
        if reply.code == ResponseCode.TOPIC_NOT_EXIST:
            raise NotFound(f"there is no topic {self.topic} any more")
        raise AdminRefused(f"{span.address} refused with code {reply.code}: {reply.remark}")

    async def stored(
        self, spans: list[QueueSpan], starts: list[int]
    ) -> AsyncGenerator[MessageExt]:
        """What the queues have from *starts* to their ends, oldest first by the time of storing.

        Raises ``AdminError``.
        """
        heap: list[tuple[Age, int, int, MessageExt]] = []
        queues = [
            _QueueCursor(self, span, start) for span, start in zip(spans, starts, strict=True)
        ]
        for number, cursor in enumerate(queues):
            await _push(heap, number, cursor)
        while heap:
            _, number, _, message = heapq.heappop(heap)
            yield message
            await _push(heap, number, queues[number])

    def _is_wanted(self, message: MessageExt) -> bool:
        return wants_tag(self._wanted, message.tags)


class _QueueCursor:
    """One queue's messages in order, pulled when they are asked for."""

    def __init__(self, reader: TopicReader, span: QueueSpan, start: int) -> None:
        self._reader = reader
        self._span = span
        self._offset = start
        self._ready: list[MessageExt] = []  # the last one comes first

    async def next(self) -> MessageExt | None:
        """None when the end that the queue had at first is reached."""
        while not self._ready and self._offset < self._span.end:
            pulled = await self._reader.pull(self._span, self._offset)
            below_end = [m for m in pulled.messages if m.queue_offset < self._span.end]
            self._ready = below_end[::-1]
            if pulled.next_offset <= self._offset:
                break  # a broker that has lost its end since
            self._offset = pulled.next_offset
        return self._ready.pop() if self._ready else None


async def _push(
    heap: list[tuple[Age, int, int, MessageExt]], number: int, cursor: _QueueCursor
) -> None:
    if (message := await cursor.next()) is not None:
        heapq.heappush(heap, (age(message), number, message.queue_offset, message))


def age(message: MessageExt) -> Age:
    """Sorts messages by age; those of one producer and one millisecond as they were sent."""
    return message.store_timestamp, message.born_timestamp, message.msg_id
