"""A scenario as one value: what a TOML file and a Python function both become.

Nothing runs here.  A plan says which cluster is built, who sends and consumes, what happens
when, and what is expected; ``scenarios.running`` carries it out in any world.  Times are
milliseconds since the load begins.

Every fault and every act has one keyword, the tag of its struct (``kill``, ``slow_link``,
``join``): one table for TOML files, for Python scenarios and for the pages, made from the
structs.  ``timed`` gives steps their times as far as they are known before the run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, get_args

import msgspec

from rocketmq_emulator.cluster.fault_values import AnyFault, Fault, LinkFault

Operator: TypeAlias = Literal["==", "<=", ">="]


class PlanPart(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A part of a plan: unknown fields are refused."""


class ClusterPlan(PlanPart, frozen=True, kw_only=True):
    """As ``ClusterSpec``."""

    brokers: int = 2
    name_servers: int = 1
    release: str = "4.9.7"
    broker_settings: dict[str, Any] = {}
    name_server_settings: dict[str, Any] = {}
    settings_of: dict[str, dict[str, Any]] = {}


class TopicPlan(PlanPart, frozen=True, kw_only=True):
    """*queues* to read and write on each of *brokers* (empty: all)."""

    queues: int = 4
    write_queues: int | None = None  # None: as many as queues
    perm: int = 6
    brokers: tuple[str, ...] = ()


class ListenerPlan(PlanPart, frozen=True, kw_only=True):
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


class ConsumersPlan(PlanPart, frozen=True, kw_only=True):
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


class LoadPlan(PlanPart, frozen=True, kw_only=True):
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


class ProgramPlan(PlanPart, frozen=True, kw_only=True):
    """A client program of one's own: ``run`` is ``module:function``."""

    name: str
    run: str
    arguments: dict[str, Any] = {}
    starts_ms: int = 0


# Acts: what happens once and is not undone ----------------------------------------------------


class Action(
    PlanPart, frozen=True, kw_only=True, tag_field="fault"
):  # as faults: a step has either
    """Something that is done at a moment and has no end."""


class Join(Action, frozen=True, kw_only=True, tag="join"):
    """More members of a group."""

    group: str
    members: int = 1


class Leave(Action, frozen=True, kw_only=True, tag="leave"):
    """A client ends in order, or is killed."""

    node: str
    kill: bool = False


class RollingRestart(Action, frozen=True, kw_only=True, tag="rolling_restart"):
    """Each of *nodes* is stopped for *down_ms*, one after the other."""

    nodes: tuple[str, ...]
    down_ms: int = 5_000
    between_ms: int = 10_000


class GrowTopic(Action, frozen=True, kw_only=True, tag="grow_topic"):
    """A topic gets more queues on every broker that has it."""

    topic: str
    queues: int


class DeleteTopic(Action, frozen=True, kw_only=True, tag="delete_topic"):
    """A topic is deleted at the brokers and the NameServers."""

    topic: str


class ResetOffset(Action, frozen=True, kw_only=True, tag="reset_offset"):
    """A group is moved to a time, in ms of the run."""

    group: str
    topic: str
    to_ms: int


class Heal(Action, frozen=True, kw_only=True, tag="heal"):
    """A fault that a step began ends now; *step* is that step's name."""

    step: str


class Mark(Action, frozen=True, kw_only=True, tag="mark"):
    """A word for the report; the timeline does not end before it."""

    text: str


AnyAction: TypeAlias = (
    Join | Leave | RollingRestart | GrowTopic | DeleteTopic | ResetOffset | Heal | Mark
)


class When(PlanPart, frozen=True, kw_only=True):
    """The first fact of *kind* after the last step, of *node* and with these *fields*."""

    kind: str
    node: str = ""
    fields: dict[str, Any] = {}
    wait_ms_max: int = 120_000


class Step(PlanPart, frozen=True, kw_only=True):
    """*does* something at a time, or *after_ms* a fact was noted; a fault holds *for_ms*.

    Without a time and a fact: *after_ms* the step before it.  Steps stand in their order.
    """

    does: AnyFault | AnyAction
    at_ms: int | None = None
    when: When | None = None
    after_ms: int = 0
    for_ms: int | None = None  # None: until the timeline has ended, or it is healed by name
    name: str = ""  # for heal


class Expectation(PlanPart, frozen=True, kw_only=True):
    """A metric, of a group or topic or of the whole run, compared with a number."""

    metric: str
    bound: float
    operator: Operator = "<="
    scope: str = ""


class Limits(PlanPart, frozen=True, kw_only=True):
    """A run that passes one of them is ended, and is no success."""

    virtual_s_max: float = 3_600.0
    facts_max: int = 5_000_000
    steps_max: int = 50_000_000  # of trio's scheduler


class Plan(PlanPart, frozen=True, kw_only=True):
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


# Keywords of faults and acts ----------------------------------------------------------


FaultOrAction: TypeAlias = Fault | Action


def of_release(plan: Plan, release: str) -> Plan:
    """*plan* with a cluster of *release*; as it is if that is empty."""
    if not release:
        return plan
    cluster = msgspec.structs.replace(plan.cluster, release=release)
    return msgspec.structs.replace(plan, cluster=cluster)


def word_of(does: FaultOrAction | type[FaultOrAction]) -> str:
    """``kill``, ``slow_link``, ``join`` …"""
    word = does.__struct_config__.tag
    assert isinstance(word, str)
    return word


FAULTS: Mapping[str, type[Fault]] = {word_of(kind): kind for kind in get_args(AnyFault)}
ACTIONS: Mapping[str, type[Action]] = {word_of(kind): kind for kind in get_args(AnyAction)}
WORDS: Mapping[str, type[FaultOrAction]] = {**FAULTS, **ACTIONS}
assert len(WORDS) == len(FAULTS) + len(ACTIONS), "a word means one thing"


def first_field(kind: type[msgspec.Struct], value: object) -> str:
    """The field that is meant where only *value* is given: ``kill = "broker-b"``.

    The first one; of a link's fault ``around`` for one name and ``between`` for a pair.
    """
    if issubclass(kind, LinkFault):
        return "around" if isinstance(value, str) else "between"
    return kind.__struct_fields__[0]


def changed_fields(value: msgspec.Struct) -> dict[str, Any]:
    """The fields that are not as by default, in their order."""
    found = {}
    for field in msgspec.structs.fields(value):
        given = getattr(value, field.name)
        if field.required or given != _default(field):
            found[field.name] = given
    return found


def _default(field: msgspec.structs.FieldInfo) -> object:
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    return field.default


# Times of steps -----------------------------------------------------------------------


def timed(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """A step that follows one with a time has a time, too."""
    found: list[Step] = []
    now_ms: int | None = 0
    for step in steps:
        if step.at_ms is None and step.when is None and now_ms is not None:
            now_ms += step.after_ms
            step = msgspec.structs.replace(step, at_ms=now_ms, after_ms=0)  # noqa: PLW2901
        else:
            now_ms = step.at_ms
        found.append(step)
    return tuple(found)
