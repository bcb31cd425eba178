"""The events of weather: random single faults, and combinations of faults and actions.

A table has a row for each fault: its weight, its duration and its targets.  Some rules depend on
events that are rare by chance: a new member while a broker is down, an orderly member that is
killed for good, a member that leaves while no fault holds.  So a seed may have such a combination,
as any other feature of weather (``clients.FEATURES``); it is placed before the random events.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import NamedTuple

from rocketmq_emulator.cluster.fault_values import (
    Answer,
    Bandwidth,
    Busy,
    ClockDrift,
    ClockJump,
    CutLink,
    FailingFlush,
    Fault,
    FullDisk,
    Kill,
    Lag,
    Partition,
    Pause,
    PowerOff,
    ReadOnly,
    RefuseConnections,
    SlowDisk,
    SlowLink,
    StallLink,
    Stop,
    Unregistered,
)
from rocketmq_emulator.protocol.bodies.extensions import ReplyRule
from rocketmq_emulator.protocol.codes import RequestCode, ResponseCode
from rocketmq_emulator.scenarios.plan.plan import AnyAction, Join, Leave


class WeatherTargets(NamedTuple):
    """The nodes and groups that an event may have as its target."""

    brokers: tuple[str, ...]
    name_servers: tuple[str, ...]
    members: tuple[str, ...]
    groups: tuple[str, ...]

    @property
    def servers(self) -> tuple[str, ...]:
        """Brokers and NameServers."""
        return (*self.brokers, *self.name_servers)

    @property
    def nodes(self) -> tuple[str, ...]:
        """Servers and members, without producers."""
        return (*self.servers, *self.members)


class WeatherEvent(NamedTuple):
    """A fault or action, with its beginning and its end."""

    at_ms: int
    until_ms: int
    does: Fault | AnyAction


Make = Callable[[Random, WeatherTargets], Fault]


class WeatherFault(NamedTuple):
    """``weight`` relative to the other faults; ``lasts_s``: the shortest and longest duration."""

    weight: float
    lasts_s: tuple[float, float]
    make: Make


ANSWERS = (
    ReplyRule(code=RequestCode.SEND_MESSAGE_V2, error_code=ResponseCode.SYSTEM_BUSY),
    ReplyRule(code=RequestCode.PULL_MESSAGE, delay_ms=700),
    ReplyRule(code=RequestCode.HEART_BEAT, cut_connection=True),
    ReplyRule(code=RequestCode.GET_CONSUMER_LIST_BY_GROUP, no_answer=True),
    ReplyRule(code=RequestCode.LOCK_BATCH_MQ, delay_ms=900, probability=0.5),
    ReplyRule(code=RequestCode.UPDATE_CONSUMER_OFFSET, no_answer=True, probability=0.5),
)


def _node(rng: Random, targets: WeatherTargets) -> str:
    """A random node: a broker as often as a member, whatever their numbers."""
    roles = (targets.brokers, targets.name_servers, targets.members)
    return rng.choice(rng.choices(roles, (0.4, 0.2, 0.4))[0])


def _link_ends(rng: Random, targets: WeatherTargets) -> tuple[str, str]:
    """A server, or all brokers, and a group, a client or all clients."""
    server = rng.choice((*targets.servers, "brokers"))
    others = (*targets.groups, *targets.members, "producer", "clients")
    return server, rng.choice([name for name in others if name != server])


def _ms(rng: Random, most: float) -> float:
    """A random duration up to *most*; short ones are more frequent."""
    return float(round(most ** rng.uniform(0.2, 1.0), 1))


FAULTS_BY_CHANCE: Mapping[str, WeatherFault] = {
    "kill": WeatherFault(3, (1, 55), lambda rng, targets: Kill(node=_node(rng, targets))),
    "stop": WeatherFault(1, (1, 30), lambda rng, targets: Stop(node=rng.choice(targets.servers))),
    "pause": WeatherFault(2, (0.5, 40), lambda rng, targets: Pause(node=_node(rng, targets))),
    "power_off": WeatherFault(
        1, (2, 20), lambda rng, targets: PowerOff(node=rng.choice(targets.brokers))
    ),
    "busy": WeatherFault(
        1,
        (2, 20),
        lambda rng, targets: Busy(node=rng.choice(targets.brokers), service_ms=_ms(rng, 400)),
    ),
    "clock_jump": WeatherFault(
        1,
        (5, 40),
        lambda rng, targets: ClockJump(
            node=rng.choice(targets.nodes), ms=rng.choice((-60_000, -500, 500, 3_000, 60_000))
        ),
    ),
    "clock_drift": WeatherFault(
        1,
        (5, 40),
        lambda rng, targets: ClockDrift(
            node=rng.choice(targets.nodes), ppm=rng.choice((-500, 200, 5_000))
        ),
    ),
    "full_disk": WeatherFault(
        0.5, (1, 15), lambda rng, targets: FullDisk(node=rng.choice(targets.brokers))
    ),
    "slow_disk": WeatherFault(
        1,
        (2, 30),
        lambda rng, targets: SlowDisk(node=rng.choice(targets.brokers), flush_ms=_ms(rng, 2_000)),
    ),
    "failing_flush": WeatherFault(
        0.5,
        (1, 10),
        lambda rng, targets: FailingFlush(node=rng.choice(targets.brokers), probability=0.5),
    ),
    "slow_link": WeatherFault(
        2,
        (2, 40),
        lambda rng, targets: SlowLink(
            between=_link_ends(rng, targets), ms=_ms(rng, 4_000), jitter_ms=_ms(rng, 500)
        ),
    ),
    "bandwidth": WeatherFault(
        1,
        (2, 30),
        lambda rng, targets: Bandwidth(
            around=rng.choice(targets.servers), bytes_per_s=rng.choice((2_000, 20_000, 500_000))
        ),
    ),
    "stall": WeatherFault(
        2, (1, 30), lambda rng, targets: StallLink(between=_link_ends(rng, targets))
    ),
    "partition": WeatherFault(
        2,
        (2, 40),
        lambda rng, targets: Partition(
            between=_link_ends(rng, targets), one_way=rng.random() < 0.4
        ),
    ),
    "refuse": WeatherFault(
        1, (1, 30), lambda rng, targets: RefuseConnections(between=_link_ends(rng, targets))
    ),
    "cut": WeatherFault(
        2, (0.5, 20), lambda rng, targets: CutLink(between=_link_ends(rng, targets))
    ),
    "read_only": WeatherFault(
        1, (5, 40), lambda rng, targets: ReadOnly(broker=rng.choice(targets.brokers))
    ),
    "unregistered": WeatherFault(
        1,
        (5, 40),
        lambda rng, targets: Unregistered(
            broker=rng.choice(targets.brokers), name_server=rng.choice(targets.name_servers)
        ),
    ),
    "answer": WeatherFault(
        2,
        (1, 20),
        lambda rng, targets: Answer(node=rng.choice(targets.brokers), rule=rng.choice(ANSWERS)),
    ),
}


# Faults of slaves ----------------------------------------------------------------------


class SlaveFault(NamedTuple):
    """As ``WeatherFault``; ``make`` gets the names of a master and of one of its slaves."""

    weight: float
    lasts_s: tuple[float, float]
    make: Callable[[Random, str, str], Fault]


def _one_direction(rng: Random, master: str, slave: str) -> tuple[str, str]:
    return (master, slave) if rng.random() < 0.5 else (slave, master)


FAULTS_OF_SLAVES: Mapping[str, SlaveFault] = {
    "lag": SlaveFault(
        3,
        (3, 40),
        lambda rng, _, slave: (
            Lag(node=slave, ms=_ms(rng, 5_000))
            if rng.random() < 0.5
            else Lag(node=slave, bytes_per_s=rng.choice((500, 2_000, 20_000)))
        ),
    ),
    "cut": SlaveFault(2, (0.5, 30), lambda _, master, slave: CutLink(between=(master, slave))),
    "partition": SlaveFault(
        2,
        (2, 40),
        lambda rng, master, slave: Partition(
            between=_one_direction(rng, master, slave), one_way=rng.random() < 0.5
        ),
    ),
    "kill": SlaveFault(
        3, (1, 40), lambda rng, master, slave: Kill(node=rng.choice((master, slave)))
    ),
    "pause": SlaveFault(
        2, (0.5, 40), lambda rng, master, slave: Pause(node=rng.choice((master, slave)))
    ),
    "power_off": SlaveFault(
        2, (2, 20), lambda rng, master, slave: PowerOff(node=rng.choice((master, slave)))
    ),
    "slow_disk": SlaveFault(
        1, (2, 30), lambda rng, _, slave: SlowDisk(node=slave, flush_ms=_ms(rng, 2_000))
    ),
}


# With controllers ------------------------------------------------------------------------


def _controller_and_broker(rng: Random, controller: str, broker: str) -> tuple[str, str]:
    return (controller, broker) if rng.random() < 0.5 else (broker, controller)


FAULTS_OF_CONTROLLERS: Mapping[str, SlaveFault] = {  # ``make`` gets a controller and a broker
    "kill": SlaveFault(2, (1, 30), lambda _, controller, __: Kill(node=controller)),
    "stop": SlaveFault(1, (1, 20), lambda _, controller, __: Stop(node=controller)),
    "pause": SlaveFault(2, (0.5, 30), lambda _, controller, __: Pause(node=controller)),
    "power_off": SlaveFault(1, (2, 20), lambda _, controller, __: PowerOff(node=controller)),
    "cut": SlaveFault(
        2, (0.5, 25), lambda _, controller, broker: CutLink(between=(controller, broker))
    ),
    "partition": SlaveFault(
        2,
        (2, 30),
        lambda rng, controller, broker: Partition(
            between=_controller_and_broker(rng, controller, broker), one_way=rng.random() < 0.5
        ),
    ),
}
ELECTIONS_A_MINUTE = 3.0  # by hand
# Masters that are away, so that their slaves act ----------------------------------------


ABSENCES: Mapping[str, WeatherFault] = {  # longer than the 10 s after which a silent one is away
    "kill": WeatherFault(3, (8, 25), lambda rng, targets: Kill(node=rng.choice(targets.brokers))),
    "stop": WeatherFault(1, (8, 25), lambda rng, targets: Stop(node=rng.choice(targets.brokers))),
    "power_off": WeatherFault(
        2, (8, 25), lambda rng, targets: PowerOff(node=rng.choice(targets.brokers))
    ),
    "pause": WeatherFault(
        2, (14, 25), lambda rng, targets: Pause(node=rng.choice(targets.brokers))
    ),
    "partition": WeatherFault(
        2,
        (14, 25),
        lambda rng, targets: Partition(between=(rng.choice(targets.brokers), "name_servers")),
    ),
    "cut": WeatherFault(
        1,
        (8, 25),
        lambda rng, targets: CutLink(between=(rng.choice(targets.brokers), "name_servers")),
    ),
}


# Combinations: events at short intervals ----------------------------------------------


HELD_MS = 12_000  # how long a broker is down, or read-only, while a member joins
WRITTEN_MS = 13_000  # from then on a broadcasting member has written its offsets: after 10 s
REST_MS = 9_000  # after the last fault, so that it causes no later event


class CombinationContext(NamedTuple):
    """When faults of a combination may begin and must end, and which members it may use."""

    rng: Random
    targets: WeatherTargets
    first_ms: int
    end_ms: int
    staying: tuple[str, ...]  # members that no other event touches

    def others(self, group: str = "") -> list[str]:
        """Members of *group*, or of all, without the first of each: it must keep a member."""
        return [
            member
            for member in self.staying
            if not member.endswith("-1") and member.startswith(f"{group}-" if group else "")
        ]


def orderly_death(context: CombinationContext) -> list[WeatherEvent]:
    """A member of the orderly group is killed for good: its locks expire after 60 s."""
    members = context.others("stepping")
    if not members or context.first_ms >= context.end_ms - 2_000:
        return []
    at_ms = context.rng.randrange(context.first_ms, context.end_ms - 2_000)
    return [WeatherEvent(at_ms, at_ms + 2_000, Leave(node=members[-1], kill=True))]


def busy_steps(context: CombinationContext) -> list[WeatherEvent]:
    """Two more orderly members join while listeners run: queues are released while in use."""
    last_ms = context.end_ms - 2_000
    if "stepping" not in context.targets.groups or context.first_ms >= last_ms:
        return []
    times_ms = sorted(context.rng.randrange(context.first_ms, last_ms) for _ in range(2))
    return [WeatherEvent(at_ms, at_ms + 2_000, Join(group="stepping")) for at_ms in times_ms]


def news_restart(context: CombinationContext) -> list[WeatherEvent]:
    """A broadcasting member is killed after it has written its offsets, and starts again."""
    first_ms, last_ms = max(context.first_ms, WRITTEN_MS), context.end_ms - 8_000
    if "news-1" not in context.staying or first_ms >= last_ms:
        return []
    at_ms = context.rng.randrange(first_ms, last_ms)
    return [WeatherEvent(at_ms, at_ms + context.rng.randrange(1_500, 7_500), Kill(node="news-1"))]


def join_meets_fault(context: CombinationContext) -> list[WeatherEvent]:
    """A member joins while a broker is read-only, or down."""
    last_ms = context.end_ms - HELD_MS
    groups = [group for group in context.targets.groups if group != "news"]
    if not groups or context.first_ms >= last_ms:
        return []
    at_ms, broker = (
        context.rng.randrange(context.first_ms, last_ms),
        context.rng.choice(context.targets.brokers),
    )
    fault = context.rng.choice((ReadOnly(broker=broker), Kill(node=broker), Stop(node=broker)))
    joins_ms = at_ms + context.rng.randrange(3_000, HELD_MS - 2_000)
    return [
        WeatherEvent(at_ms, at_ms + HELD_MS, fault),
        WeatherEvent(joins_ms, joins_ms + 2_000, Join(group=context.rng.choice(groups))),
    ]


def calm_leave(context: CombinationContext) -> list[WeatherEvent]:
    """A member of a clustering group closes in order some time after all faults have ended."""
    members = [each for each in context.others() if not each.startswith("news-")]
    if not members:
        return []
    at_ms = context.end_ms + REST_MS + context.rng.randrange(3_000)
    return [WeatherEvent(at_ms, at_ms + 2_000, Leave(node=context.rng.choice(members)))]


Combination = Callable[[CombinationContext], list[WeatherEvent]]
COMBINATIONS: Mapping[str, Combination] = {
    "orderly_death": orderly_death,
    "busy_steps": busy_steps,
    "news_restart": news_restart,
    "join_meets_fault": join_meets_fault,
}
LAST_COMBINATIONS: Mapping[str, Combination] = {"calm_leave": calm_leave}
