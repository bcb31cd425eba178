"""What can be done to a cluster on purpose, as values: one struct a fault, tagged by its word.

    Kill(node="broker-b")
    SlowLink(between=("broker-a", "billing"), ms=200)

The word is what people write in TOML, on the command line and in JSON for the control address:
``{"fault": "read_only", "broker": "broker-b"}``.  Values are checked when constructed; ``FAULTS``
has them by word.  A name may stand for several nodes: ``brokers``, ``name_servers``, ``clients``,
a consumer group.  The world, not the value, keeps a fault's lifetime: when it ends, what it
changed is as before; a killed node is started again, a paused one is resumed.  ``VERDICTS`` says
what a network does about a fault of a link: the virtual one, or proxies before real ports.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Literal, Protocol, TypeAlias, get_args

import msgspec

from rocketmq_emulator.faults.links_and_drives import (
    Cut,
    Refuse,
    Separate,
    Slow,
    Stall,
    Tally,
    Throttle,
    Verdict,
)
from rocketmq_emulator.protocol.bodies.extensions import PoolName, ReplyRule

Nodes: TypeAlias = str | tuple[str, ...]  # one name, or several
Distribution: TypeAlias = Literal["uniform", "normal", "exponential", "pareto"]
Reason: TypeAlias = Literal["healed", "time is up", "removed", "run ended"]  # of an end


class Fault(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    tag_field="fault",
):
    """What all faults have: nothing yet but their word."""


# A node ------------------------------------------------------------------------------------


class Kill(Fault, frozen=True, kw_only=True, tag="kill"):
    """The process ends at once (kill -9); at the end of the fault it is started again."""

    node: str


class Stop(Fault, frozen=True, kw_only=True, tag="stop"):
    """The process ends in order; at the end of the fault it is started again."""

    node: str


class Pause(Fault, frozen=True, kw_only=True, tag="pause"):
    """The process stands still (SIGSTOP) and goes on at the end."""

    node: str


class PowerOff(Fault, frozen=True, kw_only=True, tag="power_off"):
    """The machine loses power, and what was not flushed; at the end it boots."""

    node: str


class Busy(Fault, frozen=True, kw_only=True, tag="busy"):
    """Few and slow hands: each request of *pool* takes *service_ms* of one of *threads*.

    What waits longer than upstream's fast-fail time (200 ms for sends) is answered SYSTEM_BUSY;
    so is what finds *queue_max* requests waiting (None: upstream's number of the pool).
    """

    node: str
    pool: PoolName = "send"
    threads: int = 1
    service_ms: float = 10.0
    queue_max: int | None = None


# Its clock ----------------------------------------------------------------------------------


class ClockJump(Fault, frozen=True, kw_only=True, tag="clock_jump"):
    """The wall clock jumps by *ms*, and back at the end."""

    node: str
    ms: int


class ClockDrift(Fault, frozen=True, kw_only=True, tag="clock_drift"):
    """The wall clock runs fast by *ppm* millionths, or slow; at the end it is right."""

    node: str
    ppm: int


# Its disk -----------------------------------------------------------------------------------


class FullDisk(Fault, frozen=True, kw_only=True, tag="full_disk"):
    """Nothing more can be written; *free_bytes* are left."""

    node: str
    free_bytes: int = 0


class SlowDisk(Fault, frozen=True, kw_only=True, tag="slow_disk"):
    """A flush takes *flush_ms* and what *bytes_per_s* makes of its size."""

    node: str
    flush_ms: float = 500.0
    bytes_per_s: int = 200_000_000


class FailingFlush(Fault, frozen=True, kw_only=True, tag="failing_flush"):
    """fsync raises an error, each time with *probability*."""

    node: str
    probability: float = 1.0


# Links --------------------------------------------------------------------------------------


class LinkFault(Fault, frozen=True, kw_only=True):
    """Where a fault of a link holds: exactly one of *between* and *around*.

    *between* two sides, both ways; *one_way*: only what the first sends to the second.
    *around* some nodes and everybody else; *one_way*: only what they send.
    """

    between: tuple[Nodes, Nodes] | None = None
    around: Nodes | None = None
    one_way: bool = False

    def __post_init__(self) -> None:
        if (self.between is None) == (self.around is None):
            raise ValueError("a fault of a link has either between or around")


class SlowLink(LinkFault, frozen=True, kw_only=True, tag="slow_link"):
    """Later by *ms* and by chance: up to or around *jitter_ms* more, by *distribution*."""

    ms: float
    jitter_ms: float = 0.0
    distribution: Distribution = "uniform"


class Bandwidth(LinkFault, frozen=True, kw_only=True, tag="bandwidth"):
    """At most *bytes_per_s* pass, each way."""

    bytes_per_s: int


class StallLink(LinkFault, frozen=True, kw_only=True, tag="stall"):
    """Nothing passes, nobody is told; at the end what was held arrives."""


class Partition(LinkFault, frozen=True, kw_only=True, tag="partition"):
    """Nothing passes, and nobody new can connect; open streams stay and hold what is sent."""


class RefuseConnections(LinkFault, frozen=True, kw_only=True, tag="refuse"):
    """Nobody new can connect; open streams go on."""


class CutLink(LinkFault, frozen=True, kw_only=True, tag="cut"):
    """Open streams are reset, and nobody can connect."""


# What servers answer and know -----------------------------------------------------------------


class ReadOnly(Fault, frozen=True, kw_only=True, tag="read_only"):
    """A broker, or one of its topics, may be read and not written to (perm 4 in its routes)."""

    broker: str
    topic: str = ""  # empty: the whole broker, by brokerPermission


class Unregistered(Fault, frozen=True, kw_only=True, tag="unregistered"):
    """One NameServer does not take a broker's registrations: NameServers disagree."""

    broker: str
    name_server: str


class Answer(Fault, frozen=True, kw_only=True, tag="answer"):
    """A reply rule at a node; see docs/reply-rules.md."""

    node: str
    rule: ReplyRule


AnyFault: TypeAlias = (
    Kill
    | Stop
    | Pause
    | PowerOff
    | Busy
    | ClockJump
    | ClockDrift
    | FullDisk
    | SlowDisk
    | FailingFlush
    | SlowLink
    | Bandwidth
    | StallLink
    | Partition
    | RefuseConnections
    | CutLink
    | ReadOnly
    | Unregistered
    | Answer
)
FAULTS: Mapping[str, type[Fault]] = {
    kind.__struct_config__.tag: kind for kind in get_args(AnyFault)
}


class FaultState(msgspec.Struct, frozen=True, kw_only=True):
    """A fault that holds now."""

    fault_id: int
    fault: AnyFault
    nodes: tuple[str, ...]  # whom it touches, as known when it began
    since_ms: int  # wall time
    left_ms: int | None  # None: until it is ended
    acted_count: int  # how often it changed what happened, as far as is known


def word_of(fault: Fault) -> str:
    """The word that people write: ``slow_link``."""
    word = type(fault).__struct_config__.tag
    assert isinstance(word, str)
    return word


# What networks do about faults of links -----------------------------------------------


VERDICTS: Mapping[type[Fault], Callable[[Any], Verdict]] = {
    SlowLink: lambda fault: Slow(fault.ms, fault.jitter_ms, fault.distribution),
    Bandwidth: lambda fault: Throttle(fault.bytes_per_s),
    Partition: lambda _: Separate(),
    StallLink: lambda _: Stall(),
    RefuseConnections: lambda _: Refuse(),
    CutLink: lambda _: Cut(),
}


class Proxies(Protocol):
    """What stands before the nodes of a cluster on real ports: see ``TcpLinks``."""

    def under(self, fault: LinkFault, tally: Tally) -> AbstractContextManager[Tally]:
        """Inside the block *fault* holds; *tally* counts what it does."""

    def client_names(self) -> tuple[str, ...]:
        """How clients that are connected now may be called in faults."""
