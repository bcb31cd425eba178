"""Dead letters: the messages that a group gave up, and their replay.

The position of a replay is an offset of the tools' group in the dead-letter topic, committed
after each send: so a second replay continues where the first one ended, the group's own offsets
and lag do not change, and a tool that dies between a send and its commit repeats one message.

Upstream: SendMessageProcessor.asyncConsumerSendMsgBack writes them; it has no replay.
"""

from __future__ import annotations

import msgspec

from rocketmq_emulator.admin.calls import Admin, AdminRefused, NotFound
from rocketmq_emulator.admin.messages import QueueSpan, TopicReader
from rocketmq_emulator.protocol.catalog import QUERY_CONSUMER_OFFSET
from rocketmq_emulator.protocol.codes import ResponseCode
from rocketmq_emulator.protocol.error_families import DamagedData
from rocketmq_emulator.protocol.messages import properties as names
from rocketmq_emulator.protocol.messages.message import Message, MessageExt
from rocketmq_emulator.protocol.messages.names import (
    DLQ_GROUP_TOPIC_PREFIX,
    TOOLS_CONSUMER_GROUP,
    dlq_topic,
    is_dlq_topic,
    is_retry_topic,
)
from rocketmq_emulator.protocol.requests.offsets import OffsetReply, QueryConsumerOffsetRequest

REPLAYED_FROM = "REPLAYED_FROM"  # ours: the offset id of the replayed dead letter
KEPT = frozenset({names.KEYS, names.TAGS, names.UNIQ_KEY, names.INSTANCE_ID, names.BUYER_ID})
DROPPED = (names.RESERVED - KEPT) | {  # properties that brokers and consumers have added
    names.BORN_HOST,
    names.BORN_TIMESTAMP,
    names.CRC32,
    names.DLQ_ORIGIN_MESSAGE_ID,
    names.DLQ_ORIGIN_TOPIC,
    names.TIMER_DELAY_MS,
    names.TIMER_DELAY_SEC,
    names.TIMER_DELIVER_MS,
    names.TIMER_OUT_MS,
    names.TIMER_ENQUEUE_MS,
    names.TIMER_DEQUEUE_MS,
    names.TIMER_ROLL_TIMES,
}


class NoOrigin(DamagedData, ValueError):
    """A dead letter has no property that names its original topic."""


class DeadLetters(msgspec.Struct, frozen=True):
    """The dead letters of one group: how many are stored, and how many not replayed yet."""

    group: str
    stored: int
    waiting: int


class DeadLetterQueue:
    """The dead letters of one group."""

    def __init__(self, admin: Admin, group: str) -> None:
        self.group = group
        self.reader = TopicReader(admin, dlq_topic(group))
        self._admin = admin

    async def spans(self) -> list[QueueSpan]:
        """Its queues; empty if the group never gave up a message.  Raises ``AdminError``."""
        try:
            return await self.reader.spans()
        except NotFound:
            return []

    async def replayed_to(self, spans: list[QueueSpan]) -> list[int]:
        """For each queue the first offset that was not replayed.  Raises ``AdminError``."""
        return [await self._replayed_to(span) for span in spans]

    async def count(self) -> DeadLetters:
        """Count the dead letters.  Raises ``AdminError``."""
        spans = await self.spans()
        starts = await self.replayed_to(spans)
        return DeadLetters(
            self.group,
            stored=sum(span.end - span.first for span in spans),
            waiting=sum(span.end - start for span, start in zip(spans, starts, strict=True)),
        )

    async def note_replayed(self, span: QueueSpan, letter: MessageExt) -> None:
        """Commit that *letter*, of queue *span*, was replayed.  Raises ``AdminError``."""
        after = letter.queue_offset + 1
        await self._admin.commit(span.address, TOOLS_CONSUMER_GROUP, span.queue, after)

    async def _replayed_to(self, span: QueueSpan) -> int:
        header = QueryConsumerOffsetRequest(
            consumer_group=TOOLS_CONSUMER_GROUP,
            topic=span.queue.topic,
            queue_id=span.queue.queue_id,
        )
        reply = await self._admin.invoke(span.address, QUERY_CONSUMER_OFFSET, header)
        if reply.code == ResponseCode.QUERY_NOT_FOUND:
            return span.first
        if reply.code != ResponseCode.SUCCESS:
            raise AdminRefused(f"{span.address} refused with code {reply.code}: {reply.remark}")
        return min(max(reply.decode(OffsetReply).offset, span.first), span.end)


async def groups_with_dead_letters(admin: Admin) -> list[str]:
    """The groups that ever gave up a message.  Raises ``AdminError``."""
    found: set[str] = set()
    for address in (await admin.masters()).values():
        topics = (config.topic_name or "" for config in await admin.topics(address))
        found |= {
            name.removeprefix(DLQ_GROUP_TOPIC_PREFIX) for name in topics if is_dlq_topic(name)
        }
    return sorted(found)


def origin_of(letter: MessageExt) -> str | None:
    """The topic of a dead letter before its first retry."""
    found = letter.properties
    return found.get(names.DLQ_ORIGIN_TOPIC) or found.get(names.RETRY_TOPIC)


def replayed(letter: MessageExt, to: str = "") -> Message:
    """*letter* as it was first sent, for topic *to* or its original topic.

    Its id, keys, tag and the application's properties are kept; in a retry topic the message
    also names its original topic, which consumers then see.  Raises ``NoOrigin``.
    """
    origin = origin_of(letter)
    topic = to or origin
    if not topic:
        raise NoOrigin(f"dead letter {letter.queue_offset} does not name its original topic")
    kept = {name: value for name, value in letter.properties.items() if name not in DROPPED}
    kept[REPLAYED_FROM] = letter.offset_msg_id
    if is_retry_topic(topic) and origin:
        kept[names.RETRY_TOPIC] = origin
    return Message(topic, letter.body, flag=letter.flag, properties=kept)
