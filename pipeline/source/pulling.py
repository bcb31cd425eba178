"""The stored records of one range of a queue, as the bytes of the brokers' answers.

A broker returns at most 32 messages per answer, so pulls one after the other would mostly wait
for the network.  Without a tag filter offsets have no gaps: several pulls are sent at once, each
for its own window of offsets, and the rest of a window that an answer did not fill is pulled
first.  With a filter only the broker knows where the next pull begins: one pull at a time.

If a broker becomes unavailable, the read retries, and continues after the last answer: at its
slave, if it has one.  Messages that a slave does not have yet are not lost: the read waits.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from rocketmq_emulator.pipeline.source.broker_offsets import pull_request
from rocketmq_emulator.pipeline.source.connection import BlockingConnection, refusal
from rocketmq_emulator.pipeline.source.errors import (
    MessagesLost,
    RetryLimit,
    ServerRefused,
    ServerUnavailable,
    TopicUnknown,
)
from rocketmq_emulator.pipeline.source.options import SourceOptions
from rocketmq_emulator.pipeline.source.queue_offsets import QueueRange
from rocketmq_emulator.pipeline.source.routing import NameServers, RoutedQueues
from rocketmq_emulator.protocol.bodies.body import encode_body
from rocketmq_emulator.protocol.bodies.groups import CheckClientRequestBody
from rocketmq_emulator.protocol.catalog import CHECK_CLIENT_CONFIG, PULL_MESSAGE
from rocketmq_emulator.protocol.codes import ResponseCode
from rocketmq_emulator.protocol.command import RemotingCommand
from rocketmq_emulator.protocol.messages.subscription import NEEDS_PROPERTY_FILTER
from rocketmq_emulator.protocol.requests.pulling import PullMessageReply
from rocketmq_emulator.protocol.versions import R_4_9_7

PULLS_IN_FLIGHT_MAX = 16  # of 32 messages each, the brokers' limit
FIRST_WINDOW = 1024  # offsets; the first answer shows how many the broker returns
USUAL_WINDOW = 32  # MessageStoreConfig.maxTransferCountOnMessageInMemory
log = logging.getLogger("rocketmq_emulator.spark")


class Pull(NamedTuple):
    """An unanswered call for the offsets from ``at`` to below ``end``."""

    number: int
    at: int
    end: int


def record_blocks(wanted: QueueRange, options: SourceOptions) -> Iterator[bytes]:
    """The bodies of answers in order; the last one may have records after the end of the range.

    Raises ``MessagesLost``, ``ServerRefused``, and past the limit ``ServerUnavailable``.
    """
    patience = RetryLimit(options.broker_unavailable_ms_max)
    address, at = wanted.address, wanted.start
    while at < wanted.end:
        try:
            with _connected(address, wanted, options) as connection:
                _check_expression(connection, wanted.queue.topic, options)
                for body, next_at in PullWindows(connection, wanted, options).blocks(at):
                    at = next_at
                    patience.renew()
                    if body:
                        yield body
        except ServerUnavailable as error:
            patience.wait_or_raise(error)
            address = _next_address(wanted, options, address)


class PullWindows:
    """The pulls of one range over one connection."""

    def __init__(
        self, connection: BlockingConnection, wanted: QueueRange, options: SourceOptions
    ) -> None:
        self._connection = connection
        self._wanted = wanted
        self._options = options
        self._depth = PULLS_IN_FLIGHT_MAX if options.takes_all else 1
        self._subscription = options.subscription(wanted.queue.topic)
        self._pulls: deque[Pull] = deque()

    def blocks(self, at: int) -> Iterator[tuple[bytes, int]]:
        """Each answer's records, and the offset after them."""
        end = self._wanted.end
        asked_to = self._ask(at, min(at + FIRST_WINDOW, end))
        width = width_max = 0
        while self._pulls:
            pull = self._pulls.popleft()
            body, next_at = self._take(pull)
            covered = next_at - pull.at
            if not width:
                width, width_max, asked_to = covered, max(covered, USUAL_WINDOW), next_at
            elif next_at < pull.end:
                self._pulls.appendleft(self._pull(next_at, pull.end))
                width = covered
            else:
                width = min(width + 1, width_max)
            asked_to = max(asked_to, next_at)
            if self._depth == 1:
                width = FIRST_WINDOW
            while len(self._pulls) < self._depth and asked_to < end:
                asked_to = self._ask(asked_to, min(asked_to + width, end))
            yield body, next_at

    def _ask(self, at: int, end: int) -> int:
        self._pulls.append(self._pull(at, end))
        return end

    def _pull(self, at: int, end: int) -> Pull:
        queue, options = self._wanted.queue, self._options
        header = pull_request(options.pull_group, self._subscription, queue, at, count=end - at)
        return Pull(self._connection.send(PULL_MESSAGE, header), at, end)

    def _take(self, pull: Pull) -> tuple[bytes, int]:
        reply = self._connection.reply(pull.number)
        if reply.code == ResponseCode.SUCCESS:
            return reply.body, self._next_offset(pull, reply)
        if reply.code == ResponseCode.PULL_RETRY_IMMEDIATELY:
            return b"", self._next_offset(pull, reply)
        if reply.code in (ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_OFFSET_MOVED):
            return b"", self._offset_after_lost(pull, reply)
        error = refusal(self._connection.address, PULL_MESSAGE.name, reply)
        self._check_slave(f"it does not give {self._wanted.queue} ({error})")
        raise error

    def _check_slave(self, text: str) -> None:
        """Raises ``ServerUnavailable`` at a slave: its master may have the messages it lacks."""
        routed, address = _routed(self._wanted, self._options), self._connection.address
        if routed is not None and routed.is_slave(address):
            raise ServerUnavailable(f"{address} is a slave: {text}; the read waits for its master")

    def _next_offset(self, pull: Pull, reply: RemotingCommand) -> int:
        next_at = reply.decode(PullMessageReply).next_begin_offset
        if next_at <= pull.at:
            raise ServerUnavailable(
                f"{self._connection.address} gave nothing of {self._wanted.queue} at {pull.at}"
            )
        return next_at

    def _offset_after_lost(self, pull: Pull, reply: RemotingCommand) -> int:
        """The offset to continue at when messages are gone, if failOnDataLoss is false."""
        found = reply.decode(PullMessageReply)
        first, end = found.min_offset, found.max_offset
        self._check_slave(
            f"it has the offsets {first} to {end} of {self._wanted.queue} and not {pull.at}"
        )
        next_at = self._wanted.end if end <= pull.at else max(first, pull.at + 1)
        next_at = min(next_at, self._wanted.end)
        text = (
            f"{self._wanted.queue} has the offsets {first} to {end} now: {next_at - pull.at} "
            f"messages from {pull.at} on are gone"
        )
        if self._options.fail_on_data_loss:
            raise MessagesLost(f"{text}. {DATA_LOSS_ADVICE}")
        log.warning("%s, and were passed over (failOnDataLoss=false)", text)
        return next_at


