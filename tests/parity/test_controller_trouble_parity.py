"""Known troubles of elected masters, on real brokers and a real controller of 5.3.3.

Each test names its scenario of the library; ``a_replaced_master_goes_on`` has none: that needs
links that are cut one by one.  A slave that is stopped still has in its socket what its master
wrote: so a slave that shall lack messages is sent more than two sockets hold.
"""

from __future__ import annotations

import contextlib
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from benchmarks.clusters import ROOT, Cluster, running
from benchmarks.real_cluster import (
    HOST,
    Server,
    controller_servers,
    fetched_jars,
    free_ports,
    launched,
)
from benchmarks.stream import NoSuccess, Stream
from rocketmq_emulator import Message
from rocketmq_emulator.errors.call_errors import SendError
from rocketmq_emulator.protocol import catalog
from rocketmq_emulator.protocol.bodies.body import decode_body
from rocketmq_emulator.protocol.bodies.controller import EpochEntryCache, SyncStateSet
from rocketmq_emulator.protocol.bodies.routes import KVTable
from rocketmq_emulator.protocol.bodies.topics import TopicConfigSerializeWrapper
from rocketmq_emulator.protocol.fields import Header
from rocketmq_emulator.protocol.messages.message_ids import position_of
from rocketmq_emulator.protocol.requests.controller import (
    GetReplicaInfoReply,
    GetReplicaInfoRequest,
)
from rocketmq_emulator.protocol.requests.pulling import ViewMessageRequest
from rocketmq_emulator.sync import Producer
from tests.parity.hidden_ends import hidden_ends
from tests.parity.real_slave import create_topic
from tests.parity.test_replication_parity import wait_until_it_accepts

pytestmark = pytest.mark.parity
RELEASE = "5.3.3"
TOPIC = "elected"
STEP_S_MAX = 180  # a broker registers every 30 s; JVMs start slowly on a busy machine
BUSY_S = 5  # a busy machine is late by so much
SILENCE_S, SCANS_S = 10, 3  # controllerHeartBeatTimeoutMills; both scans begin 3 s apart
NOT_CAUGHT_UP_S, CHECK_S = 15, 5  # haMaxTimeSlaveNotCatchup, checkSyncStateSetPeriod
MIB_3 = random.Random(7).randbytes(3 << 20)  # which no client makes smaller
SOCKETS_BYTES_MAX = 24 << 20  # more than two sockets on loopback hold
SETTINGS = ("waitTimeMillsInSendQueue=20000", "autoCreateTopicEnable=true")


class Elected:
    """A name of two brokers in *cluster*, by the address of each, and their only controller."""

    def __init__(self, cluster: Cluster, controller: str = "") -> None:
        self.cluster = cluster
        self._names = {address: name for name, address in cluster.brokers.items()}
        self._controller = controller or cluster.controllers["controller"]
        wait_until(lambda: len(self.in_sync()) == 2, self.in_sync)
        found = self.master()
        assert found is not None
        self.first = found
        (self.other,) = set(self._names) - {found}

    def act(self, verb: str, *addresses: str) -> None:
        """``kill``, ``start``, ``pause`` or ``resume`` these brokers."""
        for address in addresses:
            self.cluster.control_node(self._names[address], verb)

    def master(self) -> str | None:
        return self.replica_info()[0].master_address or None

    def in_sync(self) -> set[int]:
        return set(self.replica_info()[1].sync_state_set)

    def replica_info(self) -> tuple[GetReplicaInfoReply, SyncStateSet]:
        with Stream(self._controller) as stream, contextlib.suppress(NoSuccess):
            request = GetReplicaInfoRequest(broker_name="broker-a")
            reply = stream.ask(catalog.CONTROLLER_GET_REPLICA_INFO, request)
            return reply.decode(GetReplicaInfoReply), decode_body(reply.body, SyncStateSet)
        return GetReplicaInfoReply(), SyncStateSet()

    def configure(self, text: str) -> None:
        """Change the controller's settings."""
        with Stream(self._controller) as stream:
            stream.ask(catalog.UPDATE_CONTROLLER_CONFIG, Header(), f"{text}\n".encode())


