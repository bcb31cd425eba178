"""Replies to requests, and queries by key whose hashes collide: questions and pushes.

A reply is pushed to the client that requested it, on another connection or on the same one.  The
client answers a push by the body of the reply: ``refuse`` with an error, ``ignore`` not at all,
any other with SUCCESS.  Each question is recorded with its answer and with all that was pushed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from rocketmq_emulator.protocol.command import RESPONSE, RemotingCommand
from rocketmq_emulator.protocol.messages.properties import (
    PUSH_REPLY_TIME,
    decode_properties,
)
from tests.parity.answer import shown
from tests.parity.differences import agree as agree_in_answer
from tests.parity.question import (
    CloseConnection,
    Question,
    RequestCode,
    Sleep,
    Step,
    plain,
    pull,
    send,
    with_body,
)

TOPIC = "DefaultCluster_REPLY_TOPIC"
REFUSE, IGNORE = b"refuse", b"ignore"
PUSH_MS_MAX = 10_000
TO_ASKER = "CORRELATION_ID\x01c1\x02REPLY_TO_CLIENT\x01asker\x02TTL\x013000\x02MSG_TYPE\x01reply"
_LONG_NAMES = {
    "a": "producerGroup",
    "b": "topic",
    "c": "defaultTopic",
    "d": "defaultTopicQueueNums",
    "e": "queueId",
    "f": "sysFlag",
    "g": "bornTimestamp",
    "h": "flag",
    "i": "properties",
}
EVER = {"beginTimestamp": "0", "endTimestamp": "9000000000000", "maxNum": "32"}
SHOWN_CHARS_MAX = 100

Exchange: TypeAlias = Callable[[Question], tuple[RemotingCommand | None, list["Push"]]]
Push: TypeAlias = tuple[str, RemotingCommand]  # the connection, the request of the broker


def reply(title: str, body: bytes = b"an answer", /, **changed: Any) -> Question:
    """SEND_REPLY_MESSAGE_V2; *changed* has one-letter fields; the value ... removes a field."""
    question = send(title, TOPIC, body, **{"i": TO_ASKER, **changed})
    code = RequestCode.SEND_REPLY_MESSAGE_V2
    return Question(title=title, code=code, fields=question.fields, body=body, by=question.by)


def in_long_names(title: str, **changed: Any) -> Question:
    """SEND_REPLY_MESSAGE."""
    given = reply(title).fields or {}
    fields = {long: given[name] for name, long in _LONG_NAMES.items()} | changed
    fields = {name: value for name, value in fields.items() if value is not ...}
    code = RequestCode.SEND_REPLY_MESSAGE
    return Question(title=title, code=code, fields=fields, body=b"an answer")


def producing(title: str, client: str, *groups: str, by: str = "one") -> Question:
    """HEART_BEAT of producers."""
    producers = [{"groupName": group} for group in groups]
    body = {"clientID": client, "consumerDataSet": [], "producerDataSet": producers}
    return with_body(title, RequestCode.HEART_BEAT, body, by=by)


def leaving(title: str, client: str, group: str, *, by: str = "one") -> Question:
    """UNREGISTER_CLIENT of a producer."""
    fields = {"clientID": client, "producerGroup": group}
    return plain(title, RequestCode.UNREGISTER_CLIENT, by=by, **fields)


def query(title: str, topic: str, key: str) -> Question:
    """QUERY_MESSAGE, at any time."""
    return plain(title, RequestCode.QUERY_MESSAGE, topic=topic, key=key, **EVER)


REPLIES: tuple[Step, ...] = (
    reply("a reply to a client that nobody knows"),
    producing("the requester's heartbeat", "asker", "askers", by="asker"),
    reply("a reply"),
    reply("a second reply to the same request"),
    in_long_names("a reply with long names"),
    reply("a reply that its requester refuses", REFUSE),
    reply("a reply that its requester ignores", IGNORE),
    reply("a reply on the requester's own connection", by="asker"),
    reply("no requester", i="CORRELATION_ID\x01c1\x02MSG_TYPE\x01reply"),
    reply("an empty requester", i="CORRELATION_ID\x01c1\x02REPLY_TO_CLIENT\x01\x02TTL\x011"),
    reply("another requester", i="CORRELATION_ID\x01c1\x02REPLY_TO_CLIENT\x01nobody"),
    reply("two requesters", i="REPLY_TO_CLIENT\x01nobody\x02REPLY_TO_CLIENT\x01asker"),
    reply("no correlation id", i="REPLY_TO_CLIENT\x01asker"),
    reply("no type", i="CORRELATION_ID\x01c1\x02REPLY_TO_CLIENT\x01asker"),
    reply("no properties", i=...),
    reply("properties that are null", i=None),
    reply("properties that are none", i="nothing"),
    reply("properties with a region of their own", i=f"MSG_REGION\x01mine\x02{TO_ASKER}"),
    reply("properties with a push time of their own", i=f"PUSH_REPLY_TIME\x015\x02{TO_ASKER}"),
    reply("an unknown group", a="strangers"),
    *(reply(f"without {name} ({_LONG_NAMES[name]})", **{name: ...}) for name in "abcdegh"),
    in_long_names("long names without a topic", topic=...),
    in_long_names("long names without a queue", queueId=...),
    reply("a topic that is null", b=None),
    reply("no topic name", b=""),
    reply("a topic name with a blank", b="no blank"),
    reply("a topic name of 128", b="x" * 128),
    reply("the delayed messages' topic", b="SCHEDULE_TOPIC_XXXX"),
    reply("a topic that is not there", b="Answers", e="3"),
    reply("a topic that cannot be made", b="Nowhere", c="Nobody"),
    reply("a topic for retries", b="%RETRY%answers"),
    reply("a queue that is not there", e="1"),
    reply("any queue", e="-1"),
    reply("a queue id that is a word", e="one"),
    reply("a born time that is a word", g="now"),
    reply("retries", j="3"),
    reply("retries that are a word", j="many"),
    reply("unit mode", k="true"),
    reply("a batch", m="true"),
    reply("a compressed body that is none", f="1"),
    reply("a prepared flag", f="4"),
    reply("flags", h="7"),
    reply("a reply that does not wait", i=f"WAIT\x01false\x02{TO_ASKER}"),
    reply("a body of 4 MiB and one", bytes(4_194_305)),
    reply("properties that do not fit", i=f"{TO_ASKER}\x02K\x01" + "v" * 32_760),
    reply("a delay of level 1", i=f"DELAY\x011\x02{TO_ASKER}"),
    reply("a delay that is a word", i=f"DELAY\x01soon\x02{TO_ASKER}"),
    send("an ordinary message to the topic of replies", TOPIC, by="asker"),
    Sleep(2_000),
    pull("the stored replies", TOPIC, maxMsgNums="32"),
    pull("the rest of the stored replies", TOPIC, maxMsgNums="32", queueOffset="32"),
    reply("no body", b""),
)

RECONNECTING: tuple[Step, ...] = (
    producing("the same requester on another connection", "asker", "askers", by="second"),
    reply("a reply to the newer connection"),
    producing("a heartbeat on the older connection", "asker", "askers", by="asker"),
    reply("still to the newer connection"),
    producing("one more group on the older connection", "asker", "more", by="asker"),
    reply("now to the older connection"),
    producing("one more group on the newer connection", "asker", "others", by="second"),
    CloseConnection("asker"),
    Sleep(500),
    reply("a reply after the older connection has closed"),
    producing("a heartbeat of both groups", "asker", "askers", "others", by="second"),
    reply("a reply after that heartbeat"),
    producing("a heartbeat of a third group", "asker", "third", by="second"),
    reply("a reply after that group"),
    leaving("one of the groups leaves", "asker", "others", by="second"),
    reply("a reply after one group has left"),
    producing("a client of the same group", "other", "askers", by="third"),
    producing("a fourth group", "asker", "fourth", by="second"),
    leaving("another client leaves in its name", "asker", "askers", by="third"),
    reply("a reply after that"),
    producing("a fifth group", "asker", "fifth", by="second"),
    leaving("it leaves a group that it is not in", "asker", "unknown", by="second"),
    reply("a reply after leaving no group"),
)

COLLIDING: tuple[Step, ...] = (
    send("a message with a key", "AaTopic", i="UNIQ_KEY\x01K0\x02KEYS\x01Aa"),
    send("a message of another topic", "BBTopic", i="UNIQ_KEY\x01K1\x02KEYS\x01BB"),
    send("a message with two keys", "AaTopic", i="UNIQ_KEY\x01AaAa\x02KEYS\x01AaBB other"),
    Sleep(500),
    query("the key", "AaTopic", "Aa"),
    query("another key with its hash", "AaTopic", "BB"),
    query("two keys with one hash", "AaTopic", "BBBB"),
    query("another key of the other topic", "BBTopic", "Aa"),
    query("a topic without messages, with the hash", "C#Topic", "Aa"),
    query("a key of no message", "AaTopic", "AB"),
    plain(
        "a unique key with a hash of others",
        RequestCode.QUERY_MESSAGE,
        topic="AaTopic",
        key="BBAa",
        _UNIQUE_KEY_QUERY="true",
        **EVER,
    ),
)

# Answers that differ on purpose come last: they change the offsets and positions of later ones.
LAX: tuple[Step, ...] = (
    producing("the requester is back", "asker", "sixth", by="second"),
    reply("without f (sysFlag)", f=...),
)

STEPS = (*REPLIES, *RECONNECTING, *COLLIDING, *LAX)


def answer_to(push: RemotingCommand) -> RemotingCommand | None:
    """The answer of a client to a pushed reply."""
    if push.body == IGNORE:
        return None
    code = 1 if push.body == REFUSE else 0
    return RemotingCommand(code=code, flag=RESPONSE, opaque=push.opaque or 0, version=409)


def recorded_form(answer: RemotingCommand | None, pushes: list[Push]) -> dict[str, Any]:
    """The answer and the pushes of a question, with their times masked."""
    found = shown(answer)
    if found is not None:
        if (found["ext"] or {}).get("indexLastUpdateTimestamp", "0") != "0":
            found["ext"]["indexLastUpdateTimestamp"] = "<time>"
        for record in found["body"] if isinstance(found["body"], list) else ():
            if PUSH_REPLY_TIME in record["properties"]:
                record["properties"][PUSH_REPLY_TIME] = "<time>"
    return {"answer": found, "pushed": [_pushed(*push) for push in pushes]}


def agree(real: dict[str, Any], ours: dict[str, Any]) -> bool:
    return agree_in_answer(real["answer"], ours["answer"]) and real["pushed"] == ours["pushed"]


def _pushed(to: str, push: RemotingCommand) -> dict[str, Any]:
    bare = RemotingCommand(code=push.code, ext=push.ext)
    fields: dict[str, Any] = (shown(bare) or {})["ext"]
    properties = decode_properties(push.fields().get("properties", ""))
    if PUSH_REPLY_TIME in properties:
        properties[PUSH_REPLY_TIME] = "<time>"
    fields["properties"] = {
        name: value if len(value) <= SHOWN_CHARS_MAX else f"{len(value)} characters"
        for name, value in sorted(properties.items())
    }
    fields["storeTimestamp"] = "<time>"
    body = push.body.decode() if len(push.body) <= SHOWN_CHARS_MAX else f"{len(push.body)} bytes"
    return {"to": to, "code": push.code, "flag": push.flag, "fields": fields, "body": body}
