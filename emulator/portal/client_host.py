"""The task of a trio client in the portal's thread, for clients of threads and asyncio.

A trio client is open inside an ``async with``, which must be entered and left by one task.
``ClientTask`` is this task: it opens the client, waits until ``close``, and closes it.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Generic, NoReturn, ParamSpec, Protocol, TypeVar

import trio

from rocketmq_emulator.client.producer.outgoing_message import check
from rocketmq_emulator.errors.call_errors import (
    BadArgument,
    ClientMisuse,
    NotRunning,
    TooManySends,
)
from rocketmq_emulator.portal import portal
from rocketmq_emulator.portal.portal import Portal
from rocketmq_emulator.protocol.messages.validation import type_error_text

if TYPE_CHECKING:
    from rocketmq_emulator.client import Producer
    from rocketmq_emulator.protocol.messages.message import Message

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C", bound=AbstractAsyncContextManager[Any])


class ClientTask:
    """The task in which one *client* is open.  Its methods are called in trio's thread."""

    def __init__(self, client: AbstractAsyncContextManager[Any], portal: Portal) -> None:
        self.portal = portal
        self.failure: BaseException | None = None  # the error that ended it
        self.is_over = False
        self._client = client
        self._scope = trio.CancelScope()
        self._close_requested = trio.Event()
        self._done = trio.Event()

    async def open(self) -> None:
        """Open the client.  Raises the error that prevents it."""
        self.portal.client_tasks.add(self)
        await self.portal.nursery.start(self._run)

    async def close(self) -> None:
        """Close the client; if this is cancelled, the client ends as a killed process does."""
        self._close_requested.set()
        try:
            await self._done.wait()
        except trio.Cancelled:
            self._scope.cancel()
            with trio.CancelScope(shield=True):
                await self._done.wait()
            raise
        if self.failure is not None:
            raise self.failure

    async def close_quietly(self) -> None:
        """As ``close``, but raises nothing: the process ends."""
        with contextlib.suppress(Exception):
            await self.close()

    async def wait_over(self) -> None:
        """Wait until the client is closed.  Raises the error that ended it."""
        await self._done.wait()
        if self.failure is not None:
            raise self.failure

    def abort(self, failure: BaseException) -> None:
        """End the client as a killed process ends, because of *failure*."""
        if not self._scope.cancel_called:
            self.failure = failure
            self._scope.cancel()
            _log_end(failure)

    async def _run(self, task_status: trio.TaskStatus[None]) -> None:
        is_open = False
        try:
            with self._scope:
                async with self._client:
                    is_open = True
                    task_status.started()
                    await self._close_requested.wait()
        except BaseException as error:
            if not is_open or isinstance(error, trio.Cancelled):
                raise
            self.failure = error  # perhaps a listener's sys.exit(): it ends this client only
            _log_end(error)
        finally:
            self.is_over = True
            self._done.set()
            self.portal.client_tasks.discard(self)


class PortalClient(Generic[C]):
    """The common part of the clients for threads and for asyncio."""

    def __init__(self, core: C) -> None:
        self._core = core
        self._client_task: ClientTask | None = None

    @property
    def core(self) -> C:
        """The trio client; its methods may be called in trio's thread only."""
        return self._core

    @property
    def portal(self) -> Portal:
        """The portal in which the client is open.  Raises ``NotRunning`` if it is not."""
        host = self._client_task
        if host is None:
            name = type(self).__name__
            raise NotRunning(
                f"a {name} is used inside its with block, or between start() and close()"
            )
        host.portal.check()
        if host.is_over:
            raise NotRunning(f"the {type(self).__name__} has ended: {host.failure or 'closed'}")
        return host.portal

    def __reduce__(self) -> NoReturn:
        name = type(self).__name__
        raise BadArgument(
            f"a {name} can be neither pickled nor copied: make one in the process that uses it"
        )

    def _new_client_task(self) -> ClientTask:
        """A new task, for a start.  Raises ``ClientMisuse`` if the client is started already."""
        if self._client_task is not None and not self._client_task.is_over:
            if not self._client_task.portal.is_of_parent_process:
                raise ClientMisuse(f"this {type(self).__name__} is started already")
            self._client_task.portal.check()
        self._client_task = ClientTask(self._core, portal.portal())
        return self._client_task

    def _plain(self, function: Callable[P, R], *arguments: P.args, **named: P.kwargs) -> R:
        """Call a function that does not wait in trio's thread, which owns the state."""
        return self.portal.wait_plain(function, *arguments, **named)


class CallInProgress(Protocol):
    """A send or a request in the background."""

    def end(self, result: Any, /) -> None:  # noqa: ANN401  # of any call
        """Called once, in trio's thread, with the result or the error."""
        ...


B = TypeVar("B", bound=CallInProgress)


def start_in_background(
    client: PortalClient[Producer],
    message: Message,
    new_call: Callable[[], B],
    start: Callable[[B], object],
) -> B:
    """The call of *new_call*, which *start* starts in trio's thread; its error ends the call.

    Raises ``Misuse``; ``TooManySends`` above ``async_sends_max``.
    """
    check(message, client.core.config)
    portal = client.portal
    if portal.backlog >= client.core.config.async_sends_max:
        raise TooManySends(f"{portal.backlog} sends have not begun yet")
    call = new_call()

    def begin() -> None:
        try:
            start(call)
        except Exception as error:  # noqa: BLE001  # any error ends the call
            call.end(error)

    portal.soon(begin)
    return call


def core_of(process: PortalClient[C] | None, kind: type[PortalClient[C]]) -> C | None:
    """The trio ``ClientProcess`` of *process*.  Raises ``BadArgument`` if it is no *kind*."""
    if process is None:
        return None
    if not isinstance(process, kind):
        raise BadArgument(
            type_error_text("process", f"a ClientProcess of {kind.__module__}", process)
        )
    return process.core


def _log_end(error: BaseException) -> None:
    logging.getLogger("rocketmq_emulator").error("a client has ended: %s", error, exc_info=error)
