"""One trio thread for a whole process, calls into it from other threads, and calls back.

Clients of threads and of asyncio run in this thread, each in a task of its own.  What is
to be done there is put into a deque: the first piece wakes the thread, the pieces that
come until it looks are found by it.  So thirty-two callers pay for one wake-up.

The thread is started at the first use, serves all clients, and ends with the process.
After a fork the child has no such thread: it gets another one when it makes new clients.

Functions of the application are called back in another thread: they may wait, or use a client,
without holding up all clients.  One runs at a time, in the order of the events that they are for.
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

END_S_MAX = 2.0  # of clients that are still open when the process ends
CANCEL_S_MAX = 1.0  # how long Ctrl-C waits for its call to be over


class Inbox:
    """Work for one thread; *wake* makes it call the function that it is given."""

    def __init__(self, wake: Callable[[Callable[[], None]], object]) -> None:
        self._wake = wake
        self._jobs: deque[tuple[Callable[..., object], tuple[Any, ...]]] = deque()
        self._is_woken = False

    def __len__(self) -> int:
        return len(self._jobs)

    def soon(self, function: Callable[..., object], *arguments: object) -> None:
        """Have ``function(*arguments)`` called in the thread, in the order of these calls.

        Raises what *wake* raises when the thread takes no more work.
        """
        try:
            self._jobs.append((function, arguments))
            # Looked at after the append: if it is set, the thread has not begun to take jobs.
            if not self._is_woken:
                self._is_woken = True
                self._wake(self.work)
        except BaseException:  # Ctrl-C, maybe when all others rely on a wake-up that was not made
            self._is_woken = False
            with contextlib.suppress(Exception):
                self._wake(self.work)
            raise

    def work(self) -> None:
        """Do what has come; called in the thread."""
        self._is_woken = False
        for _ in range(len(self._jobs)):
            function, arguments = self._jobs.popleft()
            function(*arguments)


class PortalCall(Generic[R]):
    """One call of an async function in trio's thread.

    *when_over* is called there, once: then either ``error`` is set or ``value`` is.
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
        """What the function returned.  Raises what it raised."""
        if self.error is not None:
            error, self.error = self.error, None  # a traceback that leads back to itself
            raise error
        return self.value

    def cancel(self) -> None:
        """End it as trio ends what is cancelled; called in trio's thread."""
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
        """It will not be made."""
        self.error = error
        self.is_over = True
        self._when_over()


class Closeable(Protocol):
    """What is open in the thread and wants to end in good order."""

    async def close_quietly(self) -> None:
        """Returns when it is closed; raises nothing."""
        ...


class Portal:
    """The thread.  Its methods may be called in any other thread, unless they say other."""

    def __init__(self) -> None:
        self.client_tasks: set[Closeable] = set()
        self.is_of_parent_process = False  # made before a fork, and this is the child
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
        """Have ``function(*arguments)`` called in trio's thread; it must not raise.

        Raises ``NotRunning`` when the process ends, and in the child of a fork.
        """
        self.check()
        try:
            self._inbox.soon(function, *arguments)
        except trio.RunFinishedError:
            raise NotRunning("this process is ending, and its clients have ended") from None

    def begin(self, call: PortalCall[Any]) -> None:
        """Make *call*.  Raises ``NotRunning``."""
        self.soon(self._begin, call)

    def cancel(self, call: PortalCall[Any]) -> None:
        """End *call* early, if it is not over."""
        with contextlib.suppress(NotRunning):
            self.soon(call.cancel)

    def wait(
        self, function: Callable[P, Awaitable[R]], *arguments: P.args, **named: P.kwargs
    ) -> R:
        """Make a call and block this thread until it is over.

        Ctrl-C, or any exception that a signal brings, cancels the call.
        """
        return self._wait(None, function, (arguments, named))

    def wait_or_requeue(
        self,
        requeue: Callable[[R], object],
        function: Callable[P, Awaitable[R]],
        *arguments: P.args,
        **named: P.kwargs,
    ) -> R:
        """The same; what the call returns too late for its caller is given back in the thread."""
        return self._wait(requeue, function, (arguments, named))

    def wait_plain(self, function: Callable[P, R], *arguments: P.args, **named: P.kwargs) -> R:
        """The same for a function that does not wait."""

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
        """How many pieces of work the thread has not looked at."""
        return len(self._inbox)

    @property
    def nursery(self) -> trio.Nursery:
        """Where clients live; for functions that run in trio's thread."""
        assert self._nursery is not None, "the thread has a nursery while it runs"
        return self._nursery

    def call_back(self, function: Callable[..., object], *arguments: object) -> None:
        """PortalCall a function of the application in another thread; called in trio's thread."""
        if self._nursery is not None:
            self._callbacks.soon(self._nursery, function, *arguments)

    def end(self) -> None:
        """Close what is open, within two seconds; the thread is gone then."""
        with contextlib.suppress(NotRunning):
            self.soon(self._ending.set)
        self._thread.join(END_S_MAX + CANCEL_S_MAX)

    def requeue_result(self, requeue: Callable[[R], object], call: PortalCall[R]) -> None:
        """The caller of *call* was interrupted and has got nothing of it."""
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
            self._inbox.work()  # what came too late is refused

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
        assert self._token is not None, "the thread is ready before it is given to anybody"
        self._token.run_sync_soon(work)


_lock = threading.Lock()
_of_this_process: Portal | None = None


def portal() -> Portal:
    """The thread of this process; the first call starts it."""
    global _of_this_process  # noqa: PLW0603  # one a process
    with _lock:
        if _of_this_process is None:
            _of_this_process = Portal()
        return _of_this_process


def end() -> None:
    """Close what is open and end the thread; the next use starts another."""
    global _of_this_process  # one a process
    with _lock:
        ending, _of_this_process = _of_this_process, None
    if ending is not None:
        ending.end()


def _end_at_exit() -> None:
    with contextlib.suppress(KeyboardInterrupt):  # who is impatient needs no traceback
        end()


def _reset_after_fork() -> None:
    """A fork copies one thread only, and locks as they are."""
    global _lock, _of_this_process  # noqa: PLW0603  # one a process
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
    """Those of one process.  Used in trio's thread."""

    def __init__(self) -> None:
        self._waiting: list[QueuedCallback] = []
        self._idle: trio.Event | None = None  # there while calls are made

    def soon(
        self, nursery: trio.Nursery, function: Callable[..., object], *arguments: object
    ) -> None:
        """Have ``function(*arguments)`` called; what it raises is logged."""
        self._waiting.append((function, arguments))
        if self._idle is None:
            self._idle = trio.Event()
            nursery.start_soon(self._run)

    async def wait_idle(self) -> None:
        """Until all have been called."""
        if self._idle is not None:
            await self._idle.wait()

    async def _run(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting, []
            await trio.to_thread.run_sync(_call_all, batch, abandon_on_cancel=True)
        assert self._idle is not None, "made by who started this"
        self._idle.set()
        self._idle = None


def _call_all(batch: list[QueuedCallback]) -> None:
    for function, arguments in batch:
        try:
            function(*arguments)
        except Exception:
            logging.getLogger("rocketmq_emulator").exception("a callback raised")
