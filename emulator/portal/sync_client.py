"""The base of the clients for threads: a call blocks its own thread, and no other."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NoReturn, ParamSpec, Self, TypeVar, cast

from rocketmq_emulator.client import ClientProcess as CoreProcess
from rocketmq_emulator.client.instance.process import note_left
from rocketmq_emulator.client.settings.arguments import check_plain_function
from rocketmq_emulator.errors.call_errors import ClientMisuse
from rocketmq_emulator.portal.client_host import C, PortalClient
from rocketmq_emulator.portal.portal import portal

if TYPE_CHECKING:
    from types import TracebackType

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., object])


class SyncClient(PortalClient[C]):
    """Open inside its ``with``, or between ``start`` and ``close``."""

    def start(self) -> Self:
        """Open the client.  Raises the errors of the trio client's ``async with``."""
        host = self._new_client_task()
        try:
            host.portal.wait(host.open)
        except BaseException:
            self._client_task = None
            raise
        return self

    def close(self) -> None:
        """Close the client in order; no effect if it is closed.

        A consumer stores its offsets; producers and consumers unregister at every broker.
        Ctrl-C interrupts that.
        """
        note_left(sys.exception())  # the error that ends a block of the application's own
        host, self._client_task = self._client_task, None
        if host is not None and not host.portal.is_of_parent_process:
            host.portal.wait(host.close)

    def wait_closed(self) -> None:
        """Block until another thread has closed the client, or Ctrl-C, which raises here."""
        host = self._client_task
        if host is not None:
            host.portal.wait(host.wait_over)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        note_left(error)
        self.close()

    async def __aenter__(self) -> NoReturn:
        name = type(self).__name__
        raise ClientMisuse(
            f"a {name} of rocketmq_emulator.sync is opened by with {name}(…), not async"
        )

    async def __aexit__(self, *_error: object) -> None:
        """Not called: it exists so that ``async with`` calls ``__aenter__``, which raises."""

    def _call(
        self, function: Callable[P, Awaitable[R]], *arguments: P.args, **named: P.kwargs
    ) -> R:
        return self.portal.wait(function, *arguments, **named)


class ClientProcess(SyncClient[CoreProcess]):
    """Lets clients share connections: ``Producer(process=process, instance_name="shop")``."""

    __module__ = "rocketmq_emulator.sync"  # the module from which users import it

    def __init__(self) -> None:
        super().__init__(portal().wait_plain(CoreProcess))


def in_callback_thread(
    name: str, function: F | None, *, takes: str = "topic, all, mine"
) -> F | None:
    """A function that calls *function* in the thread of the callbacks; None for None.

    Raises ``BadArgument``, with *name*, if *function* does not take the arguments *takes*.
    """
    if function is None:
        return None
    check_plain_function(name, function, takes=takes)

    def call_back(*arguments: object) -> None:
        portal().call_back(function, *arguments)

    return cast("F", call_back)
