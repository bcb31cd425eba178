"""What a monitor is: a checker that holds each client to a client invariant.

It objects where a fact proves that the invariant was broken, and only there: a node whose clock
was moved on purpose, or a group whose plan sets the timer in question, is let off.
"""

from __future__ import annotations

from typing import Any, ClassVar

from emulator.checks.checker import Checker
from emulator.journal import Entry, EntryKey

US_A_MS = 1_000
WRONG_CLOCKS = frozenset({"clock_jump", "clock_drift"})


class Monitor(Checker):
    """A checker of client invariants.

    ``servers_suffice``: what servers note is enough, so clients in any language are judged.
    """

    invariants: ClassVar[tuple[int, ...]]
    servers_suffice: ClassVar[bool] = False

    def objects(
        self, what: str, *entries: Entry | EntryKey, node: str | None = None, rule: str = ""
    ) -> None:
        """As a checker does, unless the clock of a node that the evidence is from was moved."""
        moved = {
            each
            for fault in self.scene.all_faults
            if fault.word in WRONG_CLOCKS
            for each in fault.nodes
        }
        if not moved & {entry.node for entry in entries}:
            super().objects(what, *entries, node=node, rule=rule)

    def plans_of(self, group: str) -> list[dict[str, Any]]:
        """The parts of the plan that make members of *group*."""
        return [
            each for each in self.scene.plan.get("consumers", ()) if each.get("group") == group
        ]

    def sets(self, group: str, *names: str) -> bool:
        """The plan gives some member of *group* one of the settings *names*."""
        given: set[str] = set()
        for part in self.plans_of(group):
            given.update(part.get("settings", {}))
            for settings in part.get("settings_of", {}).values():
                given.update(settings)
        return not given.isdisjoint(names)

    def release_at(self, group: str, node: str) -> tuple[int, ...]:
        """What the member of *group* on *node* behaves as; () if the journal does not say."""
        seat = self.scene.seat(group, node)
        return () if seat is None else numbers_of(seat.started.release)


def numbers_of(release: str) -> tuple[int, ...]:
    """``"4.9.7"`` as (4, 9, 7); () for a text that is no release."""
    parts = release.split(".")
    return tuple(int(part) for part in parts) if all(part.isdigit() for part in parts) else ()
