"""What can go wrong between Spark and a RocketMQ, each with what to do about it.

Three kinds, and three ways to treat them: an option is wrong (nothing was asked of anybody), a
server is away (it may come back: it is waited for within a limit), a server refused or messages
are gone (asking again changes nothing).
"""

from __future__ import annotations


class SourceError(Exception):
    """Anything that ends a read or a write of RocketMQ."""


class BadOption(SourceError):
    """An option there is not, or one with a value it cannot have; nothing was asked."""


class TopicUnknown(SourceError):
    """No broker has registered this topic."""


class ServerAway(SourceError):
    """A server did not answer; it may come back."""


class ServerRefused(SourceError):
    """A server answered with a code that is no success."""

    def __init__(self, address: str, call: str, code: int, remark: str | None) -> None:
        super().__init__(
            f"{address} refused {call} with code {code}: {remark or 'no reason given'}"
        )
        self.code = code


class CredentialsWanted(SourceError):
    """The cluster has access control, which this client does not speak yet."""


class TlsWanted(SourceError):
    """The server takes TLS only, which this client does not speak yet."""


class MessagesLost(SourceError):
    """Messages that were to be read are no longer there."""


class OffsetsOutOfRange(SourceError):
    """Offsets were asked for that a queue does not have."""


class GroupInUse(SourceError):
    """Somebody else is a member of the group whose offsets would be committed."""


class NotSent(SourceError):
    """Rows that no broker has taken."""
