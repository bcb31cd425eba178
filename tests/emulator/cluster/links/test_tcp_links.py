"""Proxy ports and streams of plain sockets: bytes that pass or wait, refused connections."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator

import pytest

from rocketmq_emulator.cluster.fault_values import (
    Bandwidth,
    CutLink,
    LinkFault,
    Partition,
    RefuseConnections,
    SlowLink,
    StallLink,
)
from rocketmq_emulator.cluster.links.tcp_links import TcpLinks
from rocketmq_emulator.cluster.spec import ClusterSpec
from rocketmq_emulator.faults.links_and_drives import Tally
from rocketmq_emulator.protocol.codes import RequestCode
from rocketmq_emulator.protocol.command import RemotingCommand, encode_command
from rocketmq_emulator.text.values import split_address, vip_channel

PATIENCE_S = 10.0
LINGER_0 = struct.pack("ii", 1, 0)
BROKER, CLIENTS = "broker-a", "clients"


class WatchedTally(Tally):
    """A tally on which a test can wait until the fault holds or delays bytes."""

    def __init__(self) -> None:
        super().__init__()
        self._holds = threading.Event()

    def add(self, what: str, times: int = 1, *, held_bytes: int = 0) -> None:
        super().add(what, times, held_bytes=held_bytes)
        if what in ("held bytes", "delayed bytes"):
            self._holds.set()

    def wait_held(self) -> None:
        assert self._holds.wait(PATIENCE_S)


class Node:
    """A listening socket behind the proxy ports of broker-a."""

    def __init__(self, links: TcpLinks) -> None:
        self.links = links
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.settimeout(PATIENCE_S)
        self._opened = [self.listener]
        host, port = self.listener.getsockname()
        links.node_is_up(BROKER, f"{host}:{port}")

    def pair(self) -> tuple[socket.socket, socket.socket]:
        """A client's socket, and the node's end of it."""
        near = self.connect()
        far, _ = self.listener.accept()
        far.settimeout(PATIENCE_S)
        self._opened.append(far)
        far.sendall(b"!")
        assert near.recv(1) == b"!", "the stream must reach the node"
        return near, far

    def connect(self, timeout_s: float = PATIENCE_S) -> socket.socket:
        """Connect to the proxy port of the broker, as a client does."""
        near = socket.create_connection(split_address(self.links.address(BROKER)), timeout_s)
        self._opened.append(near)
        return near

    def close(self) -> None:
        """Close all sockets of this node."""
        for sock in self._opened:
            sock.close()


@pytest.fixture
def links() -> Iterator[TcpLinks]:
    links = TcpLinks(ClusterSpec(brokers=1), seed=1)
    yield links
    links.close()


@pytest.fixture
def node(links: TcpLinks) -> Iterator[Node]:
    node = Node(links)
    yield node
    node.close()


def received(sock: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size and (more := sock.recv(min(65_536, size - len(data)))):
        data += more
    return data


def test_bytes_pass_both_ways_in_order(node: Node) -> None:
    near, far = node.pair()
    blob = bytes(range(256)) * 8_000
    sending = threading.Thread(target=near.sendall, args=(blob,))
    sending.start()
    assert received(far, len(blob)) == blob
    sending.join()
    far.sendall(b"thanks")
    assert received(near, 6) == b"thanks"


def test_a_reader_that_stops_slows_the_sender_down(node: Node) -> None:
    near, far = node.pair()
    near.settimeout(0.2)
    sent = 0
    with contextlib.suppress(TimeoutError):
        while sent < 256 * 1024 * 1024:
            sent += near.send(b"x" * 65_536)
    assert sent < 64 * 1024 * 1024
    assert len(received(far, sent)) == sent


def test_one_side_may_end_and_the_other_still_answer(node: Node) -> None:
    near, far = node.pair()
    near.sendall(b"question")
    near.shutdown(socket.SHUT_WR)
    assert received(far, 100) == b"question"
    far.sendall(b"answer")
    far.close()
    assert received(near, 100) == b"answer"


def test_a_reset_arrives_as_a_reset(node: Node) -> None:
    near, far = node.pair()
    far.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_0)
    far.close()
    with pytest.raises(ConnectionResetError):
        near.recv(1)


def test_a_node_that_is_down_refuses_and_is_reached_again(links: TcpLinks, node: Node) -> None:
    host, port = node.listener.getsockname()
    links.node_is_down(BROKER)
    with pytest.raises(ConnectionRefusedError):
        node.connect()
    links.node_is_up(BROKER, f"{host}:{port}")
    near, far = node.pair()
    near.sendall(b"x")
    assert far.recv(1) == b"x"


def test_the_vip_channel_two_ports_below_leads_to_that_of_the_node(links: TcpLinks) -> None:
    while True:  # until the node has two such ports
        main = socket.create_server(("127.0.0.1", 0))
        host, port = main.getsockname()
        try:
            vip = socket.create_server((host, port - 2))
            break
        except OSError:
            main.close()
    with main, vip:
        links.node_is_up(BROKER, f"{host}:{port}")
        with socket.create_connection(split_address(vip_channel(links.address(BROKER)))) as near:
            vip.settimeout(PATIENCE_S)
            far, _ = vip.accept()
            with far, links.under(Partition(between=(BROKER, CLIENTS))):
                near.sendall(b"x")
                far.settimeout(0.1)
                with pytest.raises(TimeoutError):
                    far.recv(1)
                links.node_is_down(BROKER)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(split_address(vip_channel(links.address(BROKER))))


def test_a_node_that_died_unseen_resets_who_connects(node: Node) -> None:
    node.listener.close()
    with pytest.raises(ConnectionResetError):
        node.connect().recv(1)


@pytest.mark.parametrize("kind", [StallLink, Partition])
def test_what_is_held_arrives_when_the_fault_ends(node: Node, kind: type[LinkFault]) -> None:
    near, far = node.pair()
    counted = WatchedTally()
    with node.links.under(kind(between=(BROKER, CLIENTS)), counted):
        near.sendall(b"held")
        counted.wait_held()
        far.setblocking(False)
        with pytest.raises(BlockingIOError):
            far.recv(1)
        far.settimeout(PATIENCE_S)
    assert received(far, 4) == b"held"
    assert counted.times["held bytes"] == 1
    assert counted.held_bytes == 4


def test_a_partition_one_way_lets_the_other_pass(node: Node) -> None:
    near, far = node.pair()
    counted = WatchedTally()
    with node.links.under(Partition(between=(BROKER, CLIENTS), one_way=True), counted):
        near.sendall(b"asked")
        assert received(far, 5) == b"asked"
        far.sendall(b"answered")
        counted.wait_held()
    assert received(near, 8) == b"answered"


def test_a_death_behind_a_partition_is_not_seen_before_it_ends(node: Node) -> None:
    near, far = node.pair()
    counted = WatchedTally()
    with node.links.under(Partition(around=BROKER), counted):
        far.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_0)
        far.close()
        counted.wait_held()
        near.setblocking(False)
        with pytest.raises(BlockingIOError):
            near.recv(1)
        near.settimeout(PATIENCE_S)
    with pytest.raises(ConnectionResetError):
        near.recv(1)


def test_who_connects_into_a_partition_gets_no_answer(node: Node) -> None:
    with node.links.under(Partition(around=BROKER)) as tally:
        assert tally.times == {"shut a door": 2}  # also the port to its NameServer
        with pytest.raises(TimeoutError):
            node.connect(0.05)
    near, far = node.pair()
    near.sendall(b"x")
    assert far.recv(1) == b"x"


def test_refusing_leaves_open_streams_alone(node: Node) -> None:
    near, far = node.pair()
    with node.links.under(RefuseConnections(between=(CLIENTS, BROKER))) as tally:
        assert tally.times == {"shut a door": 1}
        with pytest.raises(ConnectionRefusedError):
            node.connect()
        near.sendall(b"x")
        assert far.recv(1) == b"x"
    node.pair()


def test_a_cut_resets_open_streams_and_refuses_new_ones(node: Node) -> None:
    near, far = node.pair()
    with node.links.under(CutLink(between=(CLIENTS, BROKER))) as tally:
        for sock in (near, far):
            with pytest.raises(ConnectionResetError):
                sock.recv(1)
        with pytest.raises(ConnectionRefusedError):
            node.connect()
        assert tally.times == {"shut a door": 1, "reset a stream": 1}
    node.pair()


def test_a_slow_link_is_late_the_way_it_is_meant(node: Node) -> None:
    near, far = node.pair()
    counted = WatchedTally()
    with node.links.under(SlowLink(between=(CLIENTS, BROKER), ms=60_000, one_way=True), counted):
        near.sendall(b"late")
        counted.wait_held()
        assert counted.times == {"delayed bytes": 1}
        far.sendall(b"at once")
        assert received(near, 7) == b"at once"
    assert received(far, 4) == b"late"


def test_a_narrow_link_passes_pieces_and_the_rest_when_it_ends(node: Node) -> None:
    near, far = node.pair()
    with node.links.under(Bandwidth(around=BROKER, bytes_per_s=10_000)):
        near.sendall(b"x" * 100_000)
        first = far.recv(65_536)
        assert 0 < len(first) <= 10_000
    assert len(received(far, 100_000 - len(first))) == 100_000 - len(first)


def test_two_faults_hold_until_both_have_ended(node: Node) -> None:
    near, far = node.pair()
    counted = WatchedTally()
    with node.links.under(StallLink(around=BROKER)):
        with node.links.under(StallLink(around=BROKER), counted):
            near.sendall(b"held")
            counted.wait_held()
        far.setblocking(False)
        with pytest.raises(BlockingIOError):
            far.recv(1)
        far.settimeout(PATIENCE_S)
    assert received(far, 4) == b"held"


def a_heartbeat_of_billing() -> bytes:
    body = b'{"clientID":"10.0.0.1@billing-1","consumerDataSet":[{"groupName":"billing"}]}'
    return encode_command(RemotingCommand(code=RequestCode.HEART_BEAT, opaque=1, body=body))


def test_a_fault_of_one_client_leaves_others_alone(node: Node) -> None:
    frame = a_heartbeat_of_billing()
    member, members_end = node.pair()
    other, others_end = node.pair()
    member.sendall(frame)
    assert received(members_end, len(frame)) == frame
    assert node.links.client_names() == ("clients", "10.0.0.1@billing-1", "billing", "billing-1")
    counted = WatchedTally()
    with node.links.under(StallLink(between=("billing", BROKER)), counted):
        other.sendall(b"passes")
        assert received(others_end, 6) == b"passes"
        member.sendall(b"held")
        counted.wait_held()
    assert received(members_end, 4) == b"held"


def test_a_refused_client_is_reset_as_soon_as_it_says_who_it_is(node: Node) -> None:
    old, olds_end = node.pair()
    with node.links.under(RefuseConnections(between=("billing", BROKER))):
        new, _ = node.pair()
        new.sendall(a_heartbeat_of_billing())
        with pytest.raises(ConnectionResetError):
            new.recv(1)
        old.sendall(a_heartbeat_of_billing())
        assert received(olds_end, 10) == a_heartbeat_of_billing()[:10]


def test_more_faults_than_the_limit_are_refused(
    links: TcpLinks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rocketmq_emulator.cluster.links.tcp_links.FAULTS_MAX", 1)
    too_many = links.under(StallLink(around=BROKER))
    with (
        links.under(StallLink(around=BROKER)),
        pytest.raises(ValueError, match="1 faults of links hold already"),
    ):
        too_many.__enter__()
