"""``Plan``, a scenario as one value: TOML files and Python functions are both read into plans.

Nothing runs here.  A plan has the cluster, the clients, a timeline of steps and the expectations;
``scenarios.running`` runs it in any world.  Times are milliseconds since the load begins.

Each fault and each action has one keyword, the tag of its struct (``kill``, ``slow_link``,
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
    """The cluster of a plan; the fields are those of ``ClusterSpec``."""

    brokers: int = 2  # masters: broker-a, broker-b …
    slaves: int = 0  # of each of these: broker-a-1, broker-b-1 …
    acting_master: bool = False  # a slave acts as its master while that is away; needs 5.0.0
    controllers: int = 0  # 0, 1 or 3: they elect the master of each broker name
    name_servers: int = 1
    release: str = "4.9.7"
    broker_settings: dict[str, Any] = {}  # of every broker: see configuration.md
    name_server_settings: dict[str, Any] = {}  # of every NameServer: see configuration.md
    controller_settings: dict[str, Any] = {}  # of every controller: see configuration.md
    settings_of: dict[str, dict[str, Any]] = {}  # by node; they override these


class TopicPlan(PlanPart, frozen=True, kw_only=True):
    """A topic with *queues* to read and write on each of *brokers* (empty: all)."""

    queues: int = 4
    write_queues: int | None = None  # None: as many as queues
    perm: int = 6
    brokers: tuple[str, ...] = ()
    attributes: dict[str, str] = {}  # of brokers of 5.x, as "message.type" = "FIFO"


class ListenerPlan(PlanPart, frozen=True, kw_only=True):
    """How a listener consumes a message: durations in ms, chances from 0 to 1."""

    takes_ms: float = 1.0
    jitter_ms: float = 0.0  # up to this much longer, evenly distributed
    fails: float = 0.0  # RECONSUME_LATER, or suspend when orderly
    raises: float = 0.0
    hangs: float = 0.0  # for hang_ms
    hang_ms: float = 60_000.0
    always_fails: float = 0.0  # the share of messages that fail at each delivery
    from_ms: int = 0  # the chances hold from this time on, in ms since the load begins
    until_ms: int | None = None  # and until this time; None: to the end


class ConsumersPlan(PlanPart, frozen=True, kw_only=True):
    """Members of one group, called ``<group>-1``, ``<group>-2`` …

    A group with different members has one of these for each kind; the numbers continue.
    """

    group: str
    topics: dict[str, str]  # topic: tag expression, or SQL92: and an expression
    members: int = 1
    kind: Literal["push", "lite_pull"] = "push"
    orderly: bool = False
    broadcast: bool = False
    strategy: str = "averagely"
    settings: dict[str, Any] = {}  # of every member, as pull_batch_max: see configuration.md
    settings_of: dict[str, dict[str, Any]] = {}  # by member; they override settings
    listener: ListenerPlan = ListenerPlan()
    seeks_ms: tuple[int, ...] = ()  # when each lite pull member seeks back in one of its queues
    seek_back_max: int = 50  # up to this many messages before the group's committed offset
    starts_ms: int = 0  # when the first member starts
    every_ms: int = 0  # the time between the starts of two members
    start_spread_ms: int = 0  # each member starts up to this much later by the seed; see startup_s


class LoadPlan(PlanPart, frozen=True, kw_only=True):
    """Messages sent to a topic by producers called ``producer-1`` … (counted over all loads).

    In the mode transaction each message is the half message of a transaction, whose outcome
    follows from the seed.  The shares *rollbacks*, *unknowns*, *crashes*, *raises* and *undecided*
    say how many end so; all other transactions are committed at once.  A transaction that ends as
    unknown, or not at all, is committed or rolled back when its broker asks, in the proportion of
    those that are decided at once, unless it is undecided.  Brokers ask connected producers only,
    so the producers stay until the run ends, and such a load needs until_ms or count_max.
    """

    topic: str
    rate: float  # messages a second, of all its producers together
    producers: int = 1  # all start at the time from
    mode: Literal["sync", "async", "oneway", "transaction"] = "sync"
    from_ms: int = 0
    until_ms: int | None = None  # None: until the timeline has ended
    burst: int = 1  # this many messages at once, at the same mean rate
    size_bytes: int = 100
    size_jitter_bytes: int = 0
    keys: int = 0  # number of different keys; a key goes to one queue (selector); 0: no keys
    key_skew: float = 0.0  # exponent of Zipf's law; 0: evenly distributed
    tags: tuple[str, ...] = ()
    batch: int = 1  # messages in one call, sent when the last of them is due
    # Of each message, as SQL92 expressions read them: a value, or several to draw from ("": none).
    properties: dict[str, str | tuple[str, ...]] = {}
    delay_levels: tuple[int, ...] = ()  # each message has one of them, by chance; 0: no delay
    timer_ms: tuple[int, ...] = ()  # the same with delay times, by timers of 5.x brokers
    count_max: int | None = None
    rollbacks: float = 0.0  # the share of transactions, from 0 to 1, that is rolled back at once
    unknowns: float = 0.0  # the share that ends as unknown, so that the broker has to ask
    crashes: float = 0.0  # the share without an end, as if the producer had died before it
    raises: float = 0.0  # the share whose local transaction raises, so that the broker has to ask
    undecided: float = 0.0  # the share that stays unknown, so that the broker gives it up
    decides_ms: float = 0.0  # how long a local transaction takes
    settings: dict[str, Any] = {}  # of its producers, as sync_retries: see configuration.md


class ProgramPlan(PlanPart, frozen=True, kw_only=True):
    """A client program of your own: ``run`` is ``module:function``."""

    name: str
    run: str
    arguments: dict[str, Any] = {}  # keyword arguments of that function
    starts_ms: int = 0


# Actions: they are done once and are not undone -----------------------------------------------


class Action(
    PlanPart, frozen=True, kw_only=True, tag_field="fault"
):  # as faults: a step has either
    """A step's action: it is done once and has no end, unlike a fault."""


