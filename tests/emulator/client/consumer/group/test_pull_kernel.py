"""One pull, without a network: its request, its broker, and the effect of each answer."""

from __future__ import annotations

import zlib
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from rocketmq_emulator.client.consumer.group.offsets import OffsetTable
from rocketmq_emulator.client.consumer.group.process_queue import (
    FlowControl,
    ProcessQueue,
    PullRequest,
)
from rocketmq_emulator.client.consumer.group.pull_kernel import PullKernel
from rocketmq_emulator.client.consumer.push.pulling import Pulling
from rocketmq_emulator.client.settings.config import PushConsumerConfig
from rocketmq_emulator.errors.call_errors import NoAnswer, NoRoute
from rocketmq_emulator.facts import OffsetRepaired, PullFailed, Queue
from rocketmq_emulator.protocol import catalog
from rocketmq_emulator.protocol.codes import ResponseCode
from rocketmq_emulator.protocol.command import RemotingCommand, ext_of
from rocketmq_emulator.protocol.flags import COMPRESSED
from rocketmq_emulator.protocol.messages.properties import encode_properties
from rocketmq_emulator.protocol.messages.records import encode_record
from rocketmq_emulator.protocol.messages.subscription import build_subscription
from rocketmq_emulator.protocol.queues import MessageQueue
from rocketmq_emulator.protocol.requests.pulling import PullMessageReply
from rocketmq_emulator.settings.releases import Release

Q = MessageQueue("T", "broker-a", 3)
QUEUE = Queue("T", "broker-a", 3)
A_REPLY = PullMessageReply(
    suggest_which_broker_id=0, next_begin_offset=12, min_offset=1, max_offset=99
)
HOST = bytes((127, 0, 0, 1, 0, 0, 0x2A, 0x9F))


class GroupMember:
    """A member and all receivers of its pulls, in one object."""

    def __init__(self, release="5.3.3", expression="*", **settings) -> None:
        self.config = PushConsumerConfig(
            group="g", namesrv="127.0.0.1:9876", release=release, **settings
        )
        self.group, self.release = "g", Release.parse(release)
        self.is_broadcasting = self.config.is_broadcasting
        self.is_running, self.is_paused = True, False
        self.subscriptions = {"T": build_subscription("T", expression, sub_version=77)}
        self.time_ms = 5_000
        self.table = OffsetTable()
        self.facts, self.asked, self.again, self.later_calls = [], [], [], []
        self.submitted, self.steps, self.figures_of = [], [], []
        self.note = self.facts.append
        self.instance = self.pull_service = self.remoting = self.brokers = self.routes = self
        self.offsets = self.rebalance_service = self.stats = self.starts = self
        self.is_last = True
        self.batches = 0
        self.addresses = {0: "master:1"}
        self.start = 40
        self.request = PullRequest("g", Q, ProcessQueue(0), 10)
        self.pulling = Pulling(self, FlowControl(self.config), self, self.submit)

    def now_ms(self):
        return self.time_ms

    def submit(self, found, process_queue, queue, wake) -> None:
        self.submitted.append(([m.queue_offset for m in found], process_queue, queue, wake))

    def pull_now(self, request) -> None:
        self.again.append((request, 0))

    def pull_later(self, request, delay_ms) -> None:
        self.again.append((request, delay_ms))

    def to_subscribe(self, broker, broker_id, *, only_this):
        assert (broker, only_this) == ("broker-a", False)
        address = self.addresses.get(broker_id)
        return None if address is None else (address, broker_id != 0)

    async def refresh(self, topic):
        self.steps.append(("refresh", topic))
        if self.addresses_after is None:
            raise NoRoute("nobody knows it")
        self.addresses = self.addresses_after

    async def find(self, queue):
        if isinstance(self.start, Exception):
            raise self.start
        return self.start

    @contextmanager
    def batch(self):
        self.batches += 1
        yield

    def invoke_async(self, address, rpc, header, body, *, timeout_ms, on_done) -> None:
        assert (rpc, body) == (catalog.PULL_MESSAGE, b"")
        self.asked.append((address, header, timeout_ms))
        self.answer = on_done

    def pulled(self, *figures) -> None:
        self.figures_of.append(figures)

    def persist(self, queue) -> None:
        self.steps.append(("persist", queue))

    async def replace(self, queue):
        self.steps.append(("replace", queue))

    def wake(self, cause) -> None:
        self.steps.append(("wake", cause))

    def call_later(self, delay_ms, action) -> None:
        self.later_calls.append((delay_ms, action))

    def start_soon(self, work) -> None:
        self.later_calls.append((None, work))

    async def pull(self) -> None:
        await self.pulling.pull(self.request)

    async def answered(self, code=0, next_offset=12, body=b"", suggested=0, remark="as scripted"):
        await self.pull()
        header = PullMessageReply(
            suggest_which_broker_id=suggested,
            next_begin_offset=next_offset,
            min_offset=1,
            max_offset=99,
        )
        self.again.clear()
        self.answer(RemotingCommand(code=code, ext=ext_of(header), body=body, remark=remark))

    @property
    def errors(self):
        return [fact.error for fact in self.facts if isinstance(fact, PullFailed)]


