"""Sends that end well, over one broker or another, or say what was sent and what not.

At least once: a send without an answer may have been stored, and is sent again, as upstream's
sync send does: to another broker, if there is one.  A row with a shard key has one queue, and
waits for its broker.

Upstream: DefaultMQProducerImpl.sendDefaultImpl, SelectMessageQueueByHash.
"""

from __future__ import annotations

import logging
import os
import time
import uuid
from collections.abc import Iterable
from ipaddress import ip_address
from typing import Any

from pipeline.source.broker_offsets import BrokerConnections
from pipeline.source.connection import BlockingConnection, refusal
from pipeline.source.errors import NotSent, ServerAway, ServerRefused, SourceError, TopicUnknown
from pipeline.source.outgoing_rows import OutgoingBatch, rows_of, sends_of
from pipeline.source.routing import NameServers, RoutedQueues
from pipeline.source.sink_options import SinkOptions
from pipeline.source.waiting import Patience
from protocol.catalog import SEND_BATCH_MESSAGE, SEND_MESSAGE_V2
from protocol.codes import ResponseCode
from protocol.message_ids import UniqKeys
from protocol.names import AUTO_CREATE_TOPIC_KEY_TOPIC
from protocol.queues import MessageQueue
from protocol.requests.sending import SendMessageRequestV2
from protocol.tags import java_hash

QUEUES_OF_A_NEW_TOPIC = 4  # DefaultMQProducer.defaultTopicQueueNums
STORED = (  # but not yet as safe as the broker's settings ask for
    ResponseCode.FLUSH_DISK_TIMEOUT,
    ResponseCode.FLUSH_SLAVE_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE,
)
ELSEWHERE = (  # DefaultMQProducer.retryResponseCodes
    ResponseCode.TOPIC_NOT_EXIST,
    ResponseCode.SYSTEM_ERROR,
    ResponseCode.NO_PERMISSION,
    ResponseCode.NO_BUYER_ID,
    ResponseCode.NOT_IN_CURRENT_UNIT,
)
REFUSALS_MAX = 3  # DefaultMQProducer.retryTimesWhenSendFailed and one
LOOPBACK = ip_address("127.0.0.1").packed
log = logging.getLogger("rocketmq_emulator.spark")


def send_all(batches: Iterable[Any], options: SinkOptions, first_queue: int) -> int:
    """Sends the rows of Arrow *batches*; how many they were.  Raises ``NotSent``.

    The queues of a topic take turns, from *first_queue* on.
    """
    sender = TaskSender(options, first_queue)
    try:
        for batch in batches:
            sender.send(batch)
    finally:
        sender.close()
    return sender.sent_count


class TaskSender:
    """The sends of one task."""

    def __init__(self, options: SinkOptions, first_queue: int) -> None:
        self.sent_count = 0
        self._options = options
        self._turn = first_queue
        self._name_servers = NameServers(options.namesrv, options.request_ms_max)
        self._brokers = BrokerConnections(options.request_ms_max)
        self._routes: dict[str, RoutedQueues] = {}
        self._keys = UniqKeys(LOOPBACK, os.getpid(), uuid.uuid4().int & 0xFFFFFFFF)

    def close(self) -> None:
        """Ends every connection."""
        self._brokers.close()
        self._name_servers.close()

    def send(self, batch: Any) -> None:
        """The rows of an Arrow batch, none of them if one cannot be sent."""
        rows = rows_of(batch, self._options.topic, lambda: self._keys.make(_now_ms()))
        left = len(rows)
        for outgoing in sends_of(rows):
            try:
                self._send(outgoing)
            except SourceError as error:
                raise NotSent(
                    f"{self.sent_count} rows of this task were sent, {left} or more were not: "
                    f"{outgoing.topic}: {error}. A retry of the task sends all of its rows again"
                ) from None
            self.sent_count += outgoing.count
            left -= outgoing.count

    def _send(self, outgoing: OutgoingBatch) -> None:
        """Attempts until one succeeds, each at another broker than the one before."""
        patience = Patience(self._options.broker_away_ms_max)
        tried, refused_count = "", 0
        while True:
            try:
                queue, address = self._choose(outgoing, tried)
                tried = queue.broker_name
                self._attempt(self._brokers.to(address), queue, outgoing)
            except ServerAway as error:
                self._routes.pop(outgoing.topic, None)
                patience.wait_or_raise(error)
            except ServerRefused as refused:
                refused_count += 1
                if refused.code not in ELSEWHERE or refused_count == REFUSALS_MAX:
                    raise
            else:
                return

    def _choose(self, outgoing: OutgoingBatch, tried: str) -> tuple[MessageQueue, str]:
        """The next queue and its address.  Raises ``ServerAway``."""
        routed = self._routed(outgoing.topic)
        queues = [q for q in routed.queues if q.broker_name in routed.addresses]
        if not queues:
            raise ServerAway(f"no broker of {outgoing.topic} takes messages now")
        if outgoing.shard_key:
            queue = queues[abs(java_hash(outgoing.shard_key)) % len(queues)]
        else:
            elsewhere = [q for q in queues if q.broker_name != tried] or queues
            self._turn += 1
            queue = elsewhere[self._turn % len(elsewhere)]
        return queue, routed.addresses[queue.broker_name]

    def _routed(self, topic: str) -> RoutedQueues:
        """Of a topic that is not there yet, where its first message may make it.

        Raises ``ServerAway``.
        """
        if topic in self._routes:
            return self._routes[topic]
        try:
            found = self._name_servers.queues([topic], to_write=True)
        except TopicUnknown as unknown:
            try:
                found = self._name_servers.queues([AUTO_CREATE_TOPIC_KEY_TOPIC], to_write=True)
            except TopicUnknown:  # its brokers are down, or there is none that makes topics
                raise ServerAway(str(unknown)) from None
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
        except ServerAway:
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
