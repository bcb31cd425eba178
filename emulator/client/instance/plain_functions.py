"""How listeners that are plain functions run: which thread, and what time they take.

An async listener waits in trio's time.  A plain function cannot wait for trio: in the
real worlds it gets a worker thread, so that it may block.  In the virtual world a thread
would run beside virtual time, and one seed would give different journals: there it runs
on the event loop, and then its declared duration passes.

The world gives its ``PlainFunctions`` to each ``ClientProcess``.
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

    one_run_s_max: float  # how long one ``run`` may go on with further calls of its own

    async def run(self, work: Callable[[], T]) -> T:
        """Call *work*, which calls the listener, and wait until it is done."""
        ...


class PlainFunctions(Protocol):
    """One world's way to run listeners that are plain functions."""

    def for_listener(self, *, threads_max: int, listener_ms: int | None) -> PlainCalls:
        """For a listener that is called at most *threads_max* times at once.

        *listener_ms* is the declared duration of one call, None if none is declared.
        Raises ``Misuse`` if this world needs one.
        """
        ...


class WorkerThreads:
    """Plain functions run in worker threads and take the time they take."""

    def for_listener(self, *, threads_max: int, listener_ms: int | None) -> PlainCalls:
        """A declared duration has no meaning here."""
        del listener_ms
        return ThreadCalls(threads_max)


class ThreadCalls:
    """At most *threads_max* threads at once, beside trio's own limit."""

    # A hop to a thread costs more than a quick listener, so one hop does several calls;
    # but a thread keeps their outcomes to itself no longer than this.
    one_run_s_max = 0.005

    def __init__(self, threads_max: int) -> None:
        self._limiter = trio.CapacityLimiter(threads_max)

    async def run(self, work: Callable[[], T]) -> T:
        """In a thread, which is not interrupted if the caller is cancelled."""
        return await trio.to_thread.run_sync(work, limiter=self._limiter, abandon_on_cancel=True)


class InlineWithDuration:
    """Plain functions run on the event loop; each call then takes its declared duration."""

    def for_listener(self, *, threads_max: int, listener_ms: int | None) -> PlainCalls:
        """Raises ``Misuse`` if no duration is declared."""
        del threads_max  # the consumer's workers are as many
        if listener_ms is None:
            raise ClientMisuse(
                "a listener that is a plain function needs a declared duration in the virtual "
                "world: set listener_ms (milliseconds one call takes), or make it async"
            )
        return InlineCalls(listener_ms)


class InlineCalls:
    """On the event loop, *listener_ms* of trio's time each."""

    one_run_s_max = 0.0  # one call a run: the next one begins when this one's time has passed

    def __init__(self, listener_ms: int) -> None:
        self._listener_s = listener_ms / 1000

    async def run(self, work: Callable[[], T]) -> T:
        """At once; its outcome counts when the duration has passed."""
        outcome = work()
        if self._listener_s:
            await trio.sleep(self._listener_s)
        return outcome


def callback_raised(group: str, function: str, error: Exception) -> CallbackRaised:
    """The fact that a *function* of the application raised where nobody waits for it."""
    text = "".join(traceback.format_exception_only(error)).strip()
    return CallbackRaised(group, function, text, "".join(traceback.format_exception(error)))
