"""Rows become messages, messages become batches; each is sent until a broker has stored it.

Delivery is at least once: a send without an answer may have been stored, and is sent again, like
upstream's sync send: to another broker, if there is one.  A row with a shard key has one queue,
and waits for its broker.  A batch has messages of one topic and is never compressed; messages
that are delayed or bound to a queue are sent alone.  All rows of an Arrow batch are checked before
the first is sent, so one invalid row stops the others of that batch, too.

Upstream: DefaultMQProducerImpl.sendDefaultImpl, DefaultMQProducerImpl.sendKernelImpl,
SelectMessageQueueByHash, MessageBatch.
"""

from __future__ import annotations

import logging
import os
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

import msgspec

from rocketmq_emulator.pipeline.source.broker_offsets import BrokerConnections
from rocketmq_emulator.pipeline.source.connection import BlockingConnection, refusal
from rocketmq_emulator.pipeline.source.errors import (
    BadRow,
    RetryLimit,
    ServerRefused,
    ServerUnavailable,
    SourceError,
    TopicUnknown,
    not_sent,
)
from rocketmq_emulator.pipeline.source.options import SinkOptions
from rocketmq_emulator.pipeline.source.routing import NameServers, RoutedQueues
from rocketmq_emulator.protocol.catalog import SEND_BATCH_MESSAGE, SEND_MESSAGE_V2
from rocketmq_emulator.protocol.codes import ResponseCode
from rocketmq_emulator.protocol.messages.batch import BatchMessage, encode_batch
from rocketmq_emulator.protocol.messages.message_ids import UniqKeys
from rocketmq_emulator.protocol.messages.names import AUTO_CREATE_TOPIC_KEY_TOPIC
from rocketmq_emulator.protocol.messages.properties import (
    DELAY,
    KEY_SEPARATOR,
    KEYS,
    NAME_VALUE_SEPARATOR,
    PROPERTIES_BYTES_MAX,
    PROPERTY_SEPARATOR,
    RESERVED,
    SHARDING_KEY,
    TAGS,
    UNIQ_KEY,
    WAIT,
    properties_text,
)
from rocketmq_emulator.protocol.messages.subscription import java_hash
from rocketmq_emulator.protocol.messages.validation import (
    MESSAGE_BYTES_MAX,
    client_refuses_body,
    client_refuses_send_to,
)
from rocketmq_emulator.protocol.queues import MessageQueue
from rocketmq_emulator.protocol.requests.sending import SendMessageRequestV2

if TYPE_CHECKING:
    import pyarrow as pa

QUEUES_OF_A_NEW_TOPIC = 4  # DefaultMQProducer.defaultTopicQueueNums
STORED = (  # but not flushed or replicated in time as the broker's settings require
    ResponseCode.FLUSH_DISK_TIMEOUT,
    ResponseCode.FLUSH_SLAVE_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE,
)
OTHER_BROKER_CODES = (  # DefaultMQProducer.retryResponseCodes
    ResponseCode.TOPIC_NOT_EXIST,
    ResponseCode.SYSTEM_ERROR,
    ResponseCode.NO_PERMISSION,
    ResponseCode.NO_BUYER_ID,
    ResponseCode.NOT_IN_CURRENT_UNIT,
)
REFUSALS_MAX = 3  # DefaultMQProducer.retryTimesWhenSendFailed and one
LOOPBACK = ip_address("127.0.0.1").packed
log = logging.getLogger("rocketmq_emulator.spark")


def send_all(batches: Iterable[pa.RecordBatch], options: SinkOptions, first_queue: int) -> int:
    """Sends the rows of Arrow *batches*; returns their count.  Raises ``NotSent``.

    The queues of a topic are used in turn, beginning with *first_queue*.
    """
    sender = TaskSender(options, first_queue)
    try:
        for batch in batches:
            sender.send(batch)
    finally:
        sender.close()
    return sender.sent_count


