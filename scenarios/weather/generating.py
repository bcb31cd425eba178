"""Generates weather: a plan from a seed.  Equal seeds, releases and shapes give equal plans.

``clients`` draws groups and loads; this module draws actions and faults, and places them at times
when a state of the cluster is expected.  Actions are placed first, then faults relative to them:
while another fault holds, after a member has left, after a fault was healed.

A seed aims at two pairs of a fault and a state: the events that such a state needs are placed
first, the others are random.  The pairs have one fixed order, in which faults and states change at
each step, and a seed has its two pairs whatever other seeds have met: so a seed is one plan, and
76 consecutive seeds aim at every pair once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterator, Mapping, Sequence
from random import Random
from typing import NamedTuple

from rocketmq_emulator.cluster.fault_values import ClockJump, Fault
from rocketmq_emulator.cluster.faults.register import refusal_of
from rocketmq_emulator.cluster.spec import ClusterSpec
from rocketmq_emulator.scenarios.plan.plan import (
    AnyAction,
    ConsumersPlan,
    Elect,
    Expectation,
    GrowTopic,
    Join,
    Leave,
    Plan,
    RollingRestart,
    Step,
    TopicPlan,
    word_of,
)
from rocketmq_emulator.scenarios.weather.clients import Clients
from rocketmq_emulator.scenarios.weather.coverage import STATES
from rocketmq_emulator.scenarios.weather.events import (
    ABSENCES,
    COMBINATIONS,
    ELECTIONS_A_MINUTE,
    FAULTS_BY_CHANCE,
    FAULTS_OF_CONTROLLERS,
    FAULTS_OF_SLAVES,
    LAST_COMBINATIONS,
    Combination,
    CombinationContext,
    SlaveFault,
    WeatherEvent,
    WeatherTargets,
)
from rocketmq_emulator.scenarios.weather.shape import WeatherShape

SETTLED_MS = 65_000  # after it rules about members' lists of their group can be judged
LIVENESS_METRICS = ("lost", "stuck", "backlog", "unrest")  # after all faults have ended
UNOWNED_S = 60 + 20  # after a fault: the lock of a dead member at its broker, a rebalance pass


def weather(seed: int, release: str = "4.9.7", shape: WeatherShape | None = None) -> Plan:
    """A random plan: loads and groups, faults and actions, then quiet, and expectations."""
    shape = shape or WeatherShape()
    clients = Clients(seed, release, shape)
    spec = ClusterSpec(
        brokers=shape.brokers,
        slaves=shape.slaves,
        controllers=shape.controllers,
        acting_master=shape.acting_master,
        name_servers=shape.name_servers,
        release=release,
    )
    combinations = [name for name in (*COMBINATIONS, *LAST_COMBINATIONS) if clients.has(name)]
    steps = timeline(seed, shape, _targets(spec, clients.consumers), spec, combinations)
    return Plan(
        name=f"weather_{seed}",
        title=f"Weather of seed {seed}",
        teaches="Safety holds under faults by chance, and liveness returns after them.",
        cluster=clients.cluster,
        topics={"orders": TopicPlan(queues=4), "steps": TopicPlan(queues=2)},
        consumers=clients.consumers,
        load=clients.loads,
        timeline=steps,
        quiet_ms_max=shape.quiet_s_max * 1_000,
        settled_ms=SETTLED_MS,
        expect=tuple(_expected(shape, steps)),
    )


def _targets(spec: ClusterSpec, consumers: tuple[ConsumersPlan, ...]) -> WeatherTargets:
    groups = tuple(group.group for group in consumers)
    members = tuple(
        f"{group.group}-{number + 1}" for group in consumers for number in range(group.members)
    )
    return WeatherTargets(spec.master_names, spec.name_server_names, members, groups)


def _expected(shape: WeatherShape, steps: tuple[Step, ...]) -> Iterator[Expectation]:
    """Expectations besides the rules of all checkers: liveness after all faults have ended.

    A lock that a broker grants while its clock is ahead expires later by that time.
    """
    jumps = [step.does.ms for step in steps if isinstance(step.does, ClockJump)]
    ahead_s = max(0, *jumps, 0) / 1_000
    for metric in LIVENESS_METRICS:
        yield Expectation(metric=metric, operator="==", bound=0)
    yield Expectation(metric="unowned_s", bound=shape.seconds + UNOWNED_S + ahead_s)


# The timeline -------------------------------------------------------------------------


AT_STATE_CHANCE = 0.7  # of a random fault to be placed in a state; else at any time
TRIES_MAX = 20
FIRST_MS = 3_000  # no fault and no action before it
COPIED_MS = 16_000  # slaves copy the topics 13 s after their start; one elected before lacks them
COMBINATIONS_FROM_MS = 8_000  # no combination begins before it: then all members have started
CALM_MS = 14_000  # members have joined 10 s before, and queues have their owners
BACKLOG_MS = 5_000  # how long a node is down until there is a backlog
DOWN_WORDS = ("kill", "stop", "power_off", "pause")


def timeline(
    seed: int,
    shape: WeatherShape,
    targets: WeatherTargets,
    spec: ClusterSpec,
    combinations: Collection[str] = (),
) -> tuple[Step, ...]:
    """The steps of *seed* in the order of their times, with *combinations*."""
    drawn = _Timeline(seed, shape, targets, spec, combinations).drawn()
    return tuple(_step(placed) for placed in sorted(drawn, key=lambda placed: placed.at_ms))


class _Timeline:
    def __init__(
        self,
        seed: int,
        shape: WeatherShape,
        targets: WeatherTargets,
        spec: ClusterSpec,
        combinations: Collection[str],
    ) -> None:
        self.seed = seed
        self.rng = Random(f"weather {seed}")  # a text: the same on all platforms
        self.shape, self.targets, self.spec, self.combinations = shape, targets, spec, combinations
        self.combination_rng = Random(f"weather scenes {seed}")
        self.first_ms = COPIED_MS if spec.controllers else FIRST_MS
        self.end_ms = shape.seconds * 1_000
        self.placed: list[WeatherEvent] = []
        self.gone: set[str] = set()
        self.usual = {
            word: shape.weights.get(word, row.weight) for word, row in FAULTS_BY_CHANCE.items()
        }
        self.aims = coverage_targets_of(
            seed, {word for word, weight in self.usual.items() if weight}
        )

    def drawn(self) -> list[WeatherEvent]:
        """All events: each is placed after those that it depends on, so faults in calm first."""
        fault_count = self._count(self.shape.faults_per_minute)
        aims = self.aims[:fault_count]
        calm = [aim for aim in aims if aim.state == "calm" and self.end_ms > 2 * CALM_MS]
        for aim in calm:
            self._aimed(aim)
            self.first_ms = max(self.first_ms, CALM_MS + 1)
        for name, combination in COMBINATIONS.items():
            self._combination(name, combination)
        self._actions(
            [ACTION_FOR_STATE[aim.state] for aim in aims if aim.state in ACTION_FOR_STATE]
        )
        for _ in range(fault_count - len(aims)):
            self._fault()
        for aim in aims:
            if aim not in calm:
                self._aimed(aim)
        for name, combination in LAST_COMBINATIONS.items():
            self._combination(name, combination)
        if self.spec.slaves:
            self._faults_of_slaves()
        if self.spec.controllers:
            self._faults_of_controllers()
            self._elections()
        if self.spec.acting_master:
            self._absence_of_a_master()
        return self.placed

    # Combinations ------------------------------------------------------------------------------

    def _combination(self, name: str, combination: Combination) -> None:
        """Place the combination if the seed has it, none of it collides, and no weight is 0."""
        if name not in self.combinations:
            return
        staying = tuple(m for m in self.targets.members if m not in self.gone and self._is_up(m))
        first_ms = max(self.first_ms, COMBINATIONS_FROM_MS)
        placed = combination(
            CombinationContext(self.combination_rng, self.targets, first_ms, self.end_ms, staying)
        )
        if any(self._is_left_out(each) or self._collides(each) for each in placed):
            return
        self.placed += placed
        self.gone.update(each.does.node for each in placed if isinstance(each.does, Leave))

    def _is_left_out(self, placed: WeatherEvent) -> bool:
        """Whether the shape excludes this fault or action."""
        word = word_of(placed.does)
        if isinstance(placed.does, Fault):
            return not (self.usual[word] and self.shape.faults_per_minute)
        return not (
            self.shape.weights.get(word, ACTIONS_BY_CHANCE[word][0]) and self.shape.acts_per_minute
        )

    # Actions -----------------------------------------------------------------------------------

    def _actions(self, needed: list[str]) -> None:
        weights = {
            word: self.shape.weights.get(word, row[0]) for word, row in ACTIONS_BY_CHANCE.items()
        }
        wanted = [word for word in needed if weights[word] and self.shape.acts_per_minute]
        for at in range(max(len(wanted), self._count(self.shape.acts_per_minute))):
            word = wanted[at] if at < len(wanted) else self._chosen(weights)
            if word is not None:
                self._act(word)

    def _act(self, word: str) -> None:
        at_ms = self._any_ms()
        if (act := ACTIONS_BY_CHANCE[word][1](self)) is not None:
            takes_ms = 2_000
            if isinstance(act, RollingRestart):
                takes_ms = len(act.nodes) * (act.down_ms + act.between_ms)
            self.placed.append(WeatherEvent(at_ms, at_ms + takes_ms, act))

    # Faults ------------------------------------------------------------------------------------

    def _fault(self) -> None:
        """Place a random fault, unless no place is found for it."""
        for _ in range(TRIES_MAX):
            if (word := self._chosen(self.usual)) is None:
                return
            if self._is_put(word, self._any_state()):
                return

    def _faults_of_slaves(self) -> None:
        """Place half as many faults again: of slaves, their masters and the links between them.

        They have a chance of their own, after all others: the others are as without slaves.
        """

        def ends(rng: Random) -> tuple[str, str]:
            slave = rng.choice(self.spec.slave_names)
            return self.spec.master_of(slave)[0], slave

        self._more_faults(Random(f"weather slaves {self.seed}"), FAULTS_OF_SLAVES, ends, 2)

    def _faults_of_controllers(self) -> None:
        """Place a quarter as many again: of controllers, and of their links to brokers."""

        def ends(rng: Random) -> tuple[str, str]:
            return rng.choice(self.spec.controller_names), rng.choice(self.spec.broker_names)

        rng = Random(f"weather controllers {self.seed}")
        self._more_faults(rng, FAULTS_OF_CONTROLLERS, ends, 4)

    def _more_faults(
        self,
        rng: Random,
        table: Mapping[str, SlaveFault],
        ends: Callable[[Random], tuple[str, str]],
        part: int,
    ) -> None:
        """Place one fault of *table* for *part* of the others; *ends* chooses its nodes."""
        given = self.shape.weights
        weights = {word: given.get(word, row.weight) for word, row in table.items()}
        if not any(weights.values()):
            return
        last_ms = self.end_ms - 1_000
        for _ in range(round(self.shape.faults_per_minute * self.shape.seconds / 60 / part)):
            row = table[rng.choices(list(weights), list(weights.values()))[0]]
            fault = row.make(rng, *ends(rng))
            at_ms = rng.randrange(self.first_ms, last_ms)
            until_ms = min(at_ms + int(rng.uniform(*row.lasts_s) * 1_000), self.end_ms)
            placed = WeatherEvent(at_ms, until_ms, fault)
            if not self._collides(placed):
                self.placed.append(placed)

    def _elections(self) -> None:
        """Place elections by hand, of any broker of a name."""
        rng = Random(f"weather elections by hand {self.seed}")
        if not self.shape.acts_per_minute:
            return
        for _ in range(round(ELECTIONS_A_MINUTE * self.shape.seconds / 60)):
            broker = rng.choice(self.spec.master_names)
            nodes = [n for n in self.spec.broker_names if self.spec.master_of(n)[0] == broker]
            at_ms = rng.randrange(self.first_ms, self.end_ms)
            elect = Elect(broker=broker, node=rng.choice(nodes))
            self.placed.append(WeatherEvent(at_ms, at_ms + 2_000, elect))

    def _absence_of_a_master(self) -> None:
        """Place a long fault of one master, so that its slave acts, by a chance of its own."""
        rng, given = Random(f"weather absences {self.seed}"), self.shape.weights
        rows = {word: row for word, row in ABSENCES.items() if given.get(word, row.weight)}
        if not rows or not self.shape.faults_per_minute:
            return
        for _ in range(TRIES_MAX):
            row = rows[rng.choices(list(rows), [row.weight for row in rows.values()])[0]]
            at_ms = rng.randrange(self.first_ms, max(self.first_ms + 1, self.end_ms // 2))
            until_ms = min(at_ms + int(rng.uniform(*row.lasts_s) * 1_000), self.end_ms)
            placed = WeatherEvent(at_ms, until_ms, row.make(rng, self.targets))
            if not self._collides(placed):
                self.placed.append(placed)
                return

    def _aimed(self, aim: CoverageTarget) -> None:
        """Place the fault of *aim* in its state, or else at another time."""
        for state in (aim.state,) * TRIES_MAX + ("",) * TRIES_MAX:
            if self._is_put(aim.word, state):
                return

    def _is_put(self, word: str, state: str) -> bool:
        row = FAULTS_BY_CHANCE[word]
        fault = row.make(self.rng, self.targets)
        if refusal_of(fault, "virtual", self.spec) is not None:
            return False
        moments = self._moments(state) if state else [self._any_ms()]
        if not moments:
            return False
        at_ms = self.rng.choice(moments)
        until_ms = min(at_ms + int(self.rng.uniform(*row.lasts_s) * 1_000), self.end_ms)
        placed = WeatherEvent(at_ms, until_ms, fault)
        if until_ms - at_ms < 200 or self._collides(placed):
            return False
        self.placed.append(placed)
        return True

    def _any_state(self) -> str:
        """A random state that has moments, or an empty text: then at any time."""
        if self.rng.random() >= AT_STATE_CHANCE:
            return ""
        return self.rng.choice(
            [state for state in MOMENTS_OF_STATE if self._moments(state)] or [""]
        )

    def _moments(self, state: str) -> list[int]:
        found = MOMENTS_OF_STATE[state](self)
        return [at_ms for at_ms in found if self.first_ms <= at_ms < self.end_ms - 1_000]

    def _collides(self, new: WeatherEvent) -> bool:
        """Whether the node of *new* has left (its end would start it again) or is down then."""
        node = getattr(new.does, "node", None)
        if node in self.gone:
            return True
        if word_of(new.does) not in DOWN_WORDS:
            return False
        return any(
            node in _down(old) and new.at_ms <= old.until_ms and old.at_ms <= new.until_ms
            for old in self.placed
        )

    # Chance ------------------------------------------------------------------------------------

    def _chosen(self, weights: Mapping[str, float]) -> str | None:
        if not any(weights.values()):
            return None
        return self.rng.choices(list(weights), list(weights.values()))[0]

    def _any_ms(self) -> int:
        return self.rng.randrange(self.first_ms, self.end_ms - 1_000)

    def _count(self, per_minute: float) -> int:
        exact = per_minute * self.shape.seconds / 60
        return int(exact) + (self.rng.random() < exact - int(exact))

    # Actions, and moments of states: called by the tables below --------------------------------

    def join(self) -> AnyAction:
        """One more member of a random group joins."""
        return Join(group=self.rng.choice(self.targets.groups))

    def leave(self) -> AnyAction | None:
        """A random member closes in order or is killed; the first of a group stays."""
        known = [
            member
            for member in self.targets.members
            if not member.endswith("-1") and member not in self.gone and self._is_up(member)
        ]
        if not known:
            return None
        member = self.rng.choice(known)
        self.gone.add(member)
        return Leave(node=member, kill=self.rng.random() < 0.5)

    def _is_up(self, member: str) -> bool:
        """Whether no event takes *member* down: the end of a fault would start it again."""
        return not any(member in _down(old) for old in self.placed)

    def restart(self) -> AnyAction | None:
        """All brokers restart one after the other; once in a run, if no other event stops one."""
        brokers = set(self.targets.brokers)
        if any(not brokers.isdisjoint(_down(placed)) for placed in self.placed):
            return None
        return RollingRestart(nodes=self.targets.brokers, down_ms=3_000, between_ms=5_000)

    def grow(self) -> AnyAction | None:
        """A topic gets more queues, once in a run."""
        if any(isinstance(placed.does, GrowTopic) for placed in self.placed):
            return None
        topic = self.rng.choice(("orders", "orders", "steps"))
        return GrowTopic(topic=topic, queues=self.rng.randrange(5, 9))

    def after(self, kinds: type | tuple[type, ...], least_ms: int, most_ms: int) -> list[int]:
        """A moment *least_ms* to *most_ms* after each action of *kinds*."""
        return [
            placed.at_ms + self.rng.randrange(least_ms, most_ms)
            for placed in self.placed
            if isinstance(placed.does, kinds)
        ]

    def within(self, words: tuple[str, ...] = (), after_ms: int = 0) -> list[int]:
        """A moment in each fault of *words* (empty: all), at least *after_ms* after it began."""
        return [
            self.rng.randrange(placed.at_ms + after_ms, placed.until_ms)
            for placed in self.placed
            if isinstance(placed.does, Fault)
            and (not words or word_of(placed.does) in words)
            and placed.until_ms - placed.at_ms > after_ms
        ]

    def healed(self) -> list[int]:
        """A moment within 3 s after the end of each fault."""
        return [
            placed.until_ms + self.rng.randrange(0, 3_000)
            for placed in self.placed
            if isinstance(placed.does, Fault)
        ]

    def calm(self) -> list[int]:
        """The moment when members have their queues, if no event is placed yet."""
        return [] if self.placed else [CALM_MS]


ACTIONS_BY_CHANCE: Mapping[str, tuple[float, Callable[[_Timeline], AnyAction | None]]] = {
    "join": (3, _Timeline.join),
    "leave": (2, _Timeline.leave),
    "rolling_restart": (0.5, _Timeline.restart),
    "grow_topic": (1, _Timeline.grow),
}
ACTION_FOR_STATE: Mapping[str, str] = {  # the action that causes a state
    "rebalance": "join",
    "member_joined": "join",
    "member_left": "leave",
}
MOMENTS_OF_STATE: Mapping[str, Callable[[_Timeline], list[int]]] = {
    "calm": _Timeline.calm,
    "rebalance": lambda self: self.after((Join, Leave), 0, 1_500),
    "member_joined": lambda self: self.after(Join, 0, 8_000),
    "member_left": lambda self: self.after(Leave, 0, 15_000),
    "backlog": lambda self: self.within(DOWN_WORDS, after_ms=BACKLOG_MS),
    "another_fault": lambda self: self.within(),
    "node_down": lambda self: self.within(DOWN_WORDS),
    "just_healed": lambda self: self.healed(),
}
assert MOMENTS_OF_STATE.keys() == STATES.keys(), "each state has its moments"
assert ACTION_FOR_STATE.keys() <= STATES.keys()


def _down(placed: WeatherEvent) -> tuple[str, ...]:
    """The nodes that *placed* takes down."""
    if isinstance(placed.does, RollingRestart):
        return placed.does.nodes
    if word_of(placed.does) in (*DOWN_WORDS, "leave"):
        return (getattr(placed.does, "node", ""),)
    return ()


def _step(placed: WeatherEvent) -> Step:
    is_fault = isinstance(placed.does, Fault)
    for_ms = placed.until_ms - placed.at_ms if is_fault else None
    return Step(does=placed.does, at_ms=placed.at_ms, for_ms=for_ms)  # type: ignore[arg-type]


# Pairs of a fault and a state that a seed aims at -------------------------------------


TARGETS_PER_SEED = 2
STRIDE = 59  # near the golden section of the number of pairs, and coprime to it


class CoverageTarget(NamedTuple):
    """A fault's keyword, and the state of the cluster in which it is to begin."""

    word: str
    state: str


PAIRS: Sequence[CoverageTarget] = tuple(
    CoverageTarget(word, state) for word in FAULTS_BY_CHANCE for state in STATES
)
ORDER: Sequence[CoverageTarget] = tuple(
    PAIRS[at * STRIDE % len(PAIRS)] for at in range(len(PAIRS))
)
assert set(ORDER) == set(PAIRS), "each pair has its place"


def coverage_targets_of(seed: int, words: Container[str]) -> list[CoverageTarget]:
    """The targets of *seed* whose fault is among *words*."""
    first = seed * TARGETS_PER_SEED
    found = [ORDER[at % len(ORDER)] for at in range(first, first + TARGETS_PER_SEED)]
    return [aim for aim in found if aim.word in words]
