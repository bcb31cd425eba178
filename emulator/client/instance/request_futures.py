"""Requests of an instance that wait for a reply, and the replies that brokers push to it.

The producers of an instance share one table, by correlation id: a reply is pushed to the client
id, and any connection of the client may get it.  The first reply ends its request.  A later one,
and one that no request waits for, is dropped, with a fact that has the reason; it is answered
SUCCESS all the same, or the replier would send it again.  A reply whose body cannot be
decompressed is refused: upstream passes the compressed bytes on.

A request with a callback times out at a sweep: one a second, the first three seconds after the
first producer started.  Sweeps are computed, not run.

Upstream: RequestFutureHolder, ClientRemotingProcessor.receiveReplyMessage.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from rocketmq_emulator.facts import ReplyDropped
from rocketmq_emulator.net.results import Call, Refusal, Reply, Result
from rocketmq_emulator.protocol.codes import ResponseCode
from rocketmq_emulator.protocol.messages.compression import BadCompression
from rocketmq_emulator.protocol.messages.message import MessageExt
from rocketmq_emulator.protocol.messages.message_ids import host_bytes
from rocketmq_emulator.protocol.messages.properties import ARRIVE_TIME, CORRELATION_ID
from rocketmq_emulator.protocol.messages.records import StoredMessage

if TYPE_CHECKING:
    from rocketmq_emulator.facts import Note
    from rocketmq_emulator.facts.clients import ReplyDropReason, RequestEnd
    from rocketmq_emulator.protocol.requests.groups import ReplyMessageRequest

FIRST_SWEEP_S, SWEEP_INTERVAL_S = 3.0, 1.0  # RequestFutureHolder.startScheduledTask
ENDED_MAX = 1_000  # ours: ended requests that are remembered, for the reason of a drop

OnReply: TypeAlias = Callable[[MessageExt], object]


class RequestFutureTable:
    """The requests that wait, by correlation id."""

    def __init__(self, note: Note) -> None:
        self._note = note
        self._waiting: dict[str, OnReply] = {}
        self._ended: dict[str, RequestEnd] = {}  # the newest last
        self._first_sweep_s: float | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, correlation_id: str, on_reply: OnReply) -> None:
        """Call *on_reply* with the first reply to this request."""
        self._waiting[correlation_id] = on_reply

    def end(self, correlation_id: str, why: RequestEnd) -> None:
        """The request waits no more."""
        del self._waiting[correlation_id]
        self._ended[correlation_id] = why
        if len(self._ended) > ENDED_MAX:
            del self._ended[next(iter(self._ended))]

    # Sweeps ---------------------------------------------------------------------------

    def start_sweeps(self, now_s: float) -> None:
        """A producer has started; only the first one counts."""
        if self._first_sweep_s is None:
            self._first_sweep_s = now_s + FIRST_SWEEP_S

    def sweep_after(self, due_s: float) -> float:
        """The time of the first sweep after *due_s*; a request due at a sweep waits for the next.

        Upstream: RequestResponseFuture.isTimeout.
        """
        first_s = due_s if self._first_sweep_s is None else self._first_sweep_s
        if due_s < first_s:
            return first_s
        sweeps = math.floor((due_s - first_s) / SWEEP_INTERVAL_S) + 1
        return first_s + sweeps * SWEEP_INTERVAL_S

    # Replies --------------------------------------------------------------------------

    def receive(self, call: Call[ReplyMessageRequest]) -> Result:
        """PUSH_REPLY_MESSAGE_TO_CLIENT: pass the reply to its request, or drop it."""
        header = call.request
        try:
            message = _message(header, call.body)
        except (BadCompression, ValueError) as error:
            self._drop("", header.topic, header.born_host, "unreadable", str(error))
            remark = "process reply message fail"
            raise Refusal(ResponseCode.SYSTEM_ERROR, remark) from error
        message.properties[ARRIVE_TIME] = str(call.now_ms)
        correlation_id = message.properties.get(CORRELATION_ID, "")
        on_reply = self._waiting.get(correlation_id)
        if on_reply is not None:
            self.end(correlation_id, "replied")
            on_reply(message)
        else:
            reason = _REASONS.get(self._ended.get(correlation_id, "unknown"), "unwanted")
            self._drop(correlation_id, header.topic, header.born_host, reason)
        return Reply()

    def _drop(
        self,
        correlation_id: str,
        topic: str,
        sender: str,
        reason: ReplyDropReason,
        error: str = "",
    ) -> None:
        self._note(ReplyDropped(topic, correlation_id, sender, reason, error))


_REASONS: dict[str, ReplyDropReason] = {  # by the end of the request
    "replied": "second",
    "timeout": "late",
    "not sent": "late",
    "closed": "late",
    "cancelled": "late",
}


def _message(header: ReplyMessageRequest, body: bytes) -> MessageExt:
    """The pushed reply as a message, without a place in a queue or log.

    Raises ``BadCompression``; ``ValueError`` for a host that is not an address.
    """
    properties = (header.properties or "").encode()
    return MessageExt(
        StoredMessage(
            size=0,
            magic=0,
            body_crc=0,
            queue_id=header.queue_id,
            flag=header.flag,
            queue_offset=0,
            position=0,
            sys_flag=header.sys_flag,
            born_ms=header.born_timestamp,
            born_host=host_bytes(header.born_host),
            store_ms=header.store_timestamp,
            store_host=host_bytes(header.store_host),
            reconsume_times=header.reconsume_times or 0,
            prepared_offset=0,
            body=body,
            topic=header.topic,
            properties=properties,
            end=0,
        )
    )
