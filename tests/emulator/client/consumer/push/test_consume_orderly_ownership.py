"""Locks of an orderly consumer: their renewal and release, and the waits for them."""

from __future__ import annotations

from collections import defaultdict
from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest
import trio

from rocketmq_emulator.client.consumer.push.consume_orderly import (
    LockedOwnership,
    OrderlyProcessQueue,
    QueueLocks,
)
from rocketmq_emulator.client.settings.config import PushConsumerConfig
from rocketmq_emulator.errors.call_errors import NoAnswer
from rocketmq_emulator.protocol.queues import MessageQueue
from rocketmq_emulator.settings.releases import Release

A0, A1, B0 = (MessageQueue("T", *place) for place in (("a", 0), ("a", 1), ("b", 0)))


class GroupMember:
    """The parts of a member that locks use; its brokers grant all but ``refused`` queues."""

    def __init__(self, *queues: MessageQueue, release: str = "5.3.3") -> None:
        self.config = PushConsumerConfig(
            group="g", namesrv="127.0.0.1:9876", orderly=True, release=release
        )
        self.release = Release.parse(release)
        self.is_broadcasting = False
        self.time_ms = 1_000
        self.process_queue_table = {
            queue: OrderlyProcessQueue(self.time_ms, locked=True) for queue in queues
        }
        self.calls = self.offsets = self
        self.silent: set[str] = set()
        self.refused: set[MessageQueue] = set()
        self.journal: list[tuple[object, ...]] = []
        self.due = defaultdict(list)

    def now_ms(self) -> int:
        return self.time_ms

    def call_later(self, delay_ms: int, action) -> None:
        self.due[delay_ms].append(action)

    def persist(self, queue: MessageQueue) -> None:
        self.journal.append(("persist", queue))

    def forget(self, queue: MessageQueue) -> None:
        self.journal.append(("forget", queue))

    async def lock(self, broker: str, queues: list[MessageQueue]) -> frozenset[MessageQueue]:
        self._answer("lock", broker, queues)
        return frozenset(queues) - self.refused

    async def unlock(self, broker: str, queues: list[MessageQueue]) -> None:
        self._answer("unlock", broker, queues)

    def unlock_soon(self, queue: MessageQueue) -> None:
        self.journal.append(("unlock soon", queue))

    def _answer(self, verb: str, broker: str, queues: list[MessageQueue]) -> None:
        self.journal.append((verb, broker, queues))
        if broker in self.silent:
            raise NoAnswer(broker, "silence")

    def locked(self) -> dict[MessageQueue, bool]:
        return {
            queue: process_queue.locked
            for queue, process_queue in self.process_queue_table.items()
        }


@asynccontextmanager
async def a_listener_at_work(queue: OrderlyProcessQueue):
    """A listener that does not return before the block ends."""

    async def listen(*, task_status) -> None:
        async with queue.consume_lock:
            task_status.started()
            await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        await nursery.start(listen)
        yield
        nursery.cancel_scope.cancel()


def a_message(offset: int) -> SimpleNamespace:
    return SimpleNamespace(queue_offset=offset, body=b"body")


def test_a_new_queue_is_not_locked_unless_its_lock_is_told() -> None:
    assert not OrderlyProcessQueue(0).locked


async def test_a_queue_whose_broker_does_not_answer_is_not_locked() -> None:
    member = GroupMember(A0)
    member.silent = {"a"}
    assert await QueueLocks(member).lock(A0) is False


async def test_a_silent_broker_does_not_keep_others_from_renewal() -> None:
    member = GroupMember(A0, B0)
    member.silent, member.time_ms = {"a"}, 21_000
    await QueueLocks(member).renew()
    assert member.journal == [("lock", "a", [A0]), ("lock", "b", [B0])]
    assert [member.process_queue_table[queue].last_lock_ms for queue in (A0, B0)] == [
        1_000,
        21_000,
    ]
    assert member.locked() == {A0: True, B0: True}, "without an answer no lock changes"


async def test_a_queue_whose_renewal_is_refused_is_locked_no_more() -> None:
    member = GroupMember(A0, A1)
    member.refused, member.time_ms = {A0}, 21_000
    await QueueLocks(member).renew()
    assert member.locked() == {A0: False, A1: True}
    assert member.process_queue_table[A0].last_lock_ms == 1_000


