"""The parts of every pull: the choice of the broker, the request, and reading the reply.

With each reply a broker suggests the broker to pull that queue from next.  Brokers compare hash
codes of tags; here the tags themselves are compared.

Upstream: PullAPIWrapper.pullKernelImpl, processPullResult, recalculatePullFromWhichNode.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

import msgspec

from rocketmq_emulator.errors.call_errors import (
    ClientError,
    ClientErrorCode,
    GroupCallRefusedByBroker,
    GroupCallUnanswered,
)
from rocketmq_emulator.protocol.catalog import LITE_PULL_MESSAGE, PULL_MESSAGE
from rocketmq_emulator.protocol.codes import ResponseCode
from rocketmq_emulator.protocol.fields import BadFields
from rocketmq_emulator.protocol.flags import LITE_PULL, SUBSCRIPTION, SUSPEND
from rocketmq_emulator.protocol.messages.message import MessageExt, decode_messages
from rocketmq_emulator.protocol.messages.names import MASTER_ID
from rocketmq_emulator.protocol.messages.properties import MAX_OFFSET, MIN_OFFSET
from rocketmq_emulator.protocol.messages.subscription import (
    NEEDS_PROPERTY_FILTER,
    filters_tags,
    is_tag_type,
    matches_tag,
)
from rocketmq_emulator.protocol.requests.pulling import PullMessageReply, PullMessageRequest
from rocketmq_emulator.settings.releases import (
    COMPRESSED_BIT_CLEARED,
    LITE_PULL_HAS_CODE,
    PULL_LIMITS_BYTES,
    RECORD_MAGIC_MATTERS,
)

if TYPE_CHECKING:
    from rocketmq_emulator.client.consumer.group.member import Member
    from rocketmq_emulator.protocol.command import RemotingCommand
    from rocketmq_emulator.protocol.messages.subscription import SubscriptionData
    from rocketmq_emulator.protocol.queues import MessageQueue

ANY_SIZE = 2**31 - 1  # maxMsgBytes of consumers that do not limit it


class PullStatus(Enum):
    """The status of a reply to a pull.  Upstream: PullStatus."""

    FOUND = "FOUND"
    NO_NEW_MSG = "NO_NEW_MSG"
    NO_MATCHED_MSG = "NO_MATCHED_MSG"
    OFFSET_ILLEGAL = "OFFSET_ILLEGAL"


STATUSES = {
    ResponseCode.SUCCESS: PullStatus.FOUND,
    ResponseCode.PULL_NOT_FOUND: PullStatus.NO_NEW_MSG,
    ResponseCode.PULL_RETRY_IMMEDIATELY: PullStatus.NO_MATCHED_MSG,
    ResponseCode.PULL_OFFSET_MOVED: PullStatus.OFFSET_ILLEGAL,
}


class PullResult(msgspec.Struct, frozen=True):
    """One reply to a pull.  Upstream: PullResult."""

    status: PullStatus
    next_begin_offset: int  # where the next pull begins
    min_offset: int  # of the queue's first message
    max_offset: int  # of the queue's next message to be stored
    messages: list[MessageExt] = []


class PullOptions(msgspec.Struct, frozen=True):
    """The options of one pull, besides its queue and subscription."""

    offset: int
    messages_max: int
    flag: int
    hold_ms_max: int
    timeout_ms: int
    bytes_max: int = ANY_SIZE


class PullKernel:
    """Pulls for one consumer.  With *broker_id* it ignores the brokers that replies suggest."""

    def __init__(self, member: Member, broker_id: int | None = None) -> None:
        self._member = member
        self._broker_id = broker_id
        self._suggested: dict[MessageQueue, int] = {}  # the broker id to pull from next
        self._why_no_route = ""

    async def pull(
        self, queue: MessageQueue, subscription: SubscriptionData, options: PullOptions
    ) -> PullResult:
        """Pull once and wait for the reply; the request carries the subscription's text.

        Raises ``RemoteError`` without a reply; ``GroupCallRefused`` for a reply with an error
        code, or if no route leads to the broker.
        """
        address, _ = await self.address_of(queue)
        if address is None:
            text = f"no route leads to {queue.broker_name}{self._why_no_route}"
            code = ClientErrorCode.BROKER_NOT_EXIST
            raise GroupCallUnanswered(text, code=code, definite=True)
        member = self._member
        has_code = options.flag & LITE_PULL and member.release >= LITE_PULL_HAS_CODE
        reply = await member.instance.remoting.invoke(
            address,
            LITE_PULL_MESSAGE if has_code else PULL_MESSAGE,
            self._request(queue, subscription, options),
            timeout_ms=options.timeout_ms,
        )
        if (status := STATUSES.get(reply.code)) is None:
            text = f"{address} answered {reply.code}: {reply.remark}"
            text += _advice(subscription, reply)
            raise GroupCallRefusedByBroker(text, code=reply.code)
        try:
            header, found = self.read(reply, queue, subscription)
        except BadFields as error:
            raise GroupCallUnanswered(f"{address}: {error}") from error
        ends = header.next_begin_offset, header.min_offset, header.max_offset
        return PullResult(status, *ends, found)

    async def address_of(self, queue: MessageQueue) -> tuple[str | None, bool]:
        """The address to pull from, and whether it is a slave; (None, False) without one.

        It is that of the broker that the last reply suggested, or of the master.  If it is
        unknown, the route is refreshed once.
        """
        brokers = self._member.instance.brokers
        wanted = self._broker_id
        if wanted is None:
            wanted = self._suggested.get(queue, MASTER_ID)
        found = brokers.to_subscribe(queue.broker_name, wanted, only_this=False)
        if found is None:
            try:
                await self._member.instance.routes.refresh(queue.topic)
            except ClientError as error:
                self._why_no_route = f": {error}"
                return None, False
            self._why_no_route = ""
            found = brokers.to_subscribe(queue.broker_name, wanted, only_this=False)
        return found or (None, False)

    def read(
        self, reply: RemotingCommand, queue: MessageQueue, subscription: SubscriptionData
    ) -> tuple[PullMessageReply, list[MessageExt]]:
        """Decode a reply: its header and the matching messages.  Raises ``BadFields``."""
        header = reply.decode(PullMessageReply)
        release = self._member.release
        found = decode_messages(
            reply.body,
            queue.broker_name,
            magic_matters=release >= RECORD_MAGIC_MATTERS,
            clears_compressed=release >= COMPRESSED_BIT_CLEARED,
        )
        if filters_tags(subscription):
            found = [message for message in found if matches_tag(subscription, message.tags)]
        low, high = str(header.min_offset), str(header.max_offset)
        for message in found:
            message.properties[MIN_OFFSET] = low
            message.properties[MAX_OFFSET] = high
        self._suggested[queue] = header.suggest_which_broker_id
        return header, found

    def _request(
        self, queue: MessageQueue, subscription: SubscriptionData, options: PullOptions
    ) -> PullMessageRequest:
        by_tag = is_tag_type(subscription.expression_type)
        limits_bytes = self._member.release >= PULL_LIMITS_BYTES
        return PullMessageRequest(
            consumer_group=self._member.group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            queue_offset=options.offset,
            max_msg_nums=options.messages_max,
            sys_flag=options.flag,
            commit_offset=0,
            suspend_timeout_millis=options.hold_ms_max,
            sub_version=0 if by_tag else subscription.sub_version,
            subscription=subscription.sub_string,
            expression_type=subscription.expression_type,
            max_msg_bytes=options.bytes_max if limits_bytes else None,
        )


def flag_of(*, suspend: bool, lite_pull: bool) -> int:
    """The flag of a pull that carries its subscription's text and commits nothing."""
    return SUBSCRIPTION | suspend * SUSPEND | lite_pull * LITE_PULL


def _advice(subscription: SubscriptionData, reply: RemotingCommand) -> str:
    """What to do about a refused expression, as the end of an error's text."""
    is_off = reply.code == ResponseCode.SYSTEM_ERROR
    by_tag = is_tag_type(subscription.expression_type)
    return f"; {NEEDS_PROPERTY_FILTER}" if is_off and not by_tag else ""
