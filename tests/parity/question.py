"""One question to a broker, made by hand, and how the usual ones are built.

A question is what travels: a code, ext fields as any JSON values (peers are lax), a body.
Its title is its identity in the recording.  Fields may hold ``{name}``: a number that an
earlier answer gave, kept under that name.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from rocketmq_emulator.protocol import codes

RequestCode = codes.RequestCode
BORN_MS = 1_700_000_000_000
UNIQ_KEY = "UNIQ_KEY\x01K0"  # a 5.x broker makes one up where there is none


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """Asked on the connection called *by*; its answer's number *keep* is kept."""

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
    """The connection called *by* is closed."""

    by: str


Step = Question | Sleep | CloseConnection


def send(title: str, topic: Any = "Orders", body: bytes = b"hello", /, **changed: Any) -> Question:
    """SEND_MESSAGE_V2; *changed* are its one-letter fields, ... for none at all."""
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
    """PULL_MESSAGE that brings its own subscription and does not wait."""
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
    """CONSUMER_SEND_MSG_BACK of the message at a place in the log."""
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
    """Any code with these fields; ... is the way to leave one out of a row of them."""
    return _question(title, code, {}, fields, by=by)


def with_body(title: str, code: int, body: Any, *, by: str = "one") -> Question:
    """A body of JSON, or as it is when it is bytes already; no ext fields."""
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
