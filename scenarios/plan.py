"""A scenario as one value: what a TOML file and a Python function both become.

Nothing runs here.  A plan says which cluster is built, who sends and consumes, what happens
when, and what is expected; ``scenarios.running`` carries it out in any world.  Times are
milliseconds since the load begins.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from emulator.cluster.faults.values import AnyFault

Operator: TypeAlias = Literal["==", "<=", ">="]


class Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A part of a plan: unknown fields are refused."""


class ClusterPlan(Part, frozen=True, kw_only=True):
    """As ``ClusterSpec``."""

    brokers: int = 2
    name_servers: int = 1
    release: str = "4.9.7"
    broker_settings: dict[str, Any] = {}
    name_server_settings: dict[str, Any] = {}
    settings_of: dict[str, dict[str, Any]] = {}


class TopicPlan(Part, frozen=True, kw_only=True):
    """*queues* to read and write on each of *brokers* (empty: all)."""

    queues: int = 4
    write_queues: int | None = None  # None: as many as queues
    perm: int = 6
    brokers: tuple[str, ...] = ()


class ListenerPlan(Part, frozen=True, kw_only=True):
    """What a listener does with a message: durations in ms, chances from 0 to 1."""

    takes_ms: float = 1.0
    jitter_ms: float = 0.0  # up to so much more, evenly
    fails: float = 0.0  # RECONSUME_LATER, or suspend when orderly
    raises: float = 0.0
    hangs: float = 0.0  # for hang_ms
    hang_ms: float = 60_000.0
    always_fails: float = 0.0  # so many messages fail, each whenever it comes
    from_ms: int = 0  # the chances hold from then on, in ms since the load begins
    until_ms: int | None = None  # and to here; None: to the end


class ConsumersPlan(Part, frozen=True, kw_only=True):
    """Members of one group, called ``<group>-1``, ``<group>-2`` …

    A group may have several of these, of members that differ; their numbers go on.
    """

    group: str
    topics: dict[str, str]  # topic: tag expression
    members: int = 1
    kind: Literal["push", "lite_pull"] = "push"
    orderly: bool = False
    broadcast: bool = False
    strategy: str = "averagely"
    settings: dict[str, Any] = {}
    settings_of: dict[str, dict[str, Any]] = {}  # for one member, above those for each
    listener: ListenerPlan = ListenerPlan()
    seeks_ms: tuple[int, ...] = ()  # when each lite pull member goes back in one of its queues
    seek_back_max: int = 50  # up to so many messages before what the group has committed
    starts_ms: int = 0  # the first one
    every_ms: int = 0  # the next ones, each later by so much


class LoadPlan(Part, frozen=True, kw_only=True):
    """Messages sent to a topic by producers called ``producer-1`` … (counted over all loads)."""

    topic: str
    rate: float  # a second, over all its producers
    producers: int = 1
    mode: Literal["sync", "async", "oneway"] = "sync"
    from_ms: int = 0
    until_ms: int | None = None  # None: until the timeline has ended
    burst: int = 1  # so many at once, at the same mean rate
    size_bytes: int = 100
    size_jitter_bytes: int = 0
    keys: int = 0  # so many different ones; a key goes to one queue (selector); 0: no keys
    key_skew: float = 0.0  # exponent of Zipf's law; 0: evenly
    tags: tuple[str, ...] = ()
    batch: int = 1  # so many in one call, sent when the last of them is due
    delay_levels: tuple[int, ...] = ()  # each message has one of them, by chance; 0: no delay
    timer_ms: tuple[int, ...] = ()  # the same, of times for which 5.x brokers keep it back
    count_max: int | None = None
    settings: dict[str, Any] = {}


class ProgramPlan(Part, frozen=True, kw_only=True):
    """A client program of one's own: ``run`` is ``module:function``."""

    name: str
    run: str
    arguments: dict[str, Any] = {}
    starts_ms: int = 0


# Acts: what happens once and is not undone ----------------------------------------------------


