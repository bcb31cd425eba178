"""Weather: a plan from a seed.  The same seed, shape and coverage give the same plan.

Faults and acts are dealt one after the other.  Each is drawn by its weight, less often the
more it was met, and put where a state is expected that it was not yet met in: beside
another fault, after a member left, after a fault was healed.  The plan is in the journal of its
run, so a run is replayed without the coverage that steered it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from random import Random
from typing import NamedTuple

from emulator.cluster.faults.table import refusal_of
from emulator.cluster.faults.values import Fault
from emulator.cluster.spec import ClusterSpec
from scenarios.plan import (
    AnyAct,
    ClusterPlan,
    ConsumersPlan,
    Expectation,
    GrowTopic,
    Join,
    Leave,
    ListenerPlan,
    LoadPlan,
    Plan,
    RollingRestart,
    Step,
    TopicPlan,
)
from scenarios.weather.coverage import STATES, Coverage
from scenarios.weather.making import FAULTS_BY_CHANCE, Cast
from scenarios.weather.shape import WeatherShape
from scenarios.words import word_of

STEERED = 0.7  # so often a state is looked for; else any time
TRIES_MAX = 20
FIRST_MS = 3_000  # before it nothing happens
NOTHING_LEFT = ("lost", "stuck", "backlog", "unrest")  # once nothing is broken
UNOWNED_S = 60 + 20  # after a fault: the lock of a dead member at its broker, a rebalance pass
DOWN_WORDS = ("kill", "stop", "power_off", "pause")


class WeatherEvent(NamedTuple):
    """A fault or an act, and when."""

    at_ms: int
    until_ms: int
    does: Fault | AnyAct


def weather(
    seed: int,
    release: str = "4.9.7",
    shape: WeatherShape | None = None,
    coverage: Coverage | None = None,
) -> Plan:
    """A plan by chance: several loads and groups, faults and acts, then quiet and expectations."""
    return _Weather(seed, release, shape or WeatherShape(), coverage or Coverage()).plan()


class _Weather:
    def __init__(self, seed: int, release: str, shape: WeatherShape, coverage: Coverage) -> None:
        self.rng = Random(f"weather {seed}")  # a text, so that it is the same everywhere
        self.seed, self.shape, self.coverage = seed, shape, coverage
        self.cluster = ClusterPlan(
            brokers=shape.brokers, name_servers=shape.name_servers, release=release
        )
        self.consumers = tuple(self._consumers())
        self.spec = spec = ClusterSpec(
            brokers=shape.brokers, name_servers=shape.name_servers, release=release
        )
        groups = tuple(group.group for group in self.consumers)
        members = tuple(
            f"{group.group}-{number + 1}"
            for group in self.consumers
            for number in range(group.members)
        )
        self.cast = Cast(spec.broker_names, spec.name_server_names, members, groups)
        self.end_ms = shape.seconds * 1_000
        self.placed: list[WeatherEvent] = []
        self.gone: set[str] = set()

    def plan(self) -> Plan:
        """Acts first: faults are then put beside them."""
        shape = self.shape
        for _ in range(self._count(shape.acts_per_minute)):
            self._act()
        for _ in range(self._count(shape.faults_per_minute)):
            self._fault()
        steps = sorted(self.placed, key=lambda placed: placed.at_ms)
        return Plan(
            name=f"weather_{self.seed}",
            title=f"Weather of seed {self.seed}",
            teaches="Safety holds under faults by chance, and liveness returns after them.",
            cluster=self.cluster,
            topics={"orders": TopicPlan(queues=4), "steps": TopicPlan(queues=2)},
            consumers=self.consumers,
            load=tuple(self._load()),
            timeline=tuple(_step(placed) for placed in steps),
            quiet_ms_max=shape.quiet_s_max * 1_000,
            expect=tuple(self._expected()),
        )

    # Clients ---------------------------------------------------------------------------------

    def _consumers(self) -> Iterator[ConsumersPlan]:
        listener = ListenerPlan(takes_ms=2.0, jitter_ms=self.rng.choice((0.0, 20.0, 200.0)))
        failing = ListenerPlan(takes_ms=2.0, fails=0.02)
        orders, steps, shape = {"orders": "*"}, {"steps": "*"}, self.shape
        rows = (
            ConsumersPlan(group="billing", topics=orders, members=shape.billing, listener=failing),
            ConsumersPlan(
                group="stepping",
                topics=steps,
                members=shape.stepping,
                orderly=True,
                listener=listener,
            ),
            ConsumersPlan(group="news", topics=orders, members=shape.news, broadcast=True),
            ConsumersPlan(group="reading", topics=orders, members=shape.reading, kind="lite_pull"),
        )
        return (row for row in rows if row.members)

    def _load(self) -> Iterator[LoadPlan]:
        rate, until_ms = self.shape.rate, self.end_ms
        burst = self.rng.choice((1, 1, 10, 50))
        yield LoadPlan(
            topic="orders", rate=rate * 0.4, producers=2, burst=burst, until_ms=until_ms
        )
        yield LoadPlan(topic="orders", rate=rate * 0.3, mode="async", until_ms=until_ms)
        yield LoadPlan(topic="steps", rate=rate * 0.3, keys=8, key_skew=0.8, until_ms=until_ms)

    def _expected(self) -> Iterator[Expectation]:
        """Beside the rules of all checkers: liveness, once all faults have ended."""
        for metric in NOTHING_LEFT:
            yield Expectation(metric=metric, operator="==", bound=0)
        yield Expectation(metric="unowned_s", bound=self.shape.seconds + UNOWNED_S)

    # What happens ------------------------------------------------------------------------------

    def _act(self) -> None:
        weights = {word: self._weight(word, weight) for word, (weight, _) in ACTS.items()}
        if (word := self._drawn(weights)) is None:
            return
        at_ms = self._any_ms()
        if (act := ACTS[word][1](self)) is not None:
            takes_ms = 2_000
            if isinstance(act, RollingRestart):
                takes_ms = len(act.nodes) * (act.down_ms + act.between_ms)
            self.placed.append(WeatherEvent(at_ms, at_ms + takes_ms, act))

    def _fault(self) -> None:
        for _ in range(TRIES_MAX):
            weights = {
                word: self._weight(word, row.weight) / (1 + self._met(word))
                for word, row in FAULTS_BY_CHANCE.items()
            }
            if (word := self._drawn(weights)) is None:
                return
            row = FAULTS_BY_CHANCE[word]
            fault = row.make(self.rng, self.cast)
            if refusal_of(fault, "virtual", self.spec) is not None:
                continue
            at_ms = self._when(word)
            lasts_ms = int(self.rng.uniform(*row.lasts_s) * 1_000)
            until_ms = min(at_ms + lasts_ms, self.end_ms)
            placed = WeatherEvent(at_ms, until_ms, fault)
            if until_ms - at_ms >= 200 and not self._collides(placed):
                self.placed.append(placed)
                return

    def _when(self, word: str) -> int:
        """A moment in which a state is expected that *word* was met in least."""
        if self.rng.random() >= STEERED:
            return self._any_ms()
        moments = {state: found for state in PLACES if (found := self._moments(state))}
        if not moments:
            return self._any_ms()
        least = min(self.coverage.met(word, state) for state in moments)
        states = [state for state in moments if self.coverage.met(word, state) == least]
        return self.rng.choice(moments[self.rng.choice(states)])

    def _moments(self, state: str) -> list[int]:
        found = PLACES[state](self)
        return [at_ms for at_ms in found if FIRST_MS <= at_ms < self.end_ms - 1_000]

    def _collides(self, new: WeatherEvent) -> bool:
        """A node is down only once at a time, and its end would bring back a node that left."""
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

    def _weight(self, word: str, usual: float) -> float:
        return self.shape.weights.get(word, usual)

    def _met(self, word: str) -> float:
        total = sum(self.coverage.met(word, state) for state in STATES)
        return total / (1 + self.coverage.counts.total())

    def _drawn(self, weights: Mapping[str, float]) -> str | None:
        if not any(weights.values()):
            return None
        return self.rng.choices(list(weights), list(weights.values()))[0]

    def _any_ms(self) -> int:
        return self.rng.randrange(FIRST_MS, self.end_ms - 1_000)

    def _count(self, per_minute: float) -> int:
        exact = per_minute * self.shape.seconds / 60
        return int(exact) + (self.rng.random() < exact - int(exact))

    # Acts, and moments of states: called by the tables below -----------------------------------

    def join(self) -> AnyAct:
        """One more member of some group."""
        return Join(group=self.rng.choice(self.cast.groups))

    def leave(self) -> AnyAct | None:
        """A member ends in order, or at once; the first of a group stays."""
        known = [m for m in self.cast.members if not m.endswith("-1") and m not in self.gone]
        if not known:
            return None
        member = self.rng.choice(known)
        self.gone.add(member)
        return Leave(node=member, kill=self.rng.random() < 0.5)

    def restart(self) -> AnyAct | None:
        """All brokers, one after the other; once in a run."""
        if any(isinstance(placed.does, RollingRestart) for placed in self.placed):
            return None
        return RollingRestart(nodes=self.cast.brokers, down_ms=3_000, between_ms=5_000)

    def grow(self) -> AnyAct | None:
        """More queues of a topic; once in a run, and not where order matters."""
        if any(isinstance(placed.does, GrowTopic) for placed in self.placed):
            return None
        return GrowTopic(topic="orders", queues=self.rng.randrange(5, 9))

    def after(self, kinds: type | tuple[type, ...], least_ms: int, most_ms: int) -> list[int]:
        """Moments so long after the acts of these kinds."""
        return [
            placed.at_ms + self.rng.randrange(least_ms, most_ms)
            for placed in self.placed
            if isinstance(placed.does, kinds)
        ]

    def within(self, words: tuple[str, ...] = ()) -> list[int]:
        """Moments in which a fault holds, one of *words* or any."""
        return [
            self.rng.randrange(placed.at_ms, placed.until_ms)
            for placed in self.placed
            if isinstance(placed.does, Fault) and (not words or word_of(placed.does) in words)
        ]

    def healed(self) -> list[int]:
        """Moments soon after the end of a fault."""
        return [
            placed.until_ms + self.rng.randrange(0, 3_000)
            for placed in self.placed
            if isinstance(placed.does, Fault)
        ]


ACTS: Mapping[str, tuple[float, Callable[[_Weather], AnyAct | None]]] = {
    "join": (3, _Weather.join),
    "leave": (2, _Weather.leave),
    "rolling_restart": (0.5, _Weather.restart),
    "grow_topic": (0.5, _Weather.grow),
}
PLACES: Mapping[str, Callable[[_Weather], list[int]]] = {  # of the states that can be aimed at
    "calm": lambda _: [FIRST_MS],
    "rebalance": lambda self: self.after((Join, Leave), 0, 1_500),
    "member_joined": lambda self: self.after(Join, 0, 8_000),
    "member_left": lambda self: self.after(Leave, 0, 15_000),
    "backlog": lambda self: self.within(DOWN_WORDS),
    "another_fault": lambda self: self.within(),
    "node_down": lambda self: self.within(DOWN_WORDS),
    "just_healed": lambda self: self.healed(),
}
assert PLACES.keys() == STATES.keys(), "each state has its moments"


def _down(placed: WeatherEvent) -> tuple[str, ...]:
    """The nodes that it takes down."""
    if isinstance(placed.does, RollingRestart):
        return placed.does.nodes
    if word_of(placed.does) in (*DOWN_WORDS, "leave"):
        return (getattr(placed.does, "node", ""),)
    return ()


def _step(placed: WeatherEvent) -> Step:
    is_fault = isinstance(placed.does, Fault)
    for_ms = placed.until_ms - placed.at_ms if is_fault else None
    return Step(does=placed.does, at_ms=placed.at_ms, for_ms=for_ms)  # type: ignore[arg-type]
