"""Blocking calls to one server over a socket: ``send`` writes a call, ``reply`` waits for it.

It is plain blocking Python: Spark runs it in processes of its own, without an event loop.  Several
calls may be unanswered at once; their answers come in any order.  A request from the server is
answered with "not supported", unless it is one-way.  A connection that failed is closed, and
never used again.
"""

from __future__ import annotations

import contextlib
import ssl
from types import TracebackType
from typing import Self

from rocketmq_emulator.net.blocking_calls import RequestSocket, connect_blocking
from rocketmq_emulator.pipeline.source.errors import (
    CredentialsRequired,
    ServerRefused,
    ServerUnavailable,
    TlsRequired,
)
from rocketmq_emulator.protocol.codes import ResponseCode
from rocketmq_emulator.protocol.command import (
    Header,
    RemotingCommand,
    encode_request,
    encode_response,
    ext_of,
)
from rocketmq_emulator.protocol.framing import BadFrame
from rocketmq_emulator.protocol.rpc import AnyRpc
from rocketmq_emulator.protocol.versions import R_4_9_7

OPAQUE_MAX = (1 << 31) - 1
PLAIN_REFUSALS = ("is forbidden", "subscription group no permission")  # code 16 without ACL
RETRYABLE_CODES = (ResponseCode.SYSTEM_BUSY, ResponseCode.SERVICE_NOT_AVAILABLE)
NOT_SUPPORTED = "is not supported by this client yet"


class BlockingConnection:
    """Calls to the server at *address*, ``host:port``; each waits *timeout_ms* for its answer.

    Raises ``ServerUnavailable``, also if a call was sent and not answered.
    """

    def __init__(self, address: str, timeout_ms: int) -> None:
        self.address = address
        self._timeout_ms = timeout_ms
        self._replies: dict[int, RemotingCommand] = {}
        self._names: dict[int, str] = {}  # of the unanswered calls
        self._last = 0
        self._socket = _opened(address, timeout_ms)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the socket at once; unanswered calls get no answer."""
        self._socket.close()

    def fileno(self) -> int:
        """The socket's descriptor, for ``select``: if readable, ``receive`` does not wait."""
        return self._socket.fileno()

    def receive(self) -> None:
        """Reads the received bytes, and answers requests of the server among them."""
        self._read()

    def send(self, rpc: AnyRpc, header: Header | None = None, body: bytes = b"") -> int:
        """Writes a call; returns its number, for ``reply`` and ``done``."""
        self._last = self._last % OPAQUE_MAX + 1
        data = encode_request(
            code=rpc.code,
            flag=0,
            opaque=self._last,
            version=R_4_9_7.version,
            ext=ext_of(header),
            body=body,
            language="PYTHON",
        )
        self._write(data)
        self._names[self._last] = rpc.name
        return self._last

    def reply(self, number: int) -> RemotingCommand:
        """The answer to the call *number*, with any code.  Raises ``CredentialsRequired``."""
        while number not in self._replies:
            self._read()
        self._names.pop(number, None)
        found = self._replies.pop(number)
        _check_access(self.address, found)
        return found

    def call(
        self, rpc: AnyRpc, header: Header | None = None, body: bytes = b""
    ) -> RemotingCommand:
        """Sends a call and returns its answer.  Raises ``ServerRefused`` unless it is SUCCESS."""
        return self.done(self.send(rpc, header, body))

    def done(self, number: int) -> RemotingCommand:
        """The answer to the call *number*.  Raises ``ServerRefused`` unless it is SUCCESS."""
        name = self._names.get(number, "a call")
        found = self.reply(number)
        if found.code != ResponseCode.SUCCESS:
            raise refusal(self.address, name, found)
        return found

    def _read(self) -> None:
        try:
            commands = self._socket.read()
        except OSError as error:
            raise self._broken(error) from None
        except BadFrame as error:
            self.close()
            raise _protocol_error(self.address, self._timeout_ms, error) from None
        if commands is None:
            raise self._ended()
        for command in commands:
            if not command.is_response:
                self._reply_not_supported(command)
            elif command.opaque in self._names:
                self._replies[command.opaque] = command

    def _reply_not_supported(self, asked: RemotingCommand) -> None:
        """Answers at once: tools send requests to members through a broker, and would wait."""
        if asked.is_one_way:
            return
        answer = encode_response(
            asked,
            code=ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
            version=R_4_9_7.version,
            remark="a Spark source answers no requests",
        )
        self._write(answer)

    def _write(self, data: bytes) -> None:
        try:
            self._socket.write(data)
        except OSError as error:
            raise self._broken(error) from None

    def _broken(self, error: OSError) -> Exception:
        self.close()
        if isinstance(error, TimeoutError):
            return ServerUnavailable(f"{self.address} did not answer within {self._timeout_ms} ms")
        if not self._socket.has_received and isinstance(error, ConnectionResetError):
            return self._ended()
        return ServerUnavailable(f"the connection to {self.address} broke: {error}")

    def _ended(self) -> Exception:
        """The error of a closed connection: a TLS-only server closes at the first plain byte."""
        self.close()
        if not self._socket.has_received and _uses_tls(self.address, self._timeout_ms):
            return _tls_required(self.address)
        return ServerUnavailable(f"{self.address} closed the connection and did not answer")


def refusal(address: str, call: str, reply: RemotingCommand) -> Exception:
    """The error for an answer without success; a busy server is ``ServerUnavailable``."""
    if reply.code in RETRYABLE_CODES:
        return ServerUnavailable(f"{address} is busy (code {reply.code}: {reply.remark})")
    return ServerRefused(address, call, reply.code, reply.remark)


def _opened(address: str, timeout_ms: int) -> RequestSocket:
    try:
        return RequestSocket(address, timeout_ms)
    except OSError as error:
        raise ServerUnavailable(f"no server answers at {address}: {error}") from None


def _protocol_error(address: str, timeout_ms: int, error: BadFrame) -> Exception:
    if _uses_tls(address, timeout_ms):
        return _tls_required(address)
    return ServerUnavailable(f"{address} does not use RocketMQ's remoting protocol: {error}")


def _tls_required(address: str) -> TlsRequired:
    return TlsRequired(
        f"{address} takes TLS only, which {NOT_SUPPORTED}: nothing was read or sent; run the "
        "server with tls.server.mode=permissive, or read through a port without TLS"
    )


def _uses_tls(address: str, timeout_ms: int) -> bool:
    """Whether the server answers a TLS handshake; its certificate is not checked."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with contextlib.suppress(OSError), connect_blocking(address, timeout_ms) as plain:
        try:
            context.wrap_socket(plain).close()
        except ssl.SSLError as error:
            return "WRONG_VERSION_NUMBER" not in str(error) and "EOF" not in str(error)
        return True
    return False


def _check_access(address: str, reply: RemotingCommand) -> None:
    """Raises ``CredentialsRequired`` for an answer of access control.

    Its code is 1 with the name of an exception in the remark (4.x), or 16 (5.3 and later).
    """
    remark = reply.remark or ""
    is_old = reply.code == ResponseCode.SYSTEM_ERROR and "AclException" in remark
    is_new = reply.code == ResponseCode.NO_PERMISSION and not any(
        words in remark for words in PLAIN_REFUSALS
    )
    if is_old or is_new:
        raise CredentialsRequired(
            f"{address} asks for credentials (access control), which {NOT_SUPPORTED}: nothing was "
            f"read or sent; put this machine on its white list, or switch access control off. "
            f"Its remark: {remark:.200}"
        )
