"""The owner of each queue, and the cost of a rebalance.

Too many members, members that die, queues that are added, queues that move without need, members
without queues.
"""

from __future__ import annotations

from collections.abc import Sequence

from rocketmq_emulator import MessageQueue
from rocketmq_emulator.scenarios import Run, metric, nothing_lost, scenario, unowned_s


@scenario(issue="alibaba/RocketMQ#147")
async def more_members_than_queues(run: Run, members: int = 8) -> None:
    """Eight consumers share four queues.

    A queue has one owner in a group: with more members than queues some members get none, with
    every strategy.
    """
    await run.cluster(brokers=1, topics={"orders": 4})
    await run.consumers("billing", members=members, topic="orders")
    with run.load("orders", rate=10):
        await run.sleep(60)
    await run.until_quiet()
    run.expect(nothing_lost(), metric("queueless_members", "billing") == max(0, members - 4))


@scenario(issue="alibaba/RocketMQ#322")
async def a_member_dies(run: Run) -> None:
    """One of two consumers of a group is killed.

    Its connections close, so the brokers notify the other consumer at once.  It claims all queues
    in its next rebalance and pulls them 1 s later at most.
    """
    await run.cluster(brokers=2, topics={"orders": 4})
    await run.consumers("billing", members=2, topic="orders")
    with run.load("orders", rate=10):
        await run.sleep(60)
        with run.kill("billing-2"):
            await run.sleep(60)
    await run.until_quiet()
    run.expect(nothing_lost(), unowned_s() <= 1, metric("delivery_gap_s") <= 3)


@scenario(issue="apache/rocketmq-client-go#1056")
async def a_topic_gets_more_queues(run: Run) -> None:
    """A topic of four queues gets eight while it is consumed.

    The broker registers at once; consumers get the new route with their next poll (30 s) and claim
    the new queues with the rebalance after it (20 s).  Producers send there after their own poll.
    """
    await run.cluster(brokers=1, topics={"orders": 4})
    await run.consumers("billing", members=2, topic="orders")
    with run.load("orders", rate=10):
        await run.sleep(40)
        run.grow_topic("orders", queues=8)
        await run.sleep(90)
    await run.until_quiet()
    run.expect(nothing_lost(), metric("backlog") == 0, unowned_s() <= 51)


@scenario(issue="apache/rocketmq#1945")
async def ten_topics_tilt(run: Run, topics: int = 10, strategy: str = "averagely") -> None:
    """Two consumers share ten topics of five queues each.

    Each topic is allocated separately, and the first member gets the odd queue of each: thirty
    queues against twenty.  No strategy of RocketMQ considers the other topics.
    """
    names = [f"orders-{number}" for number in range(topics)]
    await run.cluster(brokers=1, topics=dict.fromkeys(names, 5))
    await run.consumers("billing", members=2, topics=dict.fromkeys(names, "*"), strategy=strategy)
    with run.load(names[0], rate=5):
        await run.sleep(60)
    await run.until_quiet()
    run.expect(nothing_lost(), metric("skew_queues") == topics)


@scenario(issue="apache/rocketmq#1095")
async def a_member_is_cut_off_from_one_broker(run: Run) -> None:
    """The network between one consumer and one of two brokers fails, and queues get two owners.

    That broker removes the member, the other one does not.  A consumer that queries the first
    broker gets a list without the member, and claims queues of the other broker which the member
    still consumes.  Each time that lasts until the next rebalance, 20 s, and it happens again
    until the network is back.  An orderly group claims as much, but only one of two members has
    the lock.
    """
    await run.cluster(brokers=2, topics={"orders": 4})
    await run.consumers("billing", members=2, topic="orders")
    with run.load("orders", rate=4):
        await run.sleep(60)
        with run.partition(between=("billing-2", "broker-b")):
            await run.sleep(180)
        await run.sleep(40)
    await run.until_quiet()
    run.expect(
        nothing_lost(),
        metric("backlog") == 0,
        metric("overlap_s") >= 15,
        metric("overlap_s") <= 21,
    )


