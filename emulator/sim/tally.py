"""What a fault did so far: so that who began it can say that it acted, and how often.

Rules of links and faults of drives carry one each.  A fault that holds and never met any
traffic has an empty tally: the test that began it tested nothing.
"""

from __future__ import annotations

from collections.abc import Callable


class Tally:
    """``count`` is how often the fault changed what happened; ``times`` has it by kind.

    ``on_first(what)`` is called at the first one, in the middle of what happens: it may
    note a fact and nothing else.
    """

    __slots__ = ("count", "held_bytes", "on_first", "times")

    def __init__(self, on_first: Callable[[str], object] | None = None) -> None:
        self.count = 0
        self.held_bytes = 0  # of links: how much ever waited because of it
        self.times: dict[str, int] = {}
        self.on_first = on_first

    def add(self, what: str, times: int = 1, *, held_bytes: int = 0) -> None:
        """The fault did *what*, *times* times."""
        if not times:
            return
        is_first = not self.count
        self.count += times
        self.held_bytes += held_bytes
        self.times[what] = self.times.get(what, 0) + times
        if is_first and self.on_first is not None:
            self.on_first(what)
