"""A blocking connection to servers of another protocol, with TLS only, or without an answer."""

from __future__ import annotations

import contextlib
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator

import pytest

from rocketmq_emulator.net.blocking_calls import call_each_blocking
from rocketmq_emulator.pipeline.source.connection import BlockingConnection
from rocketmq_emulator.pipeline.source.errors import ServerUnavailable, TlsRequired
from rocketmq_emulator.protocol.catalog import GET_BROKER_CLUSTER_INFO
from rocketmq_emulator.protocol.command import RemotingCommand, decode_command, encode_command
from rocketmq_emulator.protocol.framing import FrameDecoder


@contextlib.contextmanager
def a_server(serve: Callable[[socket.socket], None]) -> Iterator[str]:
    """The address of a server: it calls *serve* with each connection, then closes it."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    line, _ = listening.accept()
                    with contextlib.suppress(OSError), line:
                        serve(line)

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield f"127.0.0.1:{listening.getsockname()[1]}"
        listening.shutdown(socket.SHUT_RDWR)
        thread.join()


def asked(address: str, timeout_ms: int = 2_000) -> RemotingCommand:
    with BlockingConnection(address, timeout_ms) as connection:
        return connection.call(GET_BROKER_CLUSTER_INFO)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory) -> tuple[str, str]:
    if shutil.which("openssl") is None:
        pytest.skip("no openssl on this machine")
    folder = tmp_path_factory.mktemp("certificate")
    paths = str(folder / "certificate.pem"), str(folder / "key.pem")
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=broker"]
    command = [*made, "-out", paths[0], "-keyout", paths[1]]
    subprocess.run(command, check=True, capture_output=True)
    return paths


@pytest.mark.parametrize("answer", [b"", b"\x15\x03\x03\x00\x02\x02\x16"], ids=["closes", "alert"])
def test_a_server_that_takes_tls_only_is_refused_by_name(certificate, answer) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)

    def serve(line: socket.socket) -> None:
        if line.recv(1, socket.MSG_PEEK) == b"\x16":  # a TLS ClientHello; upstream peeks, too
            context.wrap_socket(line, server_side=True).close()
        else:
            line.recv(65_536)
            line.sendall(answer)

    with (
        a_server(serve) as address,
        pytest.raises(TlsRequired, match=r"takes TLS only.*permissive"),
    ):
        asked(address)


def test_a_server_that_just_closes_is_away_and_not_taken_for_tls() -> None:
    with (
        a_server(lambda line: line.recv(1) and None) as address,
        pytest.raises(ServerUnavailable, match=r"closed the connection and did not answer|broke"),
    ):
        asked(address)


def test_a_web_server_is_called_a_stranger() -> None:
    def serve(line: socket.socket) -> None:
        line.recv(65_536)
        line.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with (
        a_server(serve) as address,
        pytest.raises(ServerUnavailable, match="does not use RocketMQ's remoting protocol"),
    ):
        asked(address)


def test_a_server_that_says_nothing_is_away_after_the_time_for_a_call() -> None:
    def serve(line: socket.socket) -> None:
        while line.recv(65_536):
            pass

    with (
        a_server(serve) as address,
        pytest.raises(ServerUnavailable, match="not answer within 50 ms"),
    ):
        asked(address, timeout_ms=50)


def test_answers_come_in_any_order_among_questions_of_the_server() -> None:
    heard = []

    def serve(line: socket.socket) -> None:
        decoder, requests = FrameDecoder(), []
        while len(requests) < 2:
            decoder.feed(line.recv(65_536))
            requests += [decode_command(frame) for frame in decoder]
        line.sendall(encode_command(RemotingCommand(code=307, opaque=77)))
        for request in reversed(requests):
            remark = f"to {request.opaque}"
            reply = RemotingCommand(code=0, flag=1, opaque=request.opaque, remark=remark)
            line.sendall(encode_command(reply))
        decoder.feed(line.recv(65_536))
        heard.extend(decode_command(frame) for frame in decoder)

    with a_server(serve) as address, BlockingConnection(address, 2_000) as connection:
        numbers = [connection.send(GET_BROKER_CLUSTER_INFO) for _ in range(2)]
        for number in numbers:
            assert connection.done(number).remark == f"to {number}"
    (declined,) = heard
    assert (declined.opaque, declined.code, declined.is_response) == (77, 3, True)


def test_tools_get_replies_in_the_order_of_their_requests_and_no_questions() -> None:
    requests = [RemotingCommand(code=200, opaque=number) for number in (4, 9)]

    def serve(line: socket.socket) -> None:
        line.recv(65_536)
        line.sendall(encode_command(RemotingCommand(code=307, opaque=4)))
        for opaque in (9, 4):
            line.sendall(encode_command(RemotingCommand(code=0, flag=1, opaque=opaque)))

    with a_server(serve) as address:
        ((first, second),) = call_each_blocking([address], requests, 2_000)
    assert (first.opaque, first.is_response) == (4, True)
    assert (second.opaque, second.is_response) == (9, True)
