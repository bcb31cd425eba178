"""How listeners that are plain functions run: in which thread, and how long a call takes.

An async listener waits in trio's time.  A plain function cannot: in the real worlds it runs in a
worker thread, so that it may block.  In the virtual world a thread would not follow virtual time,
and runs of one seed would write different journals: there the function runs on the event loop, and
after it its declared duration passes.

The world passes its ``PlainFunctions`` to each ``ClientProcess``.
"""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING, Protocol, TypeVar

import trio

from rocketmq_emulator.errors.call_errors import ClientMisuse
from rocketmq_emulator.facts import CallbackRaised

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class PlainCalls(Protocol):
    """Runs the calls of one listener."""

    one_run_s_max: float  # how long the work of one ``run`` may start further calls

    async def run(self, work: Callable[[], T]) -> T:
        """Call *work*, which calls the listener, and wait until it returns."""
        ...


class PlainFunctions(Protocol):
    """How one world runs listeners that are plain functions."""

    def for_listener(self, *, threads_max: int, listener_ms: int | None) -> PlainCalls:
        """The calls of one listener, at most *threads_max* at once.

        *listener_ms* is the declared duration of one call, or None.  Raises ``Misuse`` if it is
        None and this world needs a duration.
        """
        ...


class WorkerThreads:
    """Plain functions run in worker threads, in real time."""

    def for_listener(self, *, threads_max: int, listener_ms: int | None) -> PlainCalls:
        """The calls of one listener; a declared duration is ignored."""
        del listener_ms
        return ThreadCalls(threads_max)


class ThreadCalls:
    """At most *threads_max* threads at once, beside trio's own limit."""

    # Starting a call in a thread costs more than a quick listener, so one run makes several
    # calls; their outcomes are processed after it, so a run starts calls only for this long.
    one_run_s_max = 0.005

    def __init__(self, threads_max: int) -> None:
        self._limiter = trio.CapacityLimiter(threads_max)

    async def run(self, work: Callable[[], T]) -> T:
        """Call *work* in a thread, which is not interrupted if the caller is cancelled."""
        return await trio.to_thread.run_sync(work, limiter=self._limiter, abandon_on_cancel=True)


class InlineWithDuration:
    """Plain functions run on the event loop; each call then takes its declared duration."""

    def for_listener(self, *, threads_max: int, listener_ms: int | None) -> PlainCalls:
        """The calls of one listener.  Raises ``Misuse`` if no duration is declared."""
        del threads_max  # the number of the consumer's workers is the limit
        if listener_ms is None:
            raise ClientMisuse(
                "a listener that is a plain function needs a declared duration in the virtual "
                "world: set listener_ms (milliseconds one call takes), or make it async"
            )
        return InlineCalls(listener_ms)


class InlineCalls:
    """Calls on the event loop; each takes *listener_ms* of trio's time."""

    one_run_s_max = 0.0  # one call per run: the next one starts when its duration has passed

    def __init__(self, listener_ms: int) -> None:
        self._listener_s = listener_ms / 1000

    async def run(self, work: Callable[[], T]) -> T:
        """Call *work* at once; return its result when the duration has passed."""
        outcome = work()
        if self._listener_s:
            await trio.sleep(self._listener_s)
        return outcome


def callback_raised(group: str, function: str, error: Exception) -> CallbackRaised:
    """The fact that *function*, a callback of the application, raised *error*."""
    text = "".join(traceback.format_exception_only(error)).strip()
    return CallbackRaised(group, function, text, "".join(traceback.format_exception(error)))