@pytest.fixture
def made() -> Iterator[Callable[..., Elected]]:
    with contextlib.ExitStack() as stack:

        def elected(*settings: str) -> Elected:
            return Elected(stack.enter_context(running(pair("--controllers", "1", *settings))))

        yield elected


def pair(*given: str) -> list[str]:
    """The command of two brokers; of *given* those with a "=" are settings of both."""
    sets = (*SETTINGS, *(each for each in given if "=" in each))
    words = [word for each in sets for word in ("--set", each)]
    more = [each for each in given if "=" not in each]
    script = str(ROOT / "benchmarks" / "real_cluster.py")
    group = ("--brokers", "1", "--slaves", "1", "--heap", "400m", *more)
    return [sys.executable, script, "--version", RELEASE, *group, *words]


@contextlib.contextmanager
def jraft_controller(home: Path) -> Iterator[str]:
    """The address of a controller of JRaft that is alone."""
    raft, server = f"{HOST}:{free_ports(1)}", free_ports(1)
    settings: dict[str, object] = {
        "controllerType": "jRaft",
        "controllerStorePath": home / "jraft",
        "jRaftServerId": raft,
        "jRaftInitConf": raft,
        "jRaftControllerRPCAddr": f"{HOST}:{server}",
    }
    with started(Server("controller", "controller", server, "256m", settings), home) as address:
        yield address


@contextlib.contextmanager
def started(server: Server, home: Path) -> Iterator[str]:
    """Its address, once it accepts connections."""
    process = launched(server, fetched_jars(RELEASE), home)
    try:
        wait_until_it_accepts(server.address)
        yield server.address
    finally:
        process.kill()
        process.wait()


def elected_by(controller: str) -> Sequence[str]:
    """The settings of brokers whose master the controller at that address elects."""
    elects = ("enableControllerMode=true", f"controllerAddr={controller}")
    return (*elects, "brokerId=-1", "brokerRole=SLAVE")


def wait_until(is_so: Callable[[], bool], what: Callable[[], object]) -> float:
    """How many seconds it took."""
    began_s = time.monotonic()
    while not is_so():
        assert time.monotonic() < began_s + STEP_S_MAX, what()
        time.sleep(0.1)
    return time.monotonic() - began_s


def keeps(is_so: Callable[[], bool], what: Callable[[], object], seconds: float) -> None:
    """*is_so* holds for that long."""
    until_s = time.monotonic() + seconds
    while time.monotonic() < until_s:
        assert is_so(), what()
        time.sleep(0.5)


def send(elected: Elected, count: int, body: bytes = b"small") -> tuple[list[str], list[int]]:
    """The statuses and the positions of *count* messages that a new producer sends."""
    with Producer(
        namesrv=elected.cluster.namesrv,
        group="writer",
        send_timeout_ms=20_000,
        compress_bytes_min=len(body) + 1,
    ) as producer:
        results = [producer.send(Message(TOPIC, body)) for _ in range(count)]
    statuses = [result.status.name for result in results]
    return statuses, [position_of(result.offset_msg_id) for result in results]


def send_until_it_works(elected: Elected) -> None:
    def is_sent() -> bool:
        try:
            return send(elected, 1)[0] == ["SEND_OK"]
        except SendError:
            return False

    wait_until(is_sent, elected.replica_info)


def send_more_than_sockets_hold(elected: Elected) -> int:
    """The position of the last message; all are acknowledged."""
    count = SOCKETS_BYTES_MAX // len(MIB_3)
    statuses, positions = send(elected, count, MIB_3)
    assert statuses == ["SEND_OK"] * count
    return positions[-1]


def has(address: str, position: int) -> bool:
    with Stream(address) as stream:
        try:
            stream.ask(catalog.VIEW_MESSAGE_BY_ID, ViewMessageRequest(offset=position))
        except NoSuccess:
            return False
    return True


def log_end(address: str) -> int:
    """-1 in the first second after the broker's start: it has no statistics then."""
    with Stream(address) as stream, contextlib.suppress(NoSuccess):
        body = stream.ask(catalog.GET_BROKER_RUNTIME_INFO, Header()).body
        return int(decode_body(body, KVTable).table["commitLogMaxOffset"])
    return -1


