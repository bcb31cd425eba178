"""Which fault works in which world, and what begins and ends it: one row a word.

``refusal_of`` answers from the table alone, so that a scenario is refused when it is loaded.
A world of real time can do what the table says ``with_links`` only when its nodes stand behind
proxies.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from emulator.cluster.faults.busy_effect import BusyEffect
from emulator.cluster.faults.drive_effects import DriveEffect
from emulator.cluster.faults.held import Effect
from emulator.cluster.faults.link_effects import LinkEffect
from emulator.cluster.faults.naming import SELECTORS, is_meant, nearest
from emulator.cluster.faults.node_effects import ClockEffect, DownEffect, StillEffect
from emulator.cluster.faults.permission_effect import PermissionEffect
from emulator.cluster.faults.server_effects import AnswerEffect, UnregisteredEffect
from emulator.cluster.faults.values import Fault, word_of
from emulator.cluster.world import CannotDo, WorldKind

if TYPE_CHECKING:
    from emulator.cluster.spec import ClusterSpec

Can: TypeAlias = Literal["yes", "with_links", "no"]


class FaultRow(NamedTuple):
    """A fault: its effect, and what each world can do of it."""

    effect: Effect
    processes: Can
    embedded: Can
    virtual: Can = "yes"

    def can(self, world: WorldKind) -> Can:
        """What that world can do of it."""
        found: Can = getattr(self, world)
        return found


CLOCK = ClockEffect()
LINK = LinkEffect()
DRIVE = DriveEffect()

TABLE: Mapping[str, FaultRow] = {
    "kill": FaultRow(DownEffect("kill"), "yes", "yes"),
    "stop": FaultRow(DownEffect("stop"), "yes", "yes"),
    "pause": FaultRow(StillEffect(), "yes", "yes"),
    "power_off": FaultRow(DownEffect("power_off"), "no", "no"),
    "clock_jump": FaultRow(CLOCK, "yes", "yes"),
    "clock_drift": FaultRow(CLOCK, "yes", "yes"),
    "busy": FaultRow(BusyEffect(), "yes", "yes"),
    "full_disk": FaultRow(DRIVE, "no", "no"),
    "slow_disk": FaultRow(DRIVE, "no", "no"),
    "failing_flush": FaultRow(DRIVE, "no", "no"),
    "slow_link": FaultRow(LINK, "with_links", "with_links"),
    "bandwidth": FaultRow(LINK, "with_links", "with_links"),
    "partition": FaultRow(LINK, "with_links", "with_links"),
    "stall": FaultRow(LINK, "with_links", "with_links"),
    "refuse": FaultRow(LINK, "with_links", "with_links"),
    "cut": FaultRow(LINK, "with_links", "with_links"),
    "read_only": FaultRow(PermissionEffect(), "yes", "yes"),
    "unregistered": FaultRow(UnregisteredEffect(), "yes", "yes"),
    "answer": FaultRow(AnswerEffect(), "yes", "yes"),
}


class CannotBegin(CannotDo):
    """A fault was asked for that this world cannot do; nothing has happened."""

    def __init__(self, world: WorldKind, text: str) -> None:
        super().__init__(world, "begin_fault", text, text=text)


OF_PROCESSES = ("kill", "stop", "pause")  # of clients, too, where they are the world's


def refusal_of(
    fault: Fault,
    world: WorldKind,
    spec: ClusterSpec,
    *,
    has_links: bool = False,
    clients: Collection[str] = (),
) -> str | None:
    """Why a cluster of *spec* in *world* cannot do *fault*; None if it can.

    A client's name is known only when it runs: in the virtual world every name may be one, in
    others *clients* are those that are processes of that world.
    """
    return refusal_of_word(word_of(fault), world, has_links=has_links) or _unknown_server(
        fault, world, spec, clients
    )


def refusal_of_word(word: str, world: WorldKind, *, has_links: bool = False) -> str | None:
    """The same for any fault of that word."""
    can = TABLE[word].can(world) if word in TABLE else "no"
    if can == "no":
        ways = [kind for kind in WORLDS if word in TABLE and TABLE[word].can(kind) != "no"]
        return f"the {world} world cannot do {word}: use {' or '.join(ways)}"
    if can == "with_links" and not has_links:
        return f"{word} needs proxies in front of the nodes: start the cluster with links"
    return None


def _unknown_server(
    fault: Fault, world: WorldKind, spec: ClusterSpec, clients: Collection[str]
) -> str | None:
    """Does it name a server that the cluster does not have?"""
    nodes = (*spec.name_server_names, *spec.broker_names)
    known = {
        "broker": (*spec.broker_names, "brokers"),
        "name_server": (*spec.name_server_names, "name_servers"),
    }
    if world != "virtual":
        known["node"] = (*nodes, *(name for name in SELECTORS if name != "clients"))
    for field, names in known.items():
        given = getattr(fault, field, None)
        if given is not None and given not in names:
            if word_of(fault) in OF_PROCESSES and any(
                is_meant(spec, given, name) for name in clients
            ):
                continue
            near = nearest(given, names)
            advice = f"did you mean {near}?" if near else f"there are {', '.join(names)}"
            return f"{word_of(fault)}: there is no {field} named {given!r}; {advice}"
    return None


WORLDS: tuple[WorldKind, ...] = ("processes", "embedded", "virtual")
