"""The frame behind a fact: the request of a client, with the fields that the fact records.

Names are RocketMQ's own, as in a dump of the connection or in upstream's source.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from rocketmq_emulator.checks.state.violation import place_of
from rocketmq_emulator.facts import (
    Fact,
    MemberJoined,
    MemberLeft,
    MessageSentBack,
    OffsetCommitted,
    PullAnswered,
    PullHeld,
    Queue,
    QueuesLocked,
    QueuesUnlocked,
    RequestReceived,
)
from rocketmq_emulator.facts.journal import Entry
from rocketmq_emulator.protocol.codes import REQUEST_NAMES, RESPONSE_NAMES, RequestCode


class SeenFrame(msgspec.Struct, frozen=True, kw_only=True):
    """A request at a server: *fields* of its header or body, *outcome* is the server's answer."""

    at_ms: int  # wall time of the server
    mono_us: int
    server: str
    request: str  # RocketMQ's name of the code; the fact's name if there was no frame
    code: int = 0
    peer: str = ""
    opaque: int | None = None  # None: not noted
    fields: dict[str, Any] = {}
    outcome: str = ""


def frame_of(entry: Entry) -> SeenFrame:
    """The frame that *entry* records."""
    fact = entry.fact
    tell = FRAMES.get(type(fact))
    code, fields, outcome = tell(fact) if tell is not None else (0, _plain(fact), "")
    return SeenFrame(
        at_ms=entry.at_ms,
        mono_us=entry.mono_us,
        server=entry.node,
        request=REQUEST_NAMES.get(code, f"code {code}") if code else type(fact).__name__,
        code=code,
        peer=getattr(fact, "peer", ""),
        opaque=getattr(fact, "opaque", None),
        fields=fields,
        outcome=outcome,
    )


RequestParts = tuple[int, dict[str, Any], str]


def _pull(fact: PullHeld | PullAnswered) -> RequestParts:
    fields = {**_queue(fact.group, fact.queue), "queueOffset": fact.offset}
    if isinstance(fact, PullHeld):
        return RequestCode.PULL_MESSAGE, fields, f"held until {fact.until_ms}, at most"
    code = fact.response_code
    outcome = f"answered {RESPONSE_NAMES.get(code, 'code')} ({code})"
    outcome = f"{outcome}, nextBeginOffset {fact.next_offset}"
    return RequestCode.PULL_MESSAGE, fields, f"{outcome}, {fact.message_count} messages"


def _commit(fact: OffsetCommitted) -> RequestParts:
    fields = {**_queue(fact.group, fact.queue), "commitOffset": fact.offset}
    return RequestCode.UPDATE_CONSUMER_OFFSET, fields, "or with a PULL_MESSAGE"


def _sent_back(fact: MessageSentBack) -> RequestParts:
    fields = {
        "group": fact.group,
        "originTopic": fact.origin_topic,
        "offset": fact.origin_position,
    }
    outcome = f"goes to {fact.target_topic} as retry {fact.reconsume_times}"
    return RequestCode.CONSUMER_SEND_MSG_BACK, fields, f"{outcome}, delay level {fact.delay_level}"


def _joined(fact: MemberJoined) -> RequestParts:
    fields = {
        "clientID": fact.client,
        "groupName": fact.group,
        "consumeType": fact.consume_type,
        "messageModel": fact.message_model,
    }
    return RequestCode.HEART_BEAT, fields, "is a member"


def _left(fact: MemberLeft) -> RequestParts:
    fields = {"clientID": fact.client, "consumerGroup": fact.group}
    if fact.reason == "unregistered":
        return RequestCode.UNREGISTER_CLIENT, fields, "is no member"
    return 0, fields, f"is no member: {fact.reason}"


def _locked(fact: QueuesLocked) -> RequestParts:
    fields = {"consumerGroup": fact.group, "clientId": fact.client}
    outcome = f"granted {_names(fact.granted)}; refused {_names(fact.refused)}"
    return RequestCode.LOCK_BATCH_MQ, fields, outcome


def _unlocked(fact: QueuesUnlocked) -> RequestParts:
    fields = {"consumerGroup": fact.group, "clientId": fact.client}
    return RequestCode.UNLOCK_BATCH_MQ, fields, _names(fact.queues)


def _received(fact: RequestReceived) -> RequestParts:
    return fact.code, {}, ""


FRAMES: dict[type[Fact], Callable[[Any], RequestParts]] = {
    PullHeld: _pull,
    PullAnswered: _pull,
    OffsetCommitted: _commit,
    MessageSentBack: _sent_back,
    MemberJoined: _joined,
    MemberLeft: _left,
    QueuesLocked: _locked,
    QueuesUnlocked: _unlocked,
    RequestReceived: _received,
}


def _queue(group: str, queue: Queue) -> dict[str, Any]:
    return {"consumerGroup": group, "topic": queue.topic, "queueId": queue.queue_id}


def _names(queues: tuple[Queue, ...]) -> str:
    return ", ".join(place_of(queue) for queue in queues) or "none"


def _plain(fact: Fact) -> dict[str, Any]:
    known = msgspec.to_builtins(fact)
    del known["kind"]
    return dict(known)
