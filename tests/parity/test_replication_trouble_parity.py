"""Known troubles of masters with slaves, on real brokers: what scenarios of the library show.

Each test names its scenario, and shows the same on a master and a slave of 4.9.7 and 5.3.3.
"""

from __future__ import annotations

import contextlib
import random
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from benchmarks.real_cluster import (
    HOST,
    Server,
    fetched_jars,
    free_ports,
    launched,
    registered_brokers,
)
from benchmarks.stream import NoSuccess, Stream
from rocketmq_emulator import Message
from rocketmq_emulator.errors.call_errors import SendError
from rocketmq_emulator.protocol import catalog
from rocketmq_emulator.protocol.bodies.body import decode_body, encode_body
from rocketmq_emulator.protocol.bodies.groups import SubscriptionGroupConfig
from rocketmq_emulator.protocol.bodies.routes import KVTable
from rocketmq_emulator.protocol.bodies.topics import TopicConfigSerializeWrapper
from rocketmq_emulator.protocol.fields import Header
from rocketmq_emulator.protocol.replication import encode_report
from rocketmq_emulator.protocol.requests.offsets import (
    OffsetReply,
    QueryConsumerOffsetRequest,
    UpdateConsumerOffsetRequest,
)
from rocketmq_emulator.settings.releases import known_release
from rocketmq_emulator.sync import Producer
from tests.parity.real_slave import create_topic
from tests.parity.test_replication_parity import wait_until_it_accepts

pytestmark = pytest.mark.parity
BOTH = pytest.mark.parametrize("release", ["4.9.7", "5.3.3"])
FILE_BYTES = 1 << 20
KIB_16 = random.Random(7).randbytes(16_384)  # which no client makes smaller
TOPIC, GROUP = "troubled", "billing"
STEP_S_MAX = 150  # files are deleted from 60 s on, tables copied after 60 s; JVMs start slowly
ALWAYS = ";".join(f"{hour:02}" for hour in range(24))
SMALL = {"mappedFileSizeCommitLog": FILE_BYTES}
DELETES = {**SMALL, "fileReservedTime": 0, "deleteWhen": ALWAYS}
WAITS = {"brokerRole": "SYNC_MASTER", "inSyncReplicas": 2}  # 4.9 has no inSyncReplicas
ACTING = {"enableSlaveActingMaster": "true", "totalReplicas": 2}
FAR_AHEAD = 1 << 40


class Pair:
    """A real NameServer, a real master and its slave; a test starts and kills each of them."""

    def __init__(self, release: str, home: Path) -> None:
        self._release = release
        self._home = home
        self._ports = {role: free_ports(4) + 2 for role in ("namesrv", "master", "slave")}
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self.namesrv = f"{HOST}:{self._ports['namesrv']}"

    def address(self, role: str, above: int = 0) -> str:
        return f"{HOST}:{self._ports[role] + above}"

    def start(self, role: str, **given: object) -> None:
        port = self._ports[role]
        settings: dict[str, object] = {"listenPort": port, "bindAddress": HOST}
        if role != "namesrv":
            settings |= {
                "brokerClusterName": "DefaultCluster",
                "brokerName": "broker-a",
                "brokerId": int(role == "slave"),
                "haListenPort": port + 1,
                "brokerIP1": HOST,
                "brokerIP2": HOST,
                "namesrvAddr": self.namesrv,
                "storePathRootDir": self._home / role / "store",
                "storePathCommitLog": self._home / role / "store" / "commitlog",
                "autoCreateTopicEnable": "true",
                "waitTimeMillsInSendQueue": 20_000,
                "diskMaxUsedSpaceRatio": 98,
                **({"brokerRole": "SLAVE"} if role == "slave" else {}),
                **given,
            }
        kind = "namesrv" if role == "namesrv" else "broker"
        server = Server(role, kind, port, "256m" if kind == "namesrv" else "400m", settings)
        self._running[role] = launched(server, fetched_jars(self._release), self._home)
        wait_until_it_accepts(server.address)
        if role == "master":
            known = f'"{server.address}"'
            wait_until(lambda: known in registered_brokers(self.namesrv), str, STEP_S_MAX)

    def kill(self, role: str) -> None:
        process = self._running.pop(role)
        process.kill()
        process.wait()

    def end(self) -> None:
        for role in list(self._running):
            self.kill(role)

    def forget(self, role: str) -> None:
        """Remove the files of a broker that does not run."""
        shutil.rmtree(self._home / role / "store")

    def log(self, role: str) -> tuple[int, int]:
        """The first and the next position in the commit log of a broker."""
        tables: list[dict[str, str]] = []

        def is_answered() -> bool:
            with Stream(self.address(role)) as stream, contextlib.suppress(NoSuccess):
                body = stream.ask(catalog.GET_BROKER_RUNTIME_INFO, Header()).body
                tables.append(decode_body(body, KVTable).table)
            return bool(tables)

        # In the first second after its start a broker has no statistics, and fails.
        wait_until(is_answered, lambda: f"{role} has no runtime info", 30)
        return int(tables[0]["commitLogMinOffset"]), int(tables[0]["commitLogMaxOffset"])

    def wait_written(self, role: str, group: str) -> None:
        """Wait until the broker's file has offsets of *group*: 10 s after its start, then 5 s."""
        file = self._home / role / "store" / "config" / "consumerOffset.json"
        wait_until(lambda: file.exists() and group in file.read_text(), str, STEP_S_MAX)

    def topics(self, role: str) -> set[str]:
        with Stream(self.address(role)) as stream:
            body = stream.ask(catalog.GET_ALL_TOPIC_CONFIG, Header()).body
        return set(decode_body(body, TopicConfigSerializeWrapper).topic_config_table)