async def test_unlocking_all_passes_over_a_silent_broker() -> None:
    member = GroupMember(A0, A1, B0)
    member.silent = {"a"}
    await QueueLocks(member).unlock_all()
    assert member.journal == [("unlock", "a", [A0, A1]), ("unlock", "b", [B0])]
    assert member.locked() == {A0: True, A1: True, B0: False}


@pytest.mark.parametrize(("release", "renewed"), [("4.9.7", [A0, A1]), ("5.0.0", [A1])])
async def test_since_5_0_locks_of_dropped_queues_are_left_to_lapse(release, renewed) -> None:
    member = GroupMember(A0, A1, release=release)
    member.process_queue_table[A0].dropped = True
    await QueueLocks(member).renew()
    assert member.journal == [("lock", "a", renewed)]


@pytest.mark.parametrize(("release", "needed"), [("5.3.1", True), ("5.3.2", False)])
def test_since_5_3_2_a_broadcasting_consumer_needs_no_locks(release, needed) -> None:
    member = GroupMember(release=release)
    assert QueueLocks(member).are_needed
    member.is_broadcasting = True
    assert QueueLocks(member).are_needed is needed


async def test_a_broadcasting_consumer_gives_a_queue_up_at_once_and_unlocks_nothing() -> None:
    member = GroupMember(A0)
    member.is_broadcasting = True
    assert await LockedOwnership(member).release(A0, member.process_queue_table[A0]) is True
    assert member.journal == [("persist", A0), ("forget", A0)]


@pytest.mark.parametrize("release", ["5.1.4", "5.2.0"])
async def test_each_wait_for_a_listener_that_does_not_return_is_counted(
    release, autojump_clock
) -> None:
    member = GroupMember(A0, release=release)
    ownership, queue = LockedOwnership(member), member.process_queue_table[A0]
    async with a_listener_at_work(queue):
        released = [await ownership.release(A0, queue) for _ in range(3)]
    assert (released, queue.unlock_tries, queue.locked) == ([False] * 3, 3, True)
    assert trio.current_time() == (3 if release == "5.1.4" else 1.5)
    assert ("unlock soon", A0) not in member.journal


@pytest.mark.parametrize(("release", "forgets"), [("5.1.4", True), ("5.2.0", False)])
async def test_since_5_2_a_queue_that_is_kept_keeps_its_offset(
    release, forgets, autojump_clock
) -> None:
    member = GroupMember(A0, release=release)
    async with a_listener_at_work(member.process_queue_table[A0]):
        await LockedOwnership(member).release(A0, member.process_queue_table[A0])
    assert (("forget", A0) in member.journal) is forgets


async def test_before_5_2_a_queue_with_messages_left_is_unlocked_20_seconds_later() -> None:
    member = GroupMember(A0, release="4.9.7")
    member.process_queue_table[A0].put([a_message(5)])
    assert await LockedOwnership(member).release(A0, member.process_queue_table[A0]) is True
    assert ("unlock soon", A0) not in member.journal
    (unlock,) = member.due[20_000]
    unlock()
    assert member.journal[-1] == ("unlock soon", A0)
    assert not member.process_queue_table[A0].consume_lock.locked()


async def test_before_5_2_an_empty_queue_is_unlocked_at_once() -> None:
    member = GroupMember(A0, release="4.9.7")
    assert await LockedOwnership(member).release(A0, member.process_queue_table[A0]) is True
    assert member.journal[-1] == ("unlock soon", A0)
    assert not member.process_queue_table[A0].consume_lock.locked()


@pytest.mark.parametrize(("silent_ms", "released"), [(20_000, False), (20_001, True)])
async def test_since_5_2_a_dropped_queue_waits_20_seconds_and_no_longer(
    silent_ms, released, autojump_clock
) -> None:
    member = GroupMember(A0, release="5.2.0")
    queue = member.process_queue_table[A0]
    queue.dropped, member.time_ms = True, 1_000 + silent_ms
    async with a_listener_at_work(queue):
        assert await LockedOwnership(member).release(A0, queue) is released
        assert queue.consume_lock.locked(), "the listener that hangs still holds it"
    assert queue.locked is not released
    assert (("unlock soon", A0) in member.journal) is released


async def test_since_5_2_a_queue_that_was_not_dropped_is_never_forced(autojump_clock) -> None:
    member = GroupMember(A0, release="5.2.0")
    member.time_ms = 100_000
    async with a_listener_at_work(member.process_queue_table[A0]):
        assert not await LockedOwnership(member).release(A0, member.process_queue_table[A0])
