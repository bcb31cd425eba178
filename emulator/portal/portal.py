"""One trio thread per process, calls into it from other threads, and callbacks.

Clients for threads and for asyncio run in this thread, each in a task of its own.  Calls are
put into a deque: the first one wakes the thread, which also takes the calls that were added
until then.  So thirty-two callers need one wake-up.

The thread starts at the first use, serves all clients, and ends with the process.
After a fork the child has no such thread: it starts one when it creates new clients.

Callbacks of the application are called in another thread: they may wait, or use a client,
without blocking all clients.  They run one at a time, in the order of their events.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Generic, ParamSpec, Protocol, TypeAlias, TypeVar

import trio

from rocketmq_emulator.errors.call_errors import ClientMisuse, NotRunning

P = ParamSpec("P")
R = TypeVar("R")

END_S_MAX = 2.0  # for closing the clients that are open when the process ends
CANCEL_S_MAX = 1.0  # how long Ctrl-C waits for the end of its call


class Inbox:
    """A queue of function calls for one thread; ``wake(f)`` lets the thread call ``f()``."""

    def __init__(self, wake: Callable[[Callable[[], None]], object]) -> None:
        self._wake = wake
        self._jobs: deque[tuple[Callable[..., object], tuple[Any, ...]]] = deque()
        self._is_woken = False

    def __len__(self) -> int:
        return len(self._jobs)

    def soon(self, function: Callable[..., object], *arguments: object) -> None:
        """Let the thread call ``function(*arguments)``, in the order of calls to ``soon``.

        Raises the error of *wake* if the thread accepts no more calls.
        """
        try:
            self._jobs.append((function, arguments))
            # Checked after the append: if it is set, the thread has not begun to take jobs.
            if not self._is_woken:
                self._is_woken = True
                self._wake(self.work)
        except BaseException:  # Ctrl-C, maybe before the wake-up on which other calls wait
            self._is_woken = False
            with contextlib.suppress(Exception):
                self._wake(self.work)
            raise

    def work(self) -> None:
        """Make the queued calls; called in the thread."""
        self._is_woken = False
        for _ in range(len(self._jobs)):
            function, arguments = self._jobs.popleft()
            function(*arguments)


class PortalCall(Generic[R]):
    """One call of an async function in trio's thread.

    *when_over* is called there, once, after ``error`` or ``value`` was set.
    """

    __slots__ = (
        "_arguments",
        "_function",
        "_scope",
        "_wants_cancel",
        "_when_over",
        "error",
        "is_over",
        "value",
    )

    value: R

    def __init__(
        self,
        when_over: Callable[[], object],
        function: Callable[..., Awaitable[R]],
        arguments: tuple[tuple[Any, ...], dict[str, Any]],
    ) -> None:
        self.error: BaseException | None = None
        self.is_over = False
        self._function = function
        self._arguments = arguments
        self._when_over = when_over
        self._scope: trio.CancelScope | None = None
        self._wants_cancel = False

    def result(self) -> R:
        """The result of the function.  Raises the function's exception."""
        if self.error is not None:
            error, self.error = self.error, None  # else its traceback would refer to itself
            raise error
        return self.value

    def cancel(self) -> None:
        """Cancel the call; called in trio's thread."""
        self._wants_cancel = True
        if self._scope is not None:
            self._scope.cancel()

    async def run(self) -> None:
        """The task that makes the call."""
        positional, named = self._arguments
        with trio.CancelScope() as self._scope:
            if self._wants_cancel:
                self._scope.cancel()
            try:
                self.value = await self._function(*positional, **named)
            except trio.Cancelled:
                self.error = NotRunning("the call was cancelled, or the process ends")
                raise
            except BaseException as error:  # noqa: BLE001  # it is raised in the caller's thread
                self.error = error
            finally:
                self.is_over = True
                self._when_over()

    def refuse(self, error: BaseException) -> None:
        """End the call with *error*, without making it."""
        self.error = error
        self.is_over = True
        self._when_over()


