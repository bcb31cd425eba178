"""An action for the next pass of the scheduler, asked for any number of times, done once.

A pass lets every task that may run take one step; nothing sleeps between two passes while
one is asked for.  The action has one parked task, so that asking costs no new one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

import trio


class NextPass:
    """Calls *action* once for all that asked in one pass; at once while ``run`` does not run."""

    def __init__(self, action: Callable[[], object]) -> None:
        self._action = action
        self._parked: trio.lowlevel.Task | None = None
        self._is_asked = False

    def ask(self) -> None:
        """Have the action called before the scheduler sleeps again."""
        if self._parked is not None:
            self._is_asked = True
            task, self._parked = self._parked, None
            trio.lowlevel.reschedule(task)
        elif not self._is_asked:
            self._action()

    async def run(self) -> NoReturn:
        """Serve those who ask, until cancelled."""
        while True:
            self._parked = trio.lowlevel.current_task()
            await trio.lowlevel.wait_task_rescheduled(self._leave)
            self._is_asked = False
            self._action()

    def _leave(self, _: object) -> trio.lowlevel.Abort:
        self._parked = None
        return trio.lowlevel.Abort.SUCCEEDED
