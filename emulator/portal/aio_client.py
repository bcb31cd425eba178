"""The base of the clients for asyncio: an awaited call runs in trio's thread.

The ends of calls are reported through an inbox of the loop, so that calls that end together
wake it once.  If a task is cancelled, its call is cancelled in trio's thread, and the task
continues when the call is over: no call is left running.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import sys
import threading
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Generic, NoReturn, ParamSpec, Self, TypeVar, cast

import trio

from rocketmq_emulator.client import ClientProcess as CoreProcess
from rocketmq_emulator.client.instance.process import note_left
from rocketmq_emulator.client.settings.arguments import check_plain_function
from rocketmq_emulator.errors.call_errors import ClientMisuse, NotRunning
from rocketmq_emulator.portal.client_host import C, ClientTask, PortalClient
from rocketmq_emulator.portal.portal import Inbox, Portal, PortalCall, portal

if TYPE_CHECKING:
    from types import TracebackType

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., object])

TASK_CANCEL_S_MAX = 5.0  # how long a consumer that ends waits for its listener's tasks


class AioClient(PortalClient[C]):
    """Open inside its ``async with``, or between ``await start()`` and ``await close()``."""

    _loop_inbox: LoopInbox

    async def start(self) -> Self:
        """Open the client.  Raises the errors of the trio client's ``async with``."""
        home = LoopInbox.of_running_loop()
        host = self._new_client_task()
        self._loop_inbox = home
        self._before_open(host)
        try:
            await CallFuture(home, host.portal, host.open)
        except BaseException:
            self._client_task = None
            raise
        return self

    async def close(self) -> None:
        """Close the client in order; no effect if it is closed.

        A consumer stores its offsets; producers and consumers unregister at every broker.  If
        this is cancelled, the client ends as a killed process does.
        """
        note_left(sys.exception())  # the error that ends a block of the application's own
        host, self._client_task = self._client_task, None
        if host is not None and not host.portal.is_of_parent_process:
            await CallFuture(LoopInbox.of_running_loop(), host.portal, host.close)

    async def wait_closed(self) -> None:
        """Wait until another task has closed the client."""
        host = self._client_task
        if host is not None:
            await CallFuture(LoopInbox.of_running_loop(), host.portal, host.wait_over)

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        note_left(error)
        await self.close()

    def __enter__(self) -> NoReturn:
        name = type(self).__name__
        raise ClientMisuse(f"a {name} of rocketmq_emulator.aio is opened by async with {name}(…)")

    def __exit__(self, *_error: object) -> None:
        """Not called: it exists so that ``with`` calls ``__enter__``, which raises."""

    async def _call(
        self, function: Callable[P, Awaitable[R]], *arguments: P.args, **named: P.kwargs
    ) -> R:
        inbox = LoopInbox.of_running_loop()
        return await CallFuture(inbox, self.portal, function, *arguments, **named)

    async def _call_or_requeue(
        self,
        requeue: Callable[[R], object],
        function: Callable[P, Awaitable[R]],
        *arguments: P.args,
        **named: P.kwargs,
    ) -> R:
        """As ``_call``; if the caller is cancelled, *requeue* gets the result in trio's thread."""
        inbox, portal = LoopInbox.of_running_loop(), self.portal
        future = CallFuture(inbox, portal, function, *arguments, **named)
        try:
            return await future
        except asyncio.CancelledError:
            portal.requeue_result(requeue, future.call)
            raise

    def _before_open(self, host: ClientTask) -> None:
        """Called before *host* opens the client."""

    def _in_start_loop(
        self, name: str, function: F | None, *, takes: str = "topic, all, mine"
    ) -> F | None:
        """A function for trio's thread that runs *function* in the loop of the client's start.

        None for None.  Raises ``BadArgument``, with *name*, if *function* does not take the
        arguments *takes*.
        """
        if function is None:
            return None
        check_plain_function(name, function, takes=takes)

        def call_back(*arguments: object) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop_inbox.loop.call_soon_threadsafe(function, *arguments)

        return cast("F", call_back)


class ClientProcess(AioClient[CoreProcess]):
    """Lets clients share connections: ``Producer(process=process, instance_name="shop")``."""

    __module__ = "rocketmq_emulator.aio"  # the module from which users import it

    def __init__(self) -> None:
        super().__init__(portal().wait_plain(CoreProcess))


