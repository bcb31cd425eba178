"""The faults that a cluster can be given, as values: one struct per fault, tagged by its word.

    Kill(node="broker-b")
    SlowLink(between=("broker-a", "billing"), ms=200)

The word is used in TOML files, on the command line and in JSON for the control address:
``{"fault": "read_only", "broker": "broker-b"}``.  Values are checked when constructed; ``FAULTS``
maps each word to its struct.  A name may stand for several nodes: ``brokers``, ``name_servers``,
``clients``, a consumer group.  The world, not the value, ends a fault and undoes its changes: it
starts a killed node again and resumes a paused one.  ``VERDICTS`` maps each fault of a link to
the verdict that the virtual network, or the proxies in front of real ports, apply.
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
Reason: TypeAlias = Literal["healed", "time is up", "removed", "run ended"]  # why a fault ended


class Fault(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    tag_field="fault",
):
    """The base of all faults; it has no fields of its own."""


# A node ------------------------------------------------------------------------------------


class Kill(Fault, frozen=True, kw_only=True, tag="kill"):
    """The process ends at once (kill -9); at the end of the fault it is started again."""

    node: str


class Stop(Fault, frozen=True, kw_only=True, tag="stop"):
    """The process stops in order; at the end of the fault it is started again."""

    node: str


class Pause(Fault, frozen=True, kw_only=True, tag="pause"):
    """The process is paused (SIGSTOP); at the end of the fault it is resumed."""

    node: str


class PowerOff(Fault, frozen=True, kw_only=True, tag="power_off"):
    """The machine loses power and all data that was not flushed; at the end it boots."""

    node: str


class Busy(Fault, frozen=True, kw_only=True, tag="busy"):
    """Few and slow threads: each request of *pool* occupies one of *threads* for *service_ms*.

    A request that waits longer than upstream's fast-fail time (200 ms for sends) is answered
    SYSTEM_BUSY; so is a request that arrives while *queue_max* requests wait (None: upstream's
    queue size of the pool).  With *holds_log* a send takes its time in the put, under the lock of
    the log, as with a slow page cache: after a second of that, all sends are answered SYSTEM_BUSY.
    """

    node: str
    pool: PoolName = "send"
    threads: int = 1
    service_ms: float = 10.0
    queue_max: int | None = None
    holds_log: bool = False


# Its clock ----------------------------------------------------------------------------------


class ClockJump(Fault, frozen=True, kw_only=True, tag="clock_jump"):
    """The wall clock jumps by *ms*, and jumps back at the end."""

    node: str
    ms: int


class ClockDrift(Fault, frozen=True, kw_only=True, tag="clock_drift"):
    """The wall clock runs fast by *ppm* (slow if negative); at the end it is correct again."""

    node: str
    ppm: int


# Its disk -----------------------------------------------------------------------------------


class FullDisk(Fault, frozen=True, kw_only=True, tag="full_disk"):
    """The disk is full: at most *free_bytes* more can be written."""

    node: str
    free_bytes: int = 0


class SlowDisk(Fault, frozen=True, kw_only=True, tag="slow_disk"):
    """A flush takes *flush_ms*, plus its size divided by *bytes_per_s*."""

    node: str
    flush_ms: float = 500.0
    bytes_per_s: int = 200_000_000


class FailingFlush(Fault, frozen=True, kw_only=True, tag="failing_flush"):
    """Each fsync fails with *probability*."""

    node: str
    probability: float = 1.0


# Links --------------------------------------------------------------------------------------


class LinkFault(Fault, frozen=True, kw_only=True):
    """The links that a fault affects; exactly one of *between* and *around* is given.

    *between*: two sides, in both directions; with *one_way* only from the first to the second.
    *around*: between these nodes and all others; with *one_way* only the bytes that they send.
    """

    between: tuple[Nodes, Nodes] | None = None
    around: Nodes | None = None
    one_way: bool = False

    def __post_init__(self) -> None:
        if (self.between is None) == (self.around is None):
            raise ValueError("a fault of a link has either between or around")


class SlowLink(LinkFault, frozen=True, kw_only=True, tag="slow_link"):
    """Bytes arrive *ms* later, plus up to or around *jitter_ms* by *distribution*."""

    ms: float
    jitter_ms: float = 0.0
    distribution: Distribution = "uniform"


class Bandwidth(LinkFault, frozen=True, kw_only=True, tag="bandwidth"):
    """At most *bytes_per_s* pass in each direction."""

    bytes_per_s: int


class StallLink(LinkFault, frozen=True, kw_only=True, tag="stall"):
    """Nothing passes and no error is reported; at the end the held bytes arrive."""


class Partition(LinkFault, frozen=True, kw_only=True, tag="partition"):
    """Nothing passes, new connections time out; open streams stay and hold the bytes sent."""


class RefuseConnections(LinkFault, frozen=True, kw_only=True, tag="refuse"):
    """New connections are refused; open streams go on."""


class CutLink(LinkFault, frozen=True, kw_only=True, tag="cut"):
    """Open streams are reset, and new connections are refused."""


# Slaves --------------------------------------------------------------------------------------


class Lag(Fault, frozen=True, kw_only=True, tag="lag"):
    """A slave copies late: what its master sends it comes *ms* later, at *bytes_per_s* at most.

    The other way, and so what the slave reports, is as fast as before.
    """

    node: str
    ms: float = 0.0
    jitter_ms: float = 0.0
    bytes_per_s: int | None = None

    def __post_init__(self) -> None:
        if not self.ms and not self.jitter_ms and self.bytes_per_s is None:
            raise ValueError(
                "a lag has ms, jitter_ms or bytes_per_s: without them nothing is late"
            )


# Servers -------------------------------------------------------------------------------------


class ReadOnly(Fault, frozen=True, kw_only=True, tag="read_only"):
    """A broker, or one of its topics, can be read but not written (perm 4 in its routes)."""

    broker: str
    topic: str = ""  # empty: the whole broker, by brokerPermission


class Unregistered(Fault, frozen=True, kw_only=True, tag="unregistered"):
    """One NameServer rejects a broker's registrations, so NameServers have different routes."""

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
    | Lag
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
    nodes: tuple[str, ...]  # the nodes it affects, as known when it began
    since_ms: int  # wall time
    left_ms: int | None  # None: until it is ended explicitly
    acted_count: int  # how often it took effect, as far as is known


def word_of(fault: Fault) -> str:
    """The word of *fault*, as ``slow_link``."""
    word = type(fault).__struct_config__.tag
    assert isinstance(word, str)
    return word


# Verdicts of networks on faults of links -----------------------------------------------


VERDICTS: Mapping[type[Fault], Callable[[Any], Verdict]] = {
    SlowLink: lambda fault: Slow(fault.ms, fault.jitter_ms, fault.distribution),
    Bandwidth: lambda fault: Throttle(fault.bytes_per_s),
    Partition: lambda _: Separate(),
    StallLink: lambda _: Stall(),
    RefuseConnections: lambda _: Refuse(),
    CutLink: lambda _: Cut(),
}


class Proxies(Protocol):
    """The proxies in front of a cluster's nodes on real ports: see ``TcpLinks``."""

    def under(self, fault: LinkFault, tally: Tally) -> AbstractContextManager[Tally]:
        """Inside the block *fault* holds; *tally* counts how often it takes effect."""

    def client_names(self) -> tuple[str, ...]:
        """The names under which faults can refer to the clients connected now."""
