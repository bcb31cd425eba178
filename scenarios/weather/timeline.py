"""What happens in weather: acts and faults by chance, each put where a state is expected.

Acts come first, faults are put beside them: while another fault holds, after a member left, after
a fault was healed.  A seed aims at two pairs of a fault and a state (``aims``): what such a state
needs is put there first, all else follows by chance.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from random import Random

from emulator.cluster.faults.table import refusal_of
from emulator.cluster.faults.values import Fault
from emulator.cluster.spec import ClusterSpec
from scenarios.plan import AnyAct, GrowTopic, Join, Leave, RollingRestart, Step
from scenarios.weather.aims import Aim, aims_of
from scenarios.weather.coverage import STATES
from scenarios.weather.making import FAULTS_BY_CHANCE, Cast, WeatherEvent
from scenarios.weather.scenes import LAST_SCENES, SCENES, Scene, SceneContext
from scenarios.weather.shape import WeatherShape
from scenarios.words import word_of

STEERED = 0.7  # so often a state is looked for; else any time
TRIES_MAX = 20
FIRST_MS = 3_000  # before it nothing happens
SCENES_MS = 8_000  # before it no scene begins: all members have come
CALM_MS = 14_000  # members have joined 10 s before, and queues have their owners
BACKLOG_MS = 5_000  # so long a node is down, and messages wait
DOWN_WORDS = ("kill", "stop", "power_off", "pause")


def timeline(
    seed: int, shape: WeatherShape, cast: Cast, spec: ClusterSpec, scenes: Collection[str] = ()
) -> tuple[Step, ...]:
    """The steps of *seed*, by their times, with *scenes*."""
    drawn = _Timeline(seed, shape, cast, spec, scenes).drawn()
    return tuple(_step(placed) for placed in sorted(drawn, key=lambda placed: placed.at_ms))


class _Timeline:
    def __init__(
        self,
        seed: int,
        shape: WeatherShape,
        cast: Cast,
        spec: ClusterSpec,
        scenes: Collection[str],
    ) -> None:
        self.rng = Random(f"weather {seed}")  # a text, so that it is the same everywhere
        self.shape, self.cast, self.spec, self.scenes = shape, cast, spec, scenes
        self.rng_of_scenes = Random(f"weather scenes {seed}")
        self.first_ms = FIRST_MS
        self.end_ms = shape.seconds * 1_000
        self.placed: list[WeatherEvent] = []
        self.gone: set[str] = set()
        self.usual = {
            word: shape.weights.get(word, row.weight) for word, row in FAULTS_BY_CHANCE.items()
        }
        self.aims = aims_of(seed, {word for word, weight in self.usual.items() if weight})

    def drawn(self) -> list[WeatherEvent]:
        """What waits for nothing comes first; then all that others can be put beside."""
        fault_count = self._count(self.shape.faults_per_minute)
        aims = self.aims[:fault_count]
        calm = [aim for aim in aims if aim.state == "calm" and self.end_ms > 2 * CALM_MS]
        for aim in calm:
            self._aimed(aim)
            self.first_ms = CALM_MS + 1
        for name, scene in SCENES.items():
            self._scene(name, scene)
        self._acts([NEEDS[aim.state] for aim in aims if aim.state in NEEDS])
        for _ in range(fault_count - len(aims)):
            self._fault()
        for aim in aims:
            if aim not in calm:
                self._aimed(aim)
        for name, scene in LAST_SCENES.items():
            self._scene(name, scene)
        return self.placed

    # Scenes ------------------------------------------------------------------------------------

    def _scene(self, name: str, scene: Scene) -> None:
        """All of it, if this seed has it, nothing is in its way, and no weight leaves it out."""
        if name not in self.scenes:
            return
        staying = tuple(m for m in self.cast.members if m not in self.gone and self._is_up(m))
        first_ms = max(self.first_ms, SCENES_MS)
        placed = scene(SceneContext(self.rng_of_scenes, self.cast, first_ms, self.end_ms, staying))
        if any(self._is_left_out(each) or self._collides(each) for each in placed):
            return
        self.placed += placed
        self.gone.update(each.does.node for each in placed if isinstance(each.does, Leave))

    def _is_left_out(self, placed: WeatherEvent) -> bool:
        """The shape wants no such fault or act."""
        word = word_of(placed.does)
        if isinstance(placed.does, Fault):
            return not (self.usual[word] and self.shape.faults_per_minute)
        return not (self.shape.weights.get(word, ACTS[word][0]) and self.shape.acts_per_minute)

    # Acts --------------------------------------------------------------------------------------

    def _acts(self, needed: list[str]) -> None:
        weights = {word: self.shape.weights.get(word, row[0]) for word, row in ACTS.items()}
        wanted = [word for word in needed if weights[word] and self.shape.acts_per_minute]
        for at in range(max(len(wanted), self._count(self.shape.acts_per_minute))):
            word = wanted[at] if at < len(wanted) else self._chosen(weights)
            if word is not None:
                self._act(word)

    def _act(self, word: str) -> None:
        at_ms = self._any_ms()
        if (act := ACTS[word][1](self)) is not None:
            takes_ms = 2_000
            if isinstance(act, RollingRestart):
                takes_ms = len(act.nodes) * (act.down_ms + act.between_ms)
            self.placed.append(WeatherEvent(at_ms, at_ms + takes_ms, act))

    # Faults ------------------------------------------------------------------------------------

    def _fault(self) -> None:
        """One by chance, unless there is no room for it."""
        for _ in range(TRIES_MAX):
            if (word := self._chosen(self.usual)) is None:
                return
            if self._is_put(word, self._any_state()):
                return

    def _aimed(self, aim: Aim) -> None:
        """The fault in the state that it aims at, or else at another time."""
        for state in (aim.state,) * TRIES_MAX + ("",) * TRIES_MAX:
            if self._is_put(aim.word, state):
                return

    def _is_put(self, word: str, state: str) -> bool:
        row = FAULTS_BY_CHANCE[word]
        fault = row.make(self.rng, self.cast)
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
        """One of which there are moments, or none: then any time."""
        if self.rng.random() >= STEERED:
            return ""
        return self.rng.choice([state for state in PLACES if self._moments(state)] or [""])

    def _moments(self, state: str) -> list[int]:
        found = PLACES[state](self)
        return [at_ms for at_ms in found if self.first_ms <= at_ms < self.end_ms - 1_000]

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

    def _chosen(self, weights: Mapping[str, float]) -> str | None:
        if not any(weights.values()):
            return None
        return self.rng.choices(list(weights), list(weights.values()))[0]

    def _any_ms(self) -> int:
        return self.rng.randrange(self.first_ms, self.end_ms - 1_000)

    def _count(self, per_minute: float) -> int:
        exact = per_minute * self.shape.seconds / 60
        return int(exact) + (self.rng.random() < exact - int(exact))

    # Acts, and moments of states: called by the tables below -----------------------------------

    def join(self) -> AnyAct:
        """One more member of some group."""
        return Join(group=self.rng.choice(self.cast.groups))

    def leave(self) -> AnyAct | None:
        """A member ends in order, or at once; the first of a group stays."""
        known = [
            member
            for member in self.cast.members
            if not member.endswith("-1") and member not in self.gone and self._is_up(member)
        ]
        if not known:
            return None
        member = self.rng.choice(known)
        self.gone.add(member)
        return Leave(node=member, kill=self.rng.random() < 0.5)

    def _is_up(self, member: str) -> bool:
        """No fault takes it down, and would bring it back."""
        return not any(member in _down(old) for old in self.placed)

    def restart(self) -> AnyAct | None:
        """All brokers, one after the other; once in a run, and only where all are up else."""
        brokers = set(self.cast.brokers)
        if any(not brokers.isdisjoint(_down(placed)) for placed in self.placed):
            return None
        return RollingRestart(nodes=self.cast.brokers, down_ms=3_000, between_ms=5_000)

    def grow(self) -> AnyAct | None:
        """More queues of a topic, once in a run."""
        if any(isinstance(placed.does, GrowTopic) for placed in self.placed):
            return None
        topic = self.rng.choice(("orders", "orders", "steps"))
        return GrowTopic(topic=topic, queues=self.rng.randrange(5, 9))

    def after(self, kinds: type | tuple[type, ...], least_ms: int, most_ms: int) -> list[int]:
        """Moments so long after the acts of these kinds."""
        return [
            placed.at_ms + self.rng.randrange(least_ms, most_ms)
            for placed in self.placed
            if isinstance(placed.does, kinds)
        ]

    def within(self, words: tuple[str, ...] = (), after_ms: int = 0) -> list[int]:
        """Moments in which a fault holds, one of *words* or any, since *after_ms* or longer."""
        return [
            self.rng.randrange(placed.at_ms + after_ms, placed.until_ms)
            for placed in self.placed
            if isinstance(placed.does, Fault)
            and (not words or word_of(placed.does) in words)
            and placed.until_ms - placed.at_ms > after_ms
        ]

    def healed(self) -> list[int]:
        """Moments soon after the end of a fault."""
        return [
            placed.until_ms + self.rng.randrange(0, 3_000)
            for placed in self.placed
            if isinstance(placed.does, Fault)
        ]

    def calm(self) -> list[int]:
        """Before all else, once members have their queues."""
        return [] if self.placed else [CALM_MS]


ACTS: Mapping[str, tuple[float, Callable[[_Timeline], AnyAct | None]]] = {
    "join": (3, _Timeline.join),
    "leave": (2, _Timeline.leave),
    "rolling_restart": (0.5, _Timeline.restart),
    "grow_topic": (1, _Timeline.grow),
}
NEEDS: Mapping[str, str] = {  # the act that a state comes of
    "rebalance": "join",
    "member_joined": "join",
    "member_left": "leave",
}
PLACES: Mapping[str, Callable[[_Timeline], list[int]]] = {
    "calm": _Timeline.calm,
    "rebalance": lambda self: self.after((Join, Leave), 0, 1_500),
    "member_joined": lambda self: self.after(Join, 0, 8_000),
    "member_left": lambda self: self.after(Leave, 0, 15_000),
    "backlog": lambda self: self.within(DOWN_WORDS, after_ms=BACKLOG_MS),
    "another_fault": lambda self: self.within(),
    "node_down": lambda self: self.within(DOWN_WORDS),
    "just_healed": lambda self: self.healed(),
}
assert PLACES.keys() == STATES.keys(), "each state has its moments"
assert NEEDS.keys() <= STATES.keys()


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