def topics(address: str) -> set[str]:
    with Stream(address) as stream:
        body = stream.ask(catalog.GET_ALL_TOPIC_CONFIG, Header()).body
    return set(decode_body(body, TopicConfigSerializeWrapper).topic_config_table)


def epochs(address: str) -> Sequence[int]:
    return [epoch for epoch, _ in epoch_starts(address)]


def epoch_starts(address: str) -> Sequence[tuple[int, int]]:
    """The epochs of its log, with the position at which each begins."""
    with Stream(address) as stream:
        body = stream.ask(catalog.GET_BROKER_EPOCH_CACHE, None).body
    entries = decode_body(body, EpochEntryCache).epoch_list
    return [(each.epoch, each.start_offset) for each in entries]


def send_and_wait_copied(elected: Elected) -> None:
    """Without a common message the logs would have no epoch in common: nothing is copied then."""
    send(elected, 1)
    wait_until(lambda: is_copied(elected), elected.replica_info)


def is_copied(elected: Elected) -> bool:
    return log_end(elected.first) == log_end(elected.other) > 0


# Bounds -----------------------------------------------------------------------------------


def test_a_hung_master_is_replaced_in_thirteen_seconds(made) -> None:
    """a_hung_master_is_replaced."""
    elected = made()
    send(elected, 1)
    elected.act("pause", elected.first)
    took_s = wait_until(lambda: elected.master() == elected.other, elected.replica_info)
    assert SILENCE_S - 1 - BUSY_S <= took_s <= SILENCE_S + SCANS_S + BUSY_S
    send_until_it_works(elected)
    elected.act("resume", elected.first)


def test_a_hung_slave_leaves_the_set_in_twenty_seconds(made) -> None:
    """a_hung_slave_leaves_the_set."""
    elected = made()
    elected.act("pause", elected.other)
    send(elected, 1)
    took_s = wait_until(lambda: len(elected.in_sync()) == 1, elected.replica_info)
    assert NOT_CAUGHT_UP_S - 1 - BUSY_S <= took_s <= NOT_CAUGHT_UP_S + CHECK_S + BUSY_S
    elected.act("resume", elected.other)
    wait_until(lambda: len(elected.in_sync()) == 2, elected.replica_info)


# Lost messages ----------------------------------------------------------------------------


def test_an_election_loses_what_the_slave_lacks(made) -> None:
    """an_election_loses_what_was_not_copied."""
    elected = made()
    send_and_wait_copied(elected)
    elected.act("pause", elected.other)
    last = send_more_than_sockets_hold(elected)
    elected.act("kill", elected.first)
    elected.act("resume", elected.other)
    wait_until(lambda: elected.master() == elected.other, elected.replica_info)
    assert log_end(elected.other) <= last
    elected.act("start", elected.first)
    wait_until(lambda: len(elected.in_sync()) == 2, elected.replica_info)
    assert not has(elected.first, last)
    assert is_copied(elected)


def test_with_all_acks_a_send_waits_for_the_slave(made) -> None:
    """an_election_loses_what_was_not_copied, with all_ack."""
    elected = made("allAckInSyncStateSet=true")
    assert send(elected, 1)[0] == ["SEND_OK"]
    elected.act("pause", elected.other)
    assert send(elected, 1)[0] == ["FLUSH_SLAVE_TIMEOUT"]
    elected.act("resume", elected.other)


def test_a_topic_that_was_not_copied_is_lost_with_its_master(made) -> None:
    """a_topic_is_lost_with_its_master."""
    elected = made()
    create_topic(elected.first, TOPIC)
    elected.act("kill", elected.first)
    wait_until(lambda: elected.master() == elected.other, elected.replica_info)
    assert TOPIC not in topics(elected.other)
    elected.act("start", elected.first)
    wait_until(lambda: TOPIC not in topics(elected.first), lambda: topics(elected.first))


# Who may be elected -------------------------------------------------------------------------


