"""SEND_REPLY_MESSAGE: what depends on the configuration, on time and on the release.

``test_replies_recorded.py`` compares pushes, stored replies and refusals with recordings.
"""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from rocketmq_emulator.facts import ReplyNotPushed, ReplyPushed
from rocketmq_emulator.protocol import catalog
from rocketmq_emulator.protocol.codes import ResponseCode
from rocketmq_emulator.protocol.command import RESPONSE, RemotingCommand, encode_command
from rocketmq_emulator.protocol.requests.groups import UnregisterClientRequest
from rocketmq_emulator.protocol.requests.sending import SendMessageReply, SendMessageRequestV2
from tests.support.broker.bench import EPOCH_MS, Bench, Client
from tests.support.broker.store_makers import LAST_4, LAST_5, SlowDisk

UPDATE = catalog.UPDATE_BROKER_CONFIG
TOPIC = "DefaultCluster_REPLY_TOPIC"
TO_ASKER = "CORRELATION_ID\x01c1\x02REPLY_TO_CLIENT\x01asker\x02MSG_TYPE\x01reply"
RELEASES = pytest.mark.parametrize("release", [LAST_4, LAST_5])


def replied(client: Client, **fields: Any) -> RemotingCommand | None:
    """Send a reply; returns the answer if it came at once."""
    given = {
        "producer_group": "pg",
        "topic": TOPIC,
        "default_topic": "TBW102",
        "default_topic_queue_nums": 4,
        "queue_id": 0,
        "sys_flag": 0,
        "born_timestamp": EPOCH_MS,
        "flag": 0,
        "properties": TO_ASKER,
        **fields,
    }
    header = SendMessageRequestV2(**given)
    return client.ask(catalog.SEND_REPLY_MESSAGE_V2, header, b"an answer")


def answer_pushes(client: Client, code: int = 0) -> list[dict[str, str]]:
    """Answer all that was pushed to *client*; returns the ext fields of each."""
    pushes = [command for command in client.heard if command.code == 326]
    client.heard.clear()
    for push in pushes:
        answer = RemotingCommand(code=code, flag=RESPONSE, opaque=push.opaque, version=409)
        client.endpoint.feed(encode_command(answer))
    return [push.fields() for push in pushes]


def an_asker(bench: Bench, *, producer: str = "askers") -> Client:
    client = bench.client()
    client.heartbeat("asker", producer=producer)
    return client


def stored_replies(bench: Bench) -> int:
    return bench.broker.store.max_offset(TOPIC, 0)


@RELEASES
async def test_a_reply_is_answered_when_its_requester_has_answered(
    release: str, autojump_clock: MockClock
) -> None:
    bench = Bench(release=release)
    asker, replier = an_asker(bench), bench.client()
    assert replied(replier) is None
    await trio.sleep(2)
    assert replier.answer_to(replier.last_opaque) is None
    assert len(answer_pushes(asker)) == 1
    answer = replier.answer_to(replier.last_opaque)
    assert answer is not None
    assert answer.code == 0
    (pushed,) = bench.facts(ReplyPushed)
    assert (pushed.correlation_id, pushed.client, pushed.took_ms) == ("c1", "asker", 2_000)
    bench.no_bugs()


