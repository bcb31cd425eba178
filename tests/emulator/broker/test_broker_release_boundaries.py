"""Changes of behaviour: the last release of the old one and the first of the new one.

Recordings exist of 4.9.7 and 5.3.3 only, so they do not show at which release between the two a
behaviour changed.  docs/evidence.md names the place in upstream's source for each change.
"""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from rocketmq_emulator.broker.store.appender import MessageToStore, PutRefused
from rocketmq_emulator.protocol import catalog
from rocketmq_emulator.protocol.bodies.body import decode_body
from rocketmq_emulator.protocol.bodies.routes import KVTable
from rocketmq_emulator.protocol.bodies.stats import TopicStatsTable
from rocketmq_emulator.protocol.codes import ResponseCode
from rocketmq_emulator.protocol.java import java_properties
from rocketmq_emulator.protocol.requests.admin import CreateTopicRequest, GetTopicStatsInfoRequest
from rocketmq_emulator.protocol.requests.groups import DeleteSubscriptionGroupRequest
from rocketmq_emulator.protocol.requests.offsets import UpdateConsumerOffsetRequest
from tests.support.broker.bench import Bench, Client

RETRY_TOPIC = "%RETRY%g"
WAITING = "WAIT\x01true\x02TAGS\x01A"


def client_of(release: str, **settings: Any) -> Client:
    return Bench(release=release, **settings).client()


def stored(client: Client, topic: str, **fields: Any) -> dict[str, str]:
    client.sent(topic, **fields)
    client.heartbeat("c", topics={topic: "*"})
    return client.pulled(topic)[0].property_map()


def create(client: Client, **changes: Any) -> tuple[int, str | None]:
    header = CreateTopicRequest(
        topic="t",
        default_topic="TBW102",
        read_queue_nums=3,
        write_queue_nums=2,
        perm=6,
        topic_filter_type="SINGLE_TAG",
    )
    for name, value in changes.items():
        setattr(header, name, value)
    answer = client.must(catalog.UPDATE_AND_CREATE_TOPIC, header)
    return answer.code, answer.remark


def update(client: Client, text: str) -> int:
    return client.must(catalog.UPDATE_BROKER_CONFIG, None, text.encode()).code


def shown(client: Client) -> dict[str, str]:
    return java_properties.parse(client.must(catalog.GET_BROKER_CONFIG).body.decode())


@pytest.mark.parametrize(
    ("release", "code"),
    [
        ("4.9.8", ResponseCode.SUCCESS),
        ("5.0.0", ResponseCode.MESSAGE_ILLEGAL),
        ("5.1.0", ResponseCode.SYSTEM_ERROR),
    ],
)
async def test_a_message_without_a_body_is_illegal_from_5_0_and_fails_from_5_1(
    release: str, code: int
) -> None:
    assert client_of(release).send_message("t", b"").code == code


@pytest.mark.parametrize(
    ("release", "keeps"), [("4.9.0", True), ("4.9.1", False), ("4.9.8", False), ("5.0.0", True)]
)
async def test_the_property_wait_is_dropped_from_4_9_1_to_4_9_8(
    release: str, *, keeps: bool
) -> None:
    assert ("WAIT" in stored(client_of(release), "t", properties=WAITING)) == keeps


@pytest.mark.parametrize(
    ("release", "is_ended"), [("4.9.0", True), ("4.9.1", False), ("5.1.4", False), ("5.2.0", True)]
)
async def test_the_last_property_is_not_ended_from_4_9_1_to_5_1_4(
    release: str, *, is_ended: bool
) -> None:
    client = client_of(release)
    client.sent("t")
    client.heartbeat("c", topics={"t": "*"})
    assert client.pulled("t")[0].properties.endswith(b"\x02") == is_ended


@pytest.mark.parametrize(
    ("release", "is_taken"), [("4.6.1", False), ("4.7.0", True), ("4.9.8", True), ("5.0.0", False)]
)
async def test_a_batch_to_a_retry_topic_is_taken_from_4_7_to_4_9_8(
    release: str, *, is_taken: bool
) -> None:
    client = client_of(release)
    client.heartbeat("c", topics={"t": "*"})
    answer = client.send_message(RETRY_TOPIC, b"x", batch=True)
    remark = f"batch request does not support retry group {RETRY_TOPIC}"
    assert (answer.remark != remark) == is_taken


@pytest.mark.parametrize(("release", "flagged"), [("5.1.2", False), ("5.1.3", True)])
async def test_the_answer_to_a_heartbeat_says_what_the_broker_knows_from_5_1_3(
    release: str, *, flagged: bool
) -> None:
    client = client_of(release)
    client.heartbeat("c", topics={"t": "*"})
    (answer,) = client.answers()
    assert (answer.fields().get("IS_SUPPORT_HEART_BEAT_V2") == "true") == flagged


@pytest.mark.parametrize(("release", "writes"), [("5.0.0", False), ("5.1.0", True)])
async def test_an_administrator_makes_a_topic_ordered_from_5_1(
    release: str, *, writes: bool
) -> None:
    bench = Bench(release=release)
    create(bench.client(), order=True)
    topic = bench.broker.topics.get("t")
    assert topic is not None
    assert topic.order == writes


@pytest.mark.parametrize(("release", "counted"), [("5.1.4", 1), ("5.2.0", 0)])
async def test_the_same_topic_again_is_no_change_from_5_2(release: str, counted: int) -> None:
    bench = Bench(release=release)
    client = bench.client()
    create(client)
    before = bench.broker.topics.data_version.counter
    create(client)
    assert bench.broker.topics.data_version.counter - before == counted


