"""Sends: which topics they create, which sends are refused, and the replies."""

from __future__ import annotations

import errno

import pytest

from rocketmq_emulator.disk.memory import MemoryDisk
from rocketmq_emulator.disk.port import Segment
from rocketmq_emulator.facts import OpenFilesRanOut, SendRefused, StoreRefused, TopicCreated
from rocketmq_emulator.protocol import catalog
from rocketmq_emulator.protocol.codes import ResponseCode
from rocketmq_emulator.protocol.command import ONE_WAY
from rocketmq_emulator.protocol.messages.batch import BatchMessage, encode_batch
from rocketmq_emulator.protocol.messages.properties import property_of
from rocketmq_emulator.protocol.queues import MessageQueue
from rocketmq_emulator.protocol.requests.admin import DeleteTopicRequest
from rocketmq_emulator.protocol.requests.pulling import ViewMessageRequest
from rocketmq_emulator.protocol.requests.sending import SendMessageReply, SendMessageRequestV2
from tests.support.broker.bench import Bench

RELEASES = ["4.9.7", "5.3.3"]


@pytest.mark.parametrize(("asked", "made"), [(4, 4), (16, 8)])
async def test_invariant_17_a_first_send_makes_the_smaller_of_both_queue_counts(
    asked: int, made: int
) -> None:
    bench = Bench()
    bench.client().sent("Orders", default_topic_queue_nums=asked)
    [created] = bench.facts(TopicCreated)
    assert (created.read_queue_count, created.write_queue_count, created.perm) == (made, made, 6)


async def test_invariant_18_without_auto_creation_the_topic_must_be_applied_for() -> None:
    bench = Bench(auto_create_topic=False)
    answer = bench.client().send_message("Orders")
    assert answer.code == ResponseCode.TOPIC_NOT_EXIST
    assert "topic[Orders] not exist, apply first please!" in str(answer.remark)
    assert bench.broker.topics.get("Orders") is None
    assert bench.announced == []


async def test_invariant_19_a_retry_topic_is_made_even_without_a_template() -> None:
    bench = Bench(auto_create_topic=False)
    bench.client().sent("%RETRY%g", reconsume_times=1)
    topic = bench.broker.topics.get("%RETRY%g")
    assert topic is not None
    assert (topic.read_queue_nums, topic.perm) == (1, 6)


@pytest.mark.parametrize(("reads", "writes"), [(6, 4), (4, 6)])
@pytest.mark.parametrize(("release", "code"), [("4.9.7", 1), ("5.3.1", 1), ("5.3.3", 29)])
async def test_invariant_23_queue_ids_below_the_larger_count_are_taken(
    release: str, code: int, reads: int, writes: int
) -> None:
    bench = Bench(release=release)
    client = bench.client()
    client.sent("Orders")
    topic = bench.broker.topics.get("Orders")
    assert topic is not None
    wide = type(topic)(topic_name="Orders", read_queue_nums=reads, write_queue_nums=writes, perm=6)
    bench.broker.topics.update(wide, bench.now_ms())
    assert client.send_message("Orders", queue_id=5).code == 0
    assert client.send_message("Orders", queue_id=6).code == code


@pytest.mark.parametrize(("reads", "writes"), [(6, 3), (2, 5)])
async def test_invariant_24_a_negative_queue_id_goes_to_any_writable_queue(
    reads: int, writes: int
) -> None:
    bench = Bench()
    client = bench.client()
    client.sent("Orders")
    topic = bench.broker.topics.get("Orders")
    assert topic is not None
    lopsided = type(topic)(
        topic_name="Orders", read_queue_nums=reads, write_queue_nums=writes, perm=6
    )
    bench.broker.topics.update(lopsided, bench.now_ms())
    used = [client.sent("Orders", queue_id=-1).queue_id for _ in range(40 * writes)]
    assert set(used) == set(range(writes))
    assert min(used.count(queue_id) for queue_id in range(writes)) >= 20, "no queue is preferred"


async def test_invariant_25_a_read_only_topic_still_takes_a_direct_send() -> None:
    bench = Bench()
    client = bench.client()
    client.sent("Orders")
    topic = bench.broker.topics.get("Orders")
    assert topic is not None
    closed = type(topic)(topic_name="Orders", read_queue_nums=4, write_queue_nums=4, perm=4)
    bench.broker.topics.update(closed, bench.now_ms())
    assert client.send_message("Orders").code == 0


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        ("SCHEDULE_TOPIC_XXXX", ResponseCode.NO_PERMISSION),
        ("RMQ_SYS_TRANS_HALF_TOPIC", ResponseCode.NO_PERMISSION),
        ("TBW102", ResponseCode.SUCCESS),
        ("BenchmarkTest", ResponseCode.SUCCESS),
    ],
)
async def test_invariant_26_some_system_topics_are_not_for_clients(topic: str, code: int) -> None:
    assert Bench().client().send_message(topic).code == code


@pytest.mark.parametrize(("size", "code"), [(4_194_304, 0), (4_194_305, 13)])
async def test_invariant_27_bodies_up_to_4_mib_are_taken(size: int, code: int) -> None:
    assert Bench().client().send_message("Orders", bytes(size)).code == code


