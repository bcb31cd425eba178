"""Questions about an allocation strategy's function alone; they need no cluster.

How evenly queues are shared depends on client ids, so ``allocation`` draws them from its seed.
"""

from __future__ import annotations

import msgspec

from rocketmq_emulator.scenarios import question
from rocketmq_emulator.scenarios.catalog.allocation_question import Allocation
from rocketmq_emulator.scenarios.catalog.allocation_question import allocation as answer
from rocketmq_emulator.scenarios.catalog.strategy_judge import GroupShape, finding
from rocketmq_emulator.scenarios.plan.strategies import strategy_named


@question
def allocation(
    seed: int,
    strategy: str = "averagely",
    brokers: int = 1,
    queues: int = 8,
    members: int = 3,
    topics: int = 1,
    virtual_nodes: int = 10,
    ids: str = "ip_pid_nanos",
    restart: bool = False,
    surge: bool = False,
    leaver: str = "last",
    read_only: str = "last",
    topic: str = "orders",
) -> dict[str, float]:
    """How evenly a strategy shares queues among client ids drawn from a seed.

    Topics have queues on each of the brokers.  The numbers: the most and the fewest queues of a
    member (queues_max, queues_min, queues_sigma, max_to_min, max_to_mean), queues of the member
    that sorts first (first_queues), members without queues (idle_members), queues that change
    their owner when a member leaves or another one joins (moves_leave, moves_join) and those that
    have to (necessary_leave, necessary_join).  With several brokers also members whose queues are
    all on the read-only broker (read_only_idle_members), and the minimum, mean and maximum over
    all brokers.  With restart also the queues that move while all members are restarted one by one
    (moves_restart); with surge each new process starts before the old one ends.  The member that
    leaves (leaver) is the first, the middle or the last of the sorted ids, or any; the read-only
    broker (read_only) is the first, the middle, the last, or a name (broker-0).  The seed draws
    the names of topics and brokers if the topic is any.
    """
    asked = Allocation(
        strategy=strategy,
        brokers=brokers,
        queues=queues,
        members=members,
        topics=topics,
        virtual_nodes=virtual_nodes,
        ids=ids,
        restart=restart,
        surge=surge,
        leaver=leaver,
        read_only=read_only,
        topic=topic,
    )
    return answer(asked, seed)


# One shape of a group, without random numbers -----------------------------------------


@question
def sharing(
    seed: int, strategy: str = "averagely", brokers: int = 4, queues: int = 4, members: int = 3
) -> dict[str, float]:
    """How evenly a strategy shares queues, and how many move when a member leaves or joins.

    The numbers are those of ``rmqemu strategy judge`` for one shape.  They do not depend on the
    seed, so one seed is enough.
    """
    del seed
    found = finding(strategy_named(strategy).allocate, GroupShape(brokers, queues, members))
    numbers = msgspec.structs.asdict(found)
    del numbers["shape"]
    return {name: float(count) for name, count in numbers.items()}
