"""A cluster in a thread of this process."""

from __future__ import annotations

import socket
import threading
import time

import pytest
import trio

from rocketmq_emulator.admin.calls import Admin, ClusterUnreachable, NotFound, admin_over_tcp
from rocketmq_emulator.admin.cluster_reader import ClusterReader
from rocketmq_emulator.client import Message, Producer
from rocketmq_emulator.cluster.spec import ClusterSpec
from rocketmq_emulator.cluster.world import MisusesFound, NotReady
from rocketmq_emulator.cluster.worlds import embedded
from rocketmq_emulator.cluster.worlds.embedded import EmbeddedCluster
from rocketmq_emulator.cluster.worlds.processes import ProcessCluster
from rocketmq_emulator.disk.line_file import line_files
from rocketmq_emulator.facts.logs import LogSettings
from rocketmq_emulator.net.transport import AddressInUse
from rocketmq_emulator.protocol.bodies.topics import TopicConfig
from rocketmq_emulator.protocol.queues import MessageQueue


def asked(cluster, question):
    async def ask():
        async with admin_over_tcp(cluster.namesrv) as admin:
            return await question(admin)

    return trio.run(ask)


async def make_orders(admin: Admin) -> list[str]:
    topic = TopicConfig(topic_name="orders", read_queue_nums=2, write_queue_nums=2)
    return await admin.create_topic_everywhere(topic)


async def send(namesrv: str, count: int) -> None:
    async with Producer(namesrv=namesrv, group="shop") as producer:
        for number in range(count):
            await producer.send(Message("orders", f"order {number}".encode()))


async def send_late(namesrv: str) -> None:
    async with Producer(namesrv=namesrv, group="shop") as producer:
        await producer.send(Message("orders", b"late", delay_level=19))


@pytest.fixture(scope="module")
def cluster():
    with EmbeddedCluster(ClusterSpec()) as running:
        assert asked(running, make_orders) == ["broker-a", "broker-b"]
        trio.run(send, running.namesrv, 8)
        yield running


def make_a_mistake(cluster, error: Exception | None = None) -> None:
    with cluster:
        trio.run(send_late, cluster.namesrv)
        assert cluster.client_settings()["strict"]
        assert [each.misuse for each in cluster.misuses()] == ["delay_beyond_table"]
        if error is not None:
            raise error


def test_a_strict_cluster_ends_with_the_mistakes_of_its_clients() -> None:
    cluster = EmbeddedCluster(ClusterSpec(), strict=True)
    with pytest.raises(
        MisusesFound, match=r"^delay_beyond_table: .* of group shop sends to orders"
    ):
        make_a_mistake(cluster)
    assert not cluster.is_running("broker-a")


def test_a_strict_cluster_keeps_the_error_of_its_block() -> None:
    with pytest.raises(ZeroDivisionError):
        make_a_mistake(EmbeddedCluster(ClusterSpec(), strict=True), ZeroDivisionError())


def test_without_strict_mistakes_are_only_listed_until_a_reset() -> None:
    with EmbeddedCluster(ClusterSpec()) as cluster:
        assert "strict" not in cluster.client_settings()
        trio.run(send_late, cluster.namesrv)
        assert len(cluster.misuses()) == 1
        cluster.reset()
        assert cluster.misuses() == ()


def test_it_is_ready_when_the_block_begins(cluster) -> None:
    masters = asked(cluster, lambda admin: admin.masters())
    assert masters == cluster.brokers


def test_a_look_finds_brokers_topics_and_what_is_stored(cluster) -> None:
    found = asked(cluster, lambda admin: ClusterReader(admin, cluster.namesrv).read())
    assert [broker.name for broker in found.brokers] == ["broker-a", "broker-b"]
    orders = next(topic for topic in found.topics if topic.name == "orders")
    assert (orders.queues, orders.messages) == (4, 8)
    assert orders.brokers == ("broker-a", "broker-b")


def test_a_broker_in_memory_keeps_its_messages_through_a_restart(cluster) -> None:
    address = cluster.brokers["broker-a"]
    cluster.restart("broker-a")
    assert cluster.brokers["broker-a"] == address
    stats = asked(cluster, lambda admin: admin.topic_stats(address, "orders"))
    stored = [offset.max_offset for offset in stats.offset_table.values()]
    assert stored == [2, 2]


def test_an_unknown_topic_is_said_to_be_unknown(cluster) -> None:
    with pytest.raises(NotFound, match="there is no topic nope"):
        asked(cluster, lambda admin: admin.route("nope"))