@pytest.mark.parametrize(("size", "code"), [(32_700, 0), (32_768, 13)])
async def test_invariant_27_properties_up_to_32_kib_are_taken(size: int, code: int) -> None:
    properties = "K\x01" + "v" * (size - 2)
    assert Bench().client().send_message("Orders", properties=properties).code == code


async def test_invariant_28_queue_offsets_count_up_without_gaps() -> None:
    client = Bench().client()
    assert [client.sent("Orders").queue_offset for _ in range(5)] == [0, 1, 2, 3, 4]


async def test_invariant_29_a_message_id_leads_back_to_its_message() -> None:
    client = Bench().client()
    client.sent("Orders", b"first")
    msg_id = client.sent("Orders", b"second").msg_id
    assert len(msg_id) == 32
    position = int(msg_id[-16:], 16)
    answer = client.must(catalog.VIEW_MESSAGE_BY_ID, ViewMessageRequest(offset=position))
    assert b"second" in answer.body
    missing = client.must(catalog.VIEW_MESSAGE_BY_ID, ViewMessageRequest(offset=position + 1))
    assert missing.code == 1


@pytest.mark.parametrize("release", RELEASES)
async def test_a_reply_carries_what_a_java_client_dereferences(release: str) -> None:
    client = Bench(release=release).client()
    properties = "UNIQ_KEY\x01KEY1\x02WAIT\x01true\x02TAGS\x01TagA"
    fields = client.send_message("Orders", properties=properties).fields()
    assert fields["MSG_REGION"] == "DefaultRegion"
    assert fields["TRACE_ON"] == "true"
    assert fields.get("transactionId") == (None if release == "4.9.7" else "KEY1")


