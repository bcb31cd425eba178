"""Pulling: answers stored messages; a pull that finds nothing may be held.

Answers PULL_MESSAGE in every release, LITE_PULL_MESSAGE since 5.0.  A pull is held only on its
first pass, only if the answer would be "nothing new", and only if the client allows it.  A message
that arrives in its queue and matches its filter wakes the pull at once.  Upstream's periodic sweep
handles other messages and timeouts; here the time of the sweep that ends a pull is computed.
Before 5.x each pull that is answered with another offset also stores a message in
OFFSET_MOVED_EVENT: the group, the requested offset and the new one.  5.x has the topic, and stores
nothing there.

A slave does not correct offsets, because its own log may be the one that is behind: it answers
PULL_RETRY_IMMEDIATELY with the requested offset, unless ``offset_check_in_slave`` is on.  Before
5.0 it also ignores the offset that a pull commits, and leaves held pulls to the sweep.

Filters by tags only, does not pull from other brokers for static topics, and does not answer
POP_MESSAGE.

Upstream: PullMessageProcessor, its generateOffsetMovedEvent, PullRequestHoldService.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from rocketmq_emulator.broker.state.broker import MASTER_ONLINE, Broker
from rocketmq_emulator.broker.store.appender import MessageToStore, PutRefused
from rocketmq_emulator.broker.store.reading import GetResult, GetStatus, MessageFilter
from rocketmq_emulator.broker.tables.checks import check_property_filter
from rocketmq_emulator.broker.tables.client_channels import BROADCASTING
from rocketmq_emulator.broker.tables.consumer_filters import compiled
from rocketmq_emulator.broker.tables.figures import EVENTS_MAX, GetEvent
from rocketmq_emulator.facts import OffsetCommitted, PullAnswered, PullDropped, PullHeld
from rocketmq_emulator.net.results import NO_REPLY, Call, Refusal, Reply, Result, Wait
from rocketmq_emulator.protocol import flags
from rocketmq_emulator.protocol.bodies.body import encode_body
from rocketmq_emulator.protocol.bodies.offsets import OffsetMovedEvent
from rocketmq_emulator.protocol.bodies.topics import TopicConfig
from rocketmq_emulator.protocol.codes import ResponseCode
from rocketmq_emulator.protocol.fields import BadFields, Header, Int
from rocketmq_emulator.protocol.flags import COMMIT_OFFSET, SUBSCRIPTION, SUSPEND
from rocketmq_emulator.protocol.messages.message_ids import host_bytes
from rocketmq_emulator.protocol.messages.names import (
    MASTER_ID,
    OFFSET_MOVED_EVENT,
    RETRY_GROUP_TOPIC_PREFIX,
    is_retry_topic,
)
from rocketmq_emulator.protocol.messages.properties import (
    DELAY,
    KEYS,
    RETRY_TOPIC,
    TAGS,
    properties_text,
)
from rocketmq_emulator.protocol.messages.subscription import (
    SUB_ALL,
    TAG,
    BadExpression,
    SubscriptionData,
    TooManyTags,
    build_subscription,
    code_filter,
    is_tag_type,
)
from rocketmq_emulator.protocol.queues import MessageQueue
from rocketmq_emulator.protocol.requests.pulling import PullMessageReply, PullMessageRequest
from rocketmq_emulator.settings.releases import (
    FORBIDDEN_TYPE_SENT,
    LAST_PROPERTY_OPEN,
    MOVED_OFFSETS_NOT_STORED,
    PULL_REPLY_HAS_FLAGS,
    PULLS_ARE_DROPPED,
    RETRIES_BY_TAG_NOT_FILTERED,
    SLAVES_STORE_COMMITS,
    SLAVES_WAKE_PULLS,
    SUSPENSION_READ_WHEN_HELD,
)

Wanted = MessageFilter | None  # None: every message
Typed = tuple[str | None, Wanted]  # the type of the expression, and its filter
Arrival = tuple[int, int]  # the queue's new max offset, the tags code of the message

SHORT_SWEEP_MS = 1_000  # PullRequestHoldService.run, without long polling

CODES = {
    GetStatus.FOUND: ResponseCode.SUCCESS,
    GetStatus.NO_MATCHED_MESSAGE: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetStatus.OFFSET_OVERFLOW_ONE: ResponseCode.PULL_NOT_FOUND,
    GetStatus.OFFSET_OVERFLOW_BADLY: ResponseCode.PULL_OFFSET_MOVED,
    GetStatus.OFFSET_TOO_SMALL: ResponseCode.PULL_OFFSET_MOVED,
    GetStatus.OFFSET_RESET: ResponseCode.PULL_OFFSET_MOVED,
}
MEASURED = frozenset(  # the answers that show how far a group is behind
    {GetStatus.FOUND, GetStatus.NO_MATCHED_MESSAGE, GetStatus.OFFSET_OVERFLOW_ONE}
)
WRITE_BUFFER_BYTES = 64 * 1024  # netty: WriteBufferWaterMark.DEFAULT, its high mark
OUT_OF_RANGE = frozenset(
    {
        GetStatus.NO_MESSAGE_IN_QUEUE,
        GetStatus.OFFSET_OVERFLOW_BADLY,
        GetStatus.OFFSET_TOO_SMALL,
    }
)


class Forbidden(Header):
    """The header of a refused pull's reply, instead of offsets."""

    forbidden_type: Int


