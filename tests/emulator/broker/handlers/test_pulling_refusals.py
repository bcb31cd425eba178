"""Refused pulls, with code and exact remark; the fields of pull answers; ends of holds."""

from __future__ import annotations

from typing import Any

import pytest
from trio.testing import MockClock

from rocketmq_emulator.broker.handlers.pulling import PullMessageProcessor
from rocketmq_emulator.facts import GroupCreated, PullAnswered, PullHeld, Queue
from rocketmq_emulator.protocol.bodies.groups import SubscriptionGroupConfig
from rocketmq_emulator.protocol.bodies.topics import TopicConfig
from rocketmq_emulator.protocol.codes import ResponseCode
from rocketmq_emulator.protocol.command import RemotingCommand
from rocketmq_emulator.protocol.flags import COMMIT_OFFSET, SUBSCRIPTION, SUSPEND
from rocketmq_emulator.protocol.requests.pulling import PullMessageReply
from tests.support.broker.bench import EPOCH_MS, Bench, Client

RELEASES = pytest.mark.parametrize("release", ["4.9.8", "5.0.0"])
FORBIDDEN = ResponseCode.NO_PERMISSION


def a_consumer(bench: Bench, **beat: Any) -> Client:
    client = bench.client()
    client.sent("Orders")
    client.heartbeat("c", topics={"Orders": "*"}, **beat)
    return client


def pulled(client: Client, offset: int = 0, *, topic: str = "Orders", **more: Any):
    answer = client.pull(topic, offset, **{"flags": 0, **more})
    assert answer is not None
    return answer


def reason(answer: RemotingCommand) -> tuple[int, str | None, str | None]:
    """The code, the remark, and ``forbiddenType``."""
    return answer.code, answer.remark, answer.fields().get("forbiddenType")


@RELEASES
async def test_a_broker_that_may_not_be_read_says_so(release: str) -> None:
    bench = Bench(release=release, perm=2)
    client = bench.client()
    client.heartbeat("c", topics={"Orders": "*"})
    code, remark, kind = reason(pulled(client))
    assert (code, kind) == (FORBIDDEN, "1" if release == "5.0.0" else None)
    assert remark == f"the broker[{bench.broker.host}] pulling message is forbidden"


@RELEASES
async def test_a_group_that_is_asleep_is_told_so(release: str) -> None:
    bench = Bench(release=release)
    asleep = SubscriptionGroupConfig(group_name="asleep", consume_enable=False)
    bench.broker.groups.update(asleep, bench.now_ms())
    found = reason(pulled(a_consumer(bench), consumer_group="asleep"))
    number = "2" if release == "5.0.0" else None
    assert found == (FORBIDDEN, "subscription group no permission, asleep", number)


@RELEASES
async def test_a_topic_that_may_not_be_read_is_named(release: str) -> None:
    bench = Bench(release=release)
    client = a_consumer(bench)
    closed = TopicConfig(topic_name="Closed", read_queue_nums=1, write_queue_nums=1, perm=2)
    bench.broker.topics.update(closed, bench.now_ms())
    found = reason(pulled(client, topic="Closed"))
    number = "3" if release == "5.0.0" else None
    assert found == (FORBIDDEN, "the topic[Closed] pulling message is forbidden", number)


@RELEASES
async def test_a_group_that_may_not_broadcast_is_told_so(release: str) -> None:
    bench = Bench(release=release)
    quiet = SubscriptionGroupConfig(group_name="g", consume_broadcast_enable=False)
    bench.broker.groups.update(quiet, bench.now_ms())
    number = "4" if release == "5.0.0" else None
    found = reason(pulled(a_consumer(bench, model="BROADCASTING")))
    remark = "the consumer group[g] can not consume by broadcast way"
    assert found == (FORBIDDEN, remark, number)
    other = Bench(release=release)
    other.broker.groups.update(quiet, other.now_ms())
    assert pulled(a_consumer(other)).code == 0, "clustering is allowed"
    assert pulled(a_consumer(Bench(release=release), model="BROADCASTING")).code == 0


async def test_a_group_that_is_not_made_by_pulling_is_named() -> None:
    bench = Bench(auto_create_group=False)
    client = bench.client()
    client.sent("Orders")
    code, remark, _ = reason(pulled(client, consumer_group="unknown"))
    assert code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    see = bench.broker.see_faq
    assert remark == f"subscription group [unknown] does not exist, {see}"


