"""Effects of link faults on bytes, streams and new connections over TCP, without sockets.

    fault       bytes that are sent     open streams    new connections
    slow_link   arrive later            stay            are accepted
    bandwidth   arrive at a rate        stay            are accepted
    stall       wait for its end        stay            are accepted (by the proxy's kernel)
    partition   wait for its end        stay            get no answer, until they time out
    refuse      pass                    stay            are refused
    cut         –                       are reset       are refused

The verdicts are those of the virtual network.  Several faults may hold for the same bytes: their
delays add up, and the lowest bandwidth counts.  Bytes, the end of a stream and its reset wait in
one queue: behind a partition a peer does not notice that the other side has died.  Time is an
argument.
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

PIECES_A_S = 20  # pieces per second in which bytes pass a limited bandwidth
PIECE_BYTES_MIN = 256

# What a tally counts.  Refusals by the kernel are not seen: closing a proxy port is counted.
HELD, DELAYED, SHUT, CUT = "held bytes", "delayed bytes", "shut a door", "reset a stream"


class LinkRule:
    """A link fault from its begin to its end; *tally* counts its effects.

    *number* is the order of faults, which streams refer to: see ``ProxiedStream``.
    """

    def __init__(self, number: int, fault: LinkFault, tally: Tally) -> None:
        self.number = number
        self.fault = fault
        self.verdict = VERDICTS[type(fault)](fault)
        self.tally = tally
        self._free_at_s: dict[tuple[Names, Names], float] = {}  # by source and target

    def passed_at_s(self, source: Names, target: Names, size: int, now_s: float) -> float:
        """When *size* bytes have passed the limited bandwidth, after all bytes before them."""
        assert isinstance(self.verdict, Throttle)
        begins_s = max(now_s, self._free_at_s.get((source, target), 0.0))
        self._free_at_s[source, target] = ends_s = begins_s + size / self.verdict.bytes_per_s
        return ends_s


class Effects:
    """The effects of all *rules* that affect bytes from *source* to *target*."""

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
        """Whether nothing passes."""
        return bool(self._holds)

    @property
    def passes_all(self) -> bool:
        """Whether bytes pass without delay."""
        return not (self._holds or self._slow or self._narrow)

    def piece_bytes_max(self) -> int | None:
        """The size of pieces, so that bytes arrive evenly at a bandwidth; None: no pieces."""
        rates = [throttle.bytes_per_s for _, throttle in self._narrow]
        return max(PIECE_BYTES_MIN, min(rates) // PIECES_A_S) if rates else None

    def due_s(self, size: int, now_s: float, rng: random.Random) -> float:
        """When *size* bytes read now may leave; ``is_shut`` can hold them longer."""
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
    """The state of a proxy port from *source* to *target*, and the rules that cause it."""
    rules = list(rules)
    ways = ((source, target), (target, source))  # a lost answer prevents a connection too
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


# Held bytes ---------------------------------------------------------------------------


End: TypeAlias = Literal["eof", "reset"]


class Waiting(NamedTuple):
    """Bytes that leave together, or the end of the stream, and when."""

    due_s: float
    what: bytes | End


class Direction:
    """One direction of a stream: its held bytes, under *effects* that may change."""

    def __init__(self, effects: Effects, rng: random.Random) -> None:
        self.effects = effects  # ``apply`` changes them
        self.held_bytes = 0
        self._rng = rng
        self._row: deque[Waiting] = deque()

    @property
    def is_free(self) -> bool:
        """Whether no bytes wait and none need to."""
        return not self._row and self.effects.passes_all

    def put(self, data: bytes, now_s: float) -> None:
        """Add bytes read now, after all that wait."""
        size = self.effects.piece_bytes_max() or len(data)
        for start in range(0, len(data), size):
            piece = data[start : start + size]
            self._add(piece, self.effects.due_s(len(piece), now_s, self._rng))
            self.held_bytes += len(piece)

    def end(self, how: End, now_s: float) -> None:
        """Add the end of the stream, after all bytes that wait."""
        due_s = now_s if self.effects.passes_all else self.effects.due_s(0, now_s, self._rng)
        self._add(how, due_s)

    def apply(self, effects: Effects, now_s: float) -> None:
        """Replace the effects; bytes that waited for an ended bandwidth limit may leave now."""
        was_narrow, self.effects = self.effects.piece_bytes_max(), effects
        if effects.passes_all or (was_narrow and not effects.piece_bytes_max()):
            self._row = deque(
                waiting._replace(due_s=min(waiting.due_s, now_s)) for waiting in self._row
            )

    def next_due_s(self) -> float | None:
        """When ``take`` next returns something; None if nothing waits or nothing passes."""
        return self._row[0].due_s if self._row and not self.effects.is_shut else None

    def take(self, now_s: float) -> bytes | End | None:
        """Remove and return the bytes due now, or the end; None if nothing is due."""
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
        if self._row:  # keep the order, in spite of random delays
            due_s = max(due_s, self._row[-1].due_s)
        self._row.append(Waiting(due_s, what))
