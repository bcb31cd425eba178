"""Offsets of groups for tools: read whole, copied, reset, and as the members believe them.

Answers GET_ALL_CONSUMER_OFFSET, GET_ALL_DELAY_OFFSET, CLONE_GROUP_OFFSET,
INVOKE_BROKER_TO_RESET_OFFSET and INVOKE_BROKER_TO_GET_CONSUMER_STATUS in every release.  A reset
has two forms.  Before 5.2, or where ``server_side_reset`` is off, the broker computes offsets
and sends them to the members, who must be online and who move themselves.  Since then it moves
the group itself: commits of a queue do not count until a pull of it has been answered with the
new offset.

Upstream: AdminBrokerProcessor, Broker2Client.
"""

from __future__ import annotations

from functools import partial

from emulator.broker.broker import Broker
from emulator.broker.checks import NOT_SET, java_text
from emulator.broker.tables.client_channels import ClientChannel
from emulator.facts import GroupOffsetMoved
from emulator.net.results import Ask, Call, Refusal, Reply, Result
from emulator.releases import RESET_TOPIC_CODED, SERVER_SIDE_RESET
from protocol.bodies.body import decode_body, encode_body
from protocol.bodies.offsets import (
    GetConsumerStatusBody,
    MessageQueueForC,
    ResetOffsetBody,
    ResetOffsetBodyForC,
)
from protocol.bodies.topics import TopicConfig
from protocol.codes import RequestCode, ResponseCode
from protocol.command import RemotingCommand
from protocol.fields import BadFields, Header
from protocol.queues import MessageQueue
from protocol.requests.callbacks import GetConsumerStatusRequest
from protocol.requests.offsets import CloneGroupOffsetRequest, ResetOffsetRequest
from protocol.versions import version_desc

RESET_SINCE_VERSION = 28  # MQVersion.V3_0_7_SNAPSHOT: clients that know 220 and 221
STATUS_MS_MAX = 5_000  # Broker2Client.getConsumeStatus: of each member
LATEST = -1  # a time that means the end of the queue

StatusTable = dict[str, dict[MessageQueue, int]]


