"""What a fault of a link does to bytes, to streams and to new connections, over TCP.

    fault       bytes that are sent     open streams    who connects
    slow_link   come later              stay            connects
    bandwidth   come at a rate          stay            connects
    stall       wait for its end        stay            connects (the proxy's kernel answers)
    partition   wait for its end        stay            gets no answer, until he gives up
    refuse      pass                    stay            is refused
    cut         –                       are reset       is refused

The verdicts are those of the virtual network.  Several faults may hold for the same bytes:
their delays add up, and the lowest bandwidth counts.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Literal, TypeAlias

from emulator.cluster.faults.values import LinkFault
from emulator.cluster.faults.verdicts import VERDICTS
from emulator.cluster.links.sides import Names, is_meant
from emulator.sim.rules import Cut, Refuse, Separate, Slow, Stall, Throttle
from emulator.sim.tally import Tally

DoorState: TypeAlias = Literal["open", "refusing", "silent"]

PIECES_A_S = 20  # of what passes a narrow link: so often something comes
PIECE_BYTES_MIN = 256

# What a tally counts.  Who is refused by the kernel is not seen: doors that shut are counted.
HELD, DELAYED, SHUT, CUT = "held bytes", "delayed bytes", "shut a door", "reset a stream"


class LinkRule:
    """A fault from its beginning to its end; *tally* counts what it does.

    *number* orders faults, and streams among them: see ``ProxiedStream``.
    """

    def __init__(self, number: int, fault: LinkFault, tally: Tally) -> None:
        self.number = number
        self.fault = fault
        self.verdict = VERDICTS[type(fault)](fault)
        self.tally = tally
        self._free_at_s: dict[tuple[Names, Names], float] = {}  # narrow ways, by their ends

    def passed_at_s(self, source: Names, target: Names, size: int, now_s: float) -> float:
        """When *size* bytes have passed a narrow way, after all that are before them."""
        assert isinstance(self.verdict, Throttle)
        begins_s = max(now_s, self._free_at_s.get((source, target), 0.0))
        self._free_at_s[source, target] = ends_s = begins_s + size / self.verdict.bytes_per_s
        return ends_s


class Effects:
    """What all *rules* that mean *source* and *target* do to bytes that go that way."""

    def __init__(self, rules: Iterable[LinkRule], source: Names, target: Names) -> None:
        self._ends = source, target
        meant = [rule for rule in rules if is_meant(rule.fault, source, target)]
        self.cuts = [rule for rule in meant if isinstance(rule.verdict, Cut)]
        self.refuses = [rule for rule in meant if isinstance(rule.verdict, Refuse)]
        self._holds = [rule for rule in meant if isinstance(rule.verdict, Stall | Separate)]
        self._slow = [(rule, rule.verdict) for rule in meant if isinstance(rule.verdict, Slow)]
        self._narrow = [
            (rule, rule.verdict) for rule in meant if isinstance(rule.verdict, Throttle)
        ]

    @property
    def is_shut(self) -> bool:
        """Does nothing pass?"""
        return bool(self._holds)

    @property
    def passes_all(self) -> bool:
        """Do bytes pass as if there were no proxy?"""
        return not (self._holds or self._slow or self._narrow)

    def piece_bytes_max(self) -> int | None:
        """In which pieces bytes pass, so that they come evenly; None: all at once."""
        rates = [throttle.bytes_per_s for _, throttle in self._narrow]
        return max(PIECE_BYTES_MIN, min(rates) // PIECES_A_S) if rates else None

    def due_s(self, size: int, now_s: float, rng: random.Random) -> float:
        """When *size* bytes that are read now may leave; the gate is another matter."""
        for rule in self._holds:
            rule.tally.add(HELD, held_bytes=size)
        due_s = now_s
        for rule, _ in self._narrow:
            rule.tally.add(DELAYED, held_bytes=size)
            due_s = max(due_s, rule.passed_at_s(*self._ends, size, now_s))
        for rule, slow in self._slow:
            rule.tally.add(DELAYED, held_bytes=size)
            due_s += slow.late_us(rng) / 1_000_000
        return due_s


def door_state(
    rules: Iterable[LinkRule], source: Names, target: Names, *, is_up: bool
) -> tuple[DoorState, list[LinkRule]]:
    """How a door from *source* to *target* treats who connects, and because of which rules."""
    rules = list(rules)
    ways = ((source, target), (target, source))  # an answer that is lost is no answer
    lost = [
        rule
        for rule in rules
        if isinstance(rule.verdict, Separate) and any(is_meant(rule.fault, *way) for way in ways)
    ]
    if lost:
        return "silent", lost
    effects = Effects(rules, source, target)
    if refusing := [*effects.refuses, *effects.cuts]:
        return "refusing", refusing
    return ("open" if is_up else "refusing"), []
