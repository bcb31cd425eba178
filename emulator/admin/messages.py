"""Reads messages for tools: a topic from some offset on, or single messages by id or key.

A topic is read by plain pulls, which create no group and commit no offset.  A pull needs the name
of a group that the broker knows; every broker has one for tools.  The pull carries its
subscription, so no heartbeat is needed.  A message id is either an offset message id (the
broker's address and a log position) or the producer's unique key, and its text does not show
which.  If a broker of the cluster has that address it is an offset message id, else every topic
is queried for it as a key.

Upstream: the pulls of mqadmin's PrintMessageSubCommand (TOOLS_CONSUMER_GROUP);
MQAdminImpl.viewMessage, queryMessage; QueryMsgByUniqueKeySubCommand.
"""

from __future__ import annotations

import heapq
from collections.abc import AsyncGenerator, Iterable
from typing import TypeAlias

import msgspec

from rocketmq_emulator.admin.calls import TOOL_RELEASE, Admin, AdminRefused, NotFound
from rocketmq_emulator.protocol.bodies.body import encode_body
from rocketmq_emulator.protocol.bodies.groups import CheckClientRequestBody
from rocketmq_emulator.protocol.catalog import (
    CHECK_CLIENT_CONFIG,
    PULL_MESSAGE,
    QUERY_MESSAGE,
    VIEW_MESSAGE_BY_ID,
)
from rocketmq_emulator.protocol.codes import ResponseCode
from rocketmq_emulator.protocol.error_families import Misuse
from rocketmq_emulator.protocol.flags import pull_flag
from rocketmq_emulator.protocol.messages.message import MessageExt, decode_messages
from rocketmq_emulator.protocol.messages.message_ids import (
    HOST_V4_BYTES,
    HOST_V6_BYTES,
    host_text,
    position_of,
)
from rocketmq_emulator.protocol.messages.names import (
    MASTER_ID,
    TOOLS_CONSUMER_GROUP,
    is_system_topic,
)
from rocketmq_emulator.protocol.messages.properties import split_keys
from rocketmq_emulator.protocol.messages.subscription import (
    NEEDS_PROPERTY_FILTER,
    SUB_ALL,
    TAG,
    build_subscription,
    is_tag_type,
    matches_tag,
)
from rocketmq_emulator.protocol.queues import MessageQueue, sorted_queues
from rocketmq_emulator.protocol.requests.pulling import (
    PullMessageReply,
    PullMessageRequest,
    QueryMessageRequest,
    ViewMessageRequest,
)

MESSAGES_A_PULL = 32  # MessageStoreConfig.maxTransferCountOnMessageInMemory, the broker's limit
CALL_MS_MAX = 5_000
Age: TypeAlias = tuple[int, int, str]
EMPTY_PULLS = (ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY)


class QueueSpan(msgspec.Struct, frozen=True):
    """A queue, the address of its broker, and its offsets: from ``first`` to below ``end``."""

    queue: MessageQueue
    address: str
    first: int
    end: int


class Pulled(msgspec.Struct, frozen=True):
    """The messages of a pull, or none, and the offset for the next pull."""

    messages: list[MessageExt]
    next_offset: int


class TopicReader:
    """Reads one topic: all messages, those of ``TagA || TagB``, or of an SQL92 expression.

    Raises ``BadExpression``.
    """

    def __init__(
        self, admin: Admin, topic: str, expression: str = SUB_ALL, kind: str = TAG
    ) -> None:
        self.topic = topic
        self._admin = admin
        self._wanted = build_subscription(topic, expression, kind)
        self._checked = set[str]()  # brokers that read the expression, by address

    async def spans(self) -> list[QueueSpan]:
        """The topic's queues now.  Raises ``AdminError``; ``NotFound`` without a route."""
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
        return [found[queue] for queue in sorted_queues(found)]

    async def starts(self, spans: Iterable[QueueSpan], where: str, at_ms: int | None) -> list[int]:
        """The start offset of each queue: the first, the last, or that at *at_ms*."""
        starts = []
        for span in spans:
            offset = span.end if where == "last" else span.first
            if at_ms is not None:
                found = await self._admin.offset_at(span.address, span.queue, at_ms)
                offset = min(max(found, span.first), span.end)
            starts.append(offset)
        return starts

    async def pull(self, span: QueueSpan, offset: int, *, hold_ms: int = 0) -> Pulled:
        """Pull from *offset* on; the broker may hold the pull for *hold_ms*.

        Raises ``AdminError``; ``NotFound`` if the topic was deleted.
        """
        await self._check(span.address)
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
            expression_type=self._wanted.expression_type,
        )
        timeout_ms = CALL_MS_MAX + 2 * hold_ms  # the broker checks held pulls only now and then
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

    async def _check(self, address: str) -> None:
        """Ask a broker whether it reads the expression: of a wrong one it would deliver all.

        Raises ``AdminRefused``.
        """
        if is_tag_type(self._wanted.expression_type) or address in self._checked:
            return
        body = CheckClientRequestBody(
            client_id="", group=TOOLS_CONSUMER_GROUP, subscription_data=self._wanted
        )
        reply = await self._admin.invoke(
            address, CHECK_CLIENT_CONFIG, None, body=encode_body(body, TOOL_RELEASE)
        )
        if reply.code == ResponseCode.SYSTEM_ERROR:
            raise AdminRefused(f"{address}: {reply.remark}; {NEEDS_PROPERTY_FILTER}", reply.code)
        if reply.code != ResponseCode.SUCCESS:
            raise AdminRefused(f"{address} cannot read the expression: {reply.remark}", reply.code)
        self._checked.add(address)

    async def stored(
        self, spans: list[QueueSpan], starts: list[int]
    ) -> AsyncGenerator[MessageExt]:
        """The messages of the queues from *starts* to their ends, oldest first by store time.

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
        return matches_tag(self._wanted, message.tags)


class _QueueCursor:
    """Iterates over one queue's messages in order, and pulls them on demand."""

    def __init__(self, reader: TopicReader, span: QueueSpan, start: int) -> None:
        self._reader = reader
        self._span = span
        self._offset = start
        self._ready: list[MessageExt] = []  # in reverse order

    async def next(self) -> MessageExt | None:
        """The next message; None at the end that the queue had when its span was read."""
        while not self._ready and self._offset < self._span.end:
            pulled = await self._reader.pull(self._span, self._offset)
            below_end = [m for m in pulled.messages if m.queue_offset < self._span.end]
            self._ready = below_end[::-1]
            if pulled.next_offset <= self._offset:
                break  # the broker has lost the end of the queue meanwhile
            self._offset = pulled.next_offset
        return self._ready.pop() if self._ready else None


