"""Checks a plan before anything runs: its names, its numbers and the order of its steps.

Each check yields all its problems, with their place in the plan.  Types and field names were
checked before, when the plan was made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias, TypeVar

import msgspec

from rocketmq_emulator.checks.judging.table import METRICS
from rocketmq_emulator.client.settings.config import (
    LitePullConsumerConfig,
    ProducerConfig,
    PushConsumerConfig,
)
from rocketmq_emulator.cluster.fault_values import (
    Busy,
    FailingFlush,
    Fault,
    FullDisk,
    Lag,
    SlowDisk,
)
from rocketmq_emulator.cluster.faults.effects import SELECTORS
from rocketmq_emulator.cluster.faults.register import refusal_of
from rocketmq_emulator.cluster.spec import ClusterSpec
from rocketmq_emulator.cluster.world import WorldKind
from rocketmq_emulator.facts import all_facts
from rocketmq_emulator.protocol.messages.message import BadProperty, Message
from rocketmq_emulator.protocol.messages.properties import (
    CHECK_IMMUNITY_TIME_IN_SECONDS,
    DELAY,
    KEYS,
    PROPERTIES_BYTES_MAX,
    RESERVED,
    TAGS,
    TIMER_DELAY_MS,
    TIMER_DELAY_SEC,
    TIMER_DELIVER_MS,
    properties_text,
)
from rocketmq_emulator.scenarios.plan.client_starts import named_clients
from rocketmq_emulator.scenarios.plan.plan import (
    ClusterPlan,
    ConsumersPlan,
    Elect,
    Expectation,
    GrowTopic,
    Heal,
    Join,
    Leave,
    ListenerPlan,
    LoadPlan,
    Plan,
    Step,
    word_of,
)
from rocketmq_emulator.scenarios.plan.problems import Path
from rocketmq_emulator.scenarios.plan.strategies import (
    ALIASES,
    STRATEGIES,
    WITH_SETTINGS,
    strategy_named,
)
from rocketmq_emulator.scenarios.plan.unread import EXPECTED, UnknownName
from rocketmq_emulator.settings.quirks import QUIRKS
from rocketmq_emulator.settings.setting_rules import BadField, convert_fields
from rocketmq_emulator.text.old_names import renamed
from rocketmq_emulator.text.suggestions import suggestion

FoundProblems: TypeAlias = Iterator[tuple[Path, str]]
S = TypeVar("S", bound=msgspec.Struct)
Checks: TypeAlias = Callable[[Plan], Iterable[tuple[Path, str]]]

QUEUES_MAX = 65_535
MEMBERS_MAX = 1_000
BROKER_ONLY = (Busy, FullDisk, SlowDisk, FailingFlush)  # only brokers have pools and drives
SERVERS = ("brokers", "masters", "slaves", "name_servers", "controllers")
SETTINGS: Mapping[str, type[msgspec.Struct]] = {
    "push": PushConsumerConfig,
    "lite_pull": LitePullConsumerConfig,
}
CHANCES = ("fails", "raises", "hangs")
FIELD_OF_PROPERTY: Mapping[str, str] = {  # of a load, for a property of its messages
    KEYS: "keys",
    TAGS: "tags",
    DELAY: "delay_levels",
    **dict.fromkeys((TIMER_DELAY_MS, TIMER_DELAY_SEC, TIMER_DELIVER_MS), "timer_ms"),
}
DELAY_LEVELS_MAX = 18
BATCH_MAX = 1_000


class PlanNames:
    """All names in a plan, by kind; ``all_names`` are the names of nodes that a step may use."""

    def __init__(self, plan: Plan) -> None:
        cluster = spec_of(plan.cluster)
        self.brokers = cluster.broker_names if cluster else ()
        self.masters = cluster.master_names if cluster else ()
        self.name_servers = cluster.name_server_names if cluster else ()
        self.controllers = cluster.controller_names if cluster and cluster.controllers else ()
        self.topics = tuple(plan.topics)
        self.groups = tuple(dict.fromkeys(each.group for each in plan.consumers))
        self.producers = tuple(
            f"producer-{number}"
            for number in range(1, 1 + min(MEMBERS_MAX, sum(load.producers for load in plan.load)))
        )
        joins = [step.does for step in plan.timeline if isinstance(step.does, Join)]
        self.members = tuple(
            f"{group}-{number}"
            for group in self.groups
            for number in range(1, 1 + _members(plan, joins, group))
        )
        programs = tuple(program.name for program in plan.programs)
        self.clients = (*self.producers, *self.members, *programs)
        self.servers = (*self.brokers, *self.name_servers, *self.controllers)
        self.nodes = (*self.servers, *self.clients)
        self.sets = (*SELECTORS, "producer", *self.groups)
        self.all_names = (*self.nodes, *self.sets)


def spec_of(cluster: ClusterPlan) -> ClusterSpec | None:
    """The ``ClusterSpec`` of *cluster*, as worlds start it; None if it is invalid."""
    try:
        return ClusterSpec(**msgspec.structs.asdict(cluster))
    except ValueError:
        return None


def problems_of(plan: Plan) -> list[tuple[Path, str]]:
    """All problems of *plan*, each with its place in the plan."""
    names = PlanNames(plan)
    found = [*_cluster(plan), *_topics(plan, names)]
    for at, each in enumerate(plan.consumers):
        found += _under(("consumers", at), _consumers(each, names))
    for at, load in enumerate(plan.load):
        found += _under(("load", at), _load(load, names))
    found += [*_names(plan, names), *_programs(plan), *old_names_in(plan)]
    for at, step in enumerate(plan.timeline):
        found += _under(("timeline", at), [*_step(step, names, plan, at)])
    found += [*_order(plan), *_starts(plan)]
    return [*found, *_expectations(plan, names), *_limits(plan)]


def refusals_of(plan: Plan, world: WorldKind, *, has_links: bool = False) -> FoundProblems:
    """Each fault of *plan* that *world* does not support: its place, and why.

    A cluster that is invalid counts as one with the default servers.
    """
    spec = spec_of(plan.cluster) or ClusterSpec()
    clients = PlanNames(plan).clients
    for at, step in enumerate(plan.timeline):
        if isinstance(step.does, Fault):
            why = refusal_of(step.does, world, spec, has_links=has_links, clients=clients)
            if why is not None:
                yield ("timeline", at, word_of(step.does)), why


def _under(path: Path, found: Iterable[tuple[Path, str]]) -> FoundProblems:
    return (((*path, *inner), text) for inner, text in found)


def _members(plan: Plan, joins: Iterable[Join], group: str) -> int:
    own = sum(each.members for each in plan.consumers if each.group == group)
    return min(MEMBERS_MAX, own + sum(join.members for join in joins if join.group == group))


# The cluster, its topics and clients --------------------------------------------------------


def _cluster(plan: Plan) -> FoundProblems:
    try:
        ClusterSpec(**msgspec.structs.asdict(plan.cluster)).check()
    except ValueError as error:
        yield ("cluster",), str(error)


def _topics(plan: Plan, names: PlanNames) -> FoundProblems:
    for name, topic in plan.topics.items():
        if not 1 <= topic.queues <= QUEUES_MAX:
            yield ("topics", name, "queues"), f"is a number from 1 to {QUEUES_MAX}"
        if topic.write_queues is not None and not 0 <= topic.write_queues <= QUEUES_MAX:
            yield ("topics", name, "write_queues"), f"is a number from 0 to {QUEUES_MAX}"
        if not 0 <= topic.perm <= 7:
            yield ("topics", name, "perm"), "is 6 (read and write), 4 (read) or 2 (write)"
        yield from _known(("topics", name, "brokers"), "broker", topic.brokers, names.brokers)


def _names(plan: Plan, names: PlanNames) -> FoundProblems:
    """A problem for each name that is used twice."""
    taken: set[str] = {*names.servers, *SERVERS, "clients", "world"}
    for at, each in enumerate(plan.consumers):  # entries may have the same group
        if each.group in taken:
            yield ("consumers", at, "group"), f"there is already something named {each.group}"
    taken |= {*names.groups, *names.members, *names.producers}
    for at, program in enumerate(plan.programs):
        if program.name in taken:
            yield ("programs", at, "name"), f"there is already something named {program.name}"
        taken.add(program.name)


def _consumers(each: ConsumersPlan, names: PlanNames) -> FoundProblems:
    if not each.topics:
        yield ("topics",), "consumers need a topic"
    yield from _known(("topics",), "topic", each.topics, names.topics)
    if not 0 <= each.members <= MEMBERS_MAX:
        yield ("members",), f"is a number from 0 to {MEMBERS_MAX}, not {each.members}"
    if ":" not in each.strategy:
        yield from _strategy(each.strategy)
    if each.kind == "lite_pull" and each.orderly:
        yield ("orderly",), "only push consumers have an orderly listener"
    for name in each.settings_of:
        yield from _known(("settings_of", name), "member", (name,), names.members)
        yield from _settings(("settings_of", name), SETTINGS[each.kind], each.settings_of[name])
    yield from _settings(("settings",), SETTINGS[each.kind], each.settings)
    yield from _positive(("starts_ms",), each.starts_ms, least=0)
    yield from _positive(("every_ms",), each.every_ms, least=0)
    yield from _positive(("start_spread_ms",), each.start_spread_ms, least=0)
    if each.seeks_ms and each.kind != "lite_pull":
        yield ("seeks_ms",), "only lite pull consumers seek"
    for at, seek_ms in enumerate(each.seeks_ms):
        yield from _positive(("seeks_ms", at), seek_ms, least=0)
    yield from _positive(("seek_back_max",), each.seek_back_max, least=0)
    yield from _under(("listener",), _listener(each.listener))


def _strategy(name: str) -> FoundProblems:
    if "(" not in name and name not in WITH_SETTINGS:
        known = [*STRATEGIES, *ALIASES, *WITH_SETTINGS]
        yield from _known(("strategy",), "strategy", (name,), known)
        return
    try:
        strategy_named(name)
    except ValueError as error:
        yield ("strategy",), str(error)


def _listener(listener: ListenerPlan) -> FoundProblems:
    for name in (*CHANCES, "always_fails"):
        if not 0 <= getattr(listener, name) <= 1:
            yield (name,), f"is a chance from 0 to 1, not {getattr(listener, name)}"
    if sum(getattr(listener, name) for name in CHANCES) > 1:
        yield (), f"the chances {', '.join(CHANCES)} are more than 1 together"
    for name in ("takes_ms", "jitter_ms", "hang_ms", "from_ms"):
        yield from _positive((name,), getattr(listener, name), least=0)
    yield from _positive(("until_ms",), listener.until_ms, least=listener.from_ms + 1)


def _load(load: LoadPlan, names: PlanNames) -> FoundProblems:
    yield from _known(("topic",), "topic", (load.topic,), names.topics)
    if load.rate <= 0:
        yield ("rate",), "is more than 0 a second"
    for name in ("producers", "burst"):
        yield from _positive((name,), getattr(load, name), least=1)
    for name in ("from_ms", "size_bytes", "size_jitter_bytes", "keys", "key_skew"):
        yield from _positive((name,), getattr(load, name), least=0)
    if load.until_ms is not None and load.until_ms <= load.from_ms:
        yield ("until_ms",), "must be after the beginning of the load"
    if load.key_skew and not load.keys:
        yield ("key_skew",), "needs keys, the number of different keys"
    yield from _properties(load)
    yield from _delays(load)
    yield from _batch(load)
    yield from _transactions(load)
    yield from _settings(("settings",), ProducerConfig, load.settings)


def _properties(load: LoadPlan) -> FoundProblems:
    """A problem for each property that a message cannot have, or that the client sets itself."""
    longest: dict[str, str] = {}
    for name, given in load.properties.items():
        place, values = ("properties", name), (given,) if isinstance(given, str) else given
        longest[name] = max(values, key=len, default="")
        if (meant := FIELD_OF_PROPERTY.get(name)) is not None:
            yield place, f"RocketMQ sets this property itself: use the field {meant} instead"
        elif name in RESERVED:
            yield place, "RocketMQ sets this property itself: no application can"
        elif name == CHECK_IMMUNITY_TIME_IN_SECONDS and load.mode != "transaction":
            yield place, f"is for loads of transactions, and the mode is {load.mode}"
        elif not values:
            yield place, "needs a value"
        else:
            yield from ((place, text) for text in _bad_values(name, given, values))
    text = properties_text(longest, trailing=True)
    if (size_bytes := len(text.encode())) > PROPERTIES_BYTES_MAX:
        yield ("properties",), f"have {size_bytes:,} bytes, and {PROPERTIES_BYTES_MAX:,} fit"


def _bad_values(name: str, given: str | tuple[str, ...], values: tuple[str, ...]) -> Iterator[str]:
    """What a message says to each value; of several, an empty one means no property."""
    for value in values:
        if value or given is value:
            try:
                Message("any").put_user_property(name, value)
            except BadProperty as error:
                yield str(error)


def _delays(load: LoadPlan) -> FoundProblems:
    if load.delay_levels and load.timer_ms:
        yield ("timer_ms",), "a load has delay_levels or timer_ms: of both, only the level counts"
    for at, level in enumerate(load.delay_levels):
        if not 0 <= level <= DELAY_LEVELS_MAX:
            text = f"is a level from 1 to {DELAY_LEVELS_MAX}, or 0 for none, not {level}"
            yield ("delay_levels", at), text
    for at, timer_ms in enumerate(load.timer_ms):
        yield from _positive(("timer_ms", at), timer_ms, least=0)


def _batch(load: LoadPlan) -> FoundProblems:
    if not 1 <= load.batch <= BATCH_MAX:
        yield ("batch",), f"is a number from 1 to {BATCH_MAX}, not {load.batch}"
    if load.batch > 1 and load.mode != "sync":
        yield ("batch",), f"a batch is sent in the mode sync, not {load.mode}"
    if load.batch > 1 and (load.keys or load.delay_levels or load.timer_ms):
        yield ("batch",), "messages of a batch share a queue and have no delays: leave keys out"


SHARES = ("rollbacks", "unknowns", "crashes", "raises", "undecided")


def _transactions(load: LoadPlan) -> FoundProblems:
    shares = {name: getattr(load, name) for name in SHARES}
    if load.mode != "transaction":
        for name in (*SHARES, "decides_ms"):
            if getattr(load, name):
                yield (name,), f"is for loads of transactions, and the mode is {load.mode}"
        return
    yield from _positive(("decides_ms",), load.decides_ms, least=0)
    for name, share in shares.items():
        if not 0 <= share <= 1:
            yield (name,), f"is a share from 0 to 1, not {share}"
    if sum(shares.values()) > 1:
        yield (), f"the shares {', '.join(SHARES)} are more than 1 together"
    if load.until_ms is None and load.count_max is None:
        yield (), "its producers stay to be asked: say when sends end (until, or count_max)"
    if load.keys:
        yield ("keys",), "a transaction chooses no queue: leave keys out"
    if load.delay_levels or load.timer_ms:
        yield (), "a transaction drops the delay of its message: leave it out"


def _settings(path: Path, kind: type[msgspec.Struct], given: Mapping[str, Any]) -> FoundProblems:
    try:
        convert_fields(kind, {"group": "any", **given}, kind.__name__.removesuffix("Config"))
    except BadField as error:
        yield path, str(error)


def _programs(plan: Plan) -> FoundProblems:
    for at, program in enumerate(plan.programs):
        module, colon, function = program.run.partition(":")
        if not (module and colon and function.isidentifier()):
            yield ("programs", at, "run"), f'is "module:function", not {program.run!r}'
        yield from _positive(("programs", at, "starts_ms"), program.starts_ms, least=0)


def old_names_in(plan: Plan) -> FoundProblems:
    """A problem for each function of a renamed module; old journals can have such names."""
    named: list[tuple[Path, str]] = [
        (("consumers", at, "strategy"), group.strategy) for at, group in enumerate(plan.consumers)
    ]
    named += [(("programs", at, "run"), each.run) for at, each in enumerate(plan.programs)]
    for path, name in named:
        module, colon, function = name.rpartition(":")
        if colon and (new := renamed(module, function)):
            yield path, new


# The timeline -----------------------------------------------------------------------------


def _step(step: Step, names: PlanNames, plan: Plan, at: int) -> FoundProblems:
    does, word = step.does, word_of(step.does)
    if step.at_ms is not None and (step.when is not None or step.after_ms):
        yield ("at_ms",), "a step is done at a time, or after something, not both"
    yield from _positive(("at_ms",), step.at_ms, least=0)
    yield from _positive(("after_ms",), step.after_ms, least=0)
    if step.for_ms is not None and not isinstance(does, Fault):
        yield ("for_ms",), f"{word} is done at once: it has no end"
    yield from _positive(("for_ms",), step.for_ms, least=1)
    if step.when is not None:
        yield from _when(step, names)
    yield from _under((word,), _referenced_names(does, names))
    if isinstance(does, Heal):
        yield from _under((word,), _heal(does, plan, at))
    if isinstance(does, GrowTopic) and does.topic in plan.topics:
        least = plan.topics[does.topic].queues + 1
        yield from _positive((word, "queues"), does.queues, least=least)
    yield from _under((word,), _targets(does, names))
    if step.name and step.name in [other.name for other in plan.timeline[:at]]:
        yield ("name",), f"there is already a step named {step.name}"


def _referenced_names(does: msgspec.Struct, names: PlanNames) -> FoundProblems:
    """A problem for each name in *does* that the plan does not have."""
    known = {
        "node": ("node or group", names.all_names),
        "nodes": ("node or group", names.all_names),
        "around": ("node or group", names.all_names),
        "broker": ("broker", names.brokers),
        "name_server": ("NameServer", names.name_servers),
        "group": ("group", names.groups),
        "topic": ("topic", names.topics),
    }
    special = isinstance(does, (Leave, Elect, *BROKER_ONLY))
    for field in does.__struct_fields__:
        value = getattr(does, field)
        if field in known and value and not (special and field == "node"):
            yield from _known((field,), known[field][0], _listed(value), known[field][1])
        if field == "between" and value:
            for side, part in enumerate(value):
                path = (field, side)
                yield from _known(path, "node or group", _listed(part), names.all_names)
        if field in ("members", "down_ms", "ms") and isinstance(value, int | float):
            least = 1 if field == "members" else None
            yield from _positive((field,), value, least=least)


def _targets(does: msgspec.Struct, names: PlanNames) -> FoundProblems:
    """Problems of a fault or action whose node must be a broker, a slave or a client."""
    if isinstance(does, Elect):
        yield from _elect(does, names)
    if isinstance(does, Leave):
        yield from _known(("node",), "client", (does.node,), names.clients)
    if isinstance(does, BROKER_ONLY):
        known = (*names.brokers, "brokers", "masters", "slaves")
        yield from _known(("node",), "broker", (does.node,), known)
    if isinstance(does, Lag):
        slaves = (*(name for name in names.brokers if name not in names.masters), "slaves")
        yield from _known(("node",), "slave", (does.node,), slaves)


def _elect(elect: Elect, names: PlanNames) -> FoundProblems:
    if not names.controllers:
        yield (), "nobody can elect a master: give the cluster controllers = 1 or 3"
    own = [each for each in names.brokers if each == elect.broker or is_slave(each, elect.broker)]
    if elect.broker not in names.brokers:
        return  # that is a problem of its own
    if elect.broker not in names.masters:
        yield ("broker",), f"is a broker name, as {names.masters[0]}: {elect.broker} is a node"
    else:
        yield from _known(("node",), f"node of {elect.broker}", (elect.node,), own)


def is_slave(node: str, broker: str) -> bool:
    """Whether the name of *node* is that of a slave of *broker*."""
    return node.rpartition("-")[0] == broker


def _heal(heal: Heal, plan: Plan, at: int) -> FoundProblems:
    earlier = {step.name: step for step in plan.timeline[:at] if step.name}
    yield from _known(("step",), "earlier step", (heal.step,), earlier)
    begun = earlier.get(heal.step)
    if begun is not None and not isinstance(begun.does, Fault):
        yield ("step",), f"{heal.step} is no fault: it has no end"
    if begun is not None and begun.for_ms is not None:
        yield ("step",), f"{heal.step} ends by itself, after {begun.for_ms} ms"


def _when(step: Step, names: PlanNames) -> FoundProblems:
    assert step.when is not None, "the caller checks this"
    when = step.when
    kinds = {kind.__name__: kind for kind in all_facts()}
    yield from _known(("when", "kind"), "fact", (when.kind,), kinds)
    yield from _positive(("when", "wait_ms_max"), when.wait_ms_max, least=1)
    if when.node:
        known = (*names.nodes, "world")
        yield from _known(("when", "node"), "node", (when.node,), known)
    if (kind := kinds.get(when.kind)) is not None:
        fields = kind.__struct_fields__
        yield from _known(("when", "fields"), f"field of {when.kind}", when.fields, fields)


def _order(plan: Plan) -> FoundProblems:
    """Problems of steps that are not in the order of their times."""
    last_ms: int | None = 0
    for at, step in enumerate(plan.timeline):
        if step.at_ms is None:
            last_ms = None if step.when or last_ms is None else last_ms + step.after_ms
        elif last_ms is None:
            text = "the step before it waits for a fact, so its time is unknown: use after, not at"
            yield ("timeline", at, "at_ms"), text
        elif step.at_ms < last_ms:
            text = f"the timeline is out of order: the step before it is done at {last_ms} ms"
            yield ("timeline", at, "at_ms"), text
        else:
            last_ms = step.at_ms
        if last_ms is not None and plan.lasts_ms is not None and last_ms > plan.lasts_ms:
            yield ("timeline", at), f"the run ends before it, after {plan.lasts_ms} ms"


def _starts(plan: Plan) -> FoundProblems:
    """Problems of steps that name a client before it has started."""
    spread = [each.group for each in plan.consumers if each.start_spread_ms]
    for at, path, name, started_ms in named_clients(_with_members_max(plan)):
        step = plan.timeline[at]
        place = ("timeline", at, word_of(step.does), *path)
        if started_ms is None:
            text = f"no client named {name} starts before this step: do it later"
            yield place, UnknownName(text, "client", name)
        elif step.at_ms is not None and step.at_ms < started_ms:
            when = f"{name} does not run yet at {step.at_ms / 1_000:g} s: it starts at"
            if name in spread or name.rpartition("-")[0] in spread:
                when = f"{name} may not run yet at {step.at_ms / 1_000:g} s: the seed starts it by"
            yield place, f"{when} {started_ms / 1_000:g} s; do this step then, or later"


def _with_members_max(plan: Plan) -> Plan:
    """*plan* with at most ``MEMBERS_MAX`` members of a group, joins and producers of a load."""
    return msgspec.structs.replace(
        plan,
        consumers=tuple(_at_most(each, "members") for each in plan.consumers),
        load=tuple(_at_most(each, "producers") for each in plan.load),
        timeline=tuple(
            msgspec.structs.replace(step, does=_at_most(step.does, "members"))
            if isinstance(step.does, Join)
            else step
            for step in plan.timeline
        ),
    )


def _at_most(part: S, field: str) -> S:
    return msgspec.structs.replace(part, **{field: min(MEMBERS_MAX, getattr(part, field))})


# Expectations and limits --------------------------------------------------------------------


SCOPES = {"group": "group", "topic": "topic", "node": "broker"}  # by ``Metric.of``


def _expectations(plan: Plan, names: PlanNames) -> FoundProblems:
    seen = set()
    for at, each in enumerate(plan.expect):
        yield from _under(("expect", at), _scope(each, names))
        yield from _known(("expect", at), "metric", (each.metric,), METRICS)
        key = each.metric, each.operator, each.scope
        if key in seen:
            yield ("expect", at), f"{each.metric} {each.operator} is expected twice"
        seen.add(key)


def _scope(expectation: Expectation, names: PlanNames) -> FoundProblems:
    """Problems of the group, topic or broker to which an expectation is limited."""
    metric, scope = METRICS.get(expectation.metric), expectation.scope
    if not scope:
        return
    known = {"group": names.groups, "topic": names.topics, "broker": names.brokers}
    kinds = [kind for kind, own in known.items() if scope in own]
    if metric is None:
        every = (*names.groups, *names.topics, *names.brokers)
        yield from _known((), EXPECTED, (scope,), every)
    elif not metric.of:
        yield (), f"{metric.name} is measured for the whole run only, not for {scope!r}"
    elif (right := SCOPES[metric.of]) in kinds:
        return
    elif kinds or scope in names.nodes:
        what = kinds[0] if kinds else "node"
        near = suggestion(scope, known[right])
        yield (), f"{metric.name} is measured for each {right}, and {scope} is a {what}{near}"
    else:
        yield from _known((), right, (scope,), known[right])


def _limits(plan: Plan) -> FoundProblems:
    for at, name in enumerate(plan.quirks):
        yield from _known(("quirks", at), "quirk", (name,), QUIRKS)
    for name in plan.limits.__struct_fields__:
        yield from _positive(("limits", name), getattr(plan.limits, name), least=1)
    for name, least in (("lasts_ms", 1), ("quiet_ms_max", 0), ("settled_ms", 0)):
        yield from _positive((name,), getattr(plan, name), least=least)


# Helpers --------------------------------------------------------------------------------------


def _listed(value: str | Iterable[str]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


def _known(path: Path, what: str, names: Iterable[str], known: Iterable[str]) -> FoundProblems:
    for name in names:
        if name not in known:
            text = f"there is no {what} {name!r}{suggestion(name, known)}"
            yield path, UnknownName(text, what, name)


def _positive(path: Path, value: float | None, *, least: int | None) -> FoundProblems:
    if value is not None and least is not None and value < least:
        yield path, f"is at least {least}, not {value}"