def a_reply(body) -> RemotingCommand:
    return RemotingCommand(code=0, ext=ext_of(A_REPLY), body=body)


def a_record(offset, tag="TagA", topic=b"T", body=b"body", sys_flag=0) -> bytes:
    block = encode_properties({"TAGS": tag}, trailing=True)
    return encode_record(
        topic,
        body,
        block,
        sys_flag=sys_flag,
        queue_id=3,
        queue_offset=offset,
        position=offset * 1000,
        born_ms=0,
        born_host=HOST,
        store_ms=0,
        store_host=HOST,
    )


# Before the pull --------------------------------------------------------------------------


@pytest.mark.parametrize(("release", "bytes_max"), [("4.9.8", None), ("5.0.0", 262_144)])
async def test_a_pull_has_all_that_a_broker_wants_to_know(release, bytes_max) -> None:
    member = GroupMember(release)
    await member.pull()
    ((address, header, timeout_ms),) = member.asked
    assert (address, timeout_ms) == ("master:1", 30_000)
    assert (header.consumer_group, header.topic, header.queue_id) == ("g", "T", 3)
    assert (header.queue_offset, header.max_msg_nums) == (10, 32)
    assert (header.sys_flag, header.commit_offset) == (2, 0)
    assert (header.suspend_timeout_millis, header.sub_version) == (15_000, 77)
    assert (header.subscription, header.expression_type) == (None, "TAG")
    assert header.max_msg_bytes == bytes_max
    assert member.request.process_queue.last_pull_ms == 5_000
    assert member.again == []


async def test_a_pull_may_carry_its_subscription() -> None:
    member = GroupMember(expression="TagA", post_subscription_when_pull=True)
    await member.pull()
    ((_, header, _),) = member.asked
    assert (header.sys_flag, header.subscription) == (2 | 4, "TagA")


async def test_a_pull_commits_at_the_master_and_only_when_clustering() -> None:
    flags = []
    for model, slave in (("CLUSTERING", False), ("CLUSTERING", True), ("BROADCASTING", False)):
        member = GroupMember(model=model)
        member.table.update(Q, 7)
        if slave:
            await member.answered(suggested=1)
            member.addresses = {1: "slave:1"}
        await member.pull()
        header = member.asked[-1][1]
        flags.append((header.sys_flag, header.commit_offset))
    assert flags == [(2 | 1, 7), (2, 7), (2, 0)]


async def test_the_first_offset_is_not_committed_by_a_pull() -> None:
    member = GroupMember()
    for known, flag in ((0, 2), (1, 3)):
        member.table.update(Q, known)
        await member.pull()
        assert member.asked[-1][1].sys_flag == flag


async def test_only_the_last_pull_of_a_round_lets_the_others_leave() -> None:
    member = GroupMember()
    await member.pull()
    member.is_last = False
    await member.pull()
    assert (member.batches, len(member.asked)) == (1, 2)


async def test_a_dropped_queue_is_not_pulled_again() -> None:
    member = GroupMember()
    member.request.process_queue.dropped = True
    await member.pull()
    assert (member.asked, member.again) == ([], [])
    assert member.request.process_queue.last_pull_ms == 0