class PullMessageProcessor:
    """PULL_MESSAGE and LITE_PULL_MESSAGE."""

    def __init__(self, broker: Broker, began_ms: int) -> None:
        self._broker = broker
        self._began_ms = began_ms
        self._flags_extra = (
            {"topicSysFlag": "0", "groupSysFlag": "0"}
            if broker.release >= PULL_REPLY_HAS_FLAGS
            else None
        )
        self._wait_is_read = broker.release < SUSPENSION_READ_WHEN_HELD
        self._stores_moved_offsets = broker.release < MOVED_OFFSETS_NOT_STORED
        self._follow_role()
        broker.on_role_changed.append(self._follow_role)
        self.held_count = 0

    def _follow_role(self) -> None:
        broker = self._broker
        self._is_slave = broker.config.is_slave
        self._ignores_commits = self._is_slave and broker.release < SLAVES_STORE_COMMITS
        self._arrivals_wake = not self._is_slave or broker.release >= SLAVES_WAKE_PULLS

    def pull(self, call: Call[PullMessageRequest]) -> Result:
        """Stored records from an offset on, or the reason why there are none; may be held."""
        request = call.request
        wanted = self._allowed(call)
        reset = self._taken_reset(request)
        if request.sys_flag & COMMIT_OFFSET:
            self._commit(call)
        found = reset or self._get(call, wanted)
        code = self._code(found, request)
        if code == ResponseCode.PULL_NOT_FOUND and request.sys_flag & SUSPEND:
            return self._hold(call, wanted)
        return self._answer(call, found, code)

    def _commit(self, call: Call[PullMessageRequest]) -> None:
        request, broker = call.request, self._broker
        offset = request.commit_offset
        if offset is None:
            raise BadFields("a pull that commits no offset")
        if self._ignores_commits:
            return
        queue = (request.consumer_group, request.topic, request.queue_id)
        broker.offsets.check_room(*queue)
        moved = broker.offsets.commit(*queue, offset, call.now_ms)
        if moved and broker.wants(OffsetCommitted):
            place, peer = broker.queue(request.topic, request.queue_id), call.peer.address
            broker.note(OffsetCommitted(request.consumer_group, place, offset, peer))

    # Holding --------------------------------------------------------------------------

    def _hold(self, call: Call[PullMessageRequest], wanted: Wanted) -> Result:
        request, config = call.request, self._broker.config
        offset = request.queue_offset
        if self.held_count >= config.held_pulls_max:
            raise Refusal(ResponseCode.SYSTEM_BUSY, "too many pulls are held")
        wait_ms = _wait_ms(request)
        hold_ms = wait_ms if config.long_polling else config.short_polling_ms
        until_ms = self._sweep_at(call.now_ms + hold_ms)
        if self._broker.wants(PullHeld):
            queue = self._broker.queue(request.topic, request.queue_id)
            group, peer = request.consumer_group, call.peer.address
            opaque = call.command.opaque or 0
            self._broker.note(PullHeld(group, queue, offset, until_ms, peer, opaque))
        self.held_count += 1

        def wants(arrived: Arrival) -> bool:
            if arrived is MASTER_ONLINE:
                return True
            is_new = self._arrivals_wake and arrived[0] > offset
            return is_new and (wanted is None or self._wakes(request, wanted, arrived))

        def again(now_ms: int, _expired: bool) -> Result:
            self.held_count -= 1
            call.now_ms = now_ms
            return self._second_pass(call)

        bell = (request.topic, request.queue_id)
        if self._is_slave:
            self._broker.held_queues.add(bell)
        return Wait(
            bell,
            until_ms,
            again,
            wants,
            self._sweep_at,
            self._on_connection_closed,
            on_purpose=True,
        )

    def _on_connection_closed(self) -> None:
        """Decrease ``held_count``; upstream keeps pulls of closed connections until their end."""
        self.held_count -= 1

    def _second_pass(self, call: Call[PullMessageRequest]) -> Result:
        """Answer a held pull: with all checks, but no commit and no further waiting."""
        request, wanted = call.request, self._allowed(call)
        found = self._taken_reset(request) or self._get(call, wanted)
        return self._answer(call, found, self._code(found, request))

    def _sweep_at(self, at_ms: int) -> int:
        """The first sweep at or after *at_ms*."""
        config = self._broker.config
        sweep_ms = config.hold_sweep_interval_ms if config.long_polling else SHORT_SWEEP_MS
        passed = at_ms - self._began_ms
        return self._began_ms + -(-passed // sweep_ms) * sweep_ms

    # Answering ------------------------------------------------------------------------

    def _taken_reset(self, request: PullMessageRequest) -> GetResult | None:
        """The answer with a pending reset of the group's offset; None if none is pending.

        The commit of the same pull overwrites the reset, as upstream; the client corrects it.
        """
        topic, queue_id, offsets = request.topic, request.queue_id, self._broker.offsets
        if not offsets.pending_resets:
            return None
        offset = offsets.take_reset(request.consumer_group, topic, queue_id)
        if offset is None:
            return None
        store = self._broker.store
        low, high = store.min_offset(topic, queue_id), store.max_offset(topic, queue_id)
        return GetResult(GetStatus.OFFSET_RESET, offset, low, high)

    def _get(self, call: Call[PullMessageRequest], wanted: Wanted) -> GetResult:
        request, store = call.request, self._broker.store
        topic = request.topic
        found = store.get(
            topic, request.queue_id, request.queue_offset, request.max_msg_nums, wanted
        )
        if self._is_slave and self._keeps_offsets and found.status in OUT_OF_RANGE:
            found.next_begin_offset = request.queue_offset
        if self._broker.config.disable_slow_consumers and found.status in MEASURED:
            place = request.consumer_group, topic, request.queue_id
            self._broker.groups.read(*place, found.behind_bytes)
        figures, group = store.figures, request.consumer_group
        figures.events.append(GetEvent(topic, group, found.count, found.bytes, call.now_ms))
        if len(figures.events) >= EVENTS_MAX:
            figures.count_up()
        return found

    @property
    def _keeps_offsets(self) -> bool:
        """Whether an offset out of range is not corrected.  Upstream: nextOffsetCorrection."""
        return self._is_slave and not self._broker.config.offset_check_in_slave

    def _code(self, found: GetResult, request: PullMessageRequest) -> int:
        if found.status is GetStatus.NO_MESSAGE_IN_QUEUE:
            return (
                ResponseCode.PULL_NOT_FOUND
                if request.queue_offset == 0
                else ResponseCode.PULL_OFFSET_MOVED
            )
        return CODES[found.status]

    def _answer(self, call: Call[PullMessageRequest], found: GetResult, code: int) -> Result:
        request = call.request
        is_limited = self._broker.config.network_flow_control
        if is_limited and code == ResponseCode.SUCCESS and self._drops(call):
            return NO_REPLY
        suggested = self._suggested(request.consumer_group, found)
        if code == ResponseCode.PULL_OFFSET_MOVED:
            if self._keeps_offsets:
                code = ResponseCode.PULL_RETRY_IMMEDIATELY
                group = self._broker.groups.get(request.consumer_group)
                suggested = suggested if group is None else group.broker_id
            elif self._stores_moved_offsets:
                next_offset = found.next_begin_offset
                store_moved_offset(self._broker, request, next_offset, call.now_ms)
        if self._broker.wants(PullAnswered):
            self._note_answer(call, found, code)
        header = PullMessageReply(
            suggest_which_broker_id=suggested,
            next_begin_offset=found.next_begin_offset,
            min_offset=found.min_offset,
            max_offset=found.max_offset,
        )
        body = b"".join(found.slices) if code == ResponseCode.SUCCESS else b""
        return Reply(header, body, code, found.status.name, self._flags_extra)

    def _drops(self, call: Call[PullMessageRequest]) -> bool:
        """Whether a pull gets no answer, because its client reads too slowly.

        Upstream: DefaultPullMessageResultHandler.channelIsWritable.
        """
        broker, request = self._broker, call.request
        waiting_bytes = broker.waiting_bytes(call.peer)
        if waiting_bytes <= WRITE_BUFFER_BYTES or broker.release < PULLS_ARE_DROPPED:
            return False
        queue, peer = broker.queue(request.topic, request.queue_id), call.peer.address
        broker.note(
            PullDropped(request.consumer_group, queue, request.queue_offset, peer, waiting_bytes)
        )
        return True

    def _note_answer(self, call: Call[PullMessageRequest], found: GetResult, code: int) -> None:
        request = call.request
        self._broker.note(
            PullAnswered(
                request.consumer_group,
                self._broker.queue(request.topic, request.queue_id),
                request.queue_offset,
                code,
                found.count,
                found.next_begin_offset,
                call.peer.address,
                call.command.opaque or 0,
            )
        )

    def _suggested(self, group_name: str, found: GetResult) -> int:
        """The id of the replica to read from next: a slave for groups that are far behind.

        Upstream: GetMessageResult.isSuggestPullingFromSlave.
        """
        config = self._broker.config
        group = self._broker.groups.get(group_name) if config.slave_read else None
        if group is None:
            return MASTER_ID
        is_slow = found.behind_bytes > config.behind_bytes_max
        return group.which_broker_when_consume_slowly if is_slow else group.broker_id

    # Checks ---------------------------------------------------------------------------

    def _allowed(self, call: Call[PullMessageRequest]) -> Wanted:
        """Check the pull in upstream's order; returns its tag filter.  Raises ``Refusal``."""
        request, broker = call.request, self._broker
        group_name = request.consumer_group
        if not broker.config.perm & flags.PERM_READ:
            raise self._forbidden(1, f"the broker[{broker.host}] pulling message is forbidden")
        group = broker.groups.subscription_group_table.get(group_name)
        if group is None:
            group = broker.groups.find(group_name, call.now_ms, by="pull")
        if group is None:
            raise Refusal(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                f"subscription group [{group_name}] does not exist, {broker.see_faq}",
            )
        if not group.consume_enable:
            raise self._forbidden(2, f"subscription group no permission, {group_name}")
        if self._wait_is_read and request.sys_flag & SUSPEND:
            _wait_ms(request)
        self._check_queue(call, broker.topics.topic_config_table.get(request.topic))
        if request.sys_flag & SUBSCRIPTION:
            kind, wanted = self._carried_filter(request)
        else:
            broadcast = group.consume_broadcast_enable
            kind, wanted = self._registered_filter(request, broadcast=broadcast)
        return self._with_retries(request.topic, kind, wanted)

    def _forbidden(self, kind: int, remark: str) -> Refusal:
        """The refusal; since 5.x with a number for its reason.  Upstream: ForbiddenType."""
        sends_type = self._broker.release >= FORBIDDEN_TYPE_SENT
        header = Forbidden(forbidden_type=kind) if sends_type else None
        return Refusal(ResponseCode.NO_PERMISSION, remark, header)

    def _check_queue(self, call: Call[PullMessageRequest], topic: TopicConfig | None) -> None:
        request = call.request
        if topic is None:
            raise Refusal(
                ResponseCode.TOPIC_NOT_EXIST,
                f"topic[{request.topic}] not exist, apply first please! {self._broker.see_faq}",
            )
        if not topic.perm & flags.PERM_READ:
            raise self._forbidden(3, f"the topic[{request.topic}] pulling message is forbidden")
        if not 0 <= request.queue_id < topic.read_queue_nums:
            raise Refusal(
                self._broker.bad_parameter_code,
                f"queueId[{request.queue_id}] is illegal, topic:[{request.topic}] "
                f"topicConfig.readQueueNums:[{topic.read_queue_nums}] "
                f"consumer:[/{call.peer.address}]",
            )

    def _with_retries(self, topic: str, kind: str | None, wanted: Wanted) -> Wanted:
        """*wanted*, or, with ``filterSupportRetry``, a filter that fits a retry topic.

        A retried message is compared with the group's expression for the topic it came from.
        Upstream: ExpressionForRetryMessageFilter, which passes over tags since 5.1.4; and the
        subscription to a retry topic is always by tags.
        """
        if not self._broker.config.filter_retries or not is_retry_topic(topic):
            return wanted
        if is_tag_type(kind) and self._broker.release >= RETRIES_BY_TAG_NOT_FILTERED:
            return wanted
        group, filters = topic.removeprefix(RETRY_GROUP_TOPIC_PREFIX), self._broker.filters

        def matches(properties: Mapping[str, str]) -> bool:
            found = filters.get(properties.get(RETRY_TOPIC, ""), group)
            return found is None or found.matches(properties)

        return MessageFilter(_any_code if wanted is None else wanted.by_code, matches)

    def _registered_filter(self, request: PullMessageRequest, *, broadcast: bool) -> Typed:
        """The filter of the subscription that the group's heartbeats have brought."""
        group_name, topic = request.consumer_group, request.topic
        group = self._broker.clients.consumer_table.get(group_name)
        if group is None:
            remark = f"the consumer's group info not exist{self._broker.see_faq}"
            raise Refusal(ResponseCode.SUBSCRIPTION_NOT_EXIST, remark)
        if not broadcast and group.message_model == BROADCASTING:
            remark = f"the consumer group[{group_name}] can not consume by broadcast way"
            raise self._forbidden(4, remark)
        known = group.subscription_table.get(topic)
        if known is None:
            remark = f"the consumer's subscription not exist{self._broker.see_faq}"
            raise Refusal(ResponseCode.SUBSCRIPTION_NOT_EXIST, remark)
        if request.sub_version is None:
            raise BadFields("a pull without the version of its subscription")
        if known.sub_version < request.sub_version:
            raise Refusal(
                ResponseCode.SUBSCRIPTION_NOT_LATEST, "the consumer's subscription not latest"
            )
        kind = known.expression_type
        if kind == TAG or is_tag_type(kind):
            return kind, _by_tags(known)
        found = self._broker.filters.get(topic, group_name)
        if found is None:
            raise Refusal(
                ResponseCode.FILTER_DATA_NOT_EXIST,
                "The broker's consumer filter data is not exist!Your expression may be wrong!",
            )
        if found.client_version < request.sub_version:
            remark = "the consumer's consumer filter data not latest"
            raise Refusal(ResponseCode.FILTER_DATA_NOT_LATEST, remark)
        check_property_filter(kind, self._broker.config)
        return kind, MessageFilter(_any_code, found.matches)

    def _carried_filter(self, request: PullMessageRequest) -> Typed:
        """The filter that the pull carries.

        Upstream delivers every message if an expression other than tags cannot be compiled: an
        assertion should prevent that, and assertions are off.
        """
        kind, expression = request.expression_type, request.subscription or ""
        try:
            carried = build_subscription(request.topic, expression, kind)
        except TooManyTags as error:
            raise Refusal(ResponseCode.SUBSCRIPTION_PARSE_FAILED, str(error)) from error
        except BadExpression as error:
            raise Refusal(
                ResponseCode.SUBSCRIPTION_PARSE_FAILED, "parse the consumer's subscription failed"
            ) from error
        if is_tag_type(kind):
            return kind, _by_tags(carried)
        check_property_filter(kind, self._broker.config)
        try:
            return kind, MessageFilter(_any_code, compiled(expression, kind, self._broker.release))
        except BadExpression:
            return kind, None

    def _wakes(self, request: PullMessageRequest, wanted: MessageFilter, arrived: Arrival) -> bool:
        """Whether a message that has arrived ends the wait of a held pull.

        Upstream: PullRequestHoldService.notifyMessageArriving, which wakes it also for a message
        without properties.
        """
        if not wanted.by_code(arrived[1]):
            return False
        if wanted.by_properties is None:
            return True
        place = request.topic, request.queue_id, arrived[0] - 1
        properties = self._broker.store.properties(*place)
        return not properties or wanted.by_properties(properties)


def _by_tags(subscription: SubscriptionData) -> Wanted:
    is_for_all = subscription.sub_string == SUB_ALL
    return None if is_for_all else MessageFilter(code_filter(subscription))


def _any_code(_code: int) -> bool:
    return True


def _wait_ms(request: PullMessageRequest) -> int:
    if request.suspend_timeout_millis is None:
        raise BadFields("a pull that may wait, for no time")
    return request.suspend_timeout_millis


# Events of moved offsets (4.9) --------------------------------------------------------


def store_moved_offset(
    broker: Broker, request: PullMessageRequest, offset: int, now_ms: int
) -> None:
    """Store the event that *request* is answered with *offset*; on ``PutRefused`` nothing."""
    group = request.consumer_group
    event = OffsetMovedEvent(
        consumer_group=group,
        message_queue=MessageQueue(request.topic, broker.config.name, request.queue_id),
        offset_request=request.queue_offset,
        offset_new=offset,
    )
    pairs = ((KEYS, group), (DELAY, "0"), (TAGS, group))  # in the order of a Java map
    message = MessageToStore(
        topic=OFFSET_MOVED_EVENT,
        queue_id=0,
        body=encode_body(event, broker.release),
        properties=properties_text(pairs, trailing=not LAST_PROPERTY_OPEN.holds(broker.release)),
        flag=0,
        sys_flag=0,
        born_ms=now_ms,
        born_host=host_bytes(broker.address),
    )
    with suppress(PutRefused):  # the store has noted the reason
        broker.store.put(message, now_ms)