# The cost of a rebalance --------------------------------------------------------------


HERE = "rocketmq_emulator.scenarios.library.rebalancing"
ROOMS = {"broker-a": "A", "broker-b": "B", "broker-c": "C"}
NAMES = {f"billing-{number}": {"instance_name": f"C{number}"} for number in (1, 2, 3, 4)}
FIFTH = {"billing-5": {"instance_name": "C5"}}
ONE_MACHINE = {"client_ip": "10.9.0.1"}  # so that members sort by their numbers


@scenario(issue="apache/rocketmq#2149")
async def queues_move_for_nothing(run: Run, strategy: str = "averagely") -> None:
    """One of five members that share 24 queues leaves, and more queues move than it had.

    Each rebalance is computed from the lists of queues and members alone, without the earlier
    owners, so the shares of the remaining members shift.  4 queues have to move; averagely moves
    10, by circle 16.  A hash ring moves only the queues of the member that left, but its shares
    are not even.
    """
    await run.cluster(brokers=1, topics={"orders": 24})
    names = NAMES | FIFTH
    await run.consumers(
        "billing",
        members=5,
        topic="orders",
        strategy=strategy,
        settings=ONE_MACHINE,
        settings_of=names,
    )
    with run.load("orders", rate=5):
        await run.sleep(45)
        run.leave("billing-5")
        await run.sleep(30)
    await run.until_quiet()
    run.expect(nothing_lost(), metric("needless_moves") == 0)


@scenario(issue="apache/rocketmq#2443")
async def rooms_without_members(run: Run, together: bool = False) -> None:
    """Three rooms have three queues each, and all four members are in the third room.

    The strategy for machine rooms allocates each room without members separately: three queues for
    four members, so the member that sorts last gets none, in each of these rooms.  Upstream never
    changed it; allocating the queues of these rooms together gives every member queues.
    """
    await run.cluster(brokers=3, topics={"orders": 3})
    names = NAMES
    how = f"{HERE}:rooms_together" if together else f"{HERE}:rooms_one_by_one"
    await run.consumers(
        "billing", members=4, topic="orders", strategy=how, settings=ONE_MACHINE, settings_of=names
    )
    with run.load("orders", rate=9):
        await run.sleep(60)
    await run.until_quiet()
    run.expect(nothing_lost(), metric("queueless_members") == 0)


def rooms_one_by_one(
    queues: Sequence[MessageQueue], members: Sequence[str], me: str
) -> list[MessageQueue]:
    """Allocates as AllocateMachineRoomNearby over averagely does."""
    mine: list[MessageQueue] = []
    for room in sorted(set(ROOMS.values())):
        there = [member for member in members if room_of(member) == room]
        mine += shared([q for q in queues if ROOMS[q.broker_name] == room], there or members, me)
    return mine


def rooms_together(
    queues: Sequence[MessageQueue], members: Sequence[str], me: str
) -> list[MessageQueue]:
    """Allocates the queues of all rooms without members as those of one room."""
    inhabited = {room_of(member) for member in members}
    near = [queue for queue in queues if ROOMS[queue.broker_name] == room_of(me)]
    far = [queue for queue in queues if ROOMS[queue.broker_name] not in inhabited]
    neighbours = [member for member in members if room_of(member) == room_of(me)]
    return shared(near, neighbours, me) + shared(far, members, me)


def room_of(member: str) -> str:
    """The first letter of its instance's name: ``10.0.0.4@C1``."""
    return member.partition("@")[2][:1]


def shared(queues: Sequence[MessageQueue], members: Sequence[str], me: str) -> list[MessageQueue]:
    """Averagely: runs of queues in order, the first members get one more."""
    if me not in members:
        return []
    share, extra = divmod(len(queues), len(members))
    at = members.index(me)
    begin = at * share + min(at, extra)
    return list(queues[begin : begin + share + (at < extra)])
