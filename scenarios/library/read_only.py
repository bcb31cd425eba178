"""A read-only broker: its queues stay assigned, and idle."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rocketmq_emulator.scenarios import Run, idle_members, nothing_lost, scenario
from rocketmq_emulator.scenarios.catalog.allocation_question import POSITIONS
from rocketmq_emulator.scenarios.library.penalties import named_choice

ORDERS: Mapping[str, Callable[[list[int]], list[int]]] = {  # of ids: the ranks of the members
    "started": lambda ranks: ranks,
    "reversed": lambda ranks: ranks[::-1],
    "interleaved": lambda ranks: [*ranks[::2], *ranks[1::2]],
}
ONE_BY_ONE = {"consume_threads_max": 1}


@scenario(issue="apache/rocketmq#3465")
async def a_broker_turns_read_only(
    run: Run,
    brokers: int = 2,
    queues: int = 4,
    members: int = 3,
    strategy: str = "averagely",
    backlog: bool = False,
    leaves: bool = False,
    read_only: str = "last",
    leaver: str = "last",
    order_of_ids: str = "started",
) -> None:
    """A broker turns read-only for maintenance.

    Its queues stay in the shares.  So members that hold only such queues are idle after reading
    them to the end; with a backlog they still have work.  When the idle member leaves (leaves),
    its queues go to the others, and another member becomes idle.  By circle every member has
    queues of both brokers.  The broker (read_only) is a name, or first, middle or last.  The
    member that leaves (leaver) is the first, the middle or the last of the sorted ids; the ids
    are in the order of the members' start, reversed, or interleaved (order_of_ids).
    """
    cluster = await run.cluster(brokers=brokers, topics={"orders": queues})
    names = cluster.broker_names
    broker = named_choice(
        read_only, {**_places(names), **{name: name for name in names}}, "read_only"
    )
    ranks = named_choice(order_of_ids, ORDERS, "order_of_ids")(
        list(range(1, min(members, 99) + 1))
    )
    slowly: dict[str, Any] = (
        {"settings": ONE_BY_ONE, "listener": {"takes_ms": 4_000}} if backlog else {}
    )
    billing = await run.consumers(
        "billing",
        members=members,
        topic="orders",
        strategy=strategy,
        settings_of={
            f"billing-{at}": {"client_ip": f"10.1.0.{100 + rank}"}
            for at, rank in enumerate(ranks, 1)
        },
        **slowly,
    )
    by_id = [name for _, name in sorted(zip(ranks, billing.members, strict=False))]
    with run.load("orders", rate=5 * members / 3):  # more than slow members can consume
        await run.sleep(20)
        with cluster.read_only(broker):
            await run.sleep(50)
            if leaves:
                places = _places([*by_id, *billing.members[99:]])
                run.leave(named_choice(leaver, places, "leaver"))
            await run.sleep(40)
    run.expect(nothing_lost(), idle_members("billing") == 0)


def _places(names: Sequence[str]) -> dict[str, str]:
    return {place: names[at(len(names))] for place, at in POSITIONS.items()}
