"""The three clients behind one blocking interface, so that a test is written once.

The client for threads is used unchanged.  The trio client and the asyncio client each get a loop
in a separate thread, as in a server, which runs their async methods.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import threading
from collections.abc import Callable
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import trio

import rocketmq_emulator
import rocketmq_emulator.aio
import rocketmq_emulator.sync

SHORT_TIMERS = {"route_poll_interval_ms": 250, "rebalance_interval_ms": 250}


class Face:
    """Clients of one module, each open inside a ``with`` and used by blocking calls."""

    opened: Callable[[Any], Any]  # a context manager with the running client
    listener: Callable[[Any], Any]
    function: Callable[[Any], Any]  # of the kind that listeners of this face usually are

    def __init__(self, module) -> None:
        self.module = module

    def producer(self, **settings):
        return self.opened(self.module.Producer(**SHORT_TIMERS, **settings))

    def transaction_producer(self, execute, check, **settings):
        listener = SimpleNamespace(
            execute_local_transaction=self.function(execute),
            check_local_transaction=self.function(check),
        )
        return self.opened(self.module.TransactionProducer(listener, **SHORT_TIMERS, **settings))

    def consumer(self, listener=None, subscriptions=None, **settings):
        wanted = None if listener is None else self.listener(listener)
        settings = {"consume_from": "CONSUME_FROM_FIRST_OFFSET", **SHORT_TIMERS, **settings}
        settings["pull_error_delay_ms"] = 20
        return self.opened(self.module.PushConsumer(wanted, subscriptions, **settings))

    def pull_consumer(self, **settings):
        return self.opened(self.module.PullConsumer(**SHORT_TIMERS, **settings))

    def lite_pull_consumer(self, subscriptions=None, **settings):
        settings = {**SHORT_TIMERS, "heartbeat_first_ms": 50, **settings}
        return self.opened(self.module.LitePullConsumer(subscriptions, **settings))


class ThreadsFace(Face):
    def opened(self, client):
        return client

    def listener(self, function):
        return function

    function = listener


class LoopFace(Face):
    """*run* calls an async function in the loop and blocks until it is done."""

    def __init__(self, module, run) -> None:
        super().__init__(module)
        self.run = run

    @contextmanager
    def opened(self, client):
        self.run(client.start)
        try:
            yield Blocking(client, self.run)
        finally:
            self.run(client.close)

    def listener(self, function):
        async def listen(messages, context):
            return function(messages, context)

        return listen

    def function(self, function):
        @functools.wraps(function)
        async def called(*arguments):
            return function(*arguments)

        return called


class TrioFace(LoopFace):
    nursery: trio.Nursery

    @contextmanager
    def opened(self, client):
        """A separate task enters and leaves the client's ``async with``."""
        leave, ended, opened = trio.Event(), trio.Event(), []

        async def stay(task_status):
            try:
                async with client:
                    task_status.started()
                    opened.append(client)
                    await leave.wait()
            finally:
                ended.set()

        async def close():
            leave.set()
            await ended.wait()

        self.run(self.nursery.start, stay)
        try:
            yield Blocking(client, self.run)
        finally:
            self.run(close)


def with_core(client, function):
    """``function(core)`` in trio's thread; *core* is the trio client behind *client*."""
    inner = getattr(client, "_client", client)
    if isinstance(client, Blocking) and not hasattr(inner, "core"):
        return client._in_loop(lambda: function(inner))
    return inner.portal.wait_plain(function, inner.core)


class Blocking:
    """A client, or the result of one of its methods; its async methods block until done."""

    def __init__(self, client, run) -> None:
        self._client = client
        self._run = run

    def __getattr__(self, name):
        found = self._in_loop(lambda: getattr(self._client, name))
        if not callable(found):
            return found

        def call(*arguments, **named):
            if inspect.iscoroutinefunction(found):
                return self._run(lambda: found(*arguments, **named))
            result = self._in_loop(lambda: found(*arguments, **named))
            is_under_way = hasattr(result, "wait_sent") or hasattr(result, "wait_reply")
            return Blocking(result, self._run) if is_under_way else result

        return call

    def messages(self, **limits):
        async def all_of_them():
            return [message async for message in self._client.messages(**limits)]

        return self._run(all_of_them)

    def _in_loop(self, function):
        async def called():
            return function()

        return self._run(called)


@contextmanager
def threads():
    yield ThreadsFace(rocketmq_emulator.sync)


@contextmanager
def in_asyncio():
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def run(function, *arguments):
        async def called():
            return await function(*arguments)

        return asyncio.run_coroutine_threadsafe(called(), loop).result()

    try:
        yield LoopFace(rocketmq_emulator.aio, run)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@contextmanager
def in_trio():
    ready, over = threading.Event(), trio.Event()
    held: dict[str, Any] = {}

    async def live():
        async with trio.open_nursery() as held["nursery"]:
            held["token"] = trio.lowlevel.current_trio_token()
            ready.set()
            await over.wait()

    thread = threading.Thread(target=trio.run, args=(live,))
    thread.start()
    ready.wait()
    face = TrioFace(
        rocketmq_emulator,
        lambda function, *arguments: trio.from_thread.run(
            function, *arguments, trio_token=held["token"]
        ),
    )
    face.nursery = held["nursery"]
    try:
        yield face
    finally:
        held["token"].run_sync_soon(over.set)
        thread.join()


FACES = {"trio": in_trio, "threads": threads, "asyncio": in_asyncio}
