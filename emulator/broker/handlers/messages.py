"""Messages by where they lie.

Answers VIEW_MESSAGE_BY_ID in every release.

Upstream: QueryMessageProcessor.
"""

from __future__ import annotations

from emulator.broker.broker import Broker
from emulator.net.results import Call, Refusal, Reply, Result
from protocol.codes import ResponseCode
from protocol.requests.pulling import ViewMessageRequest


class QueryMessageProcessor:
    """Stored records for tools."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def view(self, call: Call[ViewMessageRequest]) -> Result:
        """The record at a position of the commit log, as it is stored."""
        data = self._broker.store.record_at(call.request.offset)
        if data is None:
            raise Refusal(
                ResponseCode.SYSTEM_ERROR,
                f"can not find message by the offset, {call.request.offset}",
            )
        return Reply(body=bytes(data))
