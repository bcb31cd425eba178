"""Offsets: what a group has committed, and where a queue begins and ends.

Upstream: ConsumerManageProcessor, AdminBrokerProcessor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.broker.tables.offsets import first_offset
from emulator.facts import OffsetCommitted
from emulator.net.results import Call, Refusal, Reply, Result
from emulator.releases import FIVE, GROUP_NEEDED_TO_COMMIT
from protocol import catalog
from protocol.codes import RequestCode, ResponseCode
from protocol.fields import Header
from protocol.requests.offsets import GetEarliestMsgStoretimeReply, OffsetReply

if TYPE_CHECKING:
    from emulator.broker.broker import Broker
    from emulator.net.handler_table import Table
    from protocol.requests.offsets import (
        GetEarliestMsgStoretimeRequest,
        GetMaxOffsetRequest,
        GetMinOffsetRequest,
        QueryConsumerOffsetRequest,
        SearchOffsetRequest,
        UpdateConsumerOffsetRequest,
    )


class QueueOffsets:
    """Every question whose answer is an offset."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def handlers(self) -> Table:
        return {
            RequestCode.QUERY_CONSUMER_OFFSET: (catalog.QUERY_CONSUMER_OFFSET, self.query),
            RequestCode.UPDATE_CONSUMER_OFFSET: (catalog.UPDATE_CONSUMER_OFFSET, self.update),
            RequestCode.GET_MAX_OFFSET: (catalog.GET_MAX_OFFSET, self.max_offset),
            RequestCode.GET_MIN_OFFSET: (catalog.GET_MIN_OFFSET, self.min_offset),
            RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: (
                catalog.SEARCH_OFFSET_BY_TIMESTAMP,
                self.search,
            ),
            RequestCode.GET_EARLIEST_MSG_STORETIME: (
                catalog.GET_EARLIEST_MSG_STORETIME,
                self.earliest,
            ),
        }

    def query(self, call: Call[QueryConsumerOffsetRequest]) -> Result:
        request, broker = call.request, self._broker
        topic, queue_id = request.topic, request.queue_id
        found = broker.offsets.query(request.consumer_group, topic, queue_id)
        if found is not None and found < 0:
            found = None  # what was committed below 0 counts as never committed
        if found is None and broker.release >= FIVE and request.set_zero_if_not_found is False:
            raise Refusal(
                ResponseCode.QUERY_NOT_FOUND,
                "Not found, do not set to zero, maybe this group boot first",
            )
        if found is None:
            begin = broker.store.min_offset(topic, queue_id)
            end = broker.store.max_offset(topic, queue_id)
            found = first_offset(begin, end, broker.release)
        if found is None:
            raise Refusal(
                ResponseCode.QUERY_NOT_FOUND,
                "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first",
            )
        return Reply(OffsetReply(offset=found))

    def update(self, call: Call[UpdateConsumerOffsetRequest]) -> Result:
        request, broker = call.request, self._broker
        if broker.release >= FIVE:
            self._check_known(request.consumer_group, request.topic)
        broker.offsets.check_room(request.consumer_group, request.topic, request.queue_id)
        broker.offsets.commit(
            request.consumer_group, request.topic, request.queue_id, request.commit_offset
        )
        if broker.offsets.owes_disk:
            remark = "the offset is not saved: the broker's disk is full"
            raise Refusal(ResponseCode.SERVICE_NOT_AVAILABLE, remark)
        if broker.wants(OffsetCommitted):
            queue = broker.queue(request.topic, request.queue_id)
            offset, peer = request.commit_offset, call.peer.address
            broker.note(OffsetCommitted(request.consumer_group, queue, offset, peer))
        return Reply(Header())

    def max_offset(self, call: Call[GetMaxOffsetRequest]) -> Result:
        request = call.request
        return Reply(
            OffsetReply(offset=self._broker.store.max_offset(request.topic, request.queue_id))
        )

    def min_offset(self, call: Call[GetMinOffsetRequest]) -> Result:
        request = call.request
        return Reply(
            OffsetReply(offset=self._broker.store.min_offset(request.topic, request.queue_id))
        )

    def search(self, call: Call[SearchOffsetRequest]) -> Result:
        request = call.request
        upper = (request.boundary_type or "").upper() == "UPPER"
        offset = self._broker.store.offset_by_time(
            request.topic, request.queue_id, request.timestamp, upper=upper
        )
        return Reply(OffsetReply(offset=offset))

    def earliest(self, call: Call[GetEarliestMsgStoretimeRequest]) -> Result:
        request = call.request
        at_ms = self._broker.store.earliest_ms(request.topic, request.queue_id)
        return Reply(GetEarliestMsgStoretimeReply(timestamp=at_ms))

    def _check_known(self, group: str, topic: str) -> None:
        """A commit makes no group: it must be known by a heartbeat or a pull."""
        broker = self._broker
        if broker.release >= GROUP_NEEDED_TO_COMMIT and broker.groups.get(group) is None:
            code, remark = ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"Group {group} not exist!"
            raise Refusal(code, remark, Header())
        if broker.topics.get(topic) is None:
            raise Refusal(ResponseCode.TOPIC_NOT_EXIST, f"Topic {topic} not exist!", Header())