def test_a_slave_outside_the_set_is_elected_only_if_that_is_allowed(made) -> None:
    """a_slave_outside_the_set_is_elected."""
    elected = made()
    send_and_wait_copied(elected)
    elected.act("pause", elected.other)
    last = send_more_than_sockets_hold(elected)
    wait_until(lambda: len(elected.in_sync()) == 1, elected.replica_info)
    elected.act("kill", elected.first)
    elected.act("resume", elected.other)
    wait_until(lambda: elected.master() is None, elected.replica_info)
    keeps(lambda: elected.master() is None, elected.replica_info, 20)
    elected.configure("enableElectUncleanMaster=true")
    wait_until(lambda: elected.master() == elected.other, elected.replica_info)
    assert log_end(elected.other) <= last
    elected.act("start", elected.first)
    wait_until(lambda: len(elected.in_sync()) == 2, elected.replica_info)
    assert not has(elected.first, last)


def test_without_the_controller_nobody_is_elected(made) -> None:
    """the_controller_is_away_when_a_master_dies."""
    elected = made()
    send(elected, 1)
    elected.cluster.control_node("controller", "kill")
    elected.act("kill", elected.first)
    for _ in range(4):
        time.sleep(5)
        with pytest.raises(SendError):
            send(elected, 1)
    elected.cluster.control_node("controller", "start")
    wait_until(lambda: elected.master() == elected.other, elected.replica_info)
    send_until_it_works(elected)


def test_a_controller_of_jraft_notices_no_silent_master(tmp_path: Path) -> None:
    """a_hung_master_is_not_noticed."""
    with (
        jraft_controller(tmp_path) as controller,
        running(pair(*elected_by(controller))) as cluster,
    ):
        elected = Elected(cluster, controller)
        elected.act("pause", elected.first)
        keeps(lambda: elected.master() == elected.first, elected.replica_info, 40)
        elected.act("kill", elected.first)
        wait_until(lambda: elected.master() == elected.other, elected.replica_info)


def test_a_slave_that_stays_connected_does_not_learn_its_masters_new_epoch(made) -> None:
    """a_slave_misses_an_epoch: both brokers hang, and the same one is elected again."""
    elected = made()
    send_and_wait_copied(elected)
    before = epochs(elected.first)
    assert epochs(elected.other) == before
    elected.act("pause", elected.first, elected.other)
    wait_until(lambda: elected.master() is None, elected.replica_info)
    elected.act("resume", elected.first, elected.other)
    wait_until(lambda: elected.master() is not None, elected.replica_info)
    assert elected.master() == elected.first
    wait_until(lambda: len(elected.in_sync()) == 2, elected.replica_info)
    send_until_it_works(elected)
    wait_until(lambda: epochs(elected.first) != before, lambda: epochs(elected.first))
    send(elected, 5)
    wait_until(lambda: is_copied(elected), elected.replica_info)
    assert epochs(elected.other) == before
    elected.act("kill", elected.other)
    elected.act("start", elected.other)
    wait_until(lambda: len(elected.in_sync()) == 2, elected.replica_info)
    send(elected, 1)
    wait_until(lambda: epochs(elected.other) == epochs(elected.first), elected.replica_info)


def test_a_slave_is_stranded_by_a_master_whose_end_nobody_noticed(made, tmp_path: Path) -> None:
    """a_quick_restart_strands_the_slave: the controller sees the master fall silent, and back."""
    (controller,) = controller_servers(1, tmp_path)
    heartbeats = "controllerHeartBeatTimeoutMills=60000"  # a JVM starts slowly
    with (
        started(controller, tmp_path) as address,
        hidden_ends(address) as link,
        running(pair(*elected_by(link), heartbeats)) as cluster,
    ):
        elected = Elected(cluster, address)
        send_and_wait_copied(elected)
        (before,), end = epoch_starts(elected.first), log_end(elected.first)
        elected.act("kill", elected.first)
        elected.act("start", elected.first)
        send_until_it_works(elected)
        assert elected.master() == elected.first
        assert epoch_starts(elected.first) == [(before[0], end)]
        assert epoch_starts(elected.other) == [before]
        wait_until(lambda: len(elected.in_sync()) == 1, elected.replica_info)
        keeps(lambda: log_end(elected.other) == end, lambda: log_end(elected.other), 30)
        elected.act("kill", elected.other)
        elected.act("start", elected.other)
        keeps(lambda: len(elected.in_sync()) == 1, elected.replica_info, 30)
        assert log_end(elected.other) == end