def test_a_group_moves_to_the_first_the_last_or_a_moment(cluster) -> None:
    def moved(to, at_ms=None) -> list[int]:
        rows = asked(cluster, lambda admin: admin.move_group("mover", "orders", to, at_ms))
        return [row["offset"] for row in rows]

    assert moved("first") == [0, 0, 0, 0]
    assert moved("last") == [2, 2, 2, 2]
    assert moved("time", at_ms=1) == [0, 0, 0, 0]
    stats = asked(
        cluster,
        lambda admin: admin.consume_stats(cluster.brokers["broker-a"], "mover", "orders"),
    )
    assert stats.offset_table[MessageQueue("orders", "broker-a", 0)].consumer_offset == 0


def test_a_cluster_that_is_not_there_is_unreachable() -> None:
    async def ask() -> None:
        async with admin_over_tcp("127.0.0.1:1") as admin:
            await admin.cluster_info()

    with pytest.raises(ClusterUnreachable, match=r"no NameServer answers at 127\.0\.0\.1:1"):
        trio.run(ask)


def test_a_port_in_use_is_raised_plain_where_the_cluster_was_started(cluster) -> None:
    port = int(cluster.namesrv.rpartition(":")[2])
    with (
        pytest.raises(AddressInUse, match=f"{port} is in use"),
        EmbeddedCluster(ClusterSpec(port=port, brokers=0)),
    ):
        pass


def test_a_cluster_whose_loop_does_not_begin_is_no_cluster(monkeypatch) -> None:
    monkeypatch.setattr(embedded, "START_S_MAX", 0.01)
    monkeypatch.setattr(EmbeddedCluster, "_run", lambda _: time.sleep(0.2))
    before = threading.active_count()
    with (
        pytest.raises(NotReady, match="namesrv, broker-a"),
        EmbeddedCluster(ClusterSpec(brokers=1)),
    ):
        pass
    assert threading.active_count() == before


def test_a_cluster_that_does_not_get_ready_is_no_cluster(monkeypatch) -> None:
    monkeypatch.setattr(embedded, "START_S_MAX", 0.3)
    threads = set(threading.enumerate())
    with socket.create_server(("127.0.0.1", 0)) as silent:
        host, port = silent.getsockname()
        spec = ClusterSpec(brokers=1, broker_settings={"namesrv": [f"{host}:{port}"]})
        with (
            pytest.raises(NotReady, match=r"not ready after 0\.3 s: broker-a"),
            EmbeddedCluster(spec),
        ):
            pass
    assert set(threading.enumerate()) <= threads  # idle workers of earlier tests may have ended


def test_a_killed_node_writes_no_facts_while_it_unwinds(tmp_path) -> None:
    with EmbeddedCluster(ClusterSpec(brokers=1), journal=str(tmp_path)) as running:
        before = (tmp_path / "broker-a.jsonl").read_bytes()
        running.kill("broker-a")
        assert (tmp_path / "broker-a.jsonl").read_bytes() == before


def test_facts_go_to_one_file_a_node(tmp_path) -> None:
    with EmbeddedCluster(ClusterSpec(brokers=1), journal=str(tmp_path)):
        pass
    assert sorted(path.name for path in tmp_path.iterdir()) == ["broker-a.jsonl", "namesrv.jsonl"]
    assert b"NodeStopped" in (tmp_path / "broker-a.jsonl").read_bytes()


@pytest.mark.parametrize("start", [EmbeddedCluster, ProcessCluster])
def test_a_journal_begins_anew_when_it_is_as_long_as_its_node_s_setting(tmp_path, start) -> None:
    limits = {"journal_bytes_max": 300, "journal_files_max": 2}
    with start(ClusterSpec(brokers=1, broker_settings=limits), journal=str(tmp_path)):
        pass
    files = line_files(tmp_path / "broker-a.jsonl")
    assert [file.name for file in files] == ["broker-a.jsonl.1", "broker-a.jsonl"]
    assert b"NodeStopped" in b"".join(file.read_bytes() for file in files)


# Log lines of its nodes -------------------------------------------------------------------


def send_nonsense(cluster) -> None:
    """Returns when the broker has closed the connection; it notes the fact before that."""
    host, _, port = cluster.brokers["broker-a"].partition(":")
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        connection.sendall(b"\xff" * 100)
        assert connection.recv(1) == b""


def test_warnings_of_its_nodes_go_to_the_program_s_log(caplog) -> None:
    with EmbeddedCluster(ClusterSpec(brokers=1)) as cluster:
        send_nonsense(cluster)
        assert cluster.log_lines() == []
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("rocketmq_emulator", "WARNING")
    assert record.getMessage().startswith("broker-a FrameRefused peer=127.0.0.1:")


def test_with_log_settings_lines_are_kept_for_whoever_shows_them(caplog) -> None:
    with EmbeddedCluster(ClusterSpec(brokers=1), log=LogSettings("warning")) as cluster:
        send_nonsense(cluster)
        (line,) = cluster.log_lines()
        assert "[warning  ] broker-a   FrameRefused" in line
        assert cluster.log_lines() == []
    assert caplog.records == []