@pytest.mark.parametrize(
    ("release", "remark"),
    [("5.2.0", "The specified topic is blank."), ("5.3.0", "a topic without a name")],
)
async def test_a_topic_without_a_name_is_blank_until_5_2_and_fails_from_5_3(
    release: str, remark: str
) -> None:
    code, said = create(client_of(release), topic=None)
    assert code == ResponseCode.SYSTEM_ERROR
    assert remark in (said or "")


@pytest.mark.parametrize(("release", "is_made"), [("5.3.0", False), ("5.3.1", True)])
async def test_the_timers_topic_is_in_the_table_from_the_start_from_5_3_1(
    release: str, *, is_made: bool
) -> None:
    topics = Bench(release=release).broker.topics
    assert (topics.get("rmq_sys_wheel_timer") is not None) == is_made


@pytest.mark.parametrize(("release", "code"), [("5.1.4", 0), ("5.2.0", ResponseCode.SYSTEM_ERROR)])
async def test_checkpoint_topic_is_a_name_of_the_systems_from_5_2(release: str, code: int) -> None:
    assert create(client_of(release), topic="CHECKPOINT_TOPIC")[0] == code


@pytest.mark.parametrize(
    ("release", "name", "code"),
    [
        ("4.9.7", "rocketmqHome", 0),
        ("4.9.8", "rocketmqHome", ResponseCode.NO_PERMISSION),
        ("5.1.0", "brokerConfigPath", 0),
        ("5.1.1", "brokerConfigPath", ResponseCode.NO_PERMISSION),
        ("5.1.4", "rocketmqHome", 0),
        ("5.2.0", "rocketmqHome", ResponseCode.NO_PERMISSION),
    ],
)
async def test_settings_are_black_listed_from_4_9_8_and_5_2_and_the_path_from_5_1_1(
    release: str, name: str, code: int
) -> None:
    assert update(client_of(release), f"{name}=/tmp") == code


@pytest.mark.parametrize(
    ("release", "name", "is_shown"),
    [
        ("5.1.0", "filterServerNums", True),
        ("5.1.1", "filterServerNums", False),
        ("5.0.0", "channelExpiredTimeout", False),
        ("5.1.0", "channelExpiredTimeout", True),
    ],
)
async def test_settings_come_and_go(release: str, name: str, *, is_shown: bool) -> None:
    assert (name in shown(client_of(release))) == is_shown


@pytest.mark.parametrize(("release", "is_shown"), [("5.3.1", False), ("5.3.2", True)])
async def test_the_pool_of_acknowledgements_is_shown_from_5_3_2(
    release: str, *, is_shown: bool
) -> None:
    answer = client_of(release).must(catalog.GET_BROKER_RUNTIME_INFO)
    table = decode_body(answer.body, KVTable).table
    assert ("ackThreadPoolQueueSize" in table) == is_shown


@pytest.mark.parametrize(("release", "page"), [("5.0.0", "docs/faq/"), ("5.1.0", "06FAQ")])
async def test_refusals_name_another_page_from_5_1(release: str, page: str) -> None:
    client = client_of(release, auto_create_topic=False)
    assert page in (client.send_message("t").remark or "")


@pytest.mark.parametrize(("release", "is_left"), [("4.8.0", True), ("4.9.0", False)])
async def test_a_deleted_group_s_offsets_go_if_that_is_asked_for_since_4_9(
    release: str, *, is_left: bool
) -> None:
    bench = Bench(release=release)
    client = bench.client()
    client.sent("t")
    client.heartbeat("c", topics={"t": "*"})
    commit = UpdateConsumerOffsetRequest(
        consumer_group="g", topic="t", queue_id=0, commit_offset=1
    )
    client.must(catalog.UPDATE_CONSUMER_OFFSET, commit)
    delete = DeleteSubscriptionGroupRequest(group_name="g", remove_offset=True)
    client.must(catalog.DELETE_SUBSCRIPTIONGROUP, delete)
    assert (bench.broker.offsets.query("g", "t", 0) is not None) == is_left


@pytest.mark.parametrize(
    ("release", "code"), [("5.2.0", ResponseCode.SYSTEM_ERROR), ("5.3.0", ResponseCode.SUCCESS)]
)
async def test_a_check_of_nothing_succeeds_since_5_3(release: str, code: int) -> None:
    assert client_of(release).must(catalog.CHECK_CLIENT_CONFIG).code == code


@pytest.mark.parametrize(("release", "is_stored"), [("5.0.0", False), ("5.1.0", True)])
async def test_a_long_retry_topic_is_stored_since_5_1(release: str, *, is_stored: bool) -> None:
    bench = Bench(release=release)
    message = MessageToStore(
        topic="%RETRY%" + "g" * 200,
        queue_id=0,
        body=b"x",
        properties="",
        flag=0,
        sys_flag=0,
        born_ms=0,
        born_host=b"\x7f\0\0\x01\0\0\0\0",
    )
    refused = contextlib.nullcontext() if is_stored else pytest.raises(PutRefused)
    with refused:
        bench.broker.puts.put(message, bench.now_ms())


@pytest.mark.parametrize(("release", "queues"), [("5.2.0", 2), ("5.3.0", 3)])
async def test_statistics_are_of_the_larger_count_of_queues_since_5_3(
    release: str, queues: int
) -> None:
    client = client_of(release)
    create(client)  # three read queues, two write queues
    answer = client.must(catalog.GET_TOPIC_STATS_INFO, GetTopicStatsInfoRequest(topic="t"))
    assert len(decode_body(answer.body, TopicStatsTable).offset_table) == queues