async def test_a_consumer_that_is_closed_or_paused_waits_a_second() -> None:
    for state in ("is_running", "is_paused"):
        member = GroupMember(pull_error_delay_ms=1_001, pull_paused_delay_ms=1_002)
        setattr(member, state, state == "is_paused")
        await member.pull()
        assert member.again == [(member.request, 1_001 if state == "is_running" else 1_002)]
        assert member.asked == []


async def test_an_orderly_queue_is_pulled_with_its_lock_and_from_where_the_last_owner_came() -> (
    None
):
    member = GroupMember(orderly=True, pull_error_delay_ms=1_001)
    await member.pull()
    assert (member.again, member.asked) == ([(member.request, 1_001)], [])
    member.request.process_queue.locked = True
    member.start = NoAnswer("broker-a", "silence")
    await member.pull()
    assert member.again[1:] == [(member.request, 1_001)]
    assert member.errors == ["broker-a: silence"]
    member.start = 40
    await member.pull()
    member.start = 50
    await member.pull()
    assert [header.queue_offset for _, header, _ in member.asked] == [40, 40], "one query"


async def test_an_unsubscribed_topic_is_not_pulled() -> None:
    member = GroupMember()
    member.subscriptions = {}
    await member.pull()
    assert (member.asked, member.again) == ([], [(member.request, 1_000)])


@pytest.mark.parametrize("after", [None, {}, {0: "master:2"}])
async def test_without_an_address_the_route_is_refreshed_once(after) -> None:
    member = GroupMember()
    member.addresses, member.addresses_after = {}, after
    await member.pull()
    assert member.steps == [("refresh", "T")]
    assert [address for address, _, _ in member.asked] == (["master:2"] if after else [])
    assert member.again == ([] if after else [(member.request, 1_000)])


# The answer -------------------------------------------------------------------------------


async def test_messages_are_kept_and_handed_to_the_listener() -> None:
    member = GroupMember(pull_interval_ms=9)
    member.request.process_queue.last_pull_ms = 0
    await member.pull()
    member.time_ms = 5_030
    header = PullMessageReply(
        suggest_which_broker_id=0, next_begin_offset=12, min_offset=1, max_offset=99
    )
    body = a_record(10) + a_record(11)
    member.answer(RemotingCommand(code=0, ext=ext_of(header), body=body))
    queue = member.request.process_queue
    assert member.submitted == [([10, 11], queue, Q, True)]
    assert (queue.count, member.request.next_offset) == (2, 12)
    assert member.figures_of == [("T", 2, 30, 5_030)]
    assert member.again == [(member.request, 9)]
    first = queue.first()
    assert first is not None
    assert (first.properties["MIN_OFFSET"], first.properties["MAX_OFFSET"]) == ("1", "99")
    assert first.broker_name == "broker-a"


async def test_messages_of_other_tags_are_passed_over() -> None:
    member = GroupMember(expression="TagA")
    await member.answered(body=a_record(10, "TagB") + a_record(11, "TagA"))
    assert [offsets for offsets, *_ in member.submitted] == [[11]]
    member = GroupMember(expression="TagA", pull_interval_ms=9)
    await member.answered(body=a_record(10, "TagB"))
    assert (member.submitted, member.request.next_offset) == ([], 12)
    assert member.again == [(member.request, 0)], "the next pull is at once: the broker has more"


@pytest.mark.parametrize(
    "code", [ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY]
)
async def test_an_answer_without_messages_moves_the_offset_of_an_empty_queue(code) -> None:
    member = GroupMember(pull_interval_ms=9)
    await member.answered(code)
    assert (member.table.get(Q), member.request.next_offset) == (12, 12)
    assert member.again == [(member.request, 0)]
    await member.answered(0, 13, a_record(12))
    await member.answered(code, 20)
    assert member.table.get(Q) == 12, "a message is still in consumption"


async def test_the_next_pull_goes_where_the_broker_suggested() -> None:
    member = GroupMember()
    member.addresses = {0: "master:1", 1: "slave:1"}
    await member.answered(suggested=1)
    await member.pull()
    assert [address for address, _, _ in member.asked] == ["master:1", "slave:1"]


