"""Several histories that wait for one deed: the broker or the process that they use is killed.

The last one that arrives does it.  A history that fails before has to cancel, so that the others
do not wait for it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

WAIT_S_MAX = 240.0


class Appointment:
    """*count* histories meet, then *act* is done once."""

    def __init__(self, count: int, act: Callable[[], None]) -> None:
        self._missing = count
        self._act = act
        self._changed = threading.Condition()
        self._is_over = False
        self._failure: BaseException | None = None

    def arrive(self) -> None:
        """Return when it is done.  Raises what the deed raised."""
        with self._changed:
            self._one_less()
            assert self._changed.wait_for(lambda: self._is_over, WAIT_S_MAX), "others did not come"
        if self._failure is not None:
            raise RuntimeError("what several histories waited for failed") from self._failure

    def cancel(self) -> None:
        """This history does not come."""
        with self._changed:
            self._one_less()

    def _one_less(self) -> None:
        self._missing -= 1
        if self._missing > 0:
            return
        try:
            self._act()
        except BaseException as failure:  # noqa: BLE001  # each history raises it
            self._failure = failure
        self._is_over = True
        self._changed.notify_all()
