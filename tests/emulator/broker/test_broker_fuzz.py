"""Every request in a whole frame is answered, and a refused request changes nothing.

The requests are changed valid ones, so that many pass the first checks.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from rocketmq_emulator.broker.state.broker import Broker
from rocketmq_emulator.facts import HandlerFailed
from rocketmq_emulator.protocol.codes import RequestCode, ResponseCode
from rocketmq_emulator.protocol.command import ONE_WAY, RemotingCommand
from rocketmq_emulator.protocol.messages.batch import BatchMessage, encode_batch
from rocketmq_emulator.protocol.queues import MessageQueue
from tests.support.broker.bench import Bench, Client

RELEASES = ["4.9.7", "5.3.3"]
LIMITS = {
    "topics_max": 100,
    "groups_max": 100,
    "producer_groups_max": 5,
    "members_max": 5,
    "locks_max": 20,
    "committed_max": 10,
    "request_modes_max": 10,
    "topic_queues_max": 100,
    "segment_bytes": 200_000,
    "message_bytes_max": 60_000,
    "retained_bytes_max": 400_000,
    "property_filter": True,
}
REPLIES = (RequestCode.SEND_REPLY_MESSAGE, RequestCode.SEND_REPLY_MESSAGE_V2)
MAYBE_UNANSWERED = (  # at once, or at all: an unknown outcome of a transaction
    RequestCode.PULL_MESSAGE,
    RequestCode.LITE_PULL_MESSAGE,
    RequestCode.END_TRANSACTION,
    RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS,  # the broker asks a member first,
    RequestCode.GET_CONSUMER_RUNNING_INFO,
    RequestCode.CONSUME_MESSAGE_DIRECTLY,  # which answers nothing here
    *REPLIES,
)
SENDS = (
    RequestCode.SEND_MESSAGE,
    RequestCode.SEND_MESSAGE_V2,
    RequestCode.SEND_BATCH_MESSAGE,
)
NOT_REFUSED = (
    ResponseCode.SUCCESS,
    ResponseCode.PULL_NOT_FOUND,
    ResponseCode.PULL_RETRY_IMMEDIATELY,
    ResponseCode.PULL_OFFSET_MOVED,
)
_SEND = {"a": "pg", "b": "Orders", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1", "h": "0"}
GOOD: dict[str, Any] = {
    **_SEND,
    "topic": "Orders",
    "defaultTopic": "TBW102",
    "defaultTopicQueueNums": "4",
    "producerGroup": "pg",
    "consumerGroup": "g",
    "group": "g",
    "clientID": "c",
    "queueId": "0",
    "queueOffset": "0",
    "maxMsgNums": "32",
    "sysFlag": "4",
    "commitOffset": "0",
    "suspendTimeoutMillis": "100",
    "subscription": "*",
    "subVersion": "0",
    "bornTimestamp": "1",
    "flag": "0",
    "offset": "0",
    "delayLevel": "0",
    "timestamp": "0",
    "readQueueNums": "4",
    "writeQueueNums": "4",
    "perm": "6",
    "topicFilterType": "SINGLE_TAG",
    "tranStateTableOffset": "0",
    "commitLogOffset": "0",  # of the half message HALF
    "commitOrRollback": "8",
    "msgId": "7F00000100002A9F" + "0" * 16,
}
HALF = "TRAN_MSG\x01true\x02PGROUP\x01pg\x02UNIQ_KEY\x01K"
KEYS = (
    *GOOD,
    "i",
    "j",
    "k",
    "l",
    "m",
    "properties",
    "boundaryType",
    "expressionType",
    "batch",
    "fromTransactionCheck",
    "transactionId",
)
TEXTS = st.one_of(
    st.text(max_size=6),
    st.integers(-(2**65), 2**65).map(str),
    st.integers(-2, 9).map(str),
    st.sampled_from(
        [
            "true",
            "%RETRY%g",
            "%DLQ%g",
            "SCHEDULE_TOPIC_XXXX",
            "TBW102",
            "DELAY\x01" + "3",
            "DELAY\x01x\x02TRAN_MSG\x01true",
            HALF,
            f"{HALF}\x02CHECK_IMMUNITY_TIME_IN_SECONDS\x01-9",
            "CORRELATION_ID\x01i\x02REPLY_TO_CLIENT\x01c",
            "12",
            "UNIQ_KEY\x01\x02\x02\x01",
            "a||b",
            "SQL92",
            "a > 1 AND b IS NOT NULL",
            "(" * 30_000,
            "UPPER",
            "x" * 40_000,
        ]
    ),
)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.one_of(TEXTS, st.none(), st.booleans(), st.integers(-(2**65), 2**65), FLOATS)
FIELDS = st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=4).map(
    lambda odd: {**GOOD, **odd}
)
NAMES = st.sampled_from(
    [
        "clientID",
        "clientId",
        "consumerDataSet",
        "producerDataSet",
        "groupName",
        "consumerGroup",
        "subscriptionDataSet",
        "topic",
        "tagsSet",
        "codeSet",
        "mqSet",
        "queueId",
        "brokerName",
        "messageModel",
        "retryQueueNums",
        "subscriptionData",
        "subString",
        "expressionType",
    ]
)
JSONS = st.recursive(
    st.none() | st.booleans() | st.integers() | FLOATS | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=5),
    max_leaves=12,
)
BEAT = {
    "clientID": "c",
    "consumerDataSet": [{"groupName": "g", "subscriptionDataSet": [{"topic": "Orders"}]}],
    "producerDataSet": [{"groupName": "pg"}],
    "consumerGroup": "g",
    "clientId": "c",
    "groupName": "g",
    "mqSet": [{"topic": "Orders", "brokerName": "broker-a", "queueId": 0}],
    "subscriptionData": {"topic": "Orders", "subString": "a > 1", "expressionType": "SQL92"},
}
BATCH = encode_batch([BatchMessage(b"one", b"A\x01b"), BatchMessage(b"two")])
BODIES = st.one_of(
    st.sampled_from([b"", b"null", b"hello", BATCH, bytes(70_000), json.dumps(BEAT).encode()]),
    st.binary(max_size=60),
    JSONS.map(lambda value: json.dumps(value).encode()),
    st.dictionaries(NAMES, JSONS, max_size=3).map(
        lambda odd: json.dumps({**BEAT, **odd}).encode()
    ),
    st.tuples(st.integers(0, len(BATCH)), st.binary(max_size=4)).map(
        lambda cut: BATCH[: cut[0]] + cut[1] + BATCH[cut[0] + len(cut[1]) :]
    ),
)


def all_codes() -> list[int]:
    async def find() -> list[int]:
        return sorted(set().union(*(Bench(release=r).server.handlers for r in RELEASES)))

    return trio.run(find, clock=MockClock())


REQUESTS = st.tuples(
    st.sampled_from(all_codes()),
    FIELDS,
    BODIES,
    st.sampled_from([0, 1, 409, 2**31 - 1]),
    st.booleans(),
)


def tables(broker: Broker) -> tuple[object, ...]:
    """The state that no refusal changes; it omits groups and retry topics."""
    topics = broker.topics.topic_config_table
    return (
        {name for name in topics if not name.startswith(("%RETRY%", "%DLQ%"))},
        json.dumps(broker.offsets.offset_table),
        broker.clients.member_count,
        sorted(broker.clients.consumer_table),
        sorted(broker.clients.producer_table),
        broker.locks.held_count,
        broker.store.log.end_position,
    )


def check_limits(broker: Broker) -> None:
    assert len(broker.topics.topic_config_table) <= LIMITS["topics_max"]
    assert len(broker.groups.subscription_group_table) <= LIMITS["groups_max"]
    assert len(broker.clients.producer_table) <= LIMITS["producer_groups_max"]
    assert broker.clients.member_count <= LIMITS["members_max"]
    assert broker.locks.held_count <= LIMITS["locks_max"]
    assert len(broker.offsets.offset_table) <= LIMITS["committed_max"]
    assert broker.request_modes.count <= LIMITS["request_modes_max"]


@settings(max_examples=200, deadline=None)
@given(release=st.sampled_from(RELEASES), requests=st.lists(REQUESTS, min_size=1, max_size=6))
def test_whatever_is_asked_is_answered_and_a_refusal_leaves_no_trace(
    release: str, requests: list[tuple[int, dict[str, Any], bytes, int, bool]]
) -> None:
    async def main() -> None:
        bench = Bench(release=release, **LIMITS)
        async with trio.open_nursery() as nursery:
            bench.start(nursery)
            client = bench.client()
            client.sent("Orders", properties=HALF)
            client.sent("Orders")
            for code, fields, body, version, one_way in requests:
                before = tables(bench.broker)
                command = RemotingCommand(
                    code=code,
                    flag=ONE_WAY if one_way else 0,
                    version=version,
                    ext=msgspec.Raw(json.dumps(fields).encode()),
                    body=body,
                )
                reply = client.say(command)
                assert client.endpoint.peer.is_open
                assert (reply is None) <= (one_way or code in MAYBE_UNANSWERED)
                assert not (reply and one_way)
                if reply is not None and reply.code not in NOT_REFUSED:
                    # A send creates its topic before it checks the queue and the body.
                    first = 1 if code in (*SENDS, *REPLIES) else 0
                    # A reply that cannot be pushed is stored all the same, as upstream does.
                    last = -1 if code in REPLIES else None
                    assert tables(bench.broker)[first:last] == before[first:last]
                check_limits(bench.broker)
            await trio.sleep(30)
            assert bench.facts(HandlerFailed) == []
            assert client.sent("Orders").msg_id
            nursery.cancel_scope.cancel()

    trio.run(main, clock=MockClock(autojump_threshold=0))


HOSTILE = {
    "deep lists": b"[" * 200_000,
    "deep maps": b'{"a":' * 200_000,
    "deep keys": b"{" * 200_000,
    "a number of a million digits": b'{"clientID":' + b"9" * 1_000_000 + b"}",
    "a list of a million": b'{"clientID":"c","mqSet":[' + b"1," * 1_000_000 + b"1]}",
    "a comment without an end": b"/*" * 100_000,
    "a text without an end": b'{"clientID":"' + b"\\u00" * 100_000,
    "half a surrogate": b'{"clientID":"\\ud800","consumerGroup":"\\udfff"}',
    "no UTF-8": b'{"clientID":"\xff\xfe","groupName":"\xc0\x80","consumerGroup":"\xff"}',
}


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("name", HOSTILE)
async def test_hostile_bodies_are_refused_by_every_handler(name: str, release: str) -> None:
    bench = Bench(release=release, message_bytes_max=60_000, segment_bytes=200_000)
    client = bench.client()
    client.sent("Orders")
    for code in bench.server.handlers:
        ext = msgspec.Raw(json.dumps({**GOOD, "sysFlag": "0"}).encode())
        client.say(RemotingCommand(code=code, ext=ext, body=HOSTILE[name]))
        assert client.endpoint.peer.is_open
    bench.no_bugs()


async def beat(client: Client, groups: list[str], topics: int = 1, producers: int = 0) -> int:
    """Send a heartbeat of this size; returns the response code."""
    subscriptions = [{"topic": f"T{number}"} for number in range(topics)]
    body = {
        "clientID": "c",
        "consumerDataSet": [
            {"groupName": group, "subscriptionDataSet": subscriptions} for group in groups
        ],
        "producerDataSet": [{"groupName": f"p{number}"} for number in range(producers)],
    }
    command = RemotingCommand(code=RequestCode.HEART_BEAT, body=json.dumps(body).encode())
    reply = client.say(command)
    assert reply is not None
    return reply.code


@pytest.mark.parametrize(
    ("limit", "fits", "beyond"),
    [
        ({"members_max": 3}, {"groups": ["a", "b", "c"]}, {"groups": ["a", "b", "c", "d"]}),
        ({"subscriptions_max": 4}, {"topics": 4}, {"topics": 5}),
        ({"producer_groups_max": 4}, {"producers": 4}, {"producers": 5}),
        ({"heartbeat_groups_max": 3}, {"producers": 2}, {"producers": 3}),
    ],
)
async def test_a_heartbeat_beyond_a_limit_is_refused_whole(
    limit: dict[str, int], fits: dict[str, Any], beyond: dict[str, Any]
) -> None:
    bench = Bench(**limit)
    client = bench.client()
    before = tables(bench.broker)
    assert await beat(client, **{"groups": ["g"], **beyond}) == ResponseCode.SYSTEM_BUSY
    assert tables(bench.broker) == before
    assert await beat(client, **{"groups": ["g"], **fits}) == 0


async def test_who_comes_too_late_for_a_topic_or_a_group_is_told_so() -> None:
    bench = Bench(topics_max=100, groups_max=100)
    client = bench.client()
    made = [client.send_message(f"T{number}").code for number in range(120)]
    assert made[0] == 0
    assert made[-1] == ResponseCode.SYSTEM_BUSY
    assert client.send_message("T0").code == 0
    joined = [await beat(client, [f"g{number}"]) for number in range(120)]
    assert joined[-1] == ResponseCode.SYSTEM_BUSY
    assert len(bench.broker.topics.topic_config_table) == 100


async def test_members_that_leave_make_room_for_others() -> None:
    bench = Bench(members_max=1)
    first, second = bench.client(), bench.client()
    assert await beat(first, ["g"]) == 0
    assert await beat(second, ["g"]) == ResponseCode.SYSTEM_BUSY
    first.close()
    assert await beat(second, ["g"]) == 0


async def test_producer_groups_that_nobody_is_in_make_room_for_others() -> None:
    bench = Bench(producer_groups_max=2)
    first = bench.client()
    assert await beat(first, [], producers=2) == 0
    first.close()
    assert await beat(bench.client(), [], producers=1) == 0


async def test_locks_have_a_limit_and_those_that_are_held_can_still_be_renewed() -> None:
    def body(first: int, count: int) -> bytes:
        queues = [{"topic": "T", "queueId": first + number} for number in range(count)]
        return json.dumps({"consumerGroup": "g", "clientId": "c", "mqSet": queues}).encode()

    client = Bench(locks_max=10).client()
    codes = []
    for first, count in ((0, 10), (0, 10), (10, 1)):
        lock = RemotingCommand(code=RequestCode.LOCK_BATCH_MQ, body=body(first, count))
        reply = client.say(lock)
        assert reply is not None
        codes.append(reply.code)
    assert codes == [0, 0, ResponseCode.SYSTEM_BUSY]


@pytest.mark.parametrize("code", [RequestCode.LOCK_BATCH_MQ, RequestCode.UNLOCK_BATCH_MQ])
async def test_locking_compares_queues_as_often_as_there_are_queues(
    code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared, count = 0, 4_000  # one slice: answered at once
    is_equal = MessageQueue.__eq__

    def counted(queue: MessageQueue, other: object) -> bool:
        nonlocal compared
        compared += 1
        return is_equal(queue, other)

    queues = [{"topic": "T", "brokerName": "b", "queueId": n} for n in range(count)]
    body = json.dumps({"consumerGroup": "g", "clientId": "c", "mqSet": queues}).encode()
    client = Bench().client()
    assert client.say(RemotingCommand(code=RequestCode.LOCK_BATCH_MQ, body=body)) is not None
    monkeypatch.setattr(MessageQueue, "__eq__", counted)
    for name in ("__lt__", "__le__", "__gt__", "__ge__"):
        monkeypatch.setattr(MessageQueue, name, counted)
    reply = client.say(RemotingCommand(code=code, body=body))
    assert reply is not None
    assert reply.code == 0
    assert compared <= 8 * count


async def test_names_that_nobody_could_want_are_not_kept() -> None:
    bench = Bench()
    client = bench.client()
    before = tables(bench.broker)
    assert await beat(client, ["g" * 100_000]) == ResponseCode.SYSTEM_BUSY
    command = RemotingCommand(
        code=RequestCode.UPDATE_CONSUMER_OFFSET,
        ext=msgspec.Raw(json.dumps({**GOOD, "topic": "T" * 100_000}).encode()),
    )
    reply = client.say(command)
    assert reply is not None
    assert reply.code == ResponseCode.SYSTEM_BUSY
    assert tables(bench.broker) == before


async def test_a_topic_of_countless_queues_is_refused() -> None:
    fields = {**GOOD, "topic": "Vast", "readQueueNums": str(2**31 - 1)}
    ext = msgspec.Raw(json.dumps(fields).encode())
    client = Bench().client()
    reply = client.say(RemotingCommand(code=RequestCode.UPDATE_AND_CREATE_TOPIC, ext=ext))
    assert reply is not None
    assert reply.code == ResponseCode.SYSTEM_BUSY