async def test_a_topic_that_is_not_there_is_named() -> None:
    bench = Bench()
    code, remark, _ = reason(pulled(a_consumer(bench), topic="Nowhere"))
    assert code == ResponseCode.TOPIC_NOT_EXIST
    see = bench.broker.see_faq
    assert remark == f"topic[Nowhere] not exist, apply first please! {see}"


async def test_a_queue_that_is_not_there_is_named_with_its_asker() -> None:
    client = a_consumer(Bench())
    for queue_id, refused in ((-1, True), (0, False), (3, False), (4, True)):
        answer = pulled(client, 0, queue_id=queue_id)
        assert (answer.code == ResponseCode.SYSTEM_ERROR) is refused
    assert pulled(client, 0, queue_id=4).remark == (
        "queueId[4] is illegal, topic:[Orders] topicConfig.readQueueNums:[4] "
        f"consumer:[/{client.remote}]"
    )


async def test_who_did_not_say_what_it_consumes_is_told_what_is_missing() -> None:
    bench = Bench()
    see = bench.broker.see_faq
    bench.client().sent("Orders")
    stranger = bench.client()
    unknown = ResponseCode.SUBSCRIPTION_NOT_EXIST
    expected = (unknown, f"the consumer's group info not exist{see}", None)
    assert reason(pulled(stranger)) == expected
    stranger.heartbeat("c", topics={"Other": "*"})
    expected = (unknown, f"the consumer's subscription not exist{see}", None)
    assert reason(pulled(stranger)) == expected
    stranger.heartbeat("c", topics={"Orders": "*"}, version=5)
    assert pulled(stranger, sub_version=5).code == 0
    late = ResponseCode.SUBSCRIPTION_NOT_LATEST
    expected = (late, "the consumer's subscription not latest", None)
    assert reason(pulled(stranger, sub_version=6)) == expected


async def test_a_subscription_that_cannot_be_read_is_refused() -> None:
    client = a_consumer(Bench())
    answer = pulled(client, flags=SUBSCRIPTION, subscription="||")
    assert answer.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
    assert answer.remark == "parse the consumer's subscription failed"
    assert pulled(client, flags=SUBSCRIPTION, subscription=None).code == 0, "all messages match"


@pytest.mark.parametrize(
    ("flags", "missing", "remark"),
    [
        (0, "sub_version", "a pull without the version of its subscription"),
        (COMMIT_OFFSET, "commit_offset", "a pull that commits no offset"),
        (SUSPEND, "suspend_timeout_millis", "a pull that may wait, for no time"),
    ],
)
async def test_a_pull_without_a_field_that_its_flags_need_is_refused(
    flags: int, missing: str, remark: str
) -> None:
    answer = pulled(a_consumer(Bench()), 0, flags=flags, **{missing: None})
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert answer.remark == remark


@pytest.mark.parametrize(("release", "code"), [("4.9.8", 1), ("5.0.0", 0)])
async def test_since_5_0_the_length_of_a_wait_is_read_only_by_a_pull_that_waits(
    release: str, code: int
) -> None:
    client = a_consumer(Bench(release=release))
    assert pulled(client, 0, flags=SUSPEND, suspend_timeout_millis=None).code == code


async def test_too_many_held_pulls_are_refused_with_the_reason() -> None:
    client = a_consumer(Bench(held_pulls_max=1))
    assert client.pull("Orders", 1) is None
    answer = client.pull("Orders", 1)
    assert answer is not None
    assert reason(answer) == (ResponseCode.SYSTEM_BUSY, "too many pulls are held", None)


@RELEASES
async def test_an_answer_has_the_bounds_of_its_queue_and_the_name_of_its_status(
    release: str,
) -> None:
    client = a_consumer(Bench(release=release))
    client.sent("Orders")
    answer = pulled(client)
    header = answer.decode(PullMessageReply)
    assert (header.next_begin_offset, header.min_offset, header.max_offset) == (2, 0, 2)
    assert (header.suggest_which_broker_id, answer.remark) == (0, "FOUND")
    flags = [answer.fields().get(name) for name in ("topicSysFlag", "groupSysFlag")]
    assert flags == (["0", "0"] if release == "5.0.0" else [None, None])
    beyond = pulled(client, 9)
    assert (beyond.code, beyond.body) == (ResponseCode.PULL_OFFSET_MOVED, b"")
    assert beyond.remark == "OFFSET_OVERFLOW_BADLY"


