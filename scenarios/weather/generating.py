"""Weather: a plan from a seed.  The same seed, release and shape give the same plan, always.

Who is there is drawn by ``clients``, what happens by ``timeline``; nothing of other seeds is
known.
"""

from __future__ import annotations

from collections.abc import Iterator

from emulator.cluster.faults.values import ClockJump
from emulator.cluster.spec import ClusterSpec
from scenarios.plan import ConsumersPlan, Expectation, Plan, Step, TopicPlan
from scenarios.weather.clients import Clients
from scenarios.weather.making import Cast
from scenarios.weather.scenes import LAST_SCENES, SCENES
from scenarios.weather.shape import WeatherShape
from scenarios.weather.timeline import timeline

SETTLED_MS = 65_000  # after it every rule of what members know of each other has its say
NOTHING_LEFT = ("lost", "stuck", "backlog", "unrest")  # once nothing is broken
UNOWNED_S = 60 + 20  # after a fault: the lock of a dead member at its broker, a rebalance pass


def weather(seed: int, release: str = "4.9.7", shape: WeatherShape | None = None) -> Plan:
    """A plan by chance: several loads and groups, faults and acts, then quiet and expectations."""
    shape = shape or WeatherShape()
    clients = Clients(seed, release, shape)
    spec = ClusterSpec(brokers=shape.brokers, name_servers=shape.name_servers, release=release)
    scenes = [name for name in (*SCENES, *LAST_SCENES) if clients.has(name)]
    steps = timeline(seed, shape, _cast(spec, clients.consumers), spec, scenes)
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


def _cast(spec: ClusterSpec, consumers: tuple[ConsumersPlan, ...]) -> Cast:
    groups = tuple(group.group for group in consumers)
    members = tuple(
        f"{group.group}-{number + 1}" for group in consumers for number in range(group.members)
    )
    return Cast(spec.broker_names, spec.name_server_names, members, groups)


def _expected(shape: WeatherShape, steps: tuple[Step, ...]) -> Iterator[Expectation]:
    """Beside the rules of all checkers: liveness, once all faults have ended.

    A lock that a broker gives while its clock is ahead lives longer by as much.
    """
    jumps = [step.does.ms for step in steps if isinstance(step.does, ClockJump)]
    ahead_s = max(0, *jumps, 0) / 1_000
    for metric in NOTHING_LEFT:
        yield Expectation(metric=metric, operator="==", bound=0)
    yield Expectation(metric="unowned_s", bound=shape.seconds + UNOWNED_S + ahead_s)
