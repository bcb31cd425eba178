"""Connections of the control address: read a request, call the routes, write the response.

Limits: the number of connections, the time for a request to arrive, the idle time of a
connection, and the time to write a response.
"""

from __future__ import annotations

import logging
import socket
from contextlib import suppress
from functools import partial
from http import HTTPStatus

import trio

from rocketmq_emulator.cluster.control.controlled import ControlledCluster
from rocketmq_emulator.cluster.control.facts_feed import FactsFeed
from rocketmq_emulator.cluster.control.http_connection import (
    HttpConnection,
    HttpRequest,
    HttpResponse,
    Refused,
    check_sender,
)
from rocketmq_emulator.cluster.control.routes import answer
from rocketmq_emulator.facts.logs import LOGGER
from rocketmq_emulator.net.tasks import cancelling_nursery

CONNECTIONS_MAX = 64
IDLE_S_MAX = 60.0  # between two requests
REQUEST_S_MAX = 10.0  # from its first byte to its last
WRITE_S_MAX = 10.0
END_S_MAX = 0.5  # to write the last bytes of a stream when the cluster ends
LINGER_S_MAX = 1.0  # to read from a client that still sends after a refusal
READ_BYTES = 16 * 1024
CLIENT_GONE = (trio.BrokenResourceError, trio.ClosedResourceError)  # the client has closed


async def serve_control(world: ControlledCluster, listener: socket.socket) -> None:
    """Serve the connections of *listener* until cancelled."""
    control = ControlHandler(world)
    await trio.serve_listeners(
        control.serve, [trio.SocketListener(trio.socket.from_stdlib_socket(listener))]
    )


class ControlHandler:
    """Serves connections for *world*."""

    def __init__(self, world: ControlledCluster) -> None:
        self._world = world
        self._connections = 0
        self._threads = trio.CapacityLimiter(CONNECTIONS_MAX)

    async def serve(self, stream: trio.abc.HalfCloseableStream) -> None:
        """Serve one connection to its end."""
        self._connections += 1
        try:
            async with stream:
                await self._converse(stream, HttpConnection())
        except CLIENT_GONE:
            return
        except Exception:  # a bug of ours ends this connection, not the control address
            logging.getLogger(LOGGER).exception("a connection to the control address")
        finally:
            self._connections -= 1

    async def _converse(
        self, stream: trio.abc.HalfCloseableStream, connection: HttpConnection
    ) -> None:
        while not connection.is_over:
            try:
                request = await _next_request(stream, connection)
                if request is None:
                    return
                self._check(request)
                response = await self._answered(request)
            except Refused as refused:
                response = HttpResponse.refusal(refused)
            if isinstance(response, FactsFeed):
                await self._feed(stream, connection, response)
                return
            with trio.move_on_after(WRITE_S_MAX) as writing:
                await stream.send_all(connection.answer(response))
            if writing.cancelled_caught:
                return
        await _drain(stream)

    def _check(self, request: HttpRequest) -> None:
        if self._connections > CONNECTIONS_MAX:
            text = f"there are {CONNECTIONS_MAX} connections already"
            raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, text, connection="close")
        check_sender(request.headers)

    async def _feed(
        self, stream: trio.abc.HalfCloseableStream, connection: HttpConnection, feed: FactsFeed
    ) -> None:
        """Write *feed* until the client closes, or the cluster ends."""
        async with cancelling_nursery() as nursery, feed.opened(self._world) as lines:
            nursery.start_soon(_cancel_at_end, stream, nursery.cancel_scope)
            await stream.send_all(connection.begin_stream())
            try:
                async for some in lines:
                    await stream.send_all(connection.stream_part(some))
            finally:
                with trio.move_on_after(END_S_MAX, shield=True), suppress(*CLIENT_GONE):
                    await stream.send_all(connection.end_stream())

    async def _answered(self, request: HttpRequest) -> HttpResponse | FactsFeed:
        try:
            return await trio.to_thread.run_sync(
                partial(answer, self._world, request),
                limiter=self._threads,
                abandon_on_cancel=True,
            )
        except Exception as error:  # a bug of ours ends this request alone
            logging.getLogger(LOGGER).exception("%s %s", request.method, request.path)
            text = f"an error of the emulator itself: {error!r}"
            raise Refused(HTTPStatus.INTERNAL_SERVER_ERROR, text) from error


async def _next_request(
    stream: trio.abc.HalfCloseableStream, connection: HttpConnection
) -> HttpRequest | None:
    """The next request; None at the end, or after IDLE_S_MAX.  Raises ``Refused``."""
    scope = trio.CancelScope(deadline=trio.current_time() + IDLE_S_MAX)
    is_begun = False
    with scope:
        while (request := connection.next_request()) is None:
            if connection.is_over:
                return None
            if not is_begun and connection.is_begun:
                is_begun = True
                scope.deadline = trio.current_time() + REQUEST_S_MAX
            if go_on := connection.continue_response():
                await stream.send_all(go_on)
            connection.feed(bytes(await stream.receive_some(READ_BYTES)))
        return request
    if is_begun:
        text = f"the request was not whole after {REQUEST_S_MAX:g} s"
        raise Refused(HTTPStatus.REQUEST_TIMEOUT, text, connection="close")
    return None


async def _cancel_at_end(stream: trio.abc.ReceiveStream, scope: trio.CancelScope) -> None:
    with suppress(*CLIENT_GONE):
        while await stream.receive_some(READ_BYTES):
            continue
    scope.cancel()


async def _drain(stream: trio.abc.HalfCloseableStream) -> None:
    """Read the remaining bytes: closing with unread bytes would reset and lose the response."""
    with trio.move_on_after(LINGER_S_MAX):
        await stream.send_eof()
        while await stream.receive_some(READ_BYTES):
            continue