class Closeable(Protocol):
    """An open client in the thread that has to be closed at the end."""

    async def close_quietly(self) -> None:
        """Close it; raises nothing."""
        ...


class Portal:
    """The trio thread.  Its methods are called in other threads, unless stated otherwise."""

    def __init__(self) -> None:
        self.client_tasks: set[Closeable] = set()
        self.is_of_parent_process = False  # created before a fork; this is the child
        self._callbacks = CallbackQueue()
        self._pid = os.getpid()
        self._ready = threading.Event()
        self._ending = trio.Event()
        self._nursery: trio.Nursery | None = None
        self._token: trio.lowlevel.TrioToken | None = None
        self._inbox = Inbox(self._wake)
        self._thread = threading.Thread(target=self._run, name="rocketmq-clients", daemon=True)
        self._thread.start()
        self._ready.wait()

    def soon(self, function: Callable[..., object], *arguments: object) -> None:
        """Let trio's thread call ``function(*arguments)``, which must not raise.

        Raises ``NotRunning`` when the process ends, and in the child of a fork.
        """
        self.check()
        try:
            self._inbox.soon(function, *arguments)
        except trio.RunFinishedError:
            raise NotRunning("this process is ending, and its clients have ended") from None

    def begin(self, call: PortalCall[Any]) -> None:
        """Start *call*.  Raises ``NotRunning``."""
        self.soon(self._begin, call)

    def cancel(self, call: PortalCall[Any]) -> None:
        """Cancel *call*, if it is not over."""
        with contextlib.suppress(NotRunning):
            self.soon(call.cancel)

    def wait(
        self, function: Callable[P, Awaitable[R]], *arguments: P.args, **named: P.kwargs
    ) -> R:
        """Make a call and block this thread until it is over; returns its result.

        Ctrl-C, or any exception of a signal handler, cancels the call.
        """
        return self._wait(None, function, (arguments, named))

    def wait_or_requeue(
        self,
        requeue: Callable[[R], object],
        function: Callable[P, Awaitable[R]],
        *arguments: P.args,
        **named: P.kwargs,
    ) -> R:
        """As ``wait``; if the caller was interrupted, *requeue* gets the result in the thread."""
        return self._wait(requeue, function, (arguments, named))

    def wait_plain(self, function: Callable[P, R], *arguments: P.args, **named: P.kwargs) -> R:
        """As ``wait``, for a function that does not wait."""

        async def called() -> R:
            return function(*arguments, **named)

        return self.wait(called)

    def check(self) -> None:
        """Raises ``NotRunning`` in the child of a fork."""
        if self.is_of_parent_process:
            raise NotRunning(
                f"this client was started in process {self._pid}, before a fork, and stays "
                f"there: make a new one in process {os.getpid()}"
            )

    @property
    def backlog(self) -> int:
        """The number of calls that the thread has not taken yet."""
        return len(self._inbox)

    @property
    def nursery(self) -> trio.Nursery:
        """The nursery of the clients' tasks; for functions that run in trio's thread."""
        assert self._nursery is not None, "the thread has a nursery while it runs"
        return self._nursery

    def call_back(self, function: Callable[..., object], *arguments: object) -> None:
        """Call a function of the application in another thread; called in trio's thread."""
        if self._nursery is not None:
            self._callbacks.soon(self._nursery, function, *arguments)

    def end(self) -> None:
        """Close all open clients, in two seconds at most, and end the thread."""
        with contextlib.suppress(NotRunning):
            self.soon(self._ending.set)
        self._thread.join(END_S_MAX + CANCEL_S_MAX)

    def requeue_result(self, requeue: Callable[[R], object], call: PortalCall[R]) -> None:
        """Pass the result of *call* to *requeue*: its caller was interrupted before it got it."""
        if call.is_over and call.error is None:
            with contextlib.suppress(NotRunning):
                self.soon(requeue, call.value)

    def _wait(
        self,
        requeue: Callable[[R], object] | None,
        function: Callable[..., Awaitable[R]],
        arguments: tuple[tuple[Any, ...], dict[str, Any]],
    ) -> R:
        if threading.get_ident() == self._thread.ident:
            raise ClientMisuse(
                "a call that waits was made in the thread of the clients, as by a queue "
                "selector: it would wait for itself"
            )
        over = threading.Lock()
        over.acquire()  # released when the call is over
        call = PortalCall(over.release, function, arguments)
        try:
            self.begin(call)
            over.acquire()
        except BaseException:
            self.cancel(call)
            if not call.is_over:
                over.acquire(timeout=CANCEL_S_MAX)
            if requeue is not None:
                self.requeue_result(requeue, call)
            raise
        return call.result()

    # In trio's thread -----------------------------------------------------------------

    def _run(self) -> None:
        try:
            trio.run(self._main)
        finally:
            self._nursery = None
            self._ready.set()
            self._inbox.work()  # refuses the calls that came too late

    async def _main(self) -> None:
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            self._token = trio.lowlevel.current_trio_token()
            self._ready.set()
            await self._ending.wait()
            with trio.move_on_after(END_S_MAX):
                async with trio.open_nursery() as closing:
                    for host in self.client_tasks:
                        closing.start_soon(host.close_quietly)
                await self._callbacks.wait_idle()
            self._nursery = None
            nursery.cancel_scope.cancel()

    def _begin(self, call: PortalCall[Any]) -> None:
        if self._nursery is None:
            call.refuse(NotRunning("this process is ending, and its clients have ended"))
        else:
            self._nursery.start_soon(call.run)

    def _wake(self, work: Callable[[], None]) -> None:
        assert self._token is not None, "the thread is ready before __init__ returns"
        self._token.run_sync_soon(work)


