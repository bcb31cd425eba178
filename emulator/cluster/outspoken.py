"""A journal that also says aloud what an operator must act on."""

from __future__ import annotations

from collections.abc import Callable

from emulator.clock import Clock
from emulator.facts import Fact, StoreRefused
from emulator.journal import Journal


class OutspokenJournal(Journal):
    """*say* gets one line for each trouble; whether anybody wants the fact is another matter."""

    def __init__(
        self,
        node: str,
        clock: Clock,
        write: Callable[[bytes], object] | None,
        say: Callable[[str], object],
    ) -> None:
        super().__init__(node, clock, write)
        self._say = say

    def note(self, fact: Fact) -> None:
        if isinstance(fact, StoreRefused):
            self._say(f"{self.node}: {fact.reason}: {StoreRefused.advice}")
        super().note(fact)
