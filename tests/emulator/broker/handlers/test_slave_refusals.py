"""Requests that a slave refuses, and those that it answers as a master: R22 to R28."""

from __future__ import annotations

from typing import Any

import pytest

from rocketmq_emulator.facts import EndTransactionRefused, SendRefused
from rocketmq_emulator.protocol import catalog
from rocketmq_emulator.protocol.bodies.body import decode_body, encode_body
from rocketmq_emulator.protocol.bodies.groups import (
    LockBatchReply,
    LockBatchRequestBody,
    SubscriptionGroupConfig,
)
from rocketmq_emulator.protocol.codes import RESPONSE_NAMES
from rocketmq_emulator.protocol.command import RemotingCommand
from rocketmq_emulator.protocol.messages.batch import BatchMessage, encode_batch
from rocketmq_emulator.protocol.messages.message_ids import RecallHandle
from rocketmq_emulator.protocol.queues import MessageQueue
from rocketmq_emulator.protocol.requests.admin import CreateTopicRequest, DeleteTopicRequest
from rocketmq_emulator.protocol.requests.groups import DeleteSubscriptionGroupRequest
from rocketmq_emulator.protocol.requests.offsets import (
    OffsetReply,
    QueryConsumerOffsetRequest,
    ResetOffsetRequest,
    UpdateConsumerOffsetRequest,
)
from rocketmq_emulator.protocol.requests.pulling import QueryMessageRequest, ViewMessageRequest
from rocketmq_emulator.protocol.requests.sending import (
    ConsumerSendMsgBackRequest,
    EndTransactionRequest,
    RecallMessageRequest,
)
from rocketmq_emulator.protocol.rpc import AnyRpc
from tests.emulator.broker.handlers.test_replies import answer_pushes, replied
from tests.support.broker.bench import EPOCH_MS, Bench, Client
from tests.support.broker.slave_benches import TOPIC, a_master, a_slave, copy
from tests.support.broker.store_makers import LAST_4, LAST_5

REJECTED = "[REJECTREQUEST]system busy, start flow control for a while"
NO_CHANGES = (
    "Can't modify topic or subscription group from slave broker, please execute it from master "
    "broker."
)
BOTH = pytest.mark.parametrize("release", [LAST_4, LAST_5])
Answer = tuple[int, str | None]


def of(answer: RemotingCommand) -> Answer:
    return answer.code, answer.remark


def a_send(client: Client) -> Answer:
    return of(client.send_message(TOPIC))


def a_batch(client: Client) -> Answer:
    body = encode_batch([BatchMessage(b"x")])
    return of(client.send_message(TOPIC, body, batch=True))


def a_send_back(client: Client) -> Answer:
    header = ConsumerSendMsgBackRequest(offset=0, group="g", delay_level=0)
    return of(client.must(catalog.CONSUMER_SEND_MSG_BACK, header))


def an_end(client: Client) -> Answer:
    header = EndTransactionRequest(0, 0, 0, "pg", "K1")
    return of(client.must(catalog.END_TRANSACTION, header))


def a_new_topic(client: Client) -> Answer:
    header = CreateTopicRequest(
        topic="Made",
        read_queue_nums=1,
        write_queue_nums=1,
        perm=6,
        topic_filter_type="SINGLE_TAG",
    )
    return of(client.must(catalog.UPDATE_AND_CREATE_TOPIC, header))


def a_deleted_topic(client: Client) -> Answer:
    return of(client.must(catalog.DELETE_TOPIC_IN_BROKER, DeleteTopicRequest(TOPIC)))


def a_new_group(client: Client) -> Answer:
    body = encode_body(SubscriptionGroupConfig(group_name="made"), client.bench.broker.release)
    return of(client.must(catalog.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, None, body))


def a_deleted_group(client: Client) -> Answer:
    header = DeleteSubscriptionGroupRequest("g")
    return of(client.must(catalog.DELETE_SUBSCRIPTIONGROUP, header))


def with_messages(release: str, **settings: Any) -> Bench:
    """A slave with two messages and a member of the group ``g``."""
    slave = a_slave(release, **settings)
    copy(a_master(release, b"first", b"second"), slave)
    slave.client().heartbeat("c", topics={TOPIC: "*"})
    return slave