_lock = threading.Lock()
_of_this_process: Portal | None = None


def portal() -> Portal:
    """The portal of this process; the first call starts its thread."""
    global _of_this_process  # noqa: PLW0603  # one per process
    with _lock:
        if _of_this_process is None:
            _of_this_process = Portal()
        return _of_this_process


def end() -> None:
    """Close all open clients and end the thread; the next use starts another."""
    global _of_this_process  # one per process
    with _lock:
        ending, _of_this_process = _of_this_process, None
    if ending is not None:
        ending.end()


def _end_at_exit() -> None:
    with contextlib.suppress(KeyboardInterrupt):  # an interrupted exit prints no traceback
        end()


def _reset_after_fork() -> None:
    """Reset the child: a fork copies only one thread, and locks in their current state."""
    global _lock, _of_this_process  # noqa: PLW0603  # one per process
    _lock = threading.Lock()
    if _of_this_process is not None:
        _of_this_process.is_of_parent_process = True
        _of_this_process = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)
atexit.register(_end_at_exit)


# Callbacks of the application ---------------------------------------------------------


QueuedCallback: TypeAlias = tuple[Callable[..., object], tuple[Any, ...]]


class CallbackQueue:
    """The callbacks of one process.  Used in trio's thread."""

    def __init__(self) -> None:
        self._waiting: list[QueuedCallback] = []
        self._idle: trio.Event | None = None  # set while callbacks run

    def soon(
        self, nursery: trio.Nursery, function: Callable[..., object], *arguments: object
    ) -> None:
        """Let another thread call ``function(*arguments)``; its exceptions are logged."""
        self._waiting.append((function, arguments))
        if self._idle is None:
            self._idle = trio.Event()
            nursery.start_soon(self._run)

    async def wait_idle(self) -> None:
        """Wait until all callbacks have been called."""
        if self._idle is not None:
            await self._idle.wait()

    async def _run(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting, []
            await trio.to_thread.run_sync(_call_all, batch, abandon_on_cancel=True)
        assert self._idle is not None, "created by soon, which started this"
        self._idle.set()
        self._idle = None


def _call_all(batch: list[QueuedCallback]) -> None:
    for function, arguments in batch:
        try:
            function(*arguments)
        except Exception:
            logging.getLogger("rocketmq_emulator").exception("a callback raised")
