"""What faults of links do to bytes, streams and new connections over TCP: no sockets here.

    fault       bytes that are sent     open streams    new connections
    slow_link   come later              stay            are accepted
    bandwidth   come at a rate          stay            are accepted
    stall       wait for its end        stay            are accepted (by the proxy's kernel)
    partition   wait for its end        stay            get no answer, until they time out
    refuse      pass                    stay            are refused
    cut         –                       are reset       are refused

The verdicts are those of the virtual network.  Several faults may hold for the same bytes: their
delays add up, and the lowest bandwidth counts.  Bytes, the end of a stream and its reset wait in
one queue: behind a partition a peer does not even learn that the other side has died.  Time is
an argument.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterable
from typing import Literal, NamedTuple, TypeAlias

from rocketmq_emulator.cluster.fault_values import VERDICTS, LinkFault
from rocketmq_emulator.cluster.links.endpoints import Names, is_targeted
from rocketmq_emulator.faults.links_and_drives import (
    Cut,
    Refuse,
    Separate,
    Slow,
    Stall,
    Tally,
    Throttle,
)

PortState: TypeAlias = Literal["open", "refusing", "silent"]

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
        meant = [rule for rule in rules if is_targeted(rule.fault, source, target)]
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


def port_state(
    rules: Iterable[LinkRule], source: Names, target: Names, *, is_up: bool
) -> tuple[PortState, list[LinkRule]]:
    """How a door from *source* to *target* treats who connects, and because of which rules."""
    rules = list(rules)
    ways = ((source, target), (target, source))  # an answer that is lost is no answer
    lost = [
        rule
        for rule in rules
        if isinstance(rule.verdict, Separate)
        and any(is_targeted(rule.fault, *way) for way in ways)
    ]
    if lost:
        return "silent", lost
    effects = Effects(rules, source, target)
    if refusing := [*effects.refuses, *effects.cuts]:
        return "refusing", refusing
    return ("open" if is_up else "refusing"), []


# Bytes that are held up ---------------------------------------------------------------


End: TypeAlias = Literal["eof", "reset"]


class Waiting(NamedTuple):
    """Bytes that leave together, or the end of the stream."""

    due_s: float
    what: bytes | End


class Direction:
    """From one end of a stream to the other, under *effects* that may change."""

    def __init__(self, effects: Effects, rng: random.Random) -> None:
        self.effects = effects  # as they are now; ``apply`` changes them
        self.held_bytes = 0
        self._rng = rng
        self._row: deque[Waiting] = deque()

    @property
    def is_free(self) -> bool:
        """Need nothing wait, and does nothing?"""
        return not self._row and self.effects.passes_all

    def put(self, data: bytes, now_s: float) -> None:
        """Bytes that were read now, behind all that wait."""
        size = self.effects.piece_bytes_max() or len(data)
        for start in range(0, len(data), size):
            piece = data[start : start + size]
            self._add(piece, self.effects.due_s(len(piece), now_s, self._rng))
            self.held_bytes += len(piece)

    def end(self, how: End, now_s: float) -> None:
        """Nothing comes any more; the other side learns it when it has all that was before."""
        due_s = now_s if self.effects.passes_all else self.effects.due_s(0, now_s, self._rng)
        self._add(how, due_s)

    def apply(self, effects: Effects, now_s: float) -> None:
        """*effects* hold from now on; what waited for a bandwidth that is gone may leave."""
        was_narrow, self.effects = self.effects.piece_bytes_max(), effects
        if effects.passes_all or (was_narrow and not effects.piece_bytes_max()):
            self._row = deque(
                waiting._replace(due_s=min(waiting.due_s, now_s)) for waiting in self._row
            )

    def next_due_s(self) -> float | None:
        """When ``take`` gives something; None while nothing waits, or nothing passes."""
        return self._row[0].due_s if self._row and not self.effects.is_shut else None

    def take(self, now_s: float) -> bytes | End | None:
        """What leaves now, all bytes that are due together; None if nothing does."""
        pieces: list[bytes] = []
        while (due_s := self.next_due_s()) is not None and due_s <= now_s:
            what = self._row[0].what
            if isinstance(what, str):
                if pieces:
                    break
                self._row.popleft()
                return what
            self._row.popleft()
            self.held_bytes -= len(what)
            pieces.append(what)
        return b"".join(pieces) if pieces else None

    def _add(self, what: bytes | End, due_s: float) -> None:
        if self._row:  # order is kept, whatever the draws say
            due_s = max(due_s, self._row[-1].due_s)
        self._row.append(Waiting(due_s, what))
