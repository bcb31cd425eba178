"""How a remote call can fail: each error tells the caller whether anything may have happened."""

from __future__ import annotations


class RemoteError(Exception):
    """A call that did not succeed; ``definite``: it surely did nothing."""

    definite = False

    def __init__(self, address: str, text: str) -> None:
        super().__init__(f"{address}: {text}")
        self.address = address


class NeverSent(RemoteError):
    """No connection, or no frame could hold it: nothing left this machine."""

    definite = True


class NoAnswer(RemoteError):
    """Sent, then silence or a closed connection: the other side may have done it."""


class TimedOut(NoAnswer):
    """No answer within the caller's patience."""
