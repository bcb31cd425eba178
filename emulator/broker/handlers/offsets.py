"""Offsets of groups: committed and queried by members; read, copied and reset by tools.

Answers QUERY_CONSUMER_OFFSET, UPDATE_CONSUMER_OFFSET, GET_ALL_CONSUMER_OFFSET,
GET_ALL_DELAY_OFFSET, CLONE_GROUP_OFFSET, INVOKE_BROKER_TO_RESET_OFFSET and
INVOKE_BROKER_TO_GET_CONSUMER_STATUS in every release; GET_TIMER_CHECK_POINT and GET_TIMER_METRICS,
the progress of timer messages, since 5.0.0, for slaves.  A reset has two forms.  Before 5.2, or
with ``server_side_reset`` off, the broker computes offsets and sends them to the members, which
must be online and apply them.  Since 5.2 the broker changes the group's offsets itself: commits of
a queue are ignored until a pull of the queue has been answered with the new offset.  Does not
commit for static topics.

Upstream: ConsumerManageProcessor, AdminBrokerProcessor, Broker2Client.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from functools import partial
from typing import Any

import msgspec

from rocketmq_emulator.broker.state.broker import Broker
from rocketmq_emulator.broker.tables.checks import NOT_SET, java_text
from rocketmq_emulator.broker.tables.client_channels import ClientChannel
from rocketmq_emulator.broker.tables.offsets import SLICE_GROUPS, first_offset
from rocketmq_emulator.facts import GroupOffsetMoved, MemberAnswerIgnored, OffsetCommitted
from rocketmq_emulator.net.results import Call, InvokePeer, Refusal, Reply, Result
from rocketmq_emulator.net.slices import (
    Slices,
    in_pieces,
    in_slices,
    long_body,
    long_reply,
)
from rocketmq_emulator.protocol.bodies.body import decode_body, encode_body
from rocketmq_emulator.protocol.bodies.offsets import (
    GetConsumerStatusBody,
    MessageQueueForC,
    ResetOffsetBody,
    ResetOffsetBodyForC,
)
from rocketmq_emulator.protocol.bodies.topics import TopicConfig
from rocketmq_emulator.protocol.codes import RequestCode, ResponseCode
from rocketmq_emulator.protocol.command import RemotingCommand
from rocketmq_emulator.protocol.fields import BadFields, Header
from rocketmq_emulator.protocol.queues import MessageQueue
from rocketmq_emulator.protocol.requests.groups import GetConsumerStatusRequest
from rocketmq_emulator.protocol.requests.offsets import (
    CloneGroupOffsetRequest,
    OffsetReply,
    QueryConsumerOffsetRequest,
    ResetOffsetRequest,
    UpdateConsumerOffsetRequest,
)
from rocketmq_emulator.protocol.versions import version_desc
from rocketmq_emulator.settings.releases import (
    COMMIT_NEEDS_TOPIC,
    GROUP_NEEDED_TO_COMMIT,
    RESET_TOPIC_CODED,
    SERVER_SIDE_RESET,
    SET_ZERO_IF_NOT_FOUND,
)


class ConsumerManageProcessor:
    """Queries and updates of committed offsets."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def query(self, call: Call[QueryConsumerOffsetRequest]) -> Result:
        """The group's last committed offset, or the first offset of a group without one.

        A 5.x client that sends ``setZeroIfNotFound`` = false gets QUERY_NOT_FOUND instead.
        Upstream: ConsumerManageProcessor.queryConsumerOffset.
        """
        request, broker = call.request, self._broker
        topic, queue_id = request.topic, request.queue_id
        found = broker.offsets.query(request.consumer_group, topic, queue_id)
        if found is not None and found < 0:
            found = None  # an offset below 0 counts as never committed
        may_be_unknown = broker.release >= SET_ZERO_IF_NOT_FOUND
        if found is None and may_be_unknown and request.set_zero_if_not_found is False:
            raise Refusal(
                ResponseCode.QUERY_NOT_FOUND,
                "Not found, do not set to zero, maybe this group boot first",
            )
        if found is None:
            start_offset = broker.store.start_offset(topic, queue_id)
            begin = broker.store.min_offset(topic, queue_id) - start_offset
            end = broker.store.max_offset(topic, queue_id) - start_offset
            found = first_offset(begin, end, broker.release)
            found = None if found is None else found + start_offset
        if found is None:
            raise Refusal(
                ResponseCode.QUERY_NOT_FOUND,
                "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first",
            )
        return Reply(OffsetReply(offset=found))

    def update(self, call: Call[UpdateConsumerOffsetRequest]) -> Result:
        """Commit an offset; refused if a durable table cannot be saved."""
        request, broker = call.request, self._broker
        if broker.release >= COMMIT_NEEDS_TOPIC:
            self._check_known(request.consumer_group, request.topic)
        queue_id = self._required(request.queue_id, "QueueId", request)
        offset = self._required(request.commit_offset, "Offset", request)
        place = (request.consumer_group, request.topic, queue_id)
        broker.offsets.check_room(*place)
        if broker.offsets.is_reset(*place):
            return Reply(Header(), remark="Offset has been previously reset")
        broker.offsets.commit(*place, offset, call.now_ms)
        if broker.offsets.has_unsaved_commits:
            remark = f"the offset is not saved: {broker.offsets.refusal_reason}"
            raise Refusal(ResponseCode.SERVICE_NOT_AVAILABLE, remark)
        if broker.wants(OffsetCommitted):
            queue, peer = broker.queue(request.topic, queue_id), call.peer.address
            broker.note(OffsetCommitted(request.consumer_group, queue, offset, peer))
        return Reply(Header())

    def _required(self, value: int | None, what: str, request: UpdateConsumerOffsetRequest) -> int:
        """*value*.  If it is missing raises ``Refusal``, before 5.x ``BadFields``."""
        if value is None and self._broker.release >= COMMIT_NEEDS_TOPIC:
            remark = f"{what} is null, topic is {request.topic}"
            raise Refusal(ResponseCode.INVALID_PARAMETER, remark, Header())
        if value is None:
            raise BadFields(f"a commit without {what}")
        return value

    def _check_known(self, group: str, topic: str) -> None:
        """Raises ``Refusal`` for a missing group or topic: a commit does not create them."""
        broker = self._broker
        if broker.release >= GROUP_NEEDED_TO_COMMIT and broker.groups.get(group) is None:
            code, remark = ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"Group {group} not exist!"
            raise Refusal(code, remark, Header())
        if broker.topics.get(topic) is None:
            raise Refusal(ResponseCode.TOPIC_NOT_EXIST, f"Topic {topic} not exist!", Header())