async def test_since_5_2_an_offset_that_the_broker_lacks_is_repaired_at_once() -> None:
    member = GroupMember("5.2.0")
    await member.answered(ResponseCode.PULL_OFFSET_MOVED, 60)
    assert member.facts == [OffsetRepaired("g", QUEUE, 10, 60)]
    assert (member.request.process_queue.dropped, member.again) == (True, [])
    member.table.update(Q, 5)
    assert (member.table.get(Q), member.request.next_offset) == (60, 60), "the offset is frozen"
    ((delay_ms, work),) = member.later_calls
    assert delay_ms is None
    await work()
    assert member.steps == [("persist", Q), ("replace", Q), ("wake", "offset repaired")]


async def test_before_5_2_an_offset_that_the_broker_lacks_is_repaired_10_seconds_later() -> None:
    member = GroupMember("5.1.4")
    await member.answered(ResponseCode.PULL_OFFSET_MOVED, 60)
    assert (member.request.process_queue.dropped, member.again) == (True, [])
    assert member.table.get(Q) is None
    ((delay_ms, repair),) = member.later_calls
    assert delay_ms == 10_000
    repair()
    assert member.table.get(Q) == 60
    await member.later_calls[1][1]()
    assert member.steps == [("persist", Q), ("replace", Q)]


@pytest.mark.parametrize(
    ("release", "delay_ms"), [("4.9.4", 1_000), ("4.9.5", 20), ("5.0.0", 1_000), ("5.1.0", 20)]
)
async def test_a_busy_broker_is_asked_again_soon_since_4_9_5_and_5_1_0(release, delay_ms) -> None:
    member = GroupMember(release)
    await member.answered(ResponseCode.FLOW_CONTROL)
    assert member.again == [(member.request, delay_ms)]
    assert member.facts == [PullFailed("g", QUEUE, "code 215: as scripted")]


async def test_any_other_refusal_costs_a_second() -> None:
    member = GroupMember()
    await member.answered(ResponseCode.SYSTEM_ERROR)
    assert member.again == [(member.request, 1_000)]
    assert member.facts == [PullFailed("g", QUEUE, "code 1: as scripted")]


async def test_silence_and_nonsense_cost_a_second_too() -> None:
    member = GroupMember()
    await member.pull()
    member.answer(NoAnswer("broker-a", "silence"))
    member.answer(RemotingCommand(code=0, ext=ext_of(None)))
    assert member.again == [(member.request, 1_000)] * 2
    assert len(member.errors) == 2
    assert member.errors[0] == "broker-a: silence"
    assert "None" not in "".join(member.errors)
    assert member.request.next_offset == 10


async def test_an_answer_after_the_end_is_not_read() -> None:
    member = GroupMember()
    await member.pull()
    member.is_running = False
    member.answer(NoAnswer("broker-a", "silence"))
    assert (member.facts, member.again) == ([], [])


# Cached messages --------------------------------------------------------------------------


def a_message(offset, size=4) -> SimpleNamespace:
    return SimpleNamespace(queue_offset=offset, body=bytes(size))


def test_a_queue_is_full_by_count_by_size_and_unless_orderly_by_span() -> None:
    limits = {"queue_messages_max": 2, "queue_mib_max": 1, "queue_span_max": 10}
    for orderly in (False, True):
        flow = FlowControl(PushConsumerConfig(group="g", namesrv="n:1", orderly=orderly, **limits))
        for messages, full in (
            ([a_message(0), a_message(1)], False),
            ([a_message(0), a_message(1), a_message(2)], True),
            ([a_message(0, 2 * 2**20 - 1)], False),
            ([a_message(0, 2 * 2**20)], True),
            ([a_message(0), a_message(10)], False),
            ([a_message(0), a_message(11)], not orderly),
        ):
            queue = ProcessQueue(0)
            queue.put(messages)
            assert flow.is_full(queue) is full


def test_limits_of_a_topic_are_divided_by_the_held_queues() -> None:
    limits = {"topic_messages_max": 10, "topic_mib_max": 9}
    flow = FlowControl(PushConsumerConfig(group="g", namesrv="n:1", **limits))
    found = []
    for queues in (0, 4, 20, 0):
        flow.divide(queues)
        found.append((flow.messages_max, flow.mib_max))
    assert found == [(1_000, 100), (2, 2), (1, 1), (1, 1)]
    flow = FlowControl(PushConsumerConfig(group="g", namesrv="n:1"))
    flow.divide(4)
    assert (flow.messages_max, flow.mib_max) == (1_000, 100), "limits of queues are not divided"