async def _push(
    heap: list[tuple[Age, int, int, MessageExt]], number: int, cursor: _QueueCursor
) -> None:
    if (message := await cursor.next()) is not None:
        heapq.heappush(heap, (age(message), number, message.queue_offset, message))


def age(message: MessageExt) -> Age:
    """A sort key by age; messages of one producer and millisecond sort in send order."""
    return message.store_timestamp, message.born_timestamp, message.msg_id


# By id or key -------------------------------------------------------------------------


ID_CHARACTERS = (2 * (HOST_V4_BYTES + 8), 2 * (HOST_V6_BYTES + 8))
COPIES_MAX = 32  # MessageStoreConfig.defaultQueryMaxNum
TIMESTAMP_MS_MAX = 2**63 - 1


class BadMessageId(Misuse, ValueError):
    """A text that is no valid message id."""


async def find_by_id(admin: Admin, msg_id: str, topic: str = "") -> list[MessageExt]:
    """The message at an offset message id, or all copies with a unique key, in *topic* or all.

    Raises ``BadMessageId``, ``AdminError``; ``NotFound`` for an unknown topic.
    """
    host = _host_of(msg_id)
    for name, address in (await _addresses(admin)).items():
        if address == host:
            found = await _view_message(admin, address, name, msg_id)
            if found is not None:
                return [found]
    if topic:
        return await _query_message(admin, topic, msg_id, COPIES_MAX, is_id=True)
    copies: list[MessageExt] = []
    for each in await _topics(admin):
        copies += await _query_message(admin, each, msg_id, COPIES_MAX, is_id=True)
    return sorted(copies, key=age)


async def find_by_key(admin: Admin, topic: str, key: str, count_max: int) -> list[MessageExt]:
    """The newest *count_max* messages of *topic* with *key* among their keys, oldest first.

    Raises ``AdminError``; ``NotFound`` for an unknown topic.
    """
    return (await _query_message(admin, topic, key, count_max, is_id=False))[-count_max:]


def _host_of(msg_id: str) -> str:
    """The broker's address in an offset message id; a meaningless one in a unique key."""
    try:
        data = bytes.fromhex(msg_id)
    except ValueError:
        data = b""
    if 2 * len(data) not in ID_CHARACTERS or len(msg_id) != 2 * len(data):
        raise BadMessageId(f"a message id is 32 (or 56) hexadecimal digits, not {msg_id!r}")
    return host_text(data[:-8])


async def _addresses(admin: Admin) -> dict[str, str]:
    """The addresses of all brokers, slaves too, by broker name."""
    table = (await admin.cluster_info()).broker_addr_table
    return {name: at for name, data in table.items() for at in data.broker_addrs.values()}


async def _view_message(admin: Admin, address: str, broker: str, msg_id: str) -> MessageExt | None:
    try:
        header = ViewMessageRequest(offset=position_of(msg_id))
    except ValueError:
        return None  # a unique key that begins with a broker's address
    try:
        reply = await admin.call(address, VIEW_MESSAGE_BY_ID, header)
    except AdminRefused:
        return None
    found = decode_messages(reply.body, broker)
    return found[0] if found else None


async def _topics(admin: Admin) -> list[str]:
    """All topics with applications' messages, retries and dead letters too."""
    names: set[str] = set()
    for address in (await admin.masters()).values():
        names |= {config.topic_name or "" for config in await admin.topics(address)}
    return sorted(name for name in names if name and not is_system_topic(name))


async def _query_message(
    admin: Admin, topic: str, key: str, count_max: int, *, is_id: bool
) -> list[MessageExt]:
    """The messages with *key*, oldest first.  Brokers compare hashes, so compare keys here."""
    header = QueryMessageRequest(
        topic=topic,
        key=key,
        max_num=count_max,
        begin_timestamp=0,
        end_timestamp=TIMESTAMP_MS_MAX,
        unique_key_query=is_id,
    )
    found: list[MessageExt] = []
    for name, address in (await admin.brokers_of(topic)).items():
        reply = await admin.invoke(address, QUERY_MESSAGE, header)
        if reply.code == ResponseCode.SUCCESS:
            found += decode_messages(reply.body, name)
        elif reply.code != ResponseCode.QUERY_NOT_FOUND:
            raise AdminRefused(f"{address} refused with code {reply.code}: {reply.remark}")
    wanted = [m for m in found if m.topic == topic and _has_key(m, key, is_id=is_id)]
    return sorted(wanted, key=age)


def _has_key(message: MessageExt, key: str, *, is_id: bool) -> bool:
    return key == message.uniq_key if is_id else key in split_keys(message.keys)