class Act(Part, frozen=True, kw_only=True, tag_field="fault"):  # as faults: a step has either
    """Something that is done at a moment and has no end."""


class Join(Act, frozen=True, kw_only=True, tag="join"):
    """More members of a group."""

    group: str
    members: int = 1


class Leave(Act, frozen=True, kw_only=True, tag="leave"):
    """A client ends in order, or is killed."""

    node: str
    kill: bool = False


class RollingRestart(Act, frozen=True, kw_only=True, tag="rolling_restart"):
    """Each of *nodes* is stopped for *down_ms*, one after the other."""

    nodes: tuple[str, ...]
    down_ms: int = 5_000
    between_ms: int = 10_000


class GrowTopic(Act, frozen=True, kw_only=True, tag="grow_topic"):
    """A topic gets more queues on every broker that has it."""

    topic: str
    queues: int


class DeleteTopic(Act, frozen=True, kw_only=True, tag="delete_topic"):
    """A topic is deleted at the brokers and the NameServers."""

    topic: str


class ResetOffset(Act, frozen=True, kw_only=True, tag="reset_offset"):
    """A group is moved to a time, in ms of the run."""

    group: str
    topic: str
    to_ms: int


class Heal(Act, frozen=True, kw_only=True, tag="heal"):
    """A fault that a step began ends now; *step* is that step's name."""

    step: str


class Mark(Act, frozen=True, kw_only=True, tag="mark"):
    """A word for the report; the timeline does not end before it."""

    text: str


AnyAct: TypeAlias = (
    Join | Leave | RollingRestart | GrowTopic | DeleteTopic | ResetOffset | Heal | Mark
)


class When(Part, frozen=True, kw_only=True):
    """The first fact of *kind* after the last step, of *node* and with these *fields*."""

    kind: str
    node: str = ""
    fields: dict[str, Any] = {}
    wait_ms_max: int = 120_000


class Step(Part, frozen=True, kw_only=True):
    """*does* something at a time, or *after_ms* a fact was noted; a fault holds *for_ms*.

    Without a time and a fact: *after_ms* the step before it.  Steps stand in their order.
    """

    does: AnyFault | AnyAct
    at_ms: int | None = None
    when: When | None = None
    after_ms: int = 0
    for_ms: int | None = None  # None: until the timeline has ended, or it is healed by name
    name: str = ""  # for heal


class Expectation(Part, frozen=True, kw_only=True):
    """A metric, of a group or topic or of the whole run, compared with a number."""

    metric: str
    bound: float
    operator: Operator = "<="
    scope: str = ""


class Limits(Part, frozen=True, kw_only=True):
    """A run that passes one of them is ended, and is no success."""

    virtual_s_max: float = 3_600.0
    facts_max: int = 5_000_000
    steps_max: int = 50_000_000  # of trio's scheduler


class Plan(Part, frozen=True, kw_only=True):
    """See the module.  The run ends *lasts_ms* after its start, or when it is quiet.

    Quiet: sends have ended, nothing is left to consume, and no member's queues have changed
    for *settled_ms*; waited for *quiet_ms_max* after the timeline has ended and all faults are
    healed.
    """

    name: str
    title: str = ""
    issue: str = ""
    teaches: str = ""
    cluster: ClusterPlan = ClusterPlan()
    topics: dict[str, TopicPlan] = {}
    consumers: tuple[ConsumersPlan, ...] = ()
    load: tuple[LoadPlan, ...] = ()
    programs: tuple[ProgramPlan, ...] = ()
    timeline: tuple[Step, ...] = ()
    lasts_ms: int | None = None
    quiet_ms_max: int = 300_000
    settled_ms: int = 40_000  # two passes of every member's rebalance
    expect: tuple[Expectation, ...] = ()
    parameters: dict[str, bool | int | float | str] = {}  # as set for this plan
    quirks: tuple[str, ...] = ()  # bugs switched on by name, in clients and brokers
    limits: Limits = Limits()