class Join(Action, frozen=True, kw_only=True, tag="join"):
    """More members of a group start."""

    group: str
    members: int = 1


class Leave(Action, frozen=True, kw_only=True, tag="leave"):
    """A client closes in order, or is killed."""

    node: str
    kill: bool = False


class RollingRestart(Action, frozen=True, kw_only=True, tag="rolling_restart"):
    """Each of *nodes*, or all brokers, or a whole group, is stopped for *down_ms*, in turn.

    It runs beside the next steps, which do not wait for it; the timeline does not end before it.
    In Python `run.rolling_restart(…)` only records it: it moves no clock and cannot be awaited.
    Between two nodes *between_ms* pass: so for n nodes sleep for at least
    ``n * down_ms + (n - 1) * between_ms``, and for the time of their stops and starts.
    """

    nodes: tuple[str, ...]
    down_ms: int = 5_000
    between_ms: int = 10_000


class GrowTopic(Action, frozen=True, kw_only=True, tag="grow_topic"):
    """A topic gets more queues on every broker that has it."""

    topic: str
    queues: int


class DeleteTopic(Action, frozen=True, kw_only=True, tag="delete_topic"):
    """A topic is deleted on the brokers and the NameServers."""

    topic: str


class ResetOffset(Action, frozen=True, kw_only=True, tag="reset_offset"):
    """The offsets of a group are reset to a time, in ms since the load begins."""

    group: str
    topic: str
    to_ms: int


class Elect(Action, frozen=True, kw_only=True, tag="elect"):
    """The controllers are asked to elect the broker *node* as the master of *broker*.

    They do so if it is alive and in the sync-state set; otherwise they refuse, the master stays,
    and the run goes on.

    Upstream: ``mqadmin electMaster``, ElectMasterRequestHeader with designateElect.
    """

    broker: str
    node: str


class Heal(Action, frozen=True, kw_only=True, tag="heal"):
    """A fault ends that an earlier step began; *step* is the name of that step."""

    step: str


class Mark(Action, frozen=True, kw_only=True, tag="mark"):
    """A text for the report; the timeline does not end before it."""

    text: str


AnyAction: TypeAlias = (
    Join | Leave | RollingRestart | GrowTopic | DeleteTopic | ResetOffset | Elect | Heal | Mark
)


class When(PlanPart, frozen=True, kw_only=True):
    """The first fact of *kind* after the last step, at *node* (if given), with these *fields*."""

    kind: str
    node: str = ""
    fields: dict[str, Any] = {}
    wait_ms_max: int = 120_000


class Step(PlanPart, frozen=True, kw_only=True):
    """Does *does* at a time, or *after_ms* after a fact was noted; a fault holds *for_ms*.

    Without a time and a fact: *after_ms* after the step before it.  Steps are in order of time.
    """

    does: AnyFault | AnyAction
    at_ms: int | None = None
    when: When | None = None
    after_ms: int = 0
    for_ms: int | None = None  # None: until the timeline has ended, or it is healed by name
    name: str = ""  # a later heal ends this step's fault by its name