class TaskSender:
    """Sends the rows of one task."""

    def __init__(self, options: SinkOptions, first_queue: int) -> None:
        self.sent_count = 0
        self._options = options
        self._turn = first_queue
        self._name_servers = NameServers(options.namesrv, options.request_ms_max)
        self._brokers = BrokerConnections(options.request_ms_max)
        self._routes: dict[str, RoutedQueues] = {}
        self._keys = UniqKeys(LOOPBACK, os.getpid(), uuid.uuid4().int & 0xFFFFFFFF)

    def close(self) -> None:
        """Closes every connection."""
        self._brokers.close()
        self._name_servers.close()

    def send(self, batch: pa.RecordBatch) -> None:
        """Sends the rows of an Arrow batch; none if one is invalid.  Raises ``NotSent``."""
        rows = rows_of(batch, self._options.topic, lambda: self._keys.make(_now_ms()))
        left = len(rows)
        for outgoing in sends_of(rows):
            try:
                self._send(outgoing)
            except SourceError as error:
                raise not_sent(
                    error,
                    f"{self.sent_count} rows of this task were sent, {left} or more were not: "
                    f"{outgoing.topic}: {error}. A retry of the task sends all of its rows again",
                ) from None
            self.sent_count += outgoing.count
            left -= outgoing.count

    def _send(self, outgoing: OutgoingBatch) -> None:
        """Attempts until one succeeds, each at another broker than the previous one."""
        patience = RetryLimit(self._options.broker_unavailable_ms_max)
        tried, refused_count = "", 0
        while True:
            try:
                queue, address = self._choose(outgoing, tried)
                tried = queue.broker_name
                self._attempt(self._brokers.to(address), queue, outgoing)
            except ServerUnavailable as error:
                self._routes.pop(outgoing.topic, None)
                patience.wait_or_raise(error)
            except ServerRefused as refused:
                refused_count += 1
                if refused.code not in OTHER_BROKER_CODES or refused_count == REFUSALS_MAX:
                    raise
            else:
                return

    def _choose(self, outgoing: OutgoingBatch, tried: str) -> tuple[MessageQueue, str]:
        """The next queue and its address.  Raises ``ServerUnavailable``."""
        routed = self._routed(outgoing.topic)
        queues = [q for q in routed.queues if q.broker_name in routed.addresses]
        if not queues:
            raise ServerUnavailable(f"no broker of {outgoing.topic} takes messages now")
        if outgoing.shard_key:
            queue = queues[abs(java_hash(outgoing.shard_key)) % len(queues)]
        else:
            elsewhere = [q for q in queues if q.broker_name != tried] or queues
            self._turn += 1
            queue = elsewhere[self._turn % len(elsewhere)]
        return queue, routed.addresses[queue.broker_name]

    def _routed(self, topic: str) -> RoutedQueues:
        """The topic's route; of an unknown topic, that of a broker which creates it on a send.

        Raises ``ServerUnavailable``.
        """
        if topic in self._routes:
            return self._routes[topic]
        try:
            found = self._name_servers.queues([topic], to_write=True)
        except TopicUnknown as unknown:
            try:
                found = self._name_servers.queues([AUTO_CREATE_TOPIC_KEY_TOPIC], to_write=True)
            except TopicUnknown:  # its brokers are down, or no broker creates topics
                raise ServerUnavailable(str(unknown)) from None
            return RoutedQueues(
                tuple(
                    MessageQueue(topic, queue.broker_name, queue.queue_id)
                    for queue in found.queues
                    if queue.queue_id < QUEUES_OF_A_NEW_TOPIC
                ),
                found.addresses,
            )
        self._routes[topic] = found
        return found

    def _attempt(
        self, connection: BlockingConnection, queue: MessageQueue, outgoing: OutgoingBatch
    ) -> None:
        rpc = SEND_BATCH_MESSAGE if outgoing.is_batch else SEND_MESSAGE_V2
        try:
            number = connection.send(rpc, self._header(queue, outgoing), outgoing.body)
            reply = connection.reply(number)
        except ServerUnavailable:
            self._brokers.drop(connection.address)
            raise
        if reply.code in STORED:
            log.warning("%s stored with code %d: %s", connection.address, reply.code, reply.remark)
        elif reply.code != ResponseCode.SUCCESS:
            raise refusal(connection.address, rpc.name, reply)

    def _header(self, queue: MessageQueue, outgoing: OutgoingBatch) -> SendMessageRequestV2:
        return SendMessageRequestV2(
            producer_group=self._options.group,
            topic=outgoing.topic,
            default_topic=AUTO_CREATE_TOPIC_KEY_TOPIC,
            default_topic_queue_nums=QUEUES_OF_A_NEW_TOPIC,
            queue_id=queue.queue_id,
            sys_flag=0,
            born_timestamp=_now_ms(),
            flag=0,
            properties=outgoing.properties,
            reconsume_times=0,
            unit_mode=False,
            batch=outgoing.is_batch,
            bname=queue.broker_name,
        )


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


# Rows as messages and batches ---------------------------------------------------------


BATCH_BYTES_MAX = 1 << 20  # ours: below the brokers' MESSAGE_BYTES_MAX
BATCH_MESSAGES_MAX = 1_000
MORE_THAN_BODY = 200  # bytes of a message in a batch besides body and properties, with a margin
NO_ROW: dict[str, Any] = {}


