"""The calls a client answers: a notice to rebalance, and four about one consumer group.

Not answered: CHECK_TRANSACTION_STATE (39) and PUSH_REPLY_MESSAGE_TO_CLIENT (326).

Upstream: ClientRemotingProcessor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from emulator.net.handler_table import Row, Table, table_of
from emulator.net.results import NO_REPLY, Call, Refusal, Result
from protocol import catalog
from protocol.codes import ResponseCode

if TYPE_CHECKING:
    from emulator.client.instance.interfaces import ConsumerRequests, RegisteredConsumer
    from emulator.facts.clients import RebalanceCause
    from emulator.releases import Release
    from protocol.requests.callbacks import (
        ConsumeMessageDirectlyRequest,
        GetConsumerRunningInfoRequest,
        GetConsumerStatusRequest,
        NotifyConsumerIdsChangedRequest,
    )
    from protocol.requests.offsets import ResetOffsetRequest


class ClientRemotingProcessor:
    """Answers for all *consumers* of one instance; *wake* makes them rebalance."""

    def __init__(
        self, consumers: Mapping[str, RegisteredConsumer], wake: Callable[[RebalanceCause], object]
    ) -> None:
        self._consumers = consumers
        self._wake = wake

    def ids_changed(self, _call: Call[NotifyConsumerIdsChangedRequest]) -> Result:
        """Whatever the group: every consumer of the instance rebalances."""
        self._wake("notice")
        return NO_REPLY

    def reset_offset(self, call: Call[ResetOffsetRequest]) -> Result:
        """Reset the offsets of the group's queues."""
        return self._requests_of(call.request.group or "").reset_offset(call)

    def consumer_status(self, call: Call[GetConsumerStatusRequest]) -> Result:
        """The group's offsets in one topic."""
        return self._requests_of(call.request.group).consumer_status(call)

    def running_info(self, call: Call[GetConsumerRunningInfoRequest]) -> Result:
        """The group's process queues and settings."""
        return self._requests_of(call.request.consumer_group).running_info(call)

    def consume_directly(self, call: Call[ConsumeMessageDirectlyRequest]) -> Result:
        """Call the group's listener with one message; answered when it has returned."""
        return self._requests_of(call.request.consumer_group).consume_directly(call)

    def _requests_of(self, group: str) -> ConsumerRequests:
        if (consumer := self._consumers.get(group)) is not None:
            return consumer.requests
        remark = f"The Consumer Group <{group}> not exist in this consumer"
        raise Refusal(ResponseCode.SYSTEM_ERROR, remark)


def handler_table(processor: ClientRemotingProcessor, release: Release) -> Table:
    """The calls a client of *release* answers, by code."""
    rows = (
        Row(catalog.NOTIFY_CONSUMER_IDS_CHANGED, processor.ids_changed),
        Row(catalog.RESET_CONSUMER_CLIENT_OFFSET, processor.reset_offset),
        Row(catalog.GET_CONSUMER_STATUS_FROM_CLIENT, processor.consumer_status),
        Row(catalog.GET_CONSUMER_RUNNING_INFO, processor.running_info),
        Row(catalog.CONSUME_MESSAGE_DIRECTLY, processor.consume_directly),
    )
    return table_of(rows, release)