@RELEASES
async def test_a_requester_that_does_not_answer_is_given_up_after_ten_seconds(
    release: str, autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    bench = Bench(release=release)
    bench.start(nursery)
    an_asker(bench)
    replier = bench.client()
    assert replied(replier) is None
    await trio.sleep(9.9)
    assert replier.answer_to(replier.last_opaque) is None
    await trio.sleep(0.2)
    answer = replier.answer_to(replier.last_opaque)
    assert answer is not None
    assert (answer.code, answer.remark) == (1, "push reply message to askerfail.")
    (fact,) = bench.facts(ReplyNotPushed)
    assert (fact.reason, fact.stored) == ("no answer", True)
    bench.no_bugs()


async def test_a_hung_requester_makes_the_broker_refuse_replies_instead_of_keeping_them(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    bench = Bench(reply_queue_max=3)
    bench.start(nursery)
    asker, replier = an_asker(bench), bench.client()
    assert [replied(replier) for _ in range(3)] == [None] * 3
    refused = replied(replier)
    assert refused is not None
    assert refused.code == ResponseCode.SYSTEM_BUSY
    assert len(answer_pushes(asker)) == 3
    assert replied(replier) is None


async def test_a_requester_whose_connection_closes_ends_the_push_at_once(
    autojump_clock: MockClock,
) -> None:
    bench = Bench()
    asker, replier = an_asker(bench), bench.client()
    assert replied(replier) is None
    asker.close()
    answer = replier.answer_to(replier.last_opaque)
    assert answer is not None
    assert answer.code == 1
    assert [fact.reason for fact in bench.facts(ReplyNotPushed)] == ["no answer"]
    bench.no_bugs()


@pytest.mark.parametrize("code", [0, 1])
async def test_a_reply_is_not_stored_if_the_configuration_says_so(
    code: int, autojump_clock: MockClock
) -> None:
    bench = Bench()
    assert bench.client().must(UPDATE, None, b"storeReplyMessageEnable=false").code == 0
    asker, replier = an_asker(bench), bench.client()
    replied(replier)
    answer_pushes(asker, code)
    answer = replier.answer_to(replier.last_opaque)
    assert answer is not None
    assert answer.code == code
    assert answer.fields()["MSG_REGION"] == "DefaultRegion"
    assert stored_replies(bench) == 0
    if code == 0:
        header = answer.decode(SendMessageReply)
        assert (header.msg_id, header.queue_id, header.queue_offset) == ("0", 0, 0)
    else:
        assert "msgId" not in answer.fields()
        assert [fact.stored for fact in bench.facts(ReplyNotPushed)] == [False]


async def test_with_synchronous_flushes_a_reply_is_answered_when_it_is_safe(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    disk = SlowDisk()
    bench = Bench(disk, store="somewhere", flush_disk_type="SYNC_FLUSH")
    bench.start(nursery)
    asker, replier = an_asker(bench), bench.client()
    replied(replier)
    answer_pushes(asker)
    assert replier.answer_to(replier.last_opaque) is None
    disk.finish()
    answer = replier.answer_to(replier.last_opaque)
    assert answer is not None
    assert answer.code == 0
    replied(replier, properties=f"{TO_ASKER}\x02WAIT\x01false")
    answer_pushes(asker)
    assert replier.answer_to(replier.last_opaque) is not None
    bench.no_bugs()


async def test_a_reply_whose_queue_was_not_named_is_stored_in_some_queue(
    autojump_clock: MockClock,
) -> None:
    bench = Bench()
    asker, replier = an_asker(bench), bench.client()
    replied(replier, topic="Answers", queue_id=-1)
    (pushed,) = answer_pushes(asker)
    answer = replier.answer_to(replier.last_opaque)
    assert answer is not None
    assert pushed["queueId"] == "-1"
    assert answer.decode(SendMessageReply).queue_id in range(4)


async def test_a_new_topic_is_registered_before_the_reply_is_pushed_from_5_1_4(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    bench = Bench(release="5.1.4", namesrv=("127.0.0.1:9876",))
    bench.start(nursery)
    asker, replier = an_asker(bench), bench.client()
    assert replied(replier, topic="Answers") is None
    topic, bell = bench.announced[-1]
    assert topic.topic_name == "Answers"
    assert bell is not None
    assert answer_pushes(asker) == []
    with bench.server.batch():
        bench.broker.registered(["Answers"], bell)
    assert len(answer_pushes(asker)) == 1
    answer = replier.answer_to(replier.last_opaque)
    assert answer is not None
    assert answer.code == 0
    bench.no_bugs()


# The requester's connection --------------------------------------------------------------


async def test_a_consumer_is_no_requester(autojump_clock: MockClock) -> None:
    bench = Bench()
    bench.client().heartbeat("asker", topics={"t": "*"})
    answer = replied(bench.client())
    assert answer is not None
    assert (answer.code, answer.remark) == (
        1,
        "push reply message fail, channel of <asker> not found.",
    )


async def test_a_late_close_of_an_older_connection_ends_the_replies_until_a_new_group(
    autojump_clock: MockClock,
) -> None:
    bench = Bench()
    older, newer, replier = an_asker(bench), an_asker(bench), bench.client()
    older.close()
    newer.heartbeat("asker", producer="askers")
    answer = replied(replier)
    assert answer is not None
    assert answer.code == 1
    newer.heartbeat("asker", producer="another")
    assert replied(replier) is None
    assert len(answer_pushes(newer)) == 1


async def test_a_client_that_leaves_one_of_its_groups_gets_no_replies(
    autojump_clock: MockClock,
) -> None:
    bench = Bench()
    asker = an_asker(bench)
    asker.heartbeat("asker", producer="another")
    leaving = UnregisterClientRequest(client_id="asker", producer_group="another")
    asker.must(catalog.UNREGISTER_CLIENT, leaving)
    answer = replied(bench.client())
    assert answer is not None
    assert answer.code == 1


@pytest.mark.parametrize(("release", "is_pushed"), [("5.1.3", False), ("5.1.4", True)])
async def test_an_expired_connection_ends_the_replies_to_a_newer_one_until_5_1_3(
    release: str, is_pushed: bool, autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    bench = Bench(release=release)
    bench.start(nursery)
    older = an_asker(bench)
    await trio.sleep(100)
    older.sent("t")  # it is not idle, but sends no heartbeat
    newer = an_asker(bench)
    await trio.sleep(40)
    replied(bench.client())
    assert len(answer_pushes(newer)) == is_pushed


@pytest.mark.parametrize(("release", "times"), [("5.2.0", None), ("5.3.0", "0")])
async def test_a_pushed_reply_has_reconsume_times_from_5_3_0(
    release: str, times: str | None, autojump_clock: MockClock
) -> None:
    bench = Bench(release=release)
    asker = an_asker(bench)
    replied(bench.client())
    (pushed,) = answer_pushes(asker)
    assert pushed.get("reconsumeTimes") == times


async def test_the_table_of_client_ids_is_bounded(autojump_clock: MockClock) -> None:
    bench = Bench(members_max=3)
    client = bench.client()
    for number in range(5):
        client.heartbeat(f"client {number}", producer=f"group {number}")
        left = UnregisterClientRequest(client_id="nobody", producer_group=f"group {number}")
        client.must(catalog.UNREGISTER_CLIENT, left)
    assert len(bench.broker.clients.client_channel_table) == 3