@pytest.mark.parametrize(
    ("request_to", "release", "code", "remark"),
    [
        (a_send, LAST_4, 14, "service not available now."),
        (a_batch, LAST_4, 14, "service not available now."),
        (a_send_back, LAST_4, 1, "SERVICE_NOT_AVAILABLE"),
        (a_send, "4.9.8", 14, "service not available now."),
        (a_send, "5.0.0", 2, REJECTED),
        (a_send, LAST_5, 2, REJECTED),
        (a_batch, LAST_5, 2, REJECTED),
        (a_send_back, LAST_5, 2, REJECTED),
        (an_end, LAST_4, 11, "not set any response code"),
        (an_end, LAST_5, 11, "not set any response code"),
        *(
            (change, release, code, NO_CHANGES if code else "")
            for change in (a_new_topic, a_deleted_topic, a_new_group, a_deleted_group)
            for release, code in (
                ("4.9.3", 0), ("4.9.4", 1), (LAST_4, 1), ("5.1.3", 1), ("5.1.4", 0), (LAST_5, 0)
            )
        ),
    ],
)  # fmt: skip
async def test_r22_r26_r27_a_slave_refuses(
    request_to: Any, release: str, code: int, remark: str
) -> None:
    slave = with_messages(release)
    end = slave.broker.store.log.end_position
    answer = request_to(slave.client())
    assert answer[0] == code, RESPONSE_NAMES.get(answer[0])
    assert (answer[1] or "").startswith(remark)
    assert slave.broker.store.log.end_position == end, "a slave stores nothing itself"
    slave.no_bugs()


@pytest.mark.parametrize(
    ("release", "acts", "code"),
    [(LAST_4, False, 1), (LAST_5, False, 2), (LAST_5, True, 1)],
)
@pytest.mark.parametrize(
    "rpc",
    [
        catalog.SEND_MESSAGE,
        catalog.SEND_MESSAGE_V2,
        catalog.SEND_BATCH_MESSAGE,
        catalog.CONSUMER_SEND_MSG_BACK,
    ],
    ids=lambda rpc: rpc.name,
)
async def test_a_slave_of_5_rejects_sends_before_it_reads_their_headers(
    rpc: AnyRpc, release: str, acts: bool, code: int
) -> None:
    acting = {"slave_acting_master": True} if acts else {}
    answer = of(a_slave(release, **acting).client().must(rpc))
    assert answer[0] == code
    assert (answer[1] == REJECTED) == (code == 2)


@pytest.mark.parametrize(("slave_read", "code"), [(False, 2), (True, 1)])
async def test_a_slave_of_5_rejects_pulls_before_it_reads_their_headers(
    slave_read: bool, code: int
) -> None:
    client = a_slave(LAST_5, slave_read=slave_read).client()
    assert client.must(catalog.PULL_MESSAGE).code == code


async def test_a_broken_send_to_a_master_is_an_error() -> None:
    assert a_master(LAST_5).client().must(catalog.SEND_MESSAGE).code == 1


@BOTH
async def test_what_a_slave_refuses_is_a_fact(release: str) -> None:
    slave = with_messages(release)
    code, remark = a_send(slave.client())
    an_end(slave.client())
    (sent,) = slave.facts(SendRefused)
    assert (sent.topic, sent.response_code) == (TOPIC, code)
    assert release == LAST_4 or sent.remark == remark
    (ended,) = slave.facts(EndTransactionRefused)
    assert (ended.response_code, ended.uniq_key) == (11, "K1")


@BOTH
async def test_a_slave_pushes_replies_and_stores_none(release: str) -> None:
    slave = a_slave(release)
    asker, replier = slave.client(), slave.client()
    asker.heartbeat("asker", producer="askers")
    assert replied(replier) is None
    assert len(answer_pushes(asker)) == 1
    answer = replier.answer_to(replier.last_opaque)
    assert answer is not None
    assert answer.code == 0
    assert slave.broker.store.log.end_position == 0


@BOTH
async def test_r26_offsets_committed_at_a_slave_are_readable_there(release: str) -> None:
    client = with_messages(release).client()
    header = UpdateConsumerOffsetRequest(
        consumer_group="g", topic=TOPIC, queue_id=0, commit_offset=1
    )
    assert client.must(catalog.UPDATE_CONSUMER_OFFSET, header).code == 0
    asked = QueryConsumerOffsetRequest(consumer_group="g", topic=TOPIC, queue_id=0)
    answer = client.must(catalog.QUERY_CONSUMER_OFFSET, asked)
    assert answer.decode(OffsetReply).offset == 1
    header.consumer_group = "unknown"
    code = client.must(catalog.UPDATE_CONSUMER_OFFSET, header).code
    assert code == (26 if release == LAST_5 else 0)


