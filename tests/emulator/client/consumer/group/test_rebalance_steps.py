"""The steps of a pass: when queues are dropped, which are pulled, the state after a failure."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from rocketmq_emulator.client.consumer.group.allocation import CannotAllocate, Strategy
from rocketmq_emulator.client.consumer.group.process_queue import ProcessQueue
from rocketmq_emulator.client.consumer.group.rebalance import PullRequestDispatcher, Rebalance
from rocketmq_emulator.errors.call_errors import NoAnswer
from rocketmq_emulator.facts import QueuesClaimed, QueuesReleased
from rocketmq_emulator.protocol.queues import MessageQueue
from rocketmq_emulator.settings.releases import Release

ME = "10.0.0.1@me"
ALL = Strategy("ALL", lambda queues, members, me: list(queues))
BMP_END, ASTRAL = "\uffff", "\U00010000"  # in Java the second sorts first


def q(number: int, topic: str = "T") -> MessageQueue:
    return MessageQueue(topic, "broker-a", number)


class GroupMember:
    """The parts of a member that a rebalance uses; ``journal`` has their calls in order."""

    def __init__(self, release: str = "5.3.3") -> None:
        self.group = "g"
        self.release = Release.parse(release)
        self.config = SimpleNamespace(first_pull_delay_ms=100)
        self.is_broadcasting = False
        self.is_running = True
        self.subscriptions = {"T": None}
        self.process_queue_table: dict[MessageQueue, ProcessQueue] = {}
        self.ids = [ME]
        self.start = 0
        self.facts: list[object] = []
        self.journal: list[tuple[object, ...]] = []
        self.waking: list[tuple[int, object]] = []
        self.note = self.facts.append
        self.instance = self.pull_service = self.rebalance_service = self
        self.calls = self.starts = self.offsets = self.table = self
        self.client_id = ME

    def now_ms(self) -> int:
        return 0

    async def members(self, topic):
        return self.ids

    async def find(self, queue):
        self.journal.append(("find", queue))
        if isinstance(self.start, Exception):
            raise self.start
        return self.start

    def persist(self, queue) -> None:
        self.journal.append(("persist", queue))

    def forget(self, queue) -> None:
        self.journal.append(("forget", queue))

    def update(self, queue, offset) -> None:
        self.journal.append(("move", queue, offset))

    def call_later(self, delay_ms, action) -> None:
        self.waking.append((delay_ms, action))

    def wake(self, cause) -> None:
        self.journal.append(("wake", cause))

    def pull_now(self, request) -> None:
        self.journal.append(("pull", request.queue, request.next_offset))

    def pull_later(self, request, delay_ms) -> None:
        self.journal.append(("pull later", request.queue, delay_ms))


class Owner:
    """An ownership with given functions for claims and releases."""

    process_queue_type = ProcessQueue

    def __init__(self, *, claim=lambda queue: True, release=lambda queue: True) -> None:
        self._claim, self._release = claim, release

    async def claim(self, queue):
        return self._claim(queue)

    async def release(self, queue, process_queue):
        return self._release(queue)


def a_rebalance(member, *queues, strategy=ALL, ownership=None, changes=None) -> Rebalance:
    async def on_change(topic, mine) -> None:
        if changes is not None:
            changes.append((topic, sorted(mine)))

    dispatch = PullRequestDispatcher(member).dispatch
    rebalance = Rebalance(member, strategy, ownership, on_change, dispatch)
    rebalance.queues["T"] = frozenset(queues)
    return rebalance


@pytest.mark.parametrize("release", ["4.9.7", "5.3.3"])
async def test_a_queue_that_is_replaced_while_another_one_is_released_is_released_once(
    release: str,
) -> None:
    member = GroupMember(release)
    member.process_queue_table = {q(number): ProcessQueue(0, locked=True) for number in range(2)}
    member.ids = [ME, "other"]
    released: list[MessageQueue] = []

    class ReplacingOwner(Owner):
        async def release(self, queue, process_queue):
            released.append(queue)
            if queue == q(0):
                await rebalance.replace(q(1))
            return True

    nothing = Strategy("NOTHING", lambda queues, members, me: [])
    owner = ReplacingOwner()
    rebalance = a_rebalance(member, q(0), q(1), strategy=nothing, ownership=owner)
    await rebalance.run_pass("timer")
    assert released == [q(0), q(1)]
    reasons = [fact.reason for fact in member.facts if isinstance(fact, QueuesReleased)]
    assert reasons == ["reset", "not mine"]


async def test_a_pass_is_unbalanced_while_any_of_its_topics_is() -> None:
    for unbalanced in ("T", "U"):
        member = GroupMember()
        member.subscriptions = {"T": None, "U": None}
        rebalance = a_rebalance(member, q(0))
        rebalance.queues["U"] = frozenset([q(0, "U")])

        async def find(queue, unbalanced=unbalanced):
            return -1 if queue.topic == unbalanced else 0

        member.find = find
        assert await rebalance.run_pass("timer") is False
        assert [queue.topic for queue in member.process_queue_table] == [
            {"T": "U", "U": "T"}[unbalanced]
        ]


@pytest.mark.parametrize(("topic", "balanced"), [("T", False), ("%RETRY%g", True)])
async def test_what_a_strategy_cannot_share_out_is_unbalanced_but_for_the_retry_topic(
    topic, balanced
) -> None:
    def fail(queues, members, me):
        raise CannotAllocate("as scripted")

    member = GroupMember()
    member.subscriptions = {topic: None}
    rebalance = a_rebalance(member, strategy=Strategy("MINE", fail))
    rebalance.queues[topic] = frozenset([q(0, topic)])
    assert await rebalance.run_pass("timer") is balanced


@pytest.mark.parametrize("broadcasting", [False, True])
async def test_a_topic_without_a_route_keeps_its_queues_and_counts_as_balanced(
    *, broadcasting
) -> None:
    member = GroupMember()
    member.is_broadcasting = broadcasting
    member.process_queue_table[q(0)] = ProcessQueue(0)
    rebalance = a_rebalance(member)
    del rebalance.queues["T"]
    assert await rebalance.run_pass("timer") is True
    assert list(member.process_queue_table) == [q(0)]


async def test_queues_of_topics_that_were_unsubscribed_are_dropped() -> None:
    member = GroupMember()
    held = member.process_queue_table[q(0, "U")] = ProcessQueue(0)
    await a_rebalance(member).run_pass("timer")
    assert (member.process_queue_table, held.dropped) == ({}, True)
    assert [fact.reason for fact in member.facts if isinstance(fact, QueuesReleased)] == [
        "unsubscribed"
    ]


async def test_members_are_put_in_the_order_of_java_s_strings() -> None:
    seen = []

    def allocate(queues, members, me):
        seen.append((queues, members, me))
        return []

    member = GroupMember()
    member.ids = [BMP_END, ME, ASTRAL]
    await a_rebalance(member, q(1), q(0), strategy=Strategy("MINE", allocate)).run_pass("timer")
    assert seen == [([q(0), q(1)], (ME, ASTRAL, BMP_END), ME)]


async def test_only_a_pass_that_changed_the_held_queues_is_told() -> None:
    member, changes = GroupMember(), []
    rebalance = a_rebalance(member, q(0), changes=changes)
    for _ in range(2):
        assert await rebalance.run_pass("timer") is True
    assert changes == [("T", [q(0)])]
    rebalance.queues["T"] = frozenset()
    assert await rebalance.run_pass("timer") is True
    assert changes[1:] == [("T", [])]


@pytest.mark.parametrize(("release", "seen"), [("4.9.8", False), ("5.0.0", True)])
async def test_since_5_0_all_leaving_queues_are_dropped_before_the_first_is_waited_for(
    release, seen
) -> None:
    member = GroupMember(release)
    queues = member.process_queue_table = {q(0): ProcessQueue(0), q(1): ProcessQueue(0)}
    states = []

    def let_go(queue):
        states.append([queues[q(0)].dropped, queues[q(1)].dropped])
        return False

    await a_rebalance(member, ownership=Owner(release=let_go)).run_pass("timer")
    assert states == [[True, seen], [True, True]]
    assert list(member.process_queue_table) == [q(0), q(1)], "both queues are still held"
    assert member.facts[1:] == [], "no queue was released"


async def test_a_queue_that_is_given_up_by_another_step_meanwhile_is_no_failure() -> None:
    member = GroupMember()
    member.process_queue_table = {q(0): ProcessQueue(0), q(1): ProcessQueue(0)}

    def let_go(queue):
        member.process_queue_table.pop(queue, None)
        return True

    rebalance = a_rebalance(member, ownership=Owner(release=let_go))
    await rebalance.run_pass("timer")
    assert member.process_queue_table == {}
    member.process_queue_table = {q(0): ProcessQueue(0)}
    await rebalance.reset({q(0): 7})
    await rebalance.replace(q(0))
    assert member.process_queue_table == {}


async def test_a_queue_that_is_replaced_is_dropped_and_released() -> None:
    member = GroupMember()
    held = member.process_queue_table[q(0)] = ProcessQueue(0)
    rebalance = a_rebalance(member)
    await rebalance.replace(q(0))
    await rebalance.replace(q(1))
    assert (member.process_queue_table, held.dropped) == ({}, True)
    assert member.journal == [("persist", q(0)), ("forget", q(0))]
    (released,) = member.facts
    assert (released.reason, [one.queue_id for one in released.queues]) == ("reset", [0])


async def test_a_reset_moves_the_held_queues_that_it_names() -> None:
    member = GroupMember()
    member.process_queue_table = {
        q(1): ProcessQueue(0),
        q(0): ProcessQueue(0),
        q(2): ProcessQueue(0),
    }
    await a_rebalance(member).reset({q(0): 5, q(2): 6, q(3): 7})
    assert [step for step in member.journal if step[0] == "move"] == [
        ("move", q(0), 5),
        ("move", q(2), 6),
    ]
    assert list(member.process_queue_table) == [q(1)]
    assert [(f.reason, f.queues[0].queue_id) for f in member.facts] == [("reset", 0), ("reset", 2)]


async def test_the_end_drops_every_queue_and_says_so_once() -> None:
    member = GroupMember()
    queues = [ProcessQueue(0), ProcessQueue(0)]
    member.process_queue_table = {q(1): queues[0], q(0): queues[1]}
    rebalance = a_rebalance(member)
    rebalance.drop_all()
    rebalance.drop_all()
    assert [queue.dropped for queue in queues] == [True, True]
    assert member.process_queue_table == {}
    (released,) = member.facts
    assert (released.reason, [one.queue_id for one in released.queues]) == ("shutdown", [0, 1])


@pytest.mark.parametrize(("release", "wakes"), [("4.9.8", False), ("5.0.0", True)])
async def test_a_refused_lock_passes_over_one_queue_only(release, wakes) -> None:
    member = GroupMember(release)
    ownership = Owner(claim=lambda queue: queue != q(0))
    assert not await a_rebalance(member, q(0), q(1), ownership=ownership).run_pass("timer")
    assert list(member.process_queue_table) == [q(1)]
    assert [delay_ms for delay_ms, _ in member.waking] == [500] * wakes
    for _, action in member.waking:
        action()
    assert (("wake", "lock refused") in member.journal) is wakes


@pytest.mark.parametrize("start", [-1, NoAnswer("broker-a", "silence")])
async def test_a_queue_whose_start_is_unknown_is_not_claimed(start) -> None:
    member = GroupMember()
    member.start = start
    assert not await a_rebalance(member, q(0)).run_pass("timer")
    assert member.process_queue_table == {}
    assert member.journal == [("forget", q(0)), ("find", q(0))]
    assert not [fact for fact in member.facts if isinstance(fact, QueuesClaimed)]


async def test_a_queue_that_came_by_another_way_meanwhile_is_not_claimed_twice() -> None:
    member = GroupMember()
    other = ProcessQueue(0)

    async def find(queue):
        member.process_queue_table[queue] = other
        return 0

    member.find = find
    await a_rebalance(member, q(0)).run_pass("timer")
    assert member.process_queue_table == {q(0): other}
    assert not [step for step in member.journal if step[0].startswith("pull")]


@pytest.mark.parametrize(
    ("release", "pull"),
    [("4.9.8", ("pull", q(0), 3)), ("5.0.0", ("pull later", q(0), 100))],
)
async def test_the_first_pull_of_a_queue_is_delayed_since_5_0(release, pull) -> None:
    member = GroupMember(release)
    member.start = 3
    await a_rebalance(member, q(0)).run_pass("timer")
    assert member.journal[-1] == pull
