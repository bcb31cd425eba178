"""What it costs to share queues anew: queues that move for nothing, members left without."""

from __future__ import annotations

from collections.abc import Sequence

from rocketmq_emulator import MessageQueue
from rocketmq_emulator.scenarios import Run, metric, nothing_lost, scenario

HERE = "scenarios.library.rebalancing"
ROOMS = {"broker-a": "A", "broker-b": "B", "broker-c": "C"}
NAMES = {f"billing-{number}": {"instance_name": f"C{number}"} for number in (1, 2, 3, 4)}
FIFTH = {"billing-5": {"instance_name": "C5"}}
ONE_MACHINE = {"client_ip": "10.9.0.1"}  # so that members sort by their numbers


@scenario(issue="apache/rocketmq#2149")
async def queues_move_for_nothing(run: Run, strategy: str = "averagely") -> None:
    """One of five members that share 24 queues leaves, and more queues move than it had.

    Each pass is computed from the lists alone and nothing remembers who had what: the shares of
    those who stay shift.  4 queues have to move; averagely moves 10, by circle 16.  A hash ring
    moves only what the one that left had, and pays with shares that are not even.
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

    The strategy for machine rooms shares each room without members by itself: three queues for
    four members, so the one that sorts last gets none, three times over.  It was never changed;
    sharing those rooms' queues together gives everybody work.
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
    """As AllocateMachineRoomNearby over averagely does."""
    mine: list[MessageQueue] = []
    for room in sorted(set(ROOMS.values())):
        there = [member for member in members if room_of(member) == room]
        mine += shared([q for q in queues if ROOMS[q.broker_name] == room], there or members, me)
    return mine


def rooms_together(
    queues: Sequence[MessageQueue], members: Sequence[str], me: str
) -> list[MessageQueue]:
    """The queues of all rooms without members are shared as if they were one room's."""
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
