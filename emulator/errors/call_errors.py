"""Errors of calls, named after the side at fault and after whether anything happened.

``RemoteError`` is a remote call without a reply: ``definite`` if it surely did nothing.  Errors of
clients are ``ClientError``:

* ``ClientMisuse``     the application is at fault; nothing left this machine;
* ``NotStored``        the cluster is at fault; surely no copy of the message was stored;
* ``MaybeStored``      an attempt ended without an answer; sending again may make a second copy;
* ``GroupCallRefused`` a broker did not carry out a consumer's request.

Each also belongs to one of the families (``error_families``), which do not depend on the caller.
``rocketmq_emulator.client`` has all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

from rocketmq_emulator.protocol.error_families import (
    CannotDoHere,
    Misuse,
    NobodyAnswered,
    Picklable,
    RefusedByServer,
    public,
)

if TYPE_CHECKING:
    from rocketmq_emulator.protocol.queues import MessageQueue

# Remote calls -------------------------------------------------------------------------


class RemoteError(NobodyAnswered):
    """A call that did not succeed; ``definite``: it surely did nothing."""

    def __init__(self, address: str, text: str) -> None:
        super().__init__(f"{address}: {text}")
        self.address = address


class NeverSent(RemoteError):
    """No connection, or the request exceeds a frame: nothing left this machine."""

    definite = True


class NoAnswer(RemoteError):
    """Sent, but no answer came or the connection closed: the peer may have carried it out."""


class TimedOut(NoAnswer):
    """No answer within the caller's timeout."""


# Clients ------------------------------------------------------------------------------


class ClientErrorCode:
    """Codes that an application may compare.  Upstream: ClientErrorCode."""

    CONNECT_BROKER = 10001
    ACCESS_BROKER_TIMEOUT = 10002
    BROKER_NOT_EXIST = 10003
    NO_NAME_SERVER = 10004
    NOT_FOUND_TOPIC = 10005
    REQUEST_TIMEOUT = 10006
    CREATE_REPLY_MESSAGE = 10007


@public
class ClientError(Picklable, Exception):
    """The base of all errors of clients.  ``code`` is a ResponseCode or a ClientErrorCode."""

    maybe_stored = False

    def __init__(self, text: str, *, code: int | None = None) -> None:
        super().__init__(text)
        self.code = code


# The application is at fault --------------------------------------------------------------


@public
class ClientMisuse(ClientError, Misuse):
    """The call is invalid; nothing left this machine."""


@public
class BadArgument(ClientMisuse, TypeError, ValueError):
    """An argument or a setting has a wrong type, a wrong value, or an unknown name."""


@public
class NotRunning(ClientMisuse):
    """A producer or consumer was used outside its ``async with``."""


@public
class NotUnderTrio(ClientMisuse, RuntimeError):
    """A client of trio was started under asyncio, or without any loop."""


def check_not_running(running: object, what: str) -> None:
    """Raises ``ClientMisuse`` unless *running* is None: a client has one block at a time."""
    if running is not None:
        raise ClientMisuse(f"this {what} runs already: make another one for another block")


def refuse_sync_with(client: object, *_error: object) -> NoReturn:
    """The ``__enter__`` and ``__exit__`` of a client that has ``async with``.

    Raises ``NotUnderTrio``, whose text names the class to use instead.
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
    """A topic, group or body that no broker would accept."""


@public
class NotARequest(ClientMisuse, ValueError):
    """A reply to a message that no requester sent: a property of requests is missing."""


@public
class BadSubscription(ClientMisuse, ValueError):
    """The expression of a subscription is invalid for every broker."""


@public
class BadSelector(ClientMisuse):
    """The queue selector failed, or chose a queue the topic does not have."""


# The cluster is at fault ------------------------------------------------------------------


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
        """The number of attempts; 0 if there was no broker to try."""
        return len(self.brokers)


@public
class RequesterGone(SendError, RefusedByServer):
    """A broker could not push a reply to its requester, which has left or reconnects.

    The reply may be stored in the topic of replies, where no requester looks for it.
    """

    maybe_stored = True


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
    """More sends are in flight than the producer's limit allows."""


@public
class SendNotWritten(NotStored, CannotDoHere):
    """No request was written: the producer was closed first, or another error ended the send."""


@public
class MaybeStored(SendError, NobodyAnswered):
    """Some attempt was sent and never answered."""

    maybe_stored = True


@public
class RequestUnanswered(ClientError, NobodyAnswered):
    """A request got no reply in time; a reply that comes later is dropped.

    The request is stored at ``queue_offset`` of ``queue``, and may still be consumed.  They are
    None if its send was not answered either.
    """

    maybe_stored = True

    def __init__(
        self,
        text: str,
        *,
        code: int | None = None,
        queue: MessageQueue | None = None,
        queue_offset: int | None = None,
    ) -> None:
        super().__init__(text, code=code)
        self.queue = queue
        self.queue_offset = queue_offset


@public
class RecallFailed(ClientError):
    """A timer message was not recalled, as far as is known, and is delivered at its time.

    With ``maybe_recalled`` a broker got the request and has not answered.
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
    """A broker refused a call of a consumer group's member, or no broker answers.

    Users get it when a consumer starts with an expression that its broker cannot parse.
    """


@public
class GroupCallRefusedByBroker(GroupCallRefused, RefusedByServer):
    """A broker, or the NameServer in a route query for the topic, answered with an error."""


@public
class GroupCallUnanswered(GroupCallRefused, NobodyAnswered):
    """No broker could be reached, or its answer has not come or cannot be read."""

    def __init__(self, text: str, *, code: int | None = None, definite: bool = False) -> None:
        super().__init__(text, code=code)
        self.definite = definite
