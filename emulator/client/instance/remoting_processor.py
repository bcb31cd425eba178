"""What brokers ask of a client: rebalance now, and four questions about one consumer group.

Not answered: CHECK_TRANSACTION_STATE (39) and PUSH_REPLY_MESSAGE_TO_CLIENT (326).

Upstream: ClientRemotingProcessor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from emulator.net.handler_table import Row, Table, table_of
from emulator.net.results import NO_REPLY, Call, Reply, Result
from protocol import catalog
from protocol.codes import ResponseCode

if TYPE_CHECKING:
    from emulator.client.instance.interfaces import RegisteredConsumer
    from emulator.facts.clients import RebalanceCause
    from emulator.releases import Release
    from protocol.requests.callbacks import NotifyConsumerIdsChangedRequest


class ClientRemotingProcessor:
    """Answers for all *consumers* of one instance; *wake* is told why they should rebalance."""

    def __init__(
        self, consumers: Mapping[str, RegisteredConsumer], wake: Callable[[RebalanceCause], object]
    ) -> None:
        self._consumers = consumers
        self._wake = wake

    def ids_changed(self, _call: Call[NotifyConsumerIdsChangedRequest]) -> Result:
        """Whatever the group: every consumer of the instance rebalances."""
        self._wake("notice")
        return NO_REPLY

    def ask_consumer(self, call: Call[Any]) -> Result:
        """The consumer of the group in question answers by itself."""
        request = call.request
        group: str = getattr(request, "consumer_group", "") or getattr(request, "group", "")
        if (consumer := self._consumers.get(group)) is not None:
            return consumer.answer(call)
        remark = f"The Consumer Group <{group}> not exist in this consumer"
        return Reply(code=ResponseCode.SYSTEM_ERROR, remark=remark)


def handler_table(processor: ClientRemotingProcessor, release: Release) -> Table:
    """The calls a client of *release* answers, by code."""
    rows = (
        Row(catalog.NOTIFY_CONSUMER_IDS_CHANGED, processor.ids_changed),
        Row(catalog.RESET_CONSUMER_CLIENT_OFFSET, processor.ask_consumer),
        Row(catalog.GET_CONSUMER_STATUS_FROM_CLIENT, processor.ask_consumer),
        Row(catalog.GET_CONSUMER_RUNNING_INFO, processor.ask_consumer),
        Row(catalog.CONSUME_MESSAGE_DIRECTLY, processor.ask_consumer),
    )
    return table_of(rows, release)