@pytest.fixture
def pairs(tmp_path: Path) -> Iterator[Callable[[str], Pair]]:
    made: list[Pair] = []

    def pair(release: str) -> Pair:
        made.append(Pair(release, tmp_path))
        made[0].start("namesrv")
        return made[0]

    try:
        yield pair
    finally:
        for each in made:
            each.end()


def wait_until(is_so: Callable[[], bool], what: Callable[[], object], s_max: float) -> None:
    until_s = time.monotonic() + s_max
    while not is_so():
        assert time.monotonic() < until_s, what()
        time.sleep(0.5)


def keeps(is_so: Callable[[], bool], what: Callable[[], object], seconds: float) -> None:
    """*is_so* holds for that long."""
    until_s = time.monotonic() + seconds
    while time.monotonic() < until_s:
        assert is_so(), what()
        time.sleep(0.5)


def send(pair: Pair, count: int, *, body: bytes = KIB_16, topic: str = TOPIC) -> list[str]:
    """The status of each of *count* messages; "timeout" without an answer."""
    found: list[str] = []
    with Producer(namesrv=pair.namesrv, group="writer", send_timeout_ms=20_000) as producer:
        for _ in range(count):
            try:
                found.append(producer.send(Message(topic, body)).status.name)
            except SendError:
                found.append("timeout")
    return found


def wait_copied(pair: Pair) -> None:
    wait_until(
        lambda: pair.log("slave")[1] == pair.log("master")[1],
        lambda: (pair.log("master"), pair.log("slave")),
        STEP_S_MAX,
    )


@BOTH
def test_a_slave_whose_next_byte_was_deleted_gets_nothing(release: str, pairs) -> None:
    """a_slave_comes_back_too_late, and a_new_slave_has_the_last_file_only."""
    pair = pairs(release)
    pair.start("master", **DELETES)
    pair.start("slave", **SMALL)
    send(pair, 20)
    wait_copied(pair)
    end = pair.log("slave")[1]
    pair.kill("slave")
    send(pair, 300)
    wait_until(lambda: pair.log("master")[0] > end, lambda: (pair.log("master"), end), STEP_S_MAX)
    pair.start("slave", **SMALL)
    send(pair, 5)
    keeps(lambda: pair.log("slave")[1] == end, lambda: pair.log("slave"), 40)
    pair.kill("slave")
    pair.forget("slave")
    send(pair, 100)
    pair.start("slave", **SMALL)
    wait_copied(pair)
    assert pair.log("slave")[0] == pair.log("master")[1] // FILE_BYTES * FILE_BYTES
    assert pair.log("master")[0] <= pair.log("slave")[0]


@BOTH
def test_a_slave_of_5_loses_the_address_of_its_file(release: str, pairs) -> None:
    """a_slave_is_given_the_address_of_its_master."""
    pair = pairs(release)
    pair.start("master")
    send(pair, 20)
    pair.start("slave", haMasterAddress=pair.address("master", 1))
    if release == "4.9.7":
        wait_copied(pair)
        assert pair.log("slave")[1] == pair.log("master")[1]
    else:
        keeps(lambda: pair.log("slave")[1] == 0, lambda: pair.log("slave"), 45)
        assert pair.log("slave")[1] == 0


@BOTH
def test_a_sync_master_of_5_waits_for_nobody_by_default(release: str, pairs) -> None:
    """a_sync_master_waits_for_nobody: here it has no slave at all."""
    pair = pairs(release)
    pair.start("master", brokerRole="SYNC_MASTER")
    status = "SLAVE_NOT_AVAILABLE" if release == "4.9.7" else "SEND_OK"
    assert send(pair, 3) == [status] * 3