async def test_facts_say_what_a_pull_asked_and_got_and_how_long_it_is_held(
    autojump_clock: MockClock,
) -> None:
    bench = Bench()
    client = a_consumer(bench)
    pulled(client)
    assert client.pull("Orders", 1) is None
    orders = Queue("Orders", "broker-a", 0)
    address = client.remote
    answered_opaque = client.last_opaque - 1
    assert bench.facts(PullAnswered) == [
        PullAnswered("g", orders, 0, 0, 1, 1, address, answered_opaque)
    ]
    (held,) = bench.facts(PullHeld)
    assert (held.peer, held.opaque) == (address, client.last_opaque)
    assert (held.group, held.queue) == ("g", orders)
    assert (held.offset, (held.until_ms - EPOCH_MS) % 5_000) == (1, 0)
    assert 10_000 < held.until_ms - bench.now_ms() <= 20_000


@pytest.mark.parametrize(
    ("settings", "ends_at_ms"),
    [({}, [5_000, 5_000, 10_000]), ({"long_polling": False}, [1_000, 2_000, 2_000])],
)
async def test_holds_end_with_the_first_sweep_at_or_after_their_time(
    settings: dict[str, Any], ends_at_ms: list[int]
) -> None:
    began_ms = 700
    processor = PullMessageProcessor(Bench(**settings).broker, began_ms)
    asked = (1, 5_000, 5_001) if not settings else (1_000, 1_001, 2_000)
    ends = [processor._sweep_at(began_ms + at_ms) - began_ms for at_ms in asked]
    assert ends == ends_at_ms


async def test_a_held_pull_that_is_answered_makes_room() -> None:
    bench = Bench(held_pulls_max=1)
    client = a_consumer(bench)
    for offset in (1, 2):
        assert client.pull("Orders", offset) is None
        client.sent("Orders")
        assert bench.facts(PullAnswered)[-1].next_offset == offset + 1
    assert client.pull("Orders", 3) is None
    refused = client.pull("Orders", 3)
    assert refused is not None
    assert refused.code == ResponseCode.SYSTEM_BUSY, "only one pull may be held"


async def test_without_long_polling_a_pull_is_held_for_the_broker_s_time_not_its_own() -> None:
    bench = Bench(long_polling=False, short_polling_ms=3_000)
    client = a_consumer(bench)
    assert client.pull("Orders", 1, suspend_timeout_millis=15_000) is None
    (held,) = bench.facts(PullHeld)
    assert 3_000 <= held.until_ms - bench.now_ms() <= 4_000


async def test_a_group_that_a_pull_makes_is_made_by_a_pull() -> None:
    bench = Bench()
    bench.client().sent("Orders")
    pulled(bench.client(), consumer_group="passing", flags=SUBSCRIPTION, subscription="*")
    assert bench.facts(GroupCreated) == [GroupCreated("passing", "pull")]


async def test_a_pull_whose_asker_has_gone_makes_room_for_one_other() -> None:
    bench = Bench(held_pulls_max=1)
    first, second = a_consumer(bench), a_consumer(bench)
    assert first.pull("Orders", 2) is None
    first.close()
    assert second.pull("Orders", 2) is None
    refused = second.pull("Orders", 2)
    assert refused is not None
    assert refused.code == ResponseCode.SYSTEM_BUSY


async def test_who_is_exactly_as_far_behind_as_allowed_reads_from_the_master() -> None:
    suggested = []
    probe = a_consumer(Bench())
    for _ in range(3):
        probe.sent("Orders")
    behind_bytes = probe.bench.broker.store.get("Orders", 0, 0, 1, None).behind_bytes
    assert behind_bytes > 0
    for behind_bytes_max in (behind_bytes - 1, behind_bytes):
        client = a_consumer(Bench(slave_read=True, behind_bytes_max=behind_bytes_max))
        for _ in range(3):
            client.sent("Orders")
        answer = pulled(client, 0, max_msg_nums=1)
        header = answer.decode(PullMessageReply)
        suggested.append(header.suggest_which_broker_id)
    assert suggested == [1, 0]
    client = a_consumer(Bench(slave_read=False, behind_bytes_max=0))
    client.sent("Orders")
    header = pulled(client, 0, max_msg_nums=1).decode(PullMessageReply)
    assert header.suggest_which_broker_id == 0
