"""Weather: a plan from a seed.  The same seed, release and shape give the same plan, always.

Who is there is drawn by ``clients``, what happens by ``timeline``; nothing of other seeds is
known.
"""

from __future__ import annotations

from collections.abc import Iterator

from emulator.cluster.spec import ClusterSpec
from scenarios.plan import ConsumersPlan, Expectation, Plan, TopicPlan
from scenarios.weather.clients import Clients
from scenarios.weather.making import Cast
from scenarios.weather.shape import WeatherShape
from scenarios.weather.timeline import timeline

NOTHING_LEFT = ("lost", "stuck", "backlog", "unrest")  # once nothing is broken
UNOWNED_S = 60 + 20  # after a fault: the lock of a dead member at its broker, a rebalance pass


def weather(seed: int, release: str = "4.9.7", shape: WeatherShape | None = None) -> Plan:
    """A plan by chance: several loads and groups, faults and acts, then quiet and expectations."""
    shape = shape or WeatherShape()
    clients = Clients(seed, release, shape)
    spec = ClusterSpec(brokers=shape.brokers, name_servers=shape.name_servers, release=release)
    return Plan(
        name=f"weather_{seed}",
        title=f"Weather of seed {seed}",
        teaches="Safety holds under faults by chance, and liveness returns after them.",
        cluster=clients.cluster,
        topics={"orders": TopicPlan(queues=4), "steps": TopicPlan(queues=2)},
        consumers=clients.consumers,
        load=clients.loads,
        timeline=timeline(seed, shape, _cast(spec, clients.consumers), spec),
        quiet_ms_max=shape.quiet_s_max * 1_000,
        expect=tuple(_expected(shape)),
    )


def _cast(spec: ClusterSpec, consumers: tuple[ConsumersPlan, ...]) -> Cast:
    groups = tuple(group.group for group in consumers)
    members = tuple(
        f"{group.group}-{number + 1}" for group in consumers for number in range(group.members)
    )
    return Cast(spec.broker_names, spec.name_server_names, members, groups)


def _expected(shape: WeatherShape) -> Iterator[Expectation]:
    """Beside the rules of all checkers: liveness, once all faults have ended."""
    for metric in NOTHING_LEFT:
        yield Expectation(metric=metric, operator="==", bound=0)
    yield Expectation(metric="unowned_s", bound=shape.seconds + UNOWNED_S)
