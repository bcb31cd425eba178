"""Errors of calls, named for the side that is to blame and for whether anything happened.

``RemoteError`` is a remote call without a reply: ``definite`` if it surely did nothing.  Errors of
clients are ``ClientError``:

* ``ClientMisuse``     the application is to blame; nothing left this machine;
* ``NotStored``        the cluster is to blame; surely no copy of the message was stored;
* ``MaybeStored``      an attempt ended without an answer; sending again may make a second copy;
* ``GroupCallRefused`` a broker did not do what a consumer asked it for.

Beside that each is of one of the families (``error_families``), which have no regard for who
called.  ``rocketmq_emulator.client`` has all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from rocketmq_emulator.protocol.error_families import (
    CannotDoHere,
    Misuse,
    NobodyAnswered,
    Picklable,
    RefusedByServer,
    public,
)

# Remote calls -------------------------------------------------------------------------


class RemoteError(NobodyAnswered):
    """A call that did not succeed; ``definite``: it surely did nothing."""

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


# Clients ------------------------------------------------------------------------------


class ClientErrorCode:
    """Numbers an application may know.  Upstream: ClientErrorCode."""

    CONNECT_BROKER = 10001
    ACCESS_BROKER_TIMEOUT = 10002
    BROKER_NOT_EXIST = 10003
    NO_NAME_SERVER = 10004
    NOT_FOUND_TOPIC = 10005


@public
class ClientError(Picklable, Exception):
    """What any use of a client may raise.  ``code`` is a ResponseCode or a ClientErrorCode."""

    maybe_stored = False

    def __init__(self, text: str, *, code: int | None = None) -> None:
        super().__init__(text)
        self.code = code


# The application is to blame --------------------------------------------------------------


@public
class ClientMisuse(ClientError, Misuse):
    """The call makes no sense as it is; nothing left this machine."""


@public
class BadArgument(ClientMisuse, TypeError, ValueError):
    """An argument or a setting of a wrong type, of a value that cannot be, or unknown."""


@public
class NotRunning(ClientMisuse):
    """A producer or consumer is used inside its ``async with`` only."""


@public
class NotUnderTrio(ClientMisuse, RuntimeError):
    """A client of trio was started under asyncio, or without any loop."""


def check_not_running(running: object, what: str) -> None:
    """A client has one block at a time: *running* is None.  Raises ``ClientMisuse``."""
    if running is not None:
        raise ClientMisuse(f"this {what} runs already: make another one for another block")


def refuse_sync_with(client: object, *_error: object) -> NoReturn:
    """Stands for ``__enter__`` and ``__exit__`` of what has ``async with``.

    Raises ``NotUnderTrio``, with what to use instead.
    """
    raise NotUnderTrio(
        f"{type(client).__name__} is written for trio: async with {type(client).__name__}(…). "
        f"Without async use the one of rocketmq_emulator.sync"
    )


@public
class GroupTaken(ClientMisuse):
    """The instance already has a producer or consumer of that group."""


@public
class MessageIllegal(ClientMisuse, ValueError):
    """A topic, group or body that no broker would take."""


@public
class BadSubscription(ClientMisuse, ValueError):
    """A subscription's expression makes no sense, whatever broker reads it."""


@public
class BadSelector(ClientMisuse):
    """The queue selector failed, or chose a queue the topic does not have."""


# The cluster is to blame ------------------------------------------------------------------


@public
class SendError(ClientError):
    """A send that ended without a result, after *attempts* at *brokers*."""

    def __init__(
        self,
        text: str,
        *,
        code: int | None = None,
        brokers: Sequence[str] = (),
        took_ms: int = 0,
    ) -> None:
        super().__init__(text, code=code)
        self.brokers = tuple(brokers)
        self.took_ms = took_ms

    @property
    def attempts(self) -> int:
        """How many were made; 0 if there was no broker to try."""
        return len(self.brokers)


@public
class NotStored(SendError):
    """Surely no broker stored it."""


@public
class NoNameServer(NotStored, NobodyAnswered):
    """No NameServer answers, and the topic's route is not known."""

    definite = True


@public
class NoBrokerAnswered(NotStored, NobodyAnswered):
    """No broker could be reached, so none has the message."""

    definite = True


@public
class NoRoute(NotStored, RefusedByServer):
    """The topic has no queue that can be written, by the answer of a NameServer."""


@public
class BrokerRefused(NotStored, RefusedByServer):
    """A broker answered with an error code after which no other broker is tried."""


@public
class TooManySends(NotStored, CannotDoHere):
    """More sends are under way than the producer's limit allows."""


@public
class SendNotWritten(NotStored, CannotDoHere):
    """No request was written: the producer was closed first, or another error ended the send."""


@public
class MaybeStored(SendError, NobodyAnswered):
    """Some attempt was sent and never answered."""

    maybe_stored = True


@public
class RecallFailed(ClientError):
    """A timer message was not recalled, as far as is known, and comes at its time.

    With ``maybe_recalled`` a broker was asked and has not answered.
    """

    maybe_recalled = False


@public
class RecallRefused(RecallFailed, RefusedByServer):
    """The broker answered with an error code."""


@public
class RecallUnanswered(RecallFailed, NobodyAnswered):
    """The broker could not be reached, or has not answered."""

    def __init__(
        self, text: str, *, code: int | None = None, maybe_recalled: bool = False
    ) -> None:
        super().__init__(text, code=code)
        self.maybe_recalled = maybe_recalled
        self.definite = not maybe_recalled


# A consumer's calls -----------------------------------------------------------------------


@public
class GroupCallRefused(ClientError):
    """A broker refused a call of a consumer group's member, or there is none that answers.

    Raised to users when a consumer starts with an expression that its broker cannot read.
    """


@public
class GroupCallRefusedByBroker(GroupCallRefused, RefusedByServer):
    """A broker, or the NameServer that was asked for the topic, answered with an error."""


@public
class GroupCallUnanswered(GroupCallRefused, NobodyAnswered):
    """No broker could be reached, or its answer has not come or cannot be read."""

    def __init__(self, text: str, *, code: int | None = None, definite: bool = False) -> None:
        super().__init__(text, code=code)
        self.definite = definite