@BOTH
def test_a_report_of_a_slave_that_is_gone_acknowledges_up_to_4_9(release: str, pairs) -> None:
    """an_old_report_counts_as_a_copy: a test plays the slaves."""
    pair = pairs(release)
    pair.start("master", **WAITS)
    with a_slave_that_reports(pair, FAR_AHEAD):
        assert send(pair, 3) == ["SEND_OK"] * 3
    with a_slave_that_reports(pair, 0):  # and takes nothing
        statuses = send(pair, 2)
    expected = "SEND_OK" if release == "4.9.7" else "FLUSH_SLAVE_TIMEOUT"
    assert statuses == [expected] * 2


@contextlib.contextmanager
def a_slave_that_reports(pair: Pair, position: int) -> Iterator[None]:
    host, port = pair.address("master", 1).split(":")
    with socket.create_connection((host, int(port))) as stream:
        stream.sendall(encode_report(position))
        time.sleep(1)
        yield


@BOTH
def test_offsets_at_a_slave_are_replaced_when_its_master_is_back(release: str, pairs) -> None:
    """offsets_of_a_slave_are_replaced."""
    pair = pairs(release)
    pair.start("master")
    send(pair, 3)
    create_group(pair)
    commit(pair, "master", 1)
    pair.start("slave")
    wait_until(lambda: committed(pair, "slave") == 1, lambda: committed(pair, "slave"), STEP_S_MAX)
    pair.wait_written("master", GROUP)
    wait_until(lambda: is_taken(pair, "slave", 1), str, STEP_S_MAX)  # groups are copied last
    pair.kill("master")
    commit(pair, "slave", 2)
    assert committed(pair, "slave") == 2
    pair.start("master")
    wait_until(lambda: committed(pair, "slave") == 1, lambda: committed(pair, "slave"), STEP_S_MAX)
    assert committed(pair, "master") == 1


@pytest.mark.parametrize(("commits", "taken_back"), [(1, 2), (501, 1)])
def test_a_master_takes_offsets_back_unless_it_counted_a_version_more(
    commits: int, taken_back: int, pairs
) -> None:
    """offsets_of_a_slave_are_replaced, with acting and busy."""
    pair = pairs("5.3.3")
    pair.start("master", **ACTING)
    send(pair, 3)
    create_group(pair)
    commit(pair, "master", 1)
    pair.start("slave", **ACTING)
    wait_until(lambda: committed(pair, "slave") == 1, lambda: committed(pair, "slave"), STEP_S_MAX)
    for _ in range(commits):
        commit(pair, "master", 1)
    time.sleep(6)  # the master writes its offsets every 5 s
    pair.kill("master")
    commit(pair, "slave", 2)
    pair.start("master", **ACTING)
    assert committed(pair, "master") == taken_back


def create_group(pair: Pair) -> None:
    """Brokers of 5.3 refuse commits of a group that they do not know."""
    body = encode_body(SubscriptionGroupConfig(group_name=GROUP), known_release("4.9.7"))
    with Stream(pair.address("master")) as stream:
        stream.ask(catalog.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, Header(), body)


def commit(pair: Pair, role: str, offset: int) -> None:
    request = UpdateConsumerOffsetRequest(
        consumer_group=GROUP, topic=TOPIC, queue_id=0, commit_offset=offset
    )
    with Stream(pair.address(role)) as stream:
        stream.ask(catalog.UPDATE_CONSUMER_OFFSET, request)


def is_taken(pair: Pair, role: str, offset: int) -> bool:
    """Whether the broker takes that offset: one of 5.3 must know the group."""
    try:
        commit(pair, role, offset)
    except NoSuccess:
        return False
    return True


def committed(pair: Pair, role: str) -> int | None:
    request = QueryConsumerOffsetRequest(consumer_group=GROUP, topic=TOPIC, queue_id=0)
    with Stream(pair.address(role)) as stream:
        try:
            return stream.ask(catalog.QUERY_CONSUMER_OFFSET, request).decode(OffsetReply).offset
        except NoSuccess:
            return None


@BOTH
def test_a_topic_with_attributes_is_missing_at_a_slave_of_5(release: str, pairs) -> None:
    """a_topic_with_attributes_is_not_copied; brokers of 4.9 have no attributes."""
    pair = pairs(release)
    pair.start("master")
    create_topic(pair.address("master"), "plain")
    pair.start("slave")
    wait_until_known(pair, "plain")
    create_topic(pair.address("master"), "typed", attributes="+message.type=FIFO")
    assert "typed" in pair.topics("master")
    if release == "4.9.7":
        wait_until_known(pair, "typed")
    else:
        keeps(lambda: "typed" not in pair.topics("slave"), lambda: pair.topics("slave"), 75)


def wait_until_known(pair: Pair, topic: str) -> None:
    wait_until(lambda: topic in pair.topics("slave"), lambda: pair.topics("slave"), STEP_S_MAX)
