"""What can go wrong between Spark and a RocketMQ, each with what to do about it.

Three kinds, treated in three ways: an option is wrong (no request was sent), a server is
unavailable (it may come back: it is tried again until a limit), a server refused or messages are
gone (trying again changes nothing).  A broker that restarts is away for seconds; a read that has
waited for it continues where it was.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from rocketmq_emulator.protocol.error_families import (
    CannotDoHere,
    DamagedData,
    Misuse,
    NobodyAnswered,
    Picklable,
    RefusedByServer,
)


class SourceError(Picklable, Exception):
    """Anything that ends a read or a write of RocketMQ."""


class BadOption(SourceError, Misuse):
    """An option there is not, or one with a value it cannot have; nothing was asked."""


class TopicUnknown(SourceError, RefusedByServer):
    """No broker has registered this topic."""


class ServerUnavailable(SourceError, NobodyAnswered):
    """A server did not answer; it may come back."""


class ServerRefused(SourceError, RefusedByServer):
    """A server answered with a code that is no success."""

    def __init__(self, address: str, call: str, code: int, remark: str | None) -> None:
        super().__init__(
            f"{address} refused {call} with code {code}: {remark or 'no reason given'}"
        )
        self.code = code


class CredentialsRequired(SourceError, CannotDoHere):
    """The cluster has access control, which this client does not speak yet."""


class TlsRequired(SourceError, CannotDoHere):
    """The server takes TLS only, which this client does not speak yet."""


class MessagesLost(SourceError, DamagedData):
    """Messages that were to be read are no longer there."""


class OffsetsOutOfRange(SourceError, Misuse):
    """Offsets were asked for that a queue does not have."""


class GroupInUse(SourceError, CannotDoHere):
    """Somebody else is a member of the group whose offsets would be committed."""


class UnsupportedRecords(SourceError, CannotDoHere):
    """A queue holds records in a layout that this source does not read."""


class NotSent(SourceError):
    """Rows that no broker has taken."""


class RowsRefused(NotSent, RefusedByServer):
    """A server answered with an error code."""


class RowsUnanswered(NotSent, NobodyAnswered):
    """No server has answered until the limit."""


class RowsUnsupported(NotSent, CannotDoHere):
    """The cluster requires what this source does not have."""


NOT_SENT_BY_FAMILY = {
    RefusedByServer: RowsRefused,
    NobodyAnswered: RowsUnanswered,
    CannotDoHere: RowsUnsupported,
}


def not_sent(error: SourceError, text: str) -> NotSent:
    """With *text*, in the family of *error*."""
    family = next(family for family in NOT_SENT_BY_FAMILY if isinstance(error, family))
    return NOT_SENT_BY_FAMILY[family](text)


class BadRow(NotSent, Misuse):
    """A row that makes no message; none of its batch was sent."""


# Trying again until a server is back --------------------------------------------------


FIRST_PAUSE_S, PAUSE_S_MAX = 0.05, 1.0
T = TypeVar("T")


class RetryLimit:
    """How long a server that is away may still be waited for; progress renews it."""

    def __init__(self, limit_ms: int) -> None:
        self._limit_ms = limit_ms
        self.renew()

    def renew(self) -> None:
        """Something was read: the next absence has the whole limit again."""
        self._until_s = time.monotonic() + self._limit_ms / 1000
        self._pause_s = FIRST_PAUSE_S

    def wait_or_raise(self, error: ServerUnavailable) -> None:
        """A pause, each longer than the last.  Raises ``ServerUnavailable`` past the limit."""
        left_s = self._until_s - time.monotonic()
        if left_s <= 0:
            raise ServerUnavailable(
                f"{error}; it was waited for {self._limit_ms} ms (option brokerTimeoutMs): start "
                "the server, or raise the option"
            ) from None
        time.sleep(min(self._pause_s, left_s))
        self._pause_s = min(2 * self._pause_s, PAUSE_S_MAX)


def retry_until_available(limit_ms: int, action: Callable[[], T]) -> T:
    """What *action* returns, once no server it needs is away.  Raises ``ServerUnavailable``."""
    patience = RetryLimit(limit_ms)
    while True:
        try:
            return action()
        except ServerUnavailable as error:
            patience.wait_or_raise(error)