def test_a_queue_counts_its_bytes_down_as_messages_are_finished() -> None:
    queue = ProcessQueue(0)
    messages = [a_message(5, 10), a_message(6, 20), a_message(7, 40)]
    queue.put(messages)
    assert (queue.bytes_cached, queue.offset_highest, queue.span) == (70, 7, 2)
    assert queue.remove([messages[1]], now_ms=9) == 5
    assert (queue.bytes_cached, queue.count, queue.last_consume_ms) == (50, 2, 9)
    assert queue.remove([messages[1]], now_ms=9) == 5, "a second removal changes nothing"
    assert queue.bytes_cached == 50
    assert queue.remove([messages[0], messages[2]], now_ms=9) == 8
    assert (queue.bytes_cached, queue.span, queue.first()) == (0, 0, None)
    assert queue.remove(messages, now_ms=10) == -1
    assert queue.last_consume_ms == 10


def test_an_orderly_queue_commits_what_was_taken() -> None:
    queue = ProcessQueue(0)
    queue.put([a_message(5, 10), a_message(6, 20), a_message(7, 40)])
    assert queue.commit() == -1
    assert [m.queue_offset for m in queue.take(2, now_ms=9)] == [5, 6]
    assert ([m.queue_offset for m in queue.taken], queue.last_consume_ms) == ([5, 6], 9)
    assert (queue.count, 5 in queue, 7 in queue) == (3, False, True)
    queue.rollback()
    assert [m.queue_offset for m in queue.take(9, now_ms=9)] == [5, 6, 7]
    assert queue.is_waiting is False
    assert queue.commit() == 8
    assert (queue.bytes_cached, queue.count) == (0, 0)
    assert queue.put([a_message(8)]) is False, "the listener still runs"
    assert queue.take(1, 9) != []
    assert queue.take(1, 9) == []
    assert queue.put([a_message(9)]) is True


def test_a_cleared_queue_begins_at_any_offset_again() -> None:
    queue = ProcessQueue(0)
    queue.put([a_message(5)])
    queue.take(1, now_ms=9)
    queue.clear()
    assert (queue.count, queue.bytes_cached, queue.offset_highest) == (0, 0, 0)
    message = a_message(0)
    queue.put([message])
    assert queue.remove([message], now_ms=9) == 1


def test_a_message_that_no_listener_has_can_be_consumed_again_too() -> None:
    queue = ProcessQueue(0)
    queue.put([a_message(5), a_message(7)])
    queue.consume_again([a_message(7), a_message(6)])
    assert [message.queue_offset for message in queue.take(9, now_ms=9)] == [5, 6, 7]


def test_how_long_a_queue_may_be_left_alone() -> None:
    queue = ProcessQueue(1_000, locked=True)
    assert not queue.is_pull_expired(121_000)
    assert queue.is_pull_expired(121_001)
    assert queue.holds_lock(31_000)
    assert not queue.holds_lock(31_001)
    queue.last_lock_ms, queue.locked = 31_001, False
    assert not queue.holds_lock(31_001)
    assert ProcessQueue(1_000).locked is False


@pytest.mark.parametrize(("release", "kept"), [("5.3.1", 1), ("5.3.2", 0)])
def test_before_5_3_2_the_flag_of_a_compressed_body_stays(release, kept) -> None:
    member = GroupMember(release)
    body = a_record(10, body=zlib.compress(b"body"), sys_flag=COMPRESSED)
    _, (found,) = PullKernel(member).read(a_reply(body), Q, member.subscriptions["T"])
    assert (found.body, found.sys_flag & COMPRESSED) == (b"body", kept)


@pytest.mark.parametrize(("release", "offsets"), [("4.9.8", [10, 11]), ("5.0.0", [])])
def test_since_5_0_a_record_of_another_magic_ends_what_is_read(release, offsets) -> None:
    member = GroupMember(release)
    record = bytearray(a_record(10) + a_record(11))
    record[4:8] = (0x0BADCAFE).to_bytes(4, "big")
    _, found = PullKernel(member).read(a_reply(bytes(record)), Q, member.subscriptions["T"])
    assert [message.queue_offset for message in found] == offsets