class GroupOffsetProcessor:
    """The offset tables, as administrators see and change them."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def all_offsets(self, _call: Call[Header]) -> Result:
        """Every committed offset, as it is saved."""
        return Reply(body=encode_body(self._broker.offsets.wrapper(), self._broker.release))

    def all_delays(self, _call: Call[Header]) -> Result:
        """The next message to deliver of each delay level, as it is saved."""
        return Reply(body=encode_body(self._broker.delays.wrapper(), self._broker.release))

    def clone(self, call: Call[CloneGroupOffsetRequest]) -> Result:
        """Give a group the offsets of another; SUCCESS also where nothing is copied.

        Without a topic nothing is, as upstream: it walks the topics of the group and then
        copies those of the request.
        """
        request, broker = call.request, self._broker
        topic = request.topic or ""
        if broker.topics.get(topic) is None:
            return Reply()
        source = broker.clients.group(request.src_group)
        subscribed = source.subscription_table if source is not None else {}
        if not request.offline and subscribed and topic not in subscribed:
            return Reply()
        broker.offsets.check_room(request.dest_group, topic, 0)
        broker.offsets.clone(request.src_group, request.dest_group, topic, call.now_ms)
        return Reply()

    # Resets ---------------------------------------------------------------------------

    def reset(self, call: Call[ResetOffsetRequest]) -> Result:
        """Move a group to the offsets of a time; the reply has them."""
        broker = self._broker
        if broker.release >= SERVER_SIDE_RESET and broker.config.server_side_reset:
            return self._reset_here(call)
        return self._reset_at_members(call)

    def _reset_here(self, call: Call[ResetOffsetRequest]) -> Result:
        """Upstream: AdminBrokerProcessor.resetOffsetInner (5.2)."""
        request, broker = call.request, self._broker
        topic, group = request.topic, request.group
        known = broker.topics.get(topic)
        if known is None:
            raise Refusal(ResponseCode.TOPIC_NOT_EXIST, f"Topic {topic} does not exist")
        if group is None or broker.groups.get(group) is None:
            remark = f"Group {java_text(group)} does not exist"
            raise Refusal(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark)
        offsets = self._wanted(request, known)
        for queue_id in offsets:
            broker.offsets.check_room(group, topic, queue_id)
        for queue_id, offset in offsets.items():
            broker.offsets.reset(group, topic, queue_id, offset, call.now_ms)
            queue = broker.queue(topic, queue_id)
            broker.note(GroupOffsetMoved(group, queue, offset, "broker", call.peer.address))
        return Reply(body=encode_body(self._body(topic, offsets), broker.release))

    def _wanted(self, request: ResetOffsetRequest, topic: TopicConfig) -> dict[int, int]:
        """Offsets by queue: of one queue if it is named, else of all that can be read."""
        only = request.queue_id
        if only is None or only < 0:
            if topic.read_queue_nums <= 0:
                raise Refusal(ResponseCode.SYSTEM_ERROR, "No queues to reset.")
            return {n: self._at(request, n) for n in range(topic.read_queue_nums)}
        if request.offset is None or request.offset == -1:
            return {only: self._at(request, only)}
        low = self._broker.store.min_offset(request.topic, only)
        high = self._broker.store.max_offset(request.topic, only)
        if not low <= request.offset <= high + 1:
            raise Refusal(
                ResponseCode.SYSTEM_ERROR,
                f"Target offset {request.offset} not in consume queue range [{low}-{high}]",
            )
        return {only: request.offset}

    def _at(self, request: ResetOffsetRequest, queue_id: int, *, below_is_end: bool = True) -> int:
        """The offset for the time of *request*; any time below 0 may mean the end, or only -1."""
        store, time_ms = self._broker.store, request.timestamp
        if time_ms == LATEST or (time_ms < 0 and below_is_end):
            return store.max_offset(request.topic, queue_id)
        return max(0, store.offset_by_time(request.topic, queue_id, time_ms))

    def _reset_at_members(self, call: Call[ResetOffsetRequest]) -> Result:
        """Upstream: Broker2Client.resetOffset."""
        request, broker = call.request, self._broker
        topic, group = request.topic, request.group or ""
        known = broker.topics.get(topic)
        if known is None:
            coded = broker.release >= RESET_TOPIC_CODED
            raise Refusal(
                ResponseCode.TOPIC_NOT_EXIST if coded else ResponseCode.SYSTEM_ERROR,
                f"[reset-offset] reset offset failed, no topic in this broker. topic={topic}",
            )
        offsets: dict[int, int] = {}
        for queue_id in range(known.write_queue_nums):
            stored = broker.offsets.query(group, topic, queue_id)
            if stored is None or stored == -1:
                remark = f"THe consumer group <{java_text(request.group)}> not exist"
                raise Refusal(ResponseCode.SYSTEM_ERROR, remark)
            at = self._at(request, queue_id, below_is_end=False)
            offsets[queue_id] = at if request.is_force else min(at, stored)
        self._push_reset(call, group, offsets)
        body = encode_body(self._body(topic, offsets), broker.release)
        return Reply(body=body, remark=NOT_SET)

    def _push_reset(
        self, call: Call[ResetOffsetRequest], group: str, offsets: dict[int, int]
    ) -> None:
        """RESET_CONSUMER_CLIENT_OFFSET to every member.  Raises ``Refusal`` where none can."""
        broker, topic, time_ms = self._broker, call.request.topic, call.request.timestamp
        online = broker.clients.group(group)
        if online is None:
            raise Refusal(
                ResponseCode.CONSUMER_NOT_ONLINE,
                "Consumer not online, so can not reset offset, "
                f"Group: {group} Topic: {topic} Timestamp: {time_ms}",
            )
        header = ResetOffsetRequest(topic=topic, group=group, timestamp=time_ms)
        for_c = call.command.language == "CPP"
        body = encode_body(self._body(topic, offsets, for_c=for_c), broker.release)
        for channel in list(online.channel_info_table.values()):
            _check_knows_resets(channel)
            broker.push(channel.peer, RequestCode.RESET_CONSUMER_CLIENT_OFFSET, header, body)
        for queue_id, offset in offsets.items():
            queue = broker.queue(topic, queue_id)
            broker.note(GroupOffsetMoved(group, queue, offset, "members", call.peer.address))

    def _body(
        self, topic: str, offsets: dict[int, int], *, for_c: bool = False
    ) -> ResetOffsetBody | ResetOffsetBodyForC:
        """Offsets by queue; as a list for C++, which cannot read keys that are objects."""
        name = self._broker.config.name
        if not for_c:
            table = {MessageQueue(topic, name, n): offset for n, offset in offsets.items()}
            return ResetOffsetBody(offset_table=table)
        rows = [
            MessageQueueForC(topic=topic, broker_name=name, queue_id=n, offset=offset)
            for n, offset in offsets.items()
        ]
        return ResetOffsetBodyForC(offset_table=rows)

    # What members believe -------------------------------------------------------------

    def status(self, call: Call[GetConsumerStatusRequest]) -> Result:
        """The offsets in the memory of each member, one asked after the other.

        A member that does not answer in time is left out.
        Upstream: Broker2Client.getConsumeStatus.
        """
        request = call.request
        group = self._broker.clients.group(request.group)
        if group is None:
            remark = f"No Any Consumer online in the consumer group: [{request.group}]"
            raise Refusal(ResponseCode.SYSTEM_ERROR, remark)
        return self._ask_next(request, list(group.channel_info_table.values()), {}, call.now_ms)

    def _ask_next(
        self,
        request: GetConsumerStatusRequest,
        channels: list[ClientChannel],
        found: StatusTable,
        now_ms: int,
    ) -> Result:
        only = (request.client_addr or "").strip()
        while channels:
            channel, *channels = channels
            _check_knows_resets(channel)
            if only and only != channel.client_id:
                continue
            return Ask(
                channel.peer,
                RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT,
                GetConsumerStatusRequest(topic=request.topic, group=request.group),
                b"",
                now_ms + STATUS_MS_MAX,
                partial(self._take_status, request, channel, [] if only else channels, found),
            )
        body = GetConsumerStatusBody(consumer_table=found)
        return Reply(body=encode_body(body, self._broker.release), remark=NOT_SET)

    def _take_status(
        self,
        request: GetConsumerStatusRequest,
        channel: ClientChannel,
        others: list[ClientChannel],
        found: StatusTable,
        now_ms: int,
        reply: RemotingCommand | None,
    ) -> Result:
        if reply is not None and reply.code == ResponseCode.SUCCESS and reply.body:
            try:
                status = decode_body(reply.body, GetConsumerStatusBody)
            except BadFields:
                pass  # as if it had not answered
            else:
                found[channel.client_id or ""] = status.message_queue_table
        return self._ask_next(request, others, found, now_ms)


def _check_knows_resets(channel: ClientChannel) -> None:
    """Is the client new enough to be asked?  Raises ``Refusal``."""
    if channel.version < RESET_SINCE_VERSION:
        version = version_desc(channel.version)
        remark = f"the client does not support this feature. version={version}"
        raise Refusal(ResponseCode.SYSTEM_ERROR, remark)