# For tools ----------------------------------------------------------------------------


RESET_SINCE_VERSION = 28  # MQVersion.V3_0_7_SNAPSHOT: clients that handle 220 and 221
STATUS_MS_MAX = 5_000  # Broker2Client.getConsumeStatus: for each member
SLICE_RESETS = 1_000  # queues, about 10 µs each
LATEST = -1  # a time that means the end of the queue

StatusTable = dict[str, dict[MessageQueue, int]]


class GroupOffsetProcessor:
    """Reads and changes the offset tables for administrators."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def all_offsets(self, call: Call[Header]) -> Result:
        """All committed offsets, in the form of the saved table."""
        broker = self._broker
        empty = msgspec.structs.replace(broker.offsets.wrapper(), offset_table={})
        pieces: dict[str, Iterable[Any]] = {"offsetTable": broker.offsets.pieces()}
        if empty.group_topic_map is not None:
            topics = list(empty.group_topic_map.items())
            pieces["groupTopicMap"] = map(dict, in_pieces(topics, SLICE_GROUPS))
            empty = msgspec.structs.replace(empty, group_topic_map={})
        return long_reply(empty, pieces, broker.release, call.now_ms)

    def all_delays(self, _call: Call[Header]) -> Result:
        """The next offset to deliver of each delay level, in the form of the saved table."""
        return Reply(body=encode_body(self._broker.delays.wrapper(), self._broker.release))

    def timer_checkpoint(self, call: Call[Header]) -> Result:
        """How far the deliveries of timer messages have come, for slaves."""
        timers = self._broker.timers
        if timers is None:
            raise Refusal(ResponseCode.SYSTEM_ERROR, "The checkpoint is null")
        return Reply(body=timers.checkpoint(call.now_ms).encode_for_slave())

    def timer_metrics(self, _call: Call[Header]) -> Result:
        """The waiting timer messages by topic, for slaves."""
        timers = self._broker.timers
        if timers is None:
            raise Refusal(ResponseCode.SYSTEM_ERROR, "The timer message store is null")
        return Reply(body=encode_body(timers.metrics.wrapper(), self._broker.release))

    def clone(self, call: Call[CloneGroupOffsetRequest]) -> Result:
        """Copy a group's offsets to another group; SUCCESS also if nothing is copied.

        A request without a topic copies nothing, as upstream: it iterates over the group's
        topics, but copies the offsets of the request's topic.
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
        broker.offsets.clone(request.src_group, request.dest_group, topic)
        return Reply()

    # Resets ---------------------------------------------------------------------------

    def reset(self, call: Call[ResetOffsetRequest]) -> Result:
        """Reset a group to the offsets of a time; the reply has these offsets."""
        broker = self._broker
        if broker.release >= SERVER_SIDE_RESET and broker.config.server_side_reset:
            return self._reset_here(call)
        return self._reset_at_members(call)

    def _reset_here(self, call: Call[ResetOffsetRequest]) -> Result:
        """Reset at the broker.  Upstream: AdminBrokerProcessor.resetOffsetInner (5.2)."""
        request, broker = call.request, self._broker
        if broker.config.is_slave:
            remark = "Can not reset offset in slave broker"
            raise Refusal(ResponseCode.SYSTEM_ERROR, remark)
        topic, group = request.topic, request.group
        known = broker.topics.get(topic)
        if known is None:
            raise Refusal(ResponseCode.TOPIC_NOT_EXIST, f"Topic {topic} does not exist")
        if group is None or broker.groups.get(group) is None:
            remark = f"Group {java_text(group)} does not exist"
            raise Refusal(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark)
        return in_slices(self._move(call, self._target_offsets(request, known)), call.now_ms)

    def _move(self, call: Call[ResetOffsetRequest], queues: Iterable[tuple[int, int]]) -> Slices:
        """Reset the group to the offsets of *queues*, after all of them were computed."""
        broker, topic, group = self._broker, call.request.topic, call.request.group or ""
        offsets: dict[int, int] = {}
        for piece in in_pieces(queues, SLICE_RESETS):
            for queue_id, _ in piece:
                broker.offsets.check_room(group, topic, queue_id)
            offsets.update(piece)
            if len(piece) == SLICE_RESETS:
                yield
        for piece in in_pieces(offsets.items(), SLICE_RESETS):
            for queue_id, offset in piece:
                broker.offsets.reset(group, topic, queue_id, offset)
                queue = broker.queue(topic, queue_id)
                broker.note(GroupOffsetMoved(group, queue, offset, "broker", call.peer.address))
            if len(piece) == SLICE_RESETS:
                yield
        return Reply(body=(yield from self._body(topic, offsets)))

    def _target_offsets(
        self, request: ResetOffsetRequest, topic: TopicConfig
    ) -> Iterable[tuple[int, int]]:
        """Offsets by queue: of the request's queue, or else of all readable queues."""
        only = request.queue_id
        if only is None or only < 0:
            if topic.read_queue_nums <= 0:
                raise Refusal(ResponseCode.SYSTEM_ERROR, "No queues to reset.")
            return ((n, self._offset_at_time(request, n)) for n in range(topic.read_queue_nums))
        if request.offset is None or request.offset == -1:
            return [(only, self._offset_at_time(request, only))]
        low = self._broker.store.min_offset(request.topic, only)
        high = self._broker.store.max_offset(request.topic, only)
        if not low <= request.offset <= high + 1:
            raise Refusal(
                ResponseCode.SYSTEM_ERROR,
                f"Target offset {request.offset} not in consume queue range [{low}-{high}]",
            )
        return [(only, request.offset)]

    def _offset_at_time(
        self, request: ResetOffsetRequest, queue_id: int, *, below_is_end: bool = True
    ) -> int:
        """The offset for the time of *request*.

        The time -1 means the end of the queue; with *below_is_end* any negative time does.
        """
        store, time_ms = self._broker.store, request.timestamp
        if time_ms == LATEST or (time_ms < 0 and below_is_end):
            return store.max_offset(request.topic, queue_id)
        return max(0, store.offset_by_time(request.topic, queue_id, time_ms))

    def _reset_at_members(self, call: Call[ResetOffsetRequest]) -> Result:
        """Send the offsets to the members.  Upstream: Broker2Client.resetOffset."""
        broker, topic = self._broker, call.request.topic
        known = broker.topics.get(topic)
        if known is None:
            coded = broker.release >= RESET_TOPIC_CODED
            raise Refusal(
                ResponseCode.TOPIC_NOT_EXIST if coded else ResponseCode.SYSTEM_ERROR,
                f"[reset-offset] reset offset failed, no topic in this broker. topic={topic}",
            )
        return in_slices(self._move_members(call, known.write_queue_nums), call.now_ms)

    def _move_members(self, call: Call[ResetOffsetRequest], queue_count: int) -> Slices:
        request, group = call.request, call.request.group or ""
        offsets: dict[int, int] = {}
        for queue_ids in in_pieces(range(queue_count), SLICE_RESETS):
            offsets.update((n, self._member_offset(request, n)) for n in queue_ids)
            if len(queue_ids) == SLICE_RESETS:
                yield
        self._connected_members(request)
        for_c = call.command.language == "CPP"
        pushed = yield from self._body(request.topic, offsets, for_c=for_c)
        self._push_reset(request, pushed)
        for piece in in_pieces(offsets.items(), SLICE_RESETS):
            for queue_id, offset in piece:
                queue = self._broker.queue(request.topic, queue_id)
                address = call.peer.address
                self._broker.note(GroupOffsetMoved(group, queue, offset, "members", address))
            if len(piece) == SLICE_RESETS:
                yield
        body = yield from self._body(request.topic, offsets)
        return Reply(body=body, remark=NOT_SET)

    def _member_offset(self, request: ResetOffsetRequest, queue_id: int) -> int:
        """The members' new offset in a queue.  Raises ``Refusal`` if the group has no offset."""
        stored = self._broker.offsets.query(request.group or "", request.topic, queue_id)
        if stored is None or stored == -1:
            remark = f"THe consumer group <{java_text(request.group)}> not exist"
            raise Refusal(ResponseCode.SYSTEM_ERROR, remark)
        at = self._offset_at_time(request, queue_id, below_is_end=False)
        return at if request.is_force else min(at, stored)

    def _push_reset(self, request: ResetOffsetRequest, body: bytes) -> None:
        """Send RESET_CONSUMER_CLIENT_OFFSET to all members.

        Raises ``Refusal`` if there are no members, or one is too old.
        """
        topic, group, time_ms = request.topic, request.group or "", request.timestamp
        header = ResetOffsetRequest(topic=topic, group=group, timestamp=time_ms)
        for channel in self._connected_members(request):
            _check_knows_resets(channel)
            code = RequestCode.RESET_CONSUMER_CLIENT_OFFSET
            self._broker.push(channel.peer, code, header, body)

    def _connected_members(self, request: ResetOffsetRequest) -> list[ClientChannel]:
        """The members of the group.  Raises ``Refusal`` if there are none."""
        group = request.group or ""
        online = self._broker.clients.group(group)
        if online is None:
            raise Refusal(
                ResponseCode.CONSUMER_NOT_ONLINE,
                "Consumer not online, so can not reset offset, "
                f"Group: {group} Topic: {request.topic} Timestamp: {request.timestamp}",
            )
        return list(online.channel_info_table.values())

    def _body(
        self, topic: str, offsets: dict[int, int], *, for_c: bool = False
    ) -> Generator[None, None, bytes]:
        """The offsets by queue; as a list for C++ clients, which cannot read objects as keys."""
        name, pieces = self._broker.config.name, in_pieces(offsets.items(), SLICE_RESETS)
        if not for_c:
            tables = ({MessageQueue(topic, name, n): at for n, at in piece} for piece in pieces)
            return long_body(ResetOffsetBody(), {"offsetTable": tables}, self._broker.release)
        rows = (
            [
                MessageQueueForC(topic=topic, broker_name=name, queue_id=n, offset=at)
                for n, at in piece
            ]
            for piece in pieces
        )
        return long_body(ResetOffsetBodyForC(), {"offsetTable": rows}, self._broker.release)

    # Offsets in the memory of members -------------------------------------------------

    def status(self, call: Call[GetConsumerStatusRequest]) -> Result:
        """The offsets in the memory of each member; the members are invoked one by one.

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
            return InvokePeer(
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
            except BadFields as error:
                client, peer = channel.client_id or "", channel.peer.address
                self._broker.note(MemberAnswerIgnored(request.group, client, peer, str(error)))
            else:
                found[channel.client_id or ""] = status.message_queue_table
        return self._ask_next(request, others, found, now_ms)


def _check_knows_resets(channel: ClientChannel) -> None:
    """Raises ``Refusal`` if the client is too old for resets."""
    if channel.version < RESET_SINCE_VERSION:
        version = version_desc(channel.version)
        remark = f"the client does not support this feature. version={version}"
        raise Refusal(ResponseCode.SYSTEM_ERROR, remark)
