"""Trying again until a server is back, or until a limit.

A broker that restarts is away for seconds; a read that has waited for it goes on where it was.
What is not a server's absence is never tried again here.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from pipeline.source.errors import ServerAway

FIRST_PAUSE_S, PAUSE_S_MAX = 0.05, 1.0
T = TypeVar("T")


class Patience:
    """How long a server that is away may still be waited for; progress renews it."""

    def __init__(self, limit_ms: int) -> None:
        self._limit_ms = limit_ms
        self.renew()

    def renew(self) -> None:
        """Something was read: the next absence has the whole limit again."""
        self._until_s = time.monotonic() + self._limit_ms / 1000
        self._pause_s = FIRST_PAUSE_S

    def wait_or_raise(self, error: ServerAway) -> None:
        """A pause, longer from time to time.  At the end of the limit raises ``ServerAway``."""
        left_s = self._until_s - time.monotonic()
        if left_s <= 0:
            raise ServerAway(
                f"{error}; it was waited for {self._limit_ms} ms (option brokerTimeoutMs): start "
                "the server, or raise the option"
            ) from None
        time.sleep(min(self._pause_s, left_s))
        self._pause_s = min(2 * self._pause_s, PAUSE_S_MAX)


def patiently(limit_ms: int, action: Callable[[], T]) -> T:
    """What *action* returns, once no server it needs is away.  Raises ``ServerAway``."""
    patience = Patience(limit_ms)
    while True:
        try:
            return action()
        except ServerAway as error:
            patience.wait_or_raise(error)
