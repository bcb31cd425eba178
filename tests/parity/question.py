"""One question to a broker, written by hand, and functions that build the usual ones.

A question is the content of a request: a code, ext fields as any JSON values (clients send more
than texts), and a body.  Its title identifies it in the recording.  A field may be ``{name}``:
the position of an earlier answer's message, kept under that name.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from rocketmq_emulator.protocol import codes

RequestCode = codes.RequestCode
BORN_MS = 1_700_000_000_000
UNIQ_KEY = "UNIQ_KEY\x01K0"  # without one, a 5.x broker adds a random one


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """A request on the connection called *by*; *keep* names the position in the answer to keep."""

    title: str
    code: int
    fields: dict[str, Any] | None = None
    body: bytes = b""
    by: str = "one"
    version: int = 409
    keep: tuple[str, str] | None = None  # (which number, under which name)


class Sleep(msgspec.Struct, frozen=True):
    """Sleep for ``ms`` milliseconds."""

    ms: int


class CloseConnection(msgspec.Struct, frozen=True):
    """Close the connection called *by*."""

    by: str


Step = Question | Sleep | CloseConnection


def send(title: str, topic: Any = "Orders", body: bytes = b"hello", /, **changed: Any) -> Question:
    """SEND_MESSAGE_V2; *changed* has one-letter fields; the value ... removes a field."""
    fields = {
        "a": "pg",
        "b": topic,
        "c": "TBW102",
        "d": "4",
        "e": "0",
        "f": "0",
        "g": str(BORN_MS),
        "h": "0",
        "i": UNIQ_KEY,
        "j": "0",
        "k": "false",
        "m": "false",
    }
    return _question(title, RequestCode.SEND_MESSAGE_V2, fields, changed, body)


def pull(title: str, topic: Any = "Orders", /, **changed: Any) -> Question:
    """PULL_MESSAGE that contains a subscription and is not held."""
    fields = {
        "consumerGroup": "g",
        "topic": topic,
        "queueId": "0",
        "queueOffset": "0",
        "maxMsgNums": "32",
        "sysFlag": "4",
        "commitOffset": "0",
        "suspendTimeoutMillis": "15000",
        "subscription": "*",
        "subVersion": "0",
        "expressionType": "TAG",
    }
    return _question(title, RequestCode.PULL_MESSAGE, fields, changed)


def give_back(title: str, position: Any, /, **changed: Any) -> Question:
    """CONSUMER_SEND_MSG_BACK of the message at a position in the log."""
    fields = {
        "offset": position,
        "group": "g",
        "delayLevel": "0",
        "originMsgId": "",
        "originTopic": "Orders",
        "unitMode": "false",
    }
    return _question(title, RequestCode.CONSUMER_SEND_MSG_BACK, fields, changed)


def topic_config(title: str, topic: Any, /, **changed: Any) -> Question:
    """UPDATE_AND_CREATE_TOPIC."""
    fields = {
        "topic": topic,
        "defaultTopic": "TBW102",
        "readQueueNums": "4",
        "writeQueueNums": "4",
        "perm": "6",
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": "0",
        "order": "false",
    }
    return _question(title, RequestCode.UPDATE_AND_CREATE_TOPIC, fields, changed)


def plain(title: str, code: int, *, by: str = "one", **fields: Any) -> Question:
    """A question with any code and these fields; the value ... removes a field."""
    return _question(title, code, {}, fields, by=by)


def with_body(title: str, code: int, body: Any, *, by: str = "one") -> Question:
    """A question without ext fields; its body is *body* as JSON, or unchanged if it is bytes."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Question(title=title, code=code, body=data, by=by)


def heartbeat(
    title: str,
    client: Any,
    group: Any = "g",
    *,
    topics: Any = ("Orders",),
    unit_mode: bool = False,
    by: str = "one",
) -> Question:
    """HEART_BEAT of a push consumer."""
    subscriptions = [
        {"topic": topic, "subString": "*", "subVersion": 1, "expressionType": "TAG"}
        for topic in topics
    ]
    consumer = {
        "groupName": group,
        "consumeType": "CONSUME_PASSIVELY",
        "messageModel": "CLUSTERING",
        "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
        "subscriptionDataSet": subscriptions,
        "unitMode": unit_mode,
    }
    body = {"clientID": client, "consumerDataSet": [consumer], "producerDataSet": []}
    return with_body(title, RequestCode.HEART_BEAT, body, by=by)


def _question(
    title: str,
    code: int,
    fields: dict[str, Any],
    changed: dict[str, Any],
    body: bytes = b"",
    *,
    by: str = "one",
) -> Question:
    more = {name: changed.pop(name) for name in ("by", "version", "keep") if name in changed}
    fields = {k: v for k, v in {**fields, **changed}.items() if v is not ...}
    return Question(title=title, code=code, fields=fields, body=body, **{"by": by, **more})
