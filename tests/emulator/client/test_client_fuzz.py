"""Whatever a broker sends to a client: the client goes on, and so do all that wait in it.

The requests are changed valid ones, so that many pass the first checks.
"""

from __future__ import annotations

import json
import zlib
from typing import Any

import msgspec
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from rocketmq_emulator.client.producer.transaction_producer import TransactionProducer
from rocketmq_emulator.client.producer.transactions import LocalTransactionState
from rocketmq_emulator.facts import HandlerFailed, ReplyDropped, TransactionAnswered
from rocketmq_emulator.protocol.codes import RequestCode
from rocketmq_emulator.protocol.flags import COMPRESSED, LZ4, ZSTD
from rocketmq_emulator.protocol.messages.compression import compress
from rocketmq_emulator.protocol.messages.properties import CORRELATION_ID
from tests.support.client.client_cluster import a_message, in_world
from tests.support.client.half_messages import a_check, a_half_message

CHECK, REPLY = RequestCode.CHECK_TRANSACTION_STATE, RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT
GOOD_CHECK = {
    "tranStateTableOffset": "7",
    "commitLogOffset": "7000",
    "msgId": "K1",
    "transactionId": "T1",
    "offsetMsgId": "F" * 32,
    "bname": "a",
}
GOOD_REPLY = {
    "producerGroup": "pg",
    "topic": "replies",
    "defaultTopic": "TBW102",
    "defaultTopicQueueNums": "4",
    "queueId": "0",
    "sysFlag": "0",
    "bornTimestamp": "1",
    "flag": "0",
    "bornHost": "127.0.0.1:1",
    "storeHost": "127.0.0.1:2",
    "storeTimestamp": "1",
    "properties": "CORRELATION_ID\x01unknown\x02",
}
GOOD = {CHECK: GOOD_CHECK, REPLY: GOOD_REPLY}
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**65), 2**65),
    st.integers(-(2**65), 2**65).map(str),
    st.text(max_size=6),
    st.sampled_from(
        [
            "x" * 40_000,
            "[::1]:65536",
            "1.2.3.4:99999999999999999999",
            f"CORRELATION_ID\x01{'c' * 30_000}",
            "\x01\x02\x01\x02",
            str(COMPRESSED | LZ4),
            str(COMPRESSED | ZSTD),
        ]
    ),
)
BODIES = st.one_of(
    st.binary(max_size=40),
    st.sampled_from(
        [
            a_half_message(),
            a_half_message("x" * 30_000, "y" * 2_000),
            a_half_message()[:-5],
            zlib.compress(bytes(70_000_000)),
            b"\xff" * 100_000,
        ]
    ),
)
REQUESTS = st.sampled_from([CHECK, REPLY]).flatmap(
    lambda code: st.tuples(
        st.just(code), st.dictionaries(st.sampled_from(sorted(GOOD[code])), VALUES), BODIES
    )
)


class Listener:
    async def execute_local_transaction(self, _message: Any, _argument: Any) -> Any:
        return LocalTransactionState.COMMIT_MESSAGE

    async def check_local_transaction(self, _message: Any) -> Any:
        return LocalTransactionState.COMMIT_MESSAGE


def pushed(broker: Any, code: int, fields: dict[str, Any], body: bytes) -> None:
    """Send a request to the client that was first to send a heartbeat."""
    ext = msgspec.Raw(json.dumps(fields).encode())
    with broker.server.turn:
        broker.server.push(broker.clients[0], code, ext, body)


def in_a_client(steps: Any) -> None:
    """Run ``steps(cluster, broker, producer)`` with a producer that the broker knows."""

    async def main(cluster: Any) -> None:
        await cluster.start("a", topics={"t": 4})
        config = {"group": "pg", "namesrv": cluster.namesrv.address, "topics": ["t"]}
        async with (
            cluster.process() as process,
            TransactionProducer(Listener(), process=process, release="5.3.3", **config) as found,
        ):
            await steps(cluster, cluster.brokers["a"], found)

    in_world(main)


@settings(max_examples=60, deadline=None)
@given(requests=st.lists(REQUESTS, min_size=1, max_size=8))
def test_a_transaction_and_a_request_go_on_whatever_a_broker_sends(
    requests: list[tuple[int, dict[str, Any], bytes]],
) -> None:
    async def steps(cluster: Any, broker: Any, producer: TransactionProducer) -> None:
        waiting = a_message()
        requesting = producer.start_request(waiting)
        for code, odd, body in requests:
            pushed(broker, code, {**GOOD[code], **odd}, body)
            await trio.sleep(0.01)
        broker.ask(a_check(msg_id="K2"), a_half_message(key="K2"))
        properties = f"{CORRELATION_ID}\x01{waiting.properties[CORRELATION_ID]}"
        pushed(broker, REPLY, {**GOOD_REPLY, "properties": properties}, b"a reply")
        assert (await requesting.wait_reply()).body == b"a reply"
        assert (await producer.send_in_transaction(a_message())).is_ok
        await trio.sleep(0.1)
        keys = [fact.uniq_key for fact in cluster.facts_of(TransactionAnswered)]
        assert keys[-1] == "K2"
        assert cluster.facts_of(HandlerFailed) == []
        assert all(len(fact.topic) <= 40_000 for fact in cluster.facts_of(ReplyDropped))

    in_a_client(steps)


@pytest.mark.parametrize(
    ("fields", "body", "words"),
    [
        ({"sysFlag": str(COMPRESSED)}, b"no zlib", "no zlib stream"),
        ({"sysFlag": str(COMPRESSED)}, compress(bytes(70_000_000)), "inflates to more than"),
        ({"sysFlag": str(COMPRESSED | 0x700)}, b"x", "is none of zlib, lz4, zstd"),
        ({"bornHost": "nobody"}, b"x", "an address looks like"),
        ({"bornHost": "1.2.3.4:99999999999"}, b"x", "an address looks like"),
        ({"storeHost": "1.2.3:4"}, b"x", "1.2.3"),
    ],
)
def test_a_reply_that_cannot_be_read_is_dropped_with_its_reason(
    fields: dict[str, str], body: bytes, words: str
) -> None:
    async def steps(cluster: Any, broker: Any, _producer: TransactionProducer) -> None:
        pushed(broker, REPLY, {**GOOD_REPLY, **fields}, body)
        await trio.sleep(0.1)
        (dropped,) = cluster.facts_of(ReplyDropped)
        assert dropped.reason == "unreadable"
        assert words in dropped.error
        assert cluster.facts_of(HandlerFailed) == []

    in_a_client(steps)
