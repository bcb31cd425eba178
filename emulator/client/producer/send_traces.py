"""Traces of sends and of transactions: what a producer appends to its ``TraceDispatcher``.

Only an attempt with a ``SendResult`` is traced; failed attempts and one-way sends are not.
Upstream: SendMessageTraceHookImpl, EndTransactionTraceHookImpl.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketmq_emulator.client.instance.tracing import TraceContext
from rocketmq_emulator.protocol.messages import properties as prop
from rocketmq_emulator.protocol.messages.names import DEFAULT_REGION
from rocketmq_emulator.protocol.messages.properties import decode_properties
from rocketmq_emulator.protocol.messages.traces import EndTransactionTrace, PubTrace

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rocketmq_emulator.client.instance.tracing import TraceDispatcher
    from rocketmq_emulator.client.producer.outgoing_message import OutgoingMessage
    from rocketmq_emulator.client.producer.send_kernel import SendResult

NORMAL, HALF, COMMITTED, DELAYED = range(4)  # MessageType


class SendTraces:
    """The traces of one producer."""

    def __init__(self, dispatcher: TraceDispatcher) -> None:
        self._dispatcher = dispatcher

    def sent(
        self, outgoing: OutgoingMessage, store_host: str, began_ms: int, result: SendResult
    ) -> None:
        """The broker at *store_host* answered the attempt that began at *began_ms*."""
        if not result.trace_on:
            return
        given = decode_properties(outgoing.properties)
        trace = PubTrace(
            at_ms=began_ms,
            region=result.region_id,
            group=self._dispatcher.group,
            topic=outgoing.topic,
            msg_id=result.msg_id,
            tags=given.get(prop.TAGS),
            keys=given.get(prop.KEYS),
            store_host=store_host,
            body_bytes=len(outgoing.body),
            cost_ms=self._dispatcher.now_ms() - began_ms,
            msg_type=_type_of(given),
            offset_msg_id=result.offset_msg_id,
            ok=result.is_ok,
        )
        self._dispatcher.append(TraceContext(trace.topic, trace.region, (trace,)))

    def transaction_ended(
        self,
        topic: str,
        properties: Mapping[str, str],
        *,
        store_host: str,
        state: str,
        from_check: bool,
    ) -> None:
        """The producer ends the transaction of a half message with these *properties*.

        *store_host* is the broker's address; *state* is COMMIT_MESSAGE, ROLLBACK_MESSAGE or
        UNKNOW; *from_check*: it answers a check.  Call it before the request is sent, as
        DefaultMQProducerImpl.doExecuteEndTransactionHook.
        """
        msg_id = properties.get(prop.UNIQ_KEY, "")
        trace = EndTransactionTrace(
            at_ms=self._dispatcher.now_ms(),
            region=properties.get(prop.MSG_REGION) or DEFAULT_REGION,
            group=self._dispatcher.group,
            topic=topic,
            msg_id=msg_id,
            tags=properties.get(prop.TAGS),
            keys=properties.get(prop.KEYS),
            store_host=store_host,
            msg_type=COMMITTED,
            transaction_id=msg_id,
            state=state,
            from_check=from_check,
        )
        self._dispatcher.append(TraceContext(trace.topic, trace.region, (trace,)))


def _type_of(given: Mapping[str, str]) -> int:
    """The MessageType; a delay wins over a transaction.  Timer messages count as normal."""
    if prop.START_DELIVER_TIME in given or prop.DELAY in given:
        return DELAYED
    return HALF if given.get(prop.TRAN_MSG) == "true" else NORMAL
