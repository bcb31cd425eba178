"""The errors of reads and writes of RocketMQ from Spark; each text names a remedy.

There are three kinds: an option is wrong (no request was sent), a server is unavailable (calls
are retried until a limit), a server refused or messages are gone (a retry changes nothing).  A
broker that restarts is unavailable for seconds; the read waits and continues at the same offset.
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
    """An unknown option, or one with an invalid value; no request was sent."""


class TopicUnknown(SourceError, RefusedByServer):
    """No broker has registered this topic."""


class ServerUnavailable(SourceError, NobodyAnswered):
    """A server did not answer; it may come back."""


class ServerRefused(SourceError, RefusedByServer):
    """A server answered with a code other than SUCCESS."""

    def __init__(self, address: str, call: str, code: int, remark: str | None) -> None:
        super().__init__(
            f"{address} refused {call} with code {code}: {remark or 'no reason given'}"
        )
        self.code = code


class CredentialsRequired(SourceError, CannotDoHere):
    """The cluster has access control, which this client does not support yet."""


class TlsRequired(SourceError, CannotDoHere):
    """The server accepts TLS only, which this client does not support yet."""


class MessagesLost(SourceError, DamagedData):
    """Messages in the range to read no longer exist or are damaged."""


class OffsetsOutOfRange(SourceError, Misuse):
    """An option asks for offsets that a queue does not have."""


class GroupInUse(SourceError, CannotDoHere):
    """The group whose offsets the stream would commit has another member."""


class UnsupportedRecords(SourceError, CannotDoHere):
    """A queue holds records in a layout that this source does not read."""


class NotSent(SourceError):
    """Rows that no broker has stored."""


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
    """A row that cannot become a message; no row of its Arrow batch was sent."""


# Trying again until a server is back --------------------------------------------------


FIRST_PAUSE_S, PAUSE_S_MAX = 0.05, 1.0
T = TypeVar("T")


class RetryLimit:
    """The time for which a read still waits for an unavailable server; progress renews it."""

    def __init__(self, limit_ms: int) -> None:
        self._limit_ms = limit_ms
        self.renew()

    def renew(self) -> None:
        """Start the whole limit again, after something was read."""
        self._until_s = time.monotonic() + self._limit_ms / 1000
        self._pause_s = FIRST_PAUSE_S

    def wait_or_raise(self, error: ServerUnavailable) -> None:
        """Sleep, longer each time.  Raises ``ServerUnavailable`` past the limit."""
        left_s = self._until_s - time.monotonic()
        if left_s <= 0:
            raise ServerUnavailable(
                f"{error}; waited {self._limit_ms} ms for it (option brokerTimeoutMs): start "
                "the server, or raise the option"
            ) from None
        time.sleep(min(self._pause_s, left_s))
        self._pause_s = min(2 * self._pause_s, PAUSE_S_MAX)


def retry_until_available(limit_ms: int, action: Callable[[], T]) -> T:
    """The result of *action*, retried while it raises ``ServerUnavailable``, up to the limit."""
    patience = RetryLimit(limit_ms)
    while True:
        try:
            return action()
        except ServerUnavailable as error:
            patience.wait_or_raise(error)
