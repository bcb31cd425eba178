"""The life of one message, read from the traces that its clients wrote.

Trace messages have the ids of the traced messages among their keys, so brokers find them by their
index.  A call of a listener is two records, often in two trace messages; here they are one step.
Traces may be missing: a client may not trace, may have died, or its traces may be on their way.

Upstream: QueryMsgTraceByIdSubCommand, TraceView.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal, TypeAlias

import msgspec

from rocketmq_emulator.admin.calls import Admin, NotFound
from rocketmq_emulator.admin.messages import BadMessageId, find_by_id, find_by_key
from rocketmq_emulator.protocol.messages.names import TRACE_TOPIC
from rocketmq_emulator.protocol.messages.traces import (
    MESSAGE_TYPES,
    RETURN_TYPES,
    EndTransactionTrace,
    PubTrace,
    RecallTrace,
    SubAfterTrace,
    SubBeforeTrace,
    Trace,
    decode_traces,
)

TRACE_MESSAGES_MAX = 64  # MessageStoreConfig.maxMsgsNumBatch, the broker's limit of a query

StepKind: TypeAlias = Literal["sent", "consumed", "transaction", "recalled"]
STATES = {"COMMIT_MESSAGE": "commit", "ROLLBACK_MESSAGE": "rollback", "UNKNOW": "unknown"}


class LifeStep(msgspec.Struct, frozen=True, kw_only=True):
    """Something that a client did with the message."""

    kind: StepKind
    at_ms: int  # when it began, by the client's clock; 0: unknown
    group: str  # of the client
    outcome: str  # success, failed, exception, commit …; empty: its end was not traced
    ok: bool | None  # None: unknown
    took_ms: int | None = None  # of a listener's call with several messages: its part
    delivery: int = 0  # consumed: 1 is the first
    client_host: str = ""  # only Go clients write it
    store_host: str = ""  # of the broker
    message_type: str = ""  # sent: normal, half, delayed …
    body_bytes: int = 0
    after_check: bool = False  # transaction: the answer to a broker's check


class MessageLife(msgspec.Struct, frozen=True, kw_only=True):
    """All steps of a message, in order of their times."""

    msg_id: str
    topic: str  # empty: only its consumers traced it
    tags: str
    keys: str
    steps: tuple[LifeStep, ...]
    unreadable: int  # records that could not be read, of this message or of others beside it
    is_complete: bool  # False: older trace messages may exist


async def find_life(admin: Admin, msg_id: str, topic: str = TRACE_TOPIC) -> MessageLife | None:
    """The life of the message with either of its ids; None if no trace of it is in *topic*.

    Raises ``AdminError``; ``NotFound`` if there is no trace topic.
    """
    life = await _life_of(admin, msg_id, topic)
    if life is not None:
        return life
    try:
        found = await find_by_id(admin, msg_id)
    except (BadMessageId, NotFound):
        return None
    keys = {message.uniq_key for message in found} - {None, msg_id}
    return await _life_of(admin, next(iter(keys)) or "", topic) if keys else None


async def _life_of(admin: Admin, msg_id: str, topic: str) -> MessageLife | None:
    messages = await find_by_key(admin, topic, msg_id, TRACE_MESSAGES_MAX)
    decoded = [decode_traces(message.body) for message in messages]
    traces = [trace for each in decoded for trace in each.traces if trace.msg_id == msg_id]
    if not traces:
        return None
    unreadable = sum(each.unreadable for each in decoded)
    complete = len(messages) < TRACE_MESSAGES_MAX
    return life_of(msg_id, traces, unreadable=unreadable, is_complete=complete)


def life_of(
    msg_id: str, traces: Iterable[Trace], *, unreadable: int = 0, is_complete: bool = True
) -> MessageLife:
    """The life of message *msg_id* by its *traces*, in any order."""
    found = list(traces)
    calls = {t.request_id: t for t in found if isinstance(t, SubAfterTrace)}
    before = {t.request_id for t in found if isinstance(t, SubBeforeTrace)}
    steps = [
        step_of(trace, calls)
        for trace in found
        if not (isinstance(trace, SubAfterTrace) and trace.request_id in before)
    ]

    def first(name: str) -> str:
        return next((text for trace in found if (text := getattr(trace, name, None))), "")

    return MessageLife(
        msg_id=msg_id,
        topic=first("topic"),
        tags=first("tags"),
        keys=first("keys"),
        steps=tuple(sorted(steps, key=lambda step: step.at_ms)),
        unreadable=unreadable,
        is_complete=is_complete,
    )


def step_of(trace: Trace, calls: dict[str, SubAfterTrace]) -> LifeStep:
    """The step of a record; *calls* are the ends of listeners' calls by request id."""
    return _STEPS[type(trace)](trace, calls)


def _sent(trace: PubTrace, _calls: dict[str, SubAfterTrace]) -> LifeStep:
    return LifeStep(
        kind="sent",
        at_ms=trace.at_ms,
        group=trace.group,
        outcome="stored" if trace.ok else "stored, not as safely as configured",
        ok=trace.ok,
        took_ms=trace.cost_ms,
        client_host=trace.client_host,
        store_host=trace.store_host,
        message_type=_name(MESSAGE_TYPES, trace.msg_type),
        body_bytes=trace.body_bytes,
    )


def _consumed(trace: SubBeforeTrace, calls: dict[str, SubAfterTrace]) -> LifeStep:
    end = calls.get(trace.request_id)
    return LifeStep(
        kind="consumed",
        at_ms=trace.at_ms,
        group=trace.group,
        outcome="" if end is None else _outcome(end),
        ok=None if end is None else end.ok,
        took_ms=None if end is None else end.cost_ms,
        delivery=trace.retry_times + 1,
        client_host=trace.client_host,
    )


def _ended(end: SubAfterTrace, _calls: dict[str, SubAfterTrace]) -> LifeStep:
    """A call whose begin is missing."""
    return LifeStep(
        kind="consumed",
        at_ms=max(0, end.at_ms - end.cost_ms),
        group=end.group,
        outcome=_outcome(end),
        ok=end.ok,
        took_ms=end.cost_ms,
    )


def _transaction(trace: EndTransactionTrace, _calls: dict[str, SubAfterTrace]) -> LifeStep:
    return LifeStep(
        kind="transaction",
        at_ms=trace.at_ms,
        group=trace.group,
        outcome=STATES.get(trace.state, trace.state),
        ok={"COMMIT_MESSAGE": True, "ROLLBACK_MESSAGE": False}.get(trace.state),
        store_host=trace.store_host,
        after_check=trace.from_check,
    )


def _recalled(trace: RecallTrace, _calls: dict[str, SubAfterTrace]) -> LifeStep:
    outcome = "recalled" if trace.ok else "refused"
    return LifeStep(
        kind="recalled", at_ms=trace.at_ms, group=trace.group, outcome=outcome, ok=trace.ok
    )


_STEPS: dict[type, Callable[[Any, dict[str, SubAfterTrace]], LifeStep]] = {
    PubTrace: _sent,
    SubBeforeTrace: _consumed,
    SubAfterTrace: _ended,
    EndTransactionTrace: _transaction,
    RecallTrace: _recalled,
}


def _outcome(end: SubAfterTrace) -> str:
    """The return type; clients other than Java's write 0, success, for a failure too."""
    name = _name(RETURN_TYPES, end.code)
    return "failed" if name == "success" and not end.ok else name


def _name(names: tuple[str, ...], index: int) -> str:
    return names[index] if 0 <= index < len(names) else f"{index}"