@pytest.mark.parametrize("release", RELEASES)
async def test_what_the_broker_adds_to_a_message_depends_on_its_release(release: str) -> None:
    bench = Bench(release=release)
    client = bench.client()
    properties = "UNIQ_KEY\x01KEY1\x02WAIT\x01true\x02TAGS\x01TagA"
    client.sent("Orders", properties=properties)
    client.heartbeat("c", topics={"Orders": "*"})
    stored = client.pulled("Orders")[0].property_map()
    common = {"UNIQ_KEY": "KEY1", "TAGS": "TagA", "CLUSTER": "DefaultCluster"}
    five = {"WAIT": "true", "MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}
    assert stored == (common if release == "4.9.7" else {**common, **five})


@pytest.mark.parametrize("release", RELEASES)
async def test_properties_that_the_broker_adds_replace_those_of_another_broker(
    release: str,
) -> None:
    """A message that an acting master sends has them already."""
    bench = Bench(release=release, region="here")
    known = {"CLUSTER": "there", "MSG_REGION": "there", "UNIQ_KEY": "KEY1", "TRACE_ON": "false"}
    text = "".join(f"{name}\x01{value}\x02" for name, value in known.items())
    client = bench.client()
    client.sent("Orders", properties=text)
    client.heartbeat("c", topics={"Orders": "*"})
    (record,) = client.pulled("Orders")
    stored = str(record.properties, "utf-8")
    names = [pair.partition("\x01")[0] for pair in stored.split("\x02") if pair]
    assert len(names) == len(set(names))
    assert record.property_map()["CLUSTER"] == "DefaultCluster"
    five = {"MSG_REGION": "here", "TRACE_ON": "true"} if release == "5.3.3" else {}
    assert {name: record.property_map()[name] for name in five} == five


async def test_one_way_sends_are_stored_and_not_answered() -> None:
    bench = Bench()
    client = bench.client()
    client.sent("Orders")
    request = SendMessageRequestV2(
        producer_group="pg",
        topic="Orders",
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=0,
        sys_flag=0,
        born_timestamp=0,
        flag=0,
    )
    assert client.ask(catalog.SEND_MESSAGE_V2, request, b"x", flag=ONE_WAY) is None
    assert bench.broker.store.max_offset("Orders", 0) == 2


async def test_a_batch_becomes_records_in_a_row() -> None:
    bench = Bench()
    client = bench.client()
    client.sent("Orders")
    members = [BatchMessage(b"m%d" % n, b"KEYS\x01k%d" % n) for n in range(3)]
    answer = client.send_message("Orders", encode_batch(members), batch=True)
    reply = answer.decode(SendMessageReply)
    assert reply.queue_offset == 1
    assert len(reply.msg_id.split(",")) == 3
    client.heartbeat("c", topics={"Orders": "*"})
    stored = client.pulled("Orders", 1)
    assert [m.body for m in stored] == [b"m0", b"m1", b"m2"]
    assert [m.queue_offset for m in stored] == [1, 2, 3]
    assert [m.property_map()["KEYS"] for m in stored] == ["k0", "k1", "k2"]


@pytest.mark.parametrize("body", [b"", b"\0\0\0\x05hello", b"\xff" * 40])
async def test_a_batch_that_is_none_fails_as_it_does_upstream_and_stores_nothing(
    body: bytes,
) -> None:
    bench = Bench()
    client = bench.client()
    client.sent("Orders")
    assert client.send_message("Orders", body, batch=True).code == ResponseCode.SYSTEM_ERROR
    assert bench.broker.store.max_offset("Orders", 0) == 1
    bench.no_bugs()


@pytest.mark.parametrize(("release", "code"), [("4.9.7", 1), ("5.3.3", 29)])
@pytest.mark.parametrize("topic", ["", "no blank", "x" * 128, "*"])
async def test_a_topic_with_an_impossible_name_is_refused(
    topic: str, release: str, code: int
) -> None:
    bench = Bench(release=release)
    assert bench.client().send_message(topic).code == code
    assert bench.facts(TopicCreated) == []
    assert [fact.response_code for fact in bench.facts(SendRefused)] == [code]


@pytest.mark.parametrize(
    ("release", "times", "target"),
    [("4.9.7", 16, "%DLQ%g"), ("5.3.3", 16, "%RETRY%g"), ("5.3.3", 17, "%DLQ%g")],
)
async def test_invariant_38_too_many_retries_by_send_go_to_the_dead_letters(
    release: str, times: int, target: str
) -> None:
    bench = Bench(release=release)
    bench.client().sent("%RETRY%g", reconsume_times=times)
    assert bench.broker.store.max_offset(target, 0) == 1


async def test_the_reply_to_a_dead_letter_names_the_queue_it_was_sent_to() -> None:
    bench = Bench()
    bench.broker.ensure_topic("%RETRY%g", 3, bench.now_ms(), by="send")
    reply = bench.client().sent("%RETRY%g", queue_id=2, reconsume_times=16)
    assert reply.queue_id == 2
    assert bench.broker.store.max_offset("%DLQ%g", 0) == 1


@pytest.mark.parametrize(("release", "target"), [("4.9.7", "%RETRY%g"), ("5.3.3", "%DLQ%g")])
async def test_invariant_39_a_group_that_holds_locks_retries_into_the_dead_letters(
    release: str, target: str
) -> None:
    bench = Bench(release=release)
    bench.broker.locks.lock("g", [MessageQueue("Orders", "broker-a", 0)], "c", bench.now_ms())
    bench.client().sent("%RETRY%g", reconsume_times=1)
    assert bench.broker.store.max_offset(target, 0) == 1


async def test_a_client_too_old_to_say_how_often_it_retries_is_not_believed() -> None:
    bench = Bench()
    bench.client(version=100).sent("%RETRY%g", reconsume_times=3, max_reconsume_times=3)
    assert bench.broker.store.max_offset("%RETRY%g", 0) == 1
    bench.client(version=121).sent("%RETRY%g", reconsume_times=3, max_reconsume_times=3)
    assert bench.broker.store.max_offset("%DLQ%g", 0) == 1


async def test_properties_are_read_without_taking_the_block_apart() -> None:
    block = "XTAGS\x01no\x02TAGS\x01old\x02A\x01TAGS\x02TAGS\x01new"
    assert property_of(block, "TAGS") == "new"
    assert property_of(block, "KEYS") is None


async def test_a_topic_whose_end_no_disk_would_remember_stays_whole() -> None:
    disk = MemoryDisk()
    bench = Bench(disk)
    client = bench.client()
    client.sent("Orders", queue_id=0)
    disk.bytes_max = disk.bytes_used
    answer = client.must(catalog.DELETE_TOPIC_IN_BROKER, DeleteTopicRequest(topic="Orders"))
    assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert client.sent("Orders", queue_id=0).queue_offset == 1
    disk.bytes_max = None
    answer = client.must(catalog.DELETE_TOPIC_IN_BROKER, DeleteTopicRequest(topic="Orders"))
    assert answer.code == ResponseCode.SUCCESS
    assert client.sent("Orders", queue_id=0).queue_offset == 0


async def test_a_half_message_is_refused_if_the_configuration_says_so() -> None:
    bench = Bench(reject_transactions=True)
    answer = bench.client().send_message("Orders", properties="TRAN_MSG\x01true\x02PGROUP\x01pg")
    assert answer.code == ResponseCode.NO_PERMISSION
    assert answer.remark == "the broker[127.0.0.1] sending transaction message is forbidden"
    assert bench.broker.store.log.end_position == 0


class OutOfFiles(MemoryDisk):
    """Opens no segment while ``is_out``: the process has too many open files."""

    is_out = False

    def open_segment(self, base: int, size: int) -> Segment:
        if self.is_out:
            raise OSError(errno.EMFILE, "Too many open files", "commitlog/00000000000000000000")
        return super().open_segment(base, size)


async def test_a_send_for_which_no_file_can_be_opened_does_not_blame_the_disk() -> None:
    disk = OutOfFiles()
    bench = Bench(disk)
    disk.is_out = True
    answer = bench.client().send_message("Orders")
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert answer.remark == "create mapped file failed, server is busy or broken."
    [fact] = bench.facts(OpenFilesRanOut)
    assert "ulimit -n" in fact.advice
    assert "ulimit -n" in bench.facts(SendRefused)[-1].remark
    assert bench.facts(StoreRefused) == []
    disk.is_out = False
    assert bench.client().send_message("Orders").code == 0