@BOTH
async def test_r26_a_slave_grants_locks(release: str) -> None:
    slave = with_messages(release)
    queue = MessageQueue(TOPIC, "broker-a", 0)
    body = LockBatchRequestBody(consumer_group="g", client_id="c", mq_set=[queue])
    encoded = encode_body(body, slave.broker.release)
    answer = slave.client().must(catalog.LOCK_BATCH_MQ, None, encoded)
    assert decode_body(answer.body, LockBatchReply).lock_ok_mq_set == [queue]


@BOTH
async def test_a_heartbeat_at_a_slave_makes_the_group_and_its_retry_topic_there(
    release: str,
) -> None:
    slave = a_slave(release)
    assert slave.client().heartbeat("c", "new", {TOPIC: "*"}).code == 0
    assert slave.broker.groups.get("new") is not None
    assert slave.broker.topics.get("%RETRY%new") is not None


@BOTH
async def test_messages_are_found_at_a_slave_by_position_and_key(release: str) -> None:
    slave, master = a_slave(release), a_master(release)
    master.client().sent(TOPIC, b"with a key", properties="KEYS\x01k1")
    copy(master, slave)
    client = slave.client()
    found = client.must(catalog.VIEW_MESSAGE_BY_ID, ViewMessageRequest(offset=0))
    assert b"with a key" in found.body
    by_key = QueryMessageRequest(TOPIC, "k1", 32, 0, EPOCH_MS * 2)
    assert b"with a key" in client.must(catalog.QUERY_MESSAGE, by_key).body


@pytest.mark.parametrize(
    ("release", "code", "remark"),
    [
        (LAST_4, 206, "Consumer not online"),  # as at a master: its members apply a reset
        (LAST_5, 1, "Can not reset offset in slave broker"),
    ],
)
async def test_a_slave_of_5_does_not_reset_offsets(release: str, code: int, remark: str) -> None:
    slave = with_messages(release)
    header = ResetOffsetRequest(TOPIC, "absent", 0, is_force=True)
    answer = slave.client().must(catalog.INVOKE_BROKER_TO_RESET_OFFSET, header)
    master = a_master(release, b"first")
    at_master = master.client().must(catalog.INVOKE_BROKER_TO_RESET_OFFSET, header)
    if release == LAST_4:
        assert of(answer) == of(at_master)
    else:
        assert of(answer) == (code, remark) != of(at_master)


@pytest.mark.parametrize(
    ("allowed", "code", "remark"),
    [
        (True, 11, "recall failed, broker service not available"),
        (False, 16, "recall failed, operation is forbidden"),
    ],
)
async def test_a_recall_at_a_slave_is_refused_after_the_setting_is_read(
    allowed: bool, code: int, remark: str
) -> None:
    client = a_slave(LAST_5, recall_message=allowed).client()
    handle = RecallHandle(TOPIC, "broker-a", str(EPOCH_MS + 5_000), "K1").encode()
    answer = client.must(catalog.RECALL_MESSAGE, RecallMessageRequest(TOPIC, handle))
    assert of(answer) == (code, remark)
    assert answer.fields()["MSG_REGION"] == "DefaultRegion"


@pytest.mark.parametrize(
    ("request_to", "code", "remark"),
    [
        (a_send, 14, "service not available now."),
        (a_batch, 14, "service not available now."),
        (a_send_back, 1, "no master available along with 127.0.0.1"),
        (an_end, 11, "not set any response code"),
    ],
)
async def test_r22_a_slave_that_may_act_as_the_master_refuses_differently(
    request_to: Any, code: int, remark: str
) -> None:
    slave = with_messages(LAST_5, slave_acting_master=True)
    end = slave.broker.store.log.end_position
    answer = request_to(slave.client())
    assert answer[0] == code, RESPONSE_NAMES.get(answer[0])
    assert (answer[1] or "").startswith(remark)
    assert slave.broker.store.log.end_position == end
    slave.no_bugs()
