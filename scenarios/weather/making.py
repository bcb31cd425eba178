"""One fault or act by chance: a row a word, with its weight, how long it lasts and its targets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import NamedTuple

from emulator.cluster.faults.values import (
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
from protocol.bodies.reply_rules import ReplyRule
from protocol.codes import RequestCode, ResponseCode
from scenarios.plan import AnyAct


class Cast(NamedTuple):
    """Whom it can hit."""

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
        """Everybody but producers."""
        return (*self.servers, *self.members)


class WeatherEvent(NamedTuple):
    """A fault or an act, and when."""

    at_ms: int
    until_ms: int
    does: Fault | AnyAct


Make = Callable[[Random, Cast], Fault]


class WeatherFault(NamedTuple):
    """``weight`` beside the others; ``lasts_s`` from, to."""

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


def _node(rng: Random, cast: Cast) -> str:
    """A broker as often as a member, however many there are."""
    roles = (cast.brokers, cast.name_servers, cast.members)
    return rng.choice(rng.choices(roles, (0.4, 0.2, 0.4))[0])


def _sides(rng: Random, cast: Cast) -> tuple[str, str]:
    """A server, or all brokers, and its clients."""
    server = rng.choice((*cast.servers, "brokers"))
    others = (*cast.groups, *cast.members, "producer", "clients")
    return server, rng.choice([name for name in others if name != server])


def _ms(rng: Random, most: float) -> float:
    """Small ones more often."""
    return float(round(most ** rng.uniform(0.2, 1.0), 1))


FAULTS_BY_CHANCE: Mapping[str, WeatherFault] = {
    "kill": WeatherFault(3, (1, 55), lambda rng, cast: Kill(node=_node(rng, cast))),
    "stop": WeatherFault(1, (1, 30), lambda rng, cast: Stop(node=rng.choice(cast.servers))),
    "pause": WeatherFault(2, (0.5, 40), lambda rng, cast: Pause(node=_node(rng, cast))),
    "power_off": WeatherFault(
        1, (2, 20), lambda rng, cast: PowerOff(node=rng.choice(cast.brokers))
    ),
    "busy": WeatherFault(
        1,
        (2, 20),
        lambda rng, cast: Busy(node=rng.choice(cast.brokers), service_ms=_ms(rng, 400)),
    ),
    "clock_jump": WeatherFault(
        1,
        (5, 40),
        lambda rng, cast: ClockJump(
            node=rng.choice(cast.nodes), ms=rng.choice((-60_000, -500, 500, 3_000, 60_000))
        ),
    ),
    "clock_drift": WeatherFault(
        1,
        (5, 40),
        lambda rng, cast: ClockDrift(
            node=rng.choice(cast.nodes), ppm=rng.choice((-500, 200, 5_000))
        ),
    ),
    "full_disk": WeatherFault(
        0.5, (1, 15), lambda rng, cast: FullDisk(node=rng.choice(cast.brokers))
    ),
    "slow_disk": WeatherFault(
        1,
        (2, 30),
        lambda rng, cast: SlowDisk(node=rng.choice(cast.brokers), flush_ms=_ms(rng, 2_000)),
    ),
    "failing_flush": WeatherFault(
        0.5,
        (1, 10),
        lambda rng, cast: FailingFlush(node=rng.choice(cast.brokers), probability=0.5),
    ),
    "slow_link": WeatherFault(
        2,
        (2, 40),
        lambda rng, cast: SlowLink(
            between=_sides(rng, cast), ms=_ms(rng, 4_000), jitter_ms=_ms(rng, 500)
        ),
    ),
    "bandwidth": WeatherFault(
        1,
        (2, 30),
        lambda rng, cast: Bandwidth(
            around=rng.choice(cast.servers), bytes_per_s=rng.choice((2_000, 20_000, 500_000))
        ),
    ),
    "stall": WeatherFault(2, (1, 30), lambda rng, cast: StallLink(between=_sides(rng, cast))),
    "partition": WeatherFault(
        2,
        (2, 40),
        lambda rng, cast: Partition(between=_sides(rng, cast), one_way=rng.random() < 0.4),
    ),
    "refuse": WeatherFault(
        1, (1, 30), lambda rng, cast: RefuseConnections(between=_sides(rng, cast))
    ),
    "cut": WeatherFault(2, (0.5, 20), lambda rng, cast: CutLink(between=_sides(rng, cast))),
    "read_only": WeatherFault(
        1, (5, 40), lambda rng, cast: ReadOnly(broker=rng.choice(cast.brokers))
    ),
    "unregistered": WeatherFault(
        1,
        (5, 40),
        lambda rng, cast: Unregistered(
            broker=rng.choice(cast.brokers), name_server=rng.choice(cast.name_servers)
        ),
    ),
    "answer": WeatherFault(
        2,
        (1, 20),
        lambda rng, cast: Answer(node=rng.choice(cast.brokers), rule=rng.choice(ANSWERS)),
    ),
}
