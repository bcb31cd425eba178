"""Errors of calls, named for the side that is to blame and for whether anything happened.

``RemoteError`` is a remote call without a reply: ``definite`` if it surely did nothing.  Errors of
clients have four families, four places to catch them:

* ``Misuse``           the application is to blame; nothing left this machine;
* ``NotStored``        the cluster is to blame; surely no copy of the message was stored;
* ``MaybeStored``      an attempt ended without an answer; sending again may make a second copy;
* ``GroupCallRefused`` a broker did not do what a consumer asked it for.

These are ``ClientError``, and ``rocketmq_emulator.client`` has all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

# Remote calls -------------------------------------------------------------------------


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


# Clients ------------------------------------------------------------------------------


class ClientErrorCode:
    """Numbers an application may know.  Upstream: ClientErrorCode."""

    CONNECT_BROKER = 10001
    ACCESS_BROKER_TIMEOUT = 10002
    BROKER_NOT_EXIST = 10003
    NO_NAME_SERVER = 10004
    NOT_FOUND_TOPIC = 10005


class ClientError(Exception):
    """What any use of a client may raise.  ``code`` is a ResponseCode or a ClientErrorCode."""

    maybe_stored = False

    def __init__(self, text: str, *, code: int | None = None) -> None:
        super().__init__(text)
        self.code = code


# The application is to blame --------------------------------------------------------------


class Misuse(ClientError):
    """The call makes no sense as it is; nothing left this machine."""


class BadArgument(Misuse, TypeError, ValueError):
    """An argument or a setting of a wrong type, of a value that cannot be, or unknown."""


class NotRunning(Misuse):
    """A producer or consumer is used inside its ``async with`` only."""


class NotUnderTrio(Misuse, RuntimeError):
    """A client of trio was started under asyncio, or without any loop."""


def check_not_running(running: object, what: str) -> None:
    """A client has one block at a time: *running* is None.  Raises ``Misuse``."""
    if running is not None:
        raise Misuse(f"this {what} runs already: make another one for another block")


def refuse_sync_with(client: object, *_error: object) -> NoReturn:
    """Stands for ``__enter__`` and ``__exit__`` of what has ``async with``.

    Raises ``NotUnderTrio``, with what to use instead.
    """
    raise NotUnderTrio(
        f"{type(client).__name__} is written for trio: async with {type(client).__name__}(…). "
        f"Without async use the one of rocketmq_emulator.sync"
    )


class GroupTaken(Misuse):
    """The instance already has a producer or consumer of that group."""


class MessageIllegal(Misuse, ValueError):
    """A topic, group or body that no broker would take."""


class BadSubscription(Misuse, ValueError):
    """A subscription's expression makes no sense, whatever broker reads it."""


class BadSelector(Misuse):
    """The queue selector failed, or chose a queue the topic does not have."""


# The cluster is to blame ------------------------------------------------------------------


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


class NotStored(SendError):
    """Surely no broker stored it."""


class NoNameServer(NotStored):
    """No NameServer answers, and the topic's route is not known."""


class NoRoute(NotStored):
    """The topic has no queue that can be written."""


class BrokerRefused(NotStored):
    """A broker answered with an error code after which no other broker is tried."""


class TooManySends(NotStored):
    """More sends are under way than the producer's limit allows."""


class MaybeStored(SendError):
    """Some attempt was sent and never answered."""

    maybe_stored = True


class RecallFailed(ClientError):
    """A timer message was not recalled, as far as is known, and comes at its time.

    With ``maybe_recalled`` a broker was asked and has not answered.
    """

    def __init__(
        self, text: str, *, code: int | None = None, maybe_recalled: bool = False
    ) -> None:
        super().__init__(text, code=code)
        self.maybe_recalled = maybe_recalled


# A consumer's calls -----------------------------------------------------------------------


class GroupCallRefused(ClientError):
    """A broker refused a call of a consumer group's member, or there is none that answers.

    Raised to users when a consumer starts with an expression that its broker cannot read.
    """