DATA_LOSS_ADVICE = (
    "Brokers delete old files (fileReservedTime); to go on with what is left set "
    'option("failOnDataLoss", "false")'
)


def _connected(address: str, wanted: QueueRange, options: SourceOptions) -> BlockingConnection:
    if not address:
        raise ServerUnavailable(f"no NameServer knows where {wanted.queue.broker_name} is")
    return BlockingConnection(address, options.request_ms_max)


def _check_expression(connection: BlockingConnection, topic: str, options: SourceOptions) -> None:
    """Raises ``ServerRefused`` if the broker cannot read the SQL92 expression.

    Without this it would return every message.
    """
    if not options.sql:
        return
    body = CheckClientRequestBody(
        client_id="", group=options.pull_group, subscription_data=options.subscription(topic)
    )
    number = connection.send(CHECK_CLIENT_CONFIG, None, encode_body(body, R_4_9_7))
    reply = connection.reply(number)
    if reply.code == ResponseCode.SYSTEM_ERROR:
        remark = f"{reply.remark}; {NEEDS_PROPERTY_FILTER}"
        raise ServerRefused(connection.address, CHECK_CLIENT_CONFIG.name, reply.code, remark)
    if reply.code != ResponseCode.SUCCESS:
        raise refusal(connection.address, CHECK_CLIENT_CONFIG.name, reply)


def _next_address(wanted: QueueRange, options: SourceOptions, failed: str) -> str:
    """The address to try after *failed*: master and slave in turns; *failed* without a route."""
    routed = _routed(wanted, options)
    read_addresses = routed.read_addresses(wanted.queue.broker_name) if routed is not None else []
    return next((way for way in read_addresses if way != failed), failed or wanted.address)


def _routed(wanted: QueueRange, options: SourceOptions) -> RoutedQueues | None:
    """The topic's route; None if no NameServer answers or has it."""
    name_servers = NameServers(options.namesrv, options.request_ms_max)
    try:
        return name_servers.queues([wanted.queue.topic])
    except (ServerUnavailable, TopicUnknown) as error:
        log.debug("the address of %s stays: %s", wanted.queue.broker_name, error)
        return None
    finally:
        name_servers.close()
