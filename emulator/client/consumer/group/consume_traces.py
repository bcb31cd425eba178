"""Traces of consumption: one record before and one after each call of a listener.

Messages whose property TRACE_ON is false are left out.  Upstream: ConsumeMessageTraceHookImpl, and
the ConsumeReturnType of both consume services.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

from rocketmq_emulator.client.consumer.group.listeners import ConsumeResult
from rocketmq_emulator.client.instance.tracing import TraceContext
from rocketmq_emulator.protocol.messages import properties as prop
from rocketmq_emulator.protocol.messages.traces import SubAfterTrace, SubBeforeTrace

if TYPE_CHECKING:
    from rocketmq_emulator.client.consumer.group.listeners import ListenerOutcome
    from rocketmq_emulator.client.instance.tracing import TraceDispatcher
    from rocketmq_emulator.protocol.messages.message import MessageExt
    from rocketmq_emulator.protocol.messages.message_ids import UniqKeys

SUCCESS, TIME_OUT, EXCEPTION, _, FAILED = range(5)  # ConsumeReturnType
FAILURES = (ConsumeResult.RECONSUME_LATER, ConsumeResult.SUSPEND)
OK_RESULTS = (ConsumeResult.SUCCESS, ConsumeResult.COMMIT)


class TracedCall(msgspec.Struct, frozen=True):
    """A call that has begun; None of its messages may be traced."""

    topic: str
    records: tuple[SubBeforeTrace, ...]
    began_ms: int
    messages: int  # of the call, those without a trace included


async def traced_outcome(
    traces: ConsumeTraces | None,
    messages: Sequence[MessageExt],
    invoke: Callable[[], Awaitable[ListenerOutcome]],
) -> ListenerOutcome:
    """The outcome of *invoke*, which calls the listener with *messages*, traced if *traces*."""
    if traces is None:
        return await invoke()
    call = traces.begin(messages)
    outcome = await invoke()
    traces.end(call, outcome)
    return outcome


class ConsumeTraces:
    """The traces of one consumer."""

    def __init__(
        self, dispatcher: TraceDispatcher, uniq_keys: UniqKeys, consume_timeout_ms: int
    ) -> None:
        self._dispatcher = dispatcher
        self._uniq_keys = uniq_keys
        self._consume_timeout_ms = consume_timeout_ms

    def begin(self, messages: Sequence[MessageExt]) -> TracedCall:
        """The listener is about to be called with *messages*."""
        now_ms = self._dispatcher.now_ms()
        traced = [each for each in messages if each.properties.get(prop.TRACE_ON) != "false"]
        request_id = self._uniq_keys.make(now_ms) if traced else ""
        region = traced[-1].properties.get(prop.MSG_REGION) if traced else None
        records = tuple(
            SubBeforeTrace(
                at_ms=now_ms,
                region=region,
                group=self._dispatcher.group,
                request_id=request_id,
                msg_id=each.msg_id,
                retry_times=each.reconsume_times,
                keys=each.keys,
            )
            for each in traced
        )
        call = TracedCall(messages[0].topic, records, now_ms, len(messages))
        if records:
            self._dispatcher.append(TraceContext(call.topic, region, records))
        return call

    def end(self, call: TracedCall, outcome: ListenerOutcome) -> None:
        """The listener has returned or raised."""
        took_ms = self._dispatcher.now_ms() - call.began_ms
        ok = outcome.error is None and outcome.result in OK_RESULTS
        self._after(call, ok=ok, code=self._code(outcome, took_ms))

    def polled(self, messages: Sequence[MessageExt]) -> None:
        """A lite pull consumer gives *messages* to its application: before and after at once."""
        self._after(self.begin(messages), ok=True, code=SUCCESS)

    def _after(self, call: TracedCall, *, ok: bool, code: int) -> None:
        if not call.records:
            return
        now_ms = self._dispatcher.now_ms()
        records = [
            SubAfterTrace(
                request_id=before.request_id,
                msg_id=before.msg_id,
                cost_ms=(now_ms - call.began_ms) // call.messages,
                ok=ok,
                keys=before.keys,
                code=code,
                at_ms=now_ms,
                group=before.group,
            )
            for before in call.records
        ]
        self._dispatcher.append(TraceContext(call.topic, call.records[0].region, records))

    def _code(self, outcome: ListenerOutcome, took_ms: int) -> int:
        if outcome.error is not None:
            return EXCEPTION
        if took_ms >= self._consume_timeout_ms:
            return TIME_OUT
        return FAILED if outcome.result in FAILURES else SUCCESS
