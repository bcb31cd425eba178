"""The server's side of one HTTP/1.1 connection, without a socket: bytes in, requests out.

    connection.feed(data)
    while (request := connection.next_request()) is not None:
        write(connection.answer(response))

h11 implements the protocol; this file adds limits, the ``HttpRequest`` that routes get, and the
check of senders.  Only programs of this machine may send requests.  The listener is on loopback,
but a web page from anywhere can run in a browser of this machine: its requests carry its origin,
or a host name that resolves to loopback (DNS rebinding), and both are refused.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from http import HTTPStatus
from urllib.parse import parse_qsl, unquote

import h11
import msgspec

from rocketmq_emulator.protocol.error_families import RefusedByServer

HEAD_BYTES_MAX = 16 * 1024  # the request line and all header lines
BODY_BYTES_MAX = 64 * 1024
JSON = "application/json"
JSON_LINES = "application/x-ndjson"


class Refused(RefusedByServer):
    """A request that is refused with *status* and one sentence."""

    def __init__(self, status: HTTPStatus, text: str, **headers: str) -> None:
        super().__init__(text)
        self.status = status
        self.headers = headers


class HttpRequest(msgspec.Struct, frozen=True):
    """A request; ``path`` is decoded and has no query; header names are in lower case."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes = b""


class HttpResponse(msgspec.Struct, frozen=True):
    """A whole response."""

    status: HTTPStatus
    body: bytes
    headers: Mapping[str, str] = {}

    @classmethod
    def json(
        cls, value: object, status: HTTPStatus = HTTPStatus.OK, **headers: str
    ) -> HttpResponse:
        """A response with *value* as a line of JSON."""
        return cls(status, msgspec.json.encode(value) + b"\n", headers)

    @classmethod
    def refusal(cls, refused: Refused) -> HttpResponse:
        """A response with the text of *refused* as JSON: ``{"error": "…"}``."""
        return cls.json({"error": str(refused)}, refused.status, **refused.headers)


class HttpConnection:
    """The requests of one client, one after the other."""

    def __init__(self) -> None:
        self._connection = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES_MAX)
        self._head: h11.Request | None = None
        self._body = bytearray()

    @property
    def is_over(self) -> bool:
        """Whether no further request can follow, so that the connection must be closed."""
        state = self._connection.our_state
        return state in (h11.MUST_CLOSE, h11.CLOSED, h11.ERROR)

    @property
    def is_begun(self) -> bool:
        """Whether a part of the next request was received."""
        return self._head is not None or bool(self._connection.trailing_data[0])

    def feed(self, data: bytes) -> None:
        """Take bytes of the client; empty: it has closed its side."""
        self._connection.receive_data(data)

    def next_request(self) -> HttpRequest | None:
        """The next complete request, or None.  Raises ``Refused`` for invalid HTTP."""
        if self.is_over:  # bytes after the last request are ignored
            return None
        try:
            return self._next_request()
        except h11.RemoteProtocolError as error:
            status = HTTPStatus(error.error_status_hint)
            raise Refused(status, f"this is no HTTP/1.1 request: {error}") from error

    def continue_response(self) -> bytes:
        """The 100 Continue to write, if the client waits for it; else empty."""
        if not self._connection.they_are_waiting_for_100_continue:
            return b""
        go_on = h11.InformationalResponse(status_code=HTTPStatus.CONTINUE, headers=[])
        return self._connection.send(go_on) or b""

    def answer(self, response: HttpResponse) -> bytes:
        """The bytes of *response*."""
        headers = {"content-length": str(len(response.body)), **response.headers}
        data = self._begin(response.status, JSON, headers)
        if self._head is None or self._head.method != b"HEAD":
            data += self._connection.send(h11.Data(data=response.body)) or b""
        data += self._connection.send(h11.EndOfMessage()) or b""
        self._end()
        return data

    def begin_stream(self) -> bytes:
        """The head of a response of unknown length; lines of JSON follow."""
        return self._begin(HTTPStatus.OK, JSON_LINES, {"connection": "close"})

    def stream_part(self, data: bytes) -> bytes:
        """The bytes of the next part of the stream."""
        return self._connection.send(h11.Data(data=data)) or b""

    def end_stream(self) -> bytes:
        """The bytes that end the stream."""
        return self._connection.send(h11.EndOfMessage()) or b""

    def _next_request(self) -> HttpRequest | None:
        while True:
            match self._connection.next_event():
                case h11.Request() as head:
                    self._head = head
                case h11.Data(data=data):
                    self._take_body(data)
                case h11.EndOfMessage():
                    assert self._head is not None, "EndOfMessage without a Request"
                    return _request_of(self._head, bytes(self._body))
                case _:
                    return None

    def _take_body(self, data: bytes) -> None:
        self._body += data
        if len(self._body) > BODY_BYTES_MAX:
            status = HTTPStatus.REQUEST_ENTITY_TOO_LARGE
            text = f"a body has at most {BODY_BYTES_MAX} bytes"
            raise Refused(status, text, connection="close")

    def _begin(self, status: HTTPStatus, kind: str, headers: Mapping[str, str]) -> bytes:
        rows = [("content-type", kind), ("cache-control", "no-store"), *headers.items()]
        head = h11.Response(status_code=status, reason=status.phrase, headers=rows)
        return self._connection.send(head) or b""

    def _end(self) -> None:
        self._head = None
        self._body.clear()
        if self._connection.our_state is h11.DONE and self._connection.their_state is h11.DONE:
            self._connection.start_next_cycle()


def _request_of(head: h11.Request, body: bytes) -> HttpRequest:
    target, _, query = head.target.decode("ascii", "replace").partition("?")
    return HttpRequest(
        method=head.method.decode("ascii"),
        path=unquote(target),
        query=dict(parse_qsl(query, keep_blank_values=True)),
        headers={name.decode("latin-1"): value.decode("latin-1") for name, value in head.headers},
        body=body,
    )


# Which senders are allowed ------------------------------------------------------------


OWN_SITES = ("same-origin", "none")  # Sec-Fetch-Site of a page of this address, or a typed URL


def check_sender(headers: Mapping[str, str]) -> None:
    """Raises ``Refused`` for a request of a web page; *headers* have lower-case names."""
    host = headers.get("host", "")
    if not is_loopback(host):
        text = f"Host is {host!r}: this address answers to 127.0.0.1, [::1] and localhost only"
        raise Refused(HTTPStatus.FORBIDDEN, text)
    origin = headers.get("origin")
    is_foreign = origin is not None and origin != f"http://{host}"
    if is_foreign or headers.get("sec-fetch-site", "none") not in OWN_SITES:
        where = f" (Origin {origin})" if origin else ""
        text = f"requests from web pages of another origin{where} are refused"
        raise Refused(HTTPStatus.FORBIDDEN, text)


def is_loopback(host: str) -> bool:
    """Whether *host*, with or without a port, is a loopback address."""
    name = host.partition("]")[0].removeprefix("[") if host[:1] == "[" else host.partition(":")[0]
    if name.lower().removesuffix(".") == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
