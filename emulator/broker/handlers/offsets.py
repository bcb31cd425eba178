"""What a group has consumed: the offsets that its members commit and query.

Answers QUERY_CONSUMER_OFFSET and UPDATE_CONSUMER_OFFSET in every release.  Does not commit for
static topics.

Upstream: ConsumerManageProcessor.
"""

from __future__ import annotations

from emulator.broker.broker import Broker
from emulator.broker.tables.offsets import first_offset
from emulator.facts import OffsetCommitted
from emulator.net.results import Call, Refusal, Reply, Result
from emulator.releases import COMMIT_NEEDS_TOPIC, GROUP_NEEDED_TO_COMMIT, SET_ZERO_IF_NOT_FOUND
from protocol.codes import ResponseCode
from protocol.fields import BadFields, Header
from protocol.requests.offsets import (
    OffsetReply,
    QueryConsumerOffsetRequest,
    UpdateConsumerOffsetRequest,
)


class ConsumerManageProcessor:
    """Committed offsets."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def query(self, call: Call[QueryConsumerOffsetRequest]) -> Result:
        """What the group committed last, or where one begins that has committed nothing."""
        request, broker = call.request, self._broker
        topic, queue_id = request.topic, request.queue_id
        found = broker.offsets.query(request.consumer_group, topic, queue_id)
        if found is not None and found < 0:
            found = None  # what was committed below 0 counts as never committed
        may_be_unknown = broker.release >= SET_ZERO_IF_NOT_FOUND
        if found is None and may_be_unknown and request.set_zero_if_not_found is False:
            raise Refusal(
                ResponseCode.QUERY_NOT_FOUND,
                "Not found, do not set to zero, maybe this group boot first",
            )
        if found is None:
            begun_at = broker.store.begun_at(topic, queue_id)
            begin = broker.store.min_offset(topic, queue_id) - begun_at
            end = broker.store.max_offset(topic, queue_id) - begun_at
            found = first_offset(begin, end, broker.release)
            found = None if found is None else found + begun_at
        if found is None:
            raise Refusal(
                ResponseCode.QUERY_NOT_FOUND,
                "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first",
            )
        return Reply(OffsetReply(offset=found))

    def update(self, call: Call[UpdateConsumerOffsetRequest]) -> Result:
        """Commit; refused if a durable table is not on disk."""
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
        if broker.offsets.owes_disk:
            remark = f"the offset is not saved: {broker.offsets.why_refused}"
            raise Refusal(ResponseCode.SERVICE_NOT_AVAILABLE, remark)
        if broker.wants(OffsetCommitted):
            queue, peer = broker.queue(request.topic, queue_id), call.peer.address
            broker.note(OffsetCommitted(request.consumer_group, queue, offset, peer))
        return Reply(Header())

    def _required(self, value: int | None, what: str, request: UpdateConsumerOffsetRequest) -> int:
        """*value*, or the refusal of a commit without it; before 5.x it is a failure."""
        if value is None and self._broker.release >= COMMIT_NEEDS_TOPIC:
            remark = f"{what} is null, topic is {request.topic}"
            raise Refusal(ResponseCode.INVALID_PARAMETER, remark, Header())
        if value is None:
            raise BadFields(f"a commit without {what}")
        return value

    def _check_known(self, group: str, topic: str) -> None:
        """A commit makes no group: it must be known by a heartbeat or a pull."""
        broker = self._broker
        if broker.release >= GROUP_NEEDED_TO_COMMIT and broker.groups.get(group) is None:
            code, remark = ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"Group {group} not exist!"
            raise Refusal(code, remark, Header())
        if broker.topics.get(topic) is None:
            raise Refusal(ResponseCode.TOPIC_NOT_EXIST, f"Topic {topic} not exist!", Header())