class OutgoingRow(msgspec.Struct, frozen=True):
    """A message to send; its properties are encoded as one text."""

    topic: str
    body: bytes
    properties: str
    shard_key: str = ""
    is_delayed: bool = False

    @property
    def size(self) -> int:
        """About how many bytes the message takes in a batch."""
        return len(self.body) + len(self.properties) + MORE_THAN_BODY


class OutgoingBatch(msgspec.Struct, frozen=True):
    """One send of ``count`` rows; a shard key binds it to a queue."""

    topic: str
    body: bytes
    properties: str
    count: int
    shard_key: str = ""
    is_batch: bool = False


def rows_of(batch: pa.RecordBatch, topic: str, new_key: Callable[[], str]) -> list[OutgoingRow]:
    """The rows of an Arrow batch as messages; *topic* if a row has none.  Raises ``BadRow``."""
    found = []
    for number, row in enumerate(batch.to_pylist()):
        try:
            found.append(_outgoing(row, row.get("topic") or topic, new_key))
        except ValueError as error:
            raise BadRow(f"row {number} of {batch.num_rows} cannot be sent: {error}") from None
    return found


def sends_of(rows: list[OutgoingRow]) -> Iterator[OutgoingBatch]:
    """The rows as sends, in their order, each as large as a broker accepts."""
    waiting: list[OutgoingRow] = []
    size = 0
    for row in rows:
        is_alone = bool(row.shard_key) or row.is_delayed
        is_other = bool(waiting) and waiting[0].topic != row.topic
        is_full = size + row.size > BATCH_BYTES_MAX or len(waiting) == BATCH_MESSAGES_MAX
        if waiting and (is_alone or is_other or is_full):
            yield _batch(waiting)
            waiting, size = [], 0
        if is_alone:
            yield OutgoingBatch(row.topic, row.body, row.properties, 1, row.shard_key)
            continue
        waiting.append(row)
        size += row.size
    if waiting:
        yield _batch(waiting)


def _batch(rows: list[OutgoingRow]) -> OutgoingBatch:
    if len(rows) == 1:
        (row,) = rows
        return OutgoingBatch(row.topic, row.body, row.properties, 1)
    body = encode_batch(BatchMessage(row.body, row.properties.encode()) for row in rows)
    shared = properties_text({WAIT: "true"}, trailing=False)
    return OutgoingBatch(rows[0].topic, body, shared, len(rows), is_batch=True)


def _outgoing(row: dict[str, Any], topic: str, new_key: Callable[[], str]) -> OutgoingRow:
    """The message of *row*.  Raises ``ValueError`` if it is invalid."""
    if (complaint := client_refuses_send_to(topic)) is not None:
        raise ValueError(complaint)
    body = row["body"]
    if body is None:
        raise ValueError("its body is null")
    data = body.encode() if isinstance(body, str) else bytes(body)
    if (complaint := client_refuses_body(len(data), MESSAGE_BYTES_MAX - (1 << 16))) is not None:
        raise ValueError(complaint)
    keys, delay, shard = row.get("keys"), row.get("delay_level") or 0, row.get("shard_key") or ""
    if isinstance(keys, list):
        keys = KEY_SEPARATOR.join(filter(None, keys))
    own = dict(row.get("properties") or NO_ROW)
    pairs = {name: value for name, value in own.items() if name not in RESERVED and value}
    # A message that was read has properties set by the system: they are set again.
    given = {KEYS: keys, TAGS: row.get("tags"), SHARDING_KEY: shard, DELAY: delay and str(delay)}
    pairs |= {name: value for name, value in given.items() if value}
    pairs |= {UNIQ_KEY: new_key(), WAIT: "true"}
    _check_pairs(pairs)
    text = properties_text(pairs, trailing=False)
    if len(text.encode()) > PROPERTIES_BYTES_MAX:
        raise ValueError(f"its properties are longer than {PROPERTIES_BYTES_MAX} bytes")
    return OutgoingRow(topic, data, text, shard, is_delayed=delay > 0)


def _check_pairs(pairs: dict[str, str]) -> None:
    for name, value in pairs.items():
        if NAME_VALUE_SEPARATOR in name or PROPERTY_SEPARATOR in name + value:
            raise ValueError(f"the property {name!r} holds \\x01 or \\x02, which end properties")
    if "||" in pairs.get(TAGS, ""):
        raise ValueError(f"a message has one tag, not {pairs[TAGS]!r}")