class LoopInbox(Inbox):
    """The inbox of one asyncio loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop.call_soon_threadsafe)
        self.loop = loop

    @staticmethod
    def of_running_loop() -> LoopInbox:
        """The inbox of the loop that runs in this thread.  Raises ``ClientMisuse`` without one."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            raise ClientMisuse(
                "rocketmq_emulator.aio is used in a running asyncio loop; for plain functions "
                "there is rocketmq_emulator.sync, for trio rocketmq_emulator"
            ) from None
        inbox: LoopInbox | None = getattr(_of_thread, "inbox", None)
        if inbox is None or inbox.loop is not loop:
            inbox = _of_thread.inbox = LoopInbox(loop)
        return inbox


_of_thread = threading.local()  # the inbox of the thread's last loop


class CallFuture(asyncio.Future[R]):
    """One call, started at once; cancelling it cancels the call and waits for its end."""

    def __init__(
        self,
        inbox: LoopInbox,
        portal: Portal,
        function: Callable[P, Awaitable[R]],
        *arguments: P.args,
        **named: P.kwargs,
    ) -> None:
        super().__init__(loop=inbox.loop)
        self._inbox = inbox
        self._portal = portal
        self._cancel_text: Any = None
        self._is_cancelled = False
        self.call = PortalCall(self._notify_done, function, (arguments, named))
        portal.begin(self.call)

    def cancel(self, msg: object = None) -> bool:
        """True if the call was running; this future is cancelled when the call has ended."""
        if self.done():
            return False
        self._is_cancelled, self._cancel_text = True, msg
        self._portal.cancel(self.call)
        return True

    def _notify_done(self) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: no task waits
            self._inbox.soon(self._settle)

    def _settle(self) -> None:
        call = self.call
        if self._is_cancelled:
            super().cancel(self._cancel_text)
        elif call.error is not None:
            self.set_exception(call.error)
        else:
            self.set_result(call.value)


class LoopFunction(Generic[R]):
    """A coroutine *function* of the application, called from trio in the loop of *home*.

    If the loop is closed, the client of *host* is aborted, as its listener cannot run.
    """

    def __init__(
        self, home: LoopInbox, host: ClientTask, function: Callable[..., Awaitable[R]]
    ) -> None:
        self._loop_inbox = home
        self._client_task = host
        self._function = function
        self._context = contextvars.copy_context()

    async def wait_done(self, *arguments: object) -> R:
        """The function's result.  Raises its exceptions; ``NotRunning`` if the loop is closed."""
        run = LoopTask(self._client_task.portal, self._context, lambda: self._function(*arguments))
        try:
            self._loop_inbox.soon(run.begin)
        except RuntimeError:
            gone = NotRunning("the asyncio loop that this client was started in is closed")
            self._client_task.abort(gone)
            raise gone from None
        try:
            await run.over.wait()
        except trio.Cancelled:
            with contextlib.suppress(RuntimeError):
                self._loop_inbox.soon(run.cancel)
                with trio.move_on_after(TASK_CANCEL_S_MAX, shield=True):
                    await run.over.wait()
            raise
        return run.result()


class LoopTask(Generic[R]):
    """One task in the loop, and a trio event for its end."""

    def __init__(
        self, portal: Portal, context: contextvars.Context, function: Callable[[], Awaitable[R]]
    ) -> None:
        self.over = trio.Event()
        self._portal = portal
        self._context = context
        self._function = function
        self._task: asyncio.Task[R] | None = None

    def begin(self) -> None:
        """Start the task; called in the loop."""
        loop = asyncio.get_running_loop()
        self._task = loop.create_task(self._run(), context=self._context.copy())
        self._task.add_done_callback(self._notify_done)

    def cancel(self) -> None:
        """Cancel the task; called in the loop."""
        assert self._task is not None, "begun before, by the same inbox"
        self._task.cancel()

    def result(self) -> R:
        """The task's result, when it is over.  Raises its exception."""
        assert self._task is not None, "over without having begun"
        if self._task.cancelled():
            raise RuntimeError("the task of a listener was cancelled")
        error = self._task.exception()
        if error is not None and not isinstance(error, Exception):
            raise RuntimeError(f"the task of a listener ended by {error!r}")  # asyncio raises it
        return self._task.result()

    async def _run(self) -> R:
        return await self._function()

    def _notify_done(self, _task: asyncio.Task[R]) -> None:
        with contextlib.suppress(NotRunning):
            self._portal.soon(self.over.set)
