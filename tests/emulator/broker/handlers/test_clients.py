"""Heartbeats and members of groups: notices, member lists, subscriptions, queue locks."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from rocketmq_emulator.facts import HeartbeatReceived, MemberLeft, MembersNotified
from rocketmq_emulator.facts.journal import Entry
from rocketmq_emulator.protocol import catalog
from rocketmq_emulator.protocol.bodies.body import decode_body, encode_body
from rocketmq_emulator.protocol.bodies.groups import (
    ConsumerData,
    GetConsumerListByGroupReply,
    HeartbeatData,
    LockBatchReply,
    LockBatchRequestBody,
    SubscriptionGroupConfig,
)
from rocketmq_emulator.protocol.codes import ResponseCode
from rocketmq_emulator.protocol.queues import MessageQueue
from rocketmq_emulator.protocol.requests.groups import (
    GetConsumerListByGroupRequest,
    UnregisterClientRequest,
)
from tests.support.broker.bench import Bench, Client

T1, T2 = {"T1": "*"}, {"T2": "*"}
QUEUE = MessageQueue("Orders", "broker-a", 0)


def members(client: Client, group: str = "g") -> list[str | None]:
    header = GetConsumerListByGroupRequest(consumer_group=group)
    answer = client.must(catalog.GET_CONSUMER_LIST_BY_GROUP, header)
    assert answer.code == 0, answer.remark
    return decode_body(answer.body, GetConsumerListByGroupReply).consumer_id_list


def locked(client: Client, client_id: str, group: str = "g") -> list[MessageQueue]:
    body = LockBatchRequestBody(consumer_group=group, client_id=client_id, mq_set=[QUEUE])
    answer = client.must(
        catalog.LOCK_BATCH_MQ, None, encode_body(body, client.bench.broker.release)
    )
    return decode_body(answer.body, LockBatchReply).lock_ok_mq_set


def unlock(client: Client, client_id: str) -> None:
    body = LockBatchRequestBody(consumer_group="g", client_id=client_id, mq_set=[QUEUE])
    answer = client.must(
        catalog.UNLOCK_BATCH_MQ, None, encode_body(body, client.bench.broker.release)
    )
    assert answer.code == 0


@pytest.mark.parametrize("release", ["4.9.7", "5.3.3"])
async def test_invariant_20_a_heartbeat_makes_the_retry_topic_and_announces_it(
    release: str,
) -> None:
    bench = Bench(release=release, namesrv=("127.0.0.1:9876",))
    bench.client().heartbeat("c", topics=T1)
    topic = bench.broker.topics.get("%RETRY%g")
    assert topic is not None
    assert (topic.read_queue_nums, topic.write_queue_nums, topic.perm) == (1, 1, 6)
    assert [(t.topic_name, bell is None) for t, bell in bench.announced] == [
        ("%RETRY%g", release == "4.9.7")
    ]


async def test_a_heartbeat_changes_no_topic_but_the_group_s_retry_topic() -> None:
    bench = Bench()
    bench.client().heartbeat("c1", topics=T1)
    before = bench.broker.topics.all()
    bench.client().heartbeat("c2", topics=T2, version=99)
    assert bench.broker.topics.all() == before
    assert members(bench.client()) == ["c1", "c2"]


async def test_every_heartbeat_is_noted_where_it_is_asked_for() -> None:
    bench = Bench()
    client = bench.client()
    client.heartbeat("c1", topics=T1)
    noted: list[Entry] = []
    bench.journal.listen(noted.append, [HeartbeatReceived])
    client.heartbeat("c1", topics=T1)
    client.heartbeat("c1", topics=T1)
    assert [entry.fact for entry in noted] == [HeartbeatReceived("c1", client.remote)] * 2


async def test_invariant_57_a_new_member_is_told_to_everybody_once() -> None:
    bench = Bench()
    first, second = bench.client(), bench.client()
    first.heartbeat("c1", topics=T1)
    first.heard.clear()
    second.heartbeat("c2", topics=T1)
    assert (first.notices(), second.notices()) == (["g"], ["g"])
    second.heartbeat("c2", topics=T1)
    second.heartbeat("c2", topics=T1, version=99)
    assert (first.notices(), second.notices()) == (["g"], ["g"])


async def test_invariant_58_a_member_that_breaks_off_is_missed_at_once() -> None:
    bench = Bench()
    first, second = bench.client(), bench.client()
    first.heartbeat("c1", topics=T1)
    second.heartbeat("c2", topics=T1)
    first.heard.clear()
    second.close()
    assert first.notices() == ["g"]
    assert members(first) == ["c1"]
    assert [fact.reason for fact in bench.facts(MemberLeft)] == ["channel closed"]


async def test_invariant_59_silence_ends_membership_without_a_word(
    autojump_clock: MockClock,
) -> None:
    bench = Bench()
    async with trio.open_nursery() as nursery:
        bench.start(nursery)
        first, second = bench.client(), bench.client()
        first.heartbeat("c1", topics=T1)
        second.heartbeat("c2", topics=T1)
        for _ in range(4):
            await trio.sleep(30)
            first.heartbeat("c1", topics=T1)
            second.must(catalog.HEART_BEAT, None, _beat_of_nobody(bench))
        first.heard.clear()
        assert members(first) == ["c1", "c2"]
        await trio.sleep(11)
        first.heartbeat("c1", topics=T1)
        assert members(first) == ["c1"]
        assert first.notices() == []
        assert [fact.reason for fact in bench.facts(MemberLeft)] == ["expired"]
        nursery.cancel_scope.cancel()


def _beat_of_nobody(bench: Bench) -> bytes:
    """A heartbeat without groups, which only keeps the connection open."""
    return encode_body(HeartbeatData(client_id="c2"), bench.broker.release)


async def test_invariant_60_the_list_of_an_unknown_group_is_an_error() -> None:
    header = GetConsumerListByGroupRequest(consumer_group="nobody")
    answer = Bench().client().must(catalog.GET_CONSUMER_LIST_BY_GROUP, header)
    assert (answer.code, answer.remark) == (1, "no consumer for this group, nobody")


async def test_invariant_61_a_client_connected_twice_is_listed_twice() -> None:
    bench = Bench()
    old, new = bench.client(), bench.client()
    old.heartbeat("c1", topics=T1)
    new.heartbeat("c1", topics=T1)
    assert members(new) == ["c1", "c1"]


async def test_the_list_of_a_group_follows_each_join_leave_and_change_of_a_client_id() -> None:
    bench = Bench()
    first, second = bench.client(), bench.client()
    first.heartbeat("c1", topics=T1)
    assert members(first) == ["c1"]
    second.heartbeat("c2", topics=T1)
    assert members(first) == ["c1", "c2"]
    first.heartbeat("c1@renamed", topics=T1)
    assert members(first) == ["c1@renamed", "c2"]
    second.close()
    assert members(first) == ["c1@renamed"]


async def test_who_asks_for_a_list_that_did_not_change_gets_the_bytes_that_were_encoded() -> None:
    bench = Bench()
    client = bench.client()
    client.heartbeat("c1", topics=T1)
    members(client)
    group = bench.broker.clients.group("g")
    assert group is not None
    encoded = group.encoded_client_ids
    assert encoded is not None
    client.heartbeat("c1", topics=T1)
    assert members(client) == ["c1"]
    assert group.encoded_client_ids is encoded


async def test_invariant_62_the_last_heartbeat_wins() -> None:
    bench = Bench()
    first, second = bench.client(), bench.client()
    first.sent("T1")
    first.heartbeat("A", topics=T1)
    second.heartbeat("B", topics=T2)
    evicted = first.pull("T1", flags=0)
    assert evicted is not None
    assert evicted.code == ResponseCode.SUBSCRIPTION_NOT_EXIST
    first.heartbeat("A", topics=T1)
    served = first.pull("T1", flags=0)
    assert served is not None
    assert served.code == 0


@pytest.mark.parametrize(("release", "told"), [("4.9.7", 1), ("5.3.0", 1), ("5.3.1", 0)])
async def test_invariant_63_broadcasting_groups_hear_notices_only_before_5_3_1(
    release: str, told: int
) -> None:
    bench = Bench(release=release)
    client = bench.client()
    client.heartbeat("c", topics=T1, model="BROADCASTING")
    assert len(client.notices()) == told


async def test_a_group_that_wants_no_notices_still_hears_of_broken_connections() -> None:
    bench = Bench()
    quiet = SubscriptionGroupConfig(group_name="g", notify_consumer_ids_changed_enable=False)
    bench.broker.groups.update(quiet, bench.now_ms())
    first, second = bench.client(), bench.client()
    first.heartbeat("c1", topics=T1)
    second.heartbeat("c2", topics=T1)
    assert bench.facts(MembersNotified) == []
    second.close()
    assert first.notices() == ["g"]


async def test_unregistering_tells_those_who_stay() -> None:
    bench = Bench()
    first, second = bench.client(), bench.client()
    first.heartbeat("c1", topics=T1)
    second.heartbeat("c2", topics=T1, producer="pg")
    first.heard.clear()
    header = UnregisterClientRequest(client_id="c2", consumer_group="g", producer_group="pg")
    assert second.must(catalog.UNREGISTER_CLIENT, header).code == 0
    assert first.notices() == ["g"]
    assert members(first) == ["c1"]
    assert bench.broker.clients.producers("pg") == []


@pytest.mark.parametrize(("release", "registered"), [("4.9.7", True), ("5.3.3", False)])
async def test_a_group_that_may_not_be_made_is_skipped_since_5_1_1(
    release: str, registered: bool
) -> None:
    bench = Bench(release=release, auto_create_group=False)
    client = bench.client()
    assert client.heartbeat("c", topics=T1).code == 0
    assert (bench.broker.clients.group("g") is not None) == registered


async def test_invariant_66_a_queue_lock_lasts_a_minute_and_outlives_its_owner_s_connection(
    autojump_clock: MockClock,
) -> None:
    bench = Bench()
    first, second = bench.client(), bench.client()
    assert locked(first, "A") == [QUEUE]
    assert locked(second, "B") == []
    await trio.sleep(59)
    assert locked(first, "A") == [QUEUE]
    first.close()
    await trio.sleep(59.9)
    assert locked(second, "B") == []
    await trio.sleep(0.2)
    assert locked(second, "B") == [QUEUE]


async def test_invariant_67_only_the_owner_can_unlock() -> None:
    bench = Bench()
    first, second = bench.client(), bench.client()
    locked(first, "A")
    unlock(second, "B")
    assert locked(second, "B") == []
    unlock(first, "A")
    assert locked(second, "B") == [QUEUE]


@pytest.mark.parametrize("body", [b"", b"not json", b"null", b"[1,2]"])
async def test_a_heartbeat_that_is_none_is_refused_and_leaves_nothing(body: bytes) -> None:
    bench = Bench()
    assert bench.client().must(catalog.HEART_BEAT, None, body).code == ResponseCode.SYSTEM_ERROR
    assert bench.broker.clients.consumer_table == {}
    bench.no_bugs()


@pytest.mark.parametrize(
    ("quirks", "ids"), [((), ["c1"]), (("wait_for_name_servers",), ["c1", "c1"])]
)
async def test_a_heartbeat_that_waits_for_name_servers_counts_when_its_client_has_come_again(
    autojump_clock: MockClock, quirks, ids
) -> None:
    """rocketmq #7870: upstream since 5.1.4, here only with a quirk."""
    bench = Bench(release="5.3.3", namesrv=("127.0.0.1:1",), quirks=quirks)
    async with trio.open_nursery() as nursery:
        bench.start(nursery)
        impatient, again = bench.client(), bench.client()
        answer = impatient.ask(catalog.HEART_BEAT, None, _beat_of_c1(bench))
        assert (answer is None) is bool(quirks)
        impatient.close()
        again.must(catalog.HEART_BEAT, None, _beat_of_c1(bench))
        assert members(again) == ["c1"]
        [(topic, bell)] = bench.announced
        bench.broker.registered([topic.topic_name], bell)
        await trio.sleep(1)
        assert members(again) == ids
        nursery.cancel_scope.cancel()
    bench.no_bugs()


def _beat_of_c1(bench: Bench) -> bytes:
    group = ConsumerData(group_name="g", consume_type="CONSUME_PASSIVELY")
    beat = HeartbeatData(client_id="c1", consumer_data_set=[group])
    return encode_body(beat, bench.broker.release)