class Expectation(PlanPart, frozen=True, kw_only=True):
    """A metric compared with *bound*: of the group, topic or broker *scope*, or of the run.

    The run's value of a metric of groups, topics or brokers is their sum or the largest.
    """

    metric: str
    bound: float
    operator: Operator = "<="
    scope: str = ""

    def __bool__(self) -> bool:
        """Raises ``TypeError``: ``a and b`` would drop *a*, and ``1 <= m <= 3`` its first half."""
        raise TypeError(
            f"{self.metric} has no value yet: give each comparison to run.expect, one by one"
        )


class Limits(PlanPart, frozen=True, kw_only=True):
    """Limits of a run: a run that passes one is ended, with the verdict ``error``."""

    virtual_s_max: float = 3_600.0
    facts_max: int = 5_000_000
    steps_max: int = 50_000_000  # of trio's scheduler


class Plan(PlanPart, frozen=True, kw_only=True):
    """See the module.  The run ends *lasts_ms* after its start, or when it is quiet.

    Quiet: sends have ended, nothing is left to consume, and no member's queues have changed
    for *settled_ms*.  The run waits for it at most *quiet_ms_max* after the timeline has ended
    and all faults are healed.
    """

    name: str
    title: str = ""
    issue: str = ""  # the issue that it shows, as apache/rocketmq#3465
    teaches: str = ""  # what a reader learns from it
    cluster: ClusterPlan = ClusterPlan()
    topics: dict[str, TopicPlan] = {}
    consumers: tuple[ConsumersPlan, ...] = ()
    load: tuple[LoadPlan, ...] = ()
    programs: tuple[ProgramPlan, ...] = ()
    timeline: tuple[Step, ...] = ()
    lasts_ms: int | None = None  # None: until it is quiet
    quiet_ms_max: int = 300_000  # how long to wait for quiet at the end
    settled_ms: int = 40_000  # two passes of every member's rebalance
    expect: tuple[Expectation, ...] = ()
    parameters: dict[str, bool | int | float | str] = {}  # their values in this plan
    quirks: tuple[str, ...] = ()  # bugs switched on by name, in clients and brokers
    limits: Limits = Limits()


# Keywords of faults and actions -------------------------------------------------------


FaultOrAction: TypeAlias = Fault | Action


def of_release(plan: Plan, release: str) -> Plan:
    """*plan* with a cluster of *release*; unchanged if that is empty."""
    if not release:
        return plan
    cluster = msgspec.structs.replace(plan.cluster, release=release)
    return msgspec.structs.replace(plan, cluster=cluster)


def word_of(does: FaultOrAction | type[FaultOrAction]) -> str:
    """The keyword of a fault or action: ``kill``, ``slow_link``, ``join`` …"""
    word = does.__struct_config__.tag
    assert isinstance(word, str)
    return word


FAULTS: Mapping[str, type[Fault]] = {word_of(kind): kind for kind in get_args(AnyFault)}
ACTIONS: Mapping[str, type[Action]] = {word_of(kind): kind for kind in get_args(AnyAction)}
WORDS: Mapping[str, type[FaultOrAction]] = {**FAULTS, **ACTIONS}
assert len(WORDS) == len(FAULTS) + len(ACTIONS), "no fault and action have the same keyword"


def first_field(kind: type[msgspec.Struct], value: object) -> str:
    """The field of *kind* that gets *value* if only a value is given: ``kill = "broker-b"``.

    It is the first field; of a link fault ``around`` for one name and ``between`` for a pair.
    """
    if issubclass(kind, LinkFault):
        return "around" if isinstance(value, str) else "between"
    return kind.__struct_fields__[0]


def changed_fields(value: msgspec.Struct) -> dict[str, Any]:
    """The required fields and those that differ from their default, in their order."""
    found = {}
    for field in msgspec.structs.fields(value):
        given = getattr(value, field.name)
        if field.required or given != _default(field):
            found[field.name] = given
    return found


def fields_text(does: msgspec.Struct) -> str:
    """The changed fields of a fault or action as text: ``broker-a, billing, ms 200``."""
    values: list[str] = []
    for name, value in changed_fields(does).items():
        text = _text(value)
        values.append(text if not values else f"{name} {text}")
    return ", ".join(values)


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(_text(part) for part in value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def _default(field: msgspec.structs.FieldInfo) -> object:
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    return field.default


# Times of steps -----------------------------------------------------------------------


def timed(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """*steps* with times: a step that follows a step with a time gets its time, too."""
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
