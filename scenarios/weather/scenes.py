"""Scenes: a few faults and acts that follow each other closely, so that they meet.

What matters to some rules is rare by chance: a new member while a broker is down, an orderly
member that dies for good, a departure while all else is well.  So a seed may have a scene, as any
other feature of weather (``clients.FEATURES``); it is put before what comes by chance.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import NamedTuple

from emulator.cluster.faults.values import Kill, ReadOnly, Stop
from scenarios.plan import Join, Leave
from scenarios.weather.making import Cast, WeatherEvent

HELD_MS = 12_000  # a broker is down, or read-only, while a member joins
WRITTEN_MS = 13_000  # a broadcasting member has written its offsets: after 10 s, by client
REST_MS = 9_000  # after the last fault: what happens then has no other cause


class SceneContext(NamedTuple):
    """What a scene knows: when faults may begin and have to end, and who is there and stays."""

    rng: Random
    cast: Cast
    first_ms: int
    end_ms: int
    staying: tuple[str, ...]  # members that no other event touches

    def others(self, group: str = "") -> list[str]:
        """Members of *group*, or of any, but the first of each: a group is never without one."""
        return [
            member
            for member in self.staying
            if not member.endswith("-1") and member.startswith(f"{group}-" if group else "")
        ]


def orderly_death(context: SceneContext) -> list[WeatherEvent]:
    """A member of the orderly group is killed for good: its locks lapse after 60 s."""
    members = context.others("stepping")
    if not members or context.first_ms >= context.end_ms - 2_000:
        return []
    at_ms = context.rng.randrange(context.first_ms, context.end_ms - 2_000)
    return [WeatherEvent(at_ms, at_ms + 2_000, Leave(node=members[-1], kill=True))]


def busy_steps(context: SceneContext) -> list[WeatherEvent]:
    """Two more orderly members come while listeners are at work: queues are given up in use."""
    last_ms = context.end_ms - 2_000
    if "stepping" not in context.cast.groups or context.first_ms >= last_ms:
        return []
    times_ms = sorted(context.rng.randrange(context.first_ms, last_ms) for _ in range(2))
    return [WeatherEvent(at_ms, at_ms + 2_000, Join(group="stepping")) for at_ms in times_ms]


def news_restart(context: SceneContext) -> list[WeatherEvent]:
    """A broadcasting member is killed once it has written its offsets, and comes back."""
    first_ms, last_ms = max(context.first_ms, WRITTEN_MS), context.end_ms - 8_000
    if "news-1" not in context.staying or first_ms >= last_ms:
        return []
    at_ms = context.rng.randrange(first_ms, last_ms)
    return [WeatherEvent(at_ms, at_ms + context.rng.randrange(1_500, 7_500), Kill(node="news-1"))]


def join_meets_fault(context: SceneContext) -> list[WeatherEvent]:
    """A member joins while a broker is read-only, or down."""
    last_ms = context.end_ms - HELD_MS
    groups = [group for group in context.cast.groups if group != "news"]
    if not groups or context.first_ms >= last_ms:
        return []
    at_ms, broker = (
        context.rng.randrange(context.first_ms, last_ms),
        context.rng.choice(context.cast.brokers),
    )
    fault = context.rng.choice((ReadOnly(broker=broker), Kill(node=broker), Stop(node=broker)))
    joins_ms = at_ms + context.rng.randrange(3_000, HELD_MS - 2_000)
    return [
        WeatherEvent(at_ms, at_ms + HELD_MS, fault),
        WeatherEvent(joins_ms, joins_ms + 2_000, Join(group=context.rng.choice(groups))),
    ]


def calm_leave(context: SceneContext) -> list[WeatherEvent]:
    """A member that shares queues leaves in order when all faults are over for a while."""
    members = [each for each in context.others() if not each.startswith("news-")]
    if not members:
        return []
    at_ms = context.end_ms + REST_MS + context.rng.randrange(3_000)
    return [WeatherEvent(at_ms, at_ms + 2_000, Leave(node=context.rng.choice(members)))]


Scene = Callable[[SceneContext], list[WeatherEvent]]
SCENES: Mapping[str, Scene] = {
    "orderly_death": orderly_death,
    "busy_steps": busy_steps,
    "news_restart": news_restart,
    "join_meets_fault": join_meets_fault,
}
LAST_SCENES: Mapping[str, Scene] = {"calm_leave": calm_leave}
