"""Many peers at once that leave, that never read, or that exceed the limit of open files.

Each measurement has its own broker, plain sockets as its peers, and a probe: a connection that
sends one message after another and records how long each answer took.
"""

from __future__ import annotations

import contextlib
import json
import selectors
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from typing import Self

import psutil

from benchmarks.clusters import ROOT
from benchmarks.memory import resident_mb
from rocketmq_emulator.protocol import catalog
from rocketmq_emulator.protocol.bodies.body import encode_body
from rocketmq_emulator.protocol.bodies.groups import ConsumerData, HeartbeatData
from rocketmq_emulator.protocol.command import (
    RemotingCommand,
    decode_command,
    encode_command,
    ext_of,
)
from rocketmq_emulator.protocol.fields import Header
from rocketmq_emulator.protocol.framing import FrameDecoder
from rocketmq_emulator.protocol.messages.subscription import build_subscription
from rocketmq_emulator.protocol.requests.groups import GetConsumerListByGroupRequest
from rocketmq_emulator.protocol.requests.pulling import PullMessageRequest
from rocketmq_emulator.protocol.requests.sending import SendMessageRequestV2
from rocketmq_emulator.settings.releases import R_4_9_7
from tools.torture import Row
from tools.torture.waiting import ServerClock, without_cpu_s

NAME = "peers that leave, do not read, or are too many"
LEAVING, STAYING = 1_000, 1_000
WAIT_MS_MAX = 250
NON_READERS, PULLS_EACH = 500, 40
MEMORY_MB_MAX = 600
FILES_MAX, TOO_MANY = 100, 150
SETTLE_S = 2.0
IDLE_SHARE_MAX = 0.1  # of a time in which the broker does nothing but run its timers
ANSWER_S_MAX = 30.0

_RESET_WHEN_CLOSED = struct.pack("ii", 1, 0)


def run() -> list[Row]:
    return [*_members_leave(), *_nobody_reads(), *_too_many_files()]


# Measurements -------------------------------------------------------------------------------


def _members_leave() -> list[Row]:
    """Half of a group's members reset their connections; the others request the member list."""
    with _a_broker() as broker:
        members = [broker.connect() for _ in range(LEAVING + STAYING)]
        for number, member in enumerate(members):
            member.sendall(_heartbeat(f"c{number}"))
        with _Crowd(members[LEAVING:]), _Probe(broker) as probe:
            time.sleep(SETTLE_S)
            probe.waited_ms.clear()
            for member in members[:LEAVING]:
                member.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_WHEN_CLOSED)
            for member in members[:LEAVING]:
                member.close()
            time.sleep(SETTLE_S)
        slowest_ms = max(probe.waited_ms, default=ANSWER_S_MAX * 1000)
        what = f"{LEAVING:,} of a group's {LEAVING + STAYING:,} members leave at once"
        alive = broker.process.poll() is None
        return [
            Row(what, "the broker lives", "alive" if alive else "dead", alive),
            Row(
                what,
                f"no send waits more than {WAIT_MS_MAX} ms",
                f"slowest {slowest_ms:.0f} ms",
                slowest_ms <= WAIT_MS_MAX,
            ),
        ]


def _nobody_reads() -> list[Row]:
    """Peers that pull all messages many times and never read the answers."""
    with _a_broker() as broker:
        probe = _Probe(broker)
        for _ in range(300):
            probe.send(bytes(8_000))
        before_mb = resident_mb([broker.process.pid])
        pulls = b"".join(_pull(number) for number in range(1, PULLS_EACH + 1))
        peers = []
        for _ in range(NON_READERS):
            peers.append(broker.connect())
            peers[-1].sendall(pulls)
        broker.wait_idle()
        full_mb = resident_mb([broker.process.pid]) - before_mb
        for peer in peers:
            peer.close()
        broker.wait_idle()
        after_mb = resident_mb([broker.process.pid]) - before_mb
        what = f"{NON_READERS} peers that never read"
        aim = f"at most {MEMORY_MB_MAX} MB more"
        return [
            Row(what, aim, f"{full_mb:.0f} MB more", full_mb <= MEMORY_MB_MAX),
            Row(
                "… and then close",
                "most of it is given back",
                f"{after_mb:.0f} MB more than before",
                after_mb <= max(full_mb / 3, 40),
            ),
        ]


def _too_many_files() -> list[Row]:
    """More peers than the process may open files: the first are served, the others later."""
    with (
        tempfile.TemporaryDirectory() as store,
        _a_broker(files_max=FILES_MAX, store=store) as broker,
        _Probe(broker) as probe,
    ):
        peers = [broker.connect() for _ in range(TOO_MANY)]
        time.sleep(SETTLE_S)
        probe.waited_ms.clear()
        cpu_s = broker.cpu_s()
        time.sleep(SETTLE_S)
        spent_s = broker.cpu_s() - cpu_s
        sends = len(probe.waited_ms)
        stored = sum(probe.send(bytes(1_000_000)) for _ in range(20))  # more than one segment
        for peer in peers:
            peer.close()
        late = broker.connect()
        late.settimeout(ANSWER_S_MAX)
        late.sendall(_heartbeat("late"))
        served = bool(late.recv(65_536))
    what = f"{TOO_MANY} peers of a broker that may open {FILES_MAX} files"
    idle = f"{sends} sends served, {spent_s:.1f} s CPU in {SETTLE_S:.0f} s"
    said = [line for line in broker.errors if "ulimit -n" in line]
    return [
        Row(what, "those connected are served", idle, sends > 0),
        Row("… and it stores 20 MB", "all 20 stored", f"{stored} stored", stored == 20),
        Row("… it names the limit", "1–3 times", f"{len(said)} times", 1 <= len(said) <= 3),
        Row("… the peers close", "new peers are served", "yes" if served else "no", served),
    ]


# The broker -----------------------------------------------------------------------------------


class _Broker:
    """One broker process, on loopback."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.errors: list[str] = []
        assert process.stdout is not None, "it is a pipe"
        host, _, port = json.loads(process.stdout.readline())["address"].rpartition(":")
        self._address = host, int(port)

    def connect(self) -> socket.socket:
        return socket.create_connection(self._address, timeout=ANSWER_S_MAX)

    def wait_idle(self) -> None:
        """Wait until the broker almost never used a CPU, or waited for one, for ``SETTLE_S``."""
        before_s = -1.0
        while (now_s := self.busy_s()) - before_s > IDLE_SHARE_MAX * SETTLE_S:
            before_s = now_s
            time.sleep(SETTLE_S)

    def busy_s(self) -> float:
        """CPU time, and time in which the broker was ready and other programs had the CPU."""
        return self.cpu_s() + without_cpu_s(self.process.pid)

    def cpu_s(self) -> float:
        times = psutil.Process(self.process.pid).cpu_times()
        return float(times.user + times.system)


@contextlib.contextmanager
def _a_broker(files_max: int = 20_000, store: str = "") -> Iterator[_Broker]:
    config = json.dumps({"listen_address": "127.0.0.1:0", "store": store})
    command = [sys.executable, "-m", "rocketmq_emulator.processes.node", "broker", config]
    with (
        tempfile.TemporaryFile("w+") as errors,  # an unread pipe would fill and block it
        subprocess.Popen(
            ["sh", "-c", f'ulimit -n {files_max}; exec "$@"', "sh", *command],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as process,
    ):
        broker = _Broker(process)
        try:
            yield broker
        finally:
            process.terminate()
            process.communicate()
            errors.seek(0)
            broker.errors = errors.read().splitlines()


# Its clients ----------------------------------------------------------------------------------


class _Probe:
    """Sends small messages in a thread; ``waited_ms`` has the time of each answer."""

    def __init__(self, broker: _Broker) -> None:
        self.waited_ms: list[float] = []
        self._socket = broker.connect()
        self._pid = broker.process.pid
        self._lock = threading.Lock()
        self._has_ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._has_ended.set()
        self._thread.join()
        self._socket.close()

    def send(self, body: bytes) -> bool:
        """Send one message; return whether it was stored."""
        header = SendMessageRequestV2(
            producer_group="probe",
            topic="Probe",
            default_topic="TBW102",
            default_topic_queue_nums=4,
            queue_id=0,
            sys_flag=0,
            born_timestamp=0,
            flag=0,
        )
        with self._lock:
            self._socket.sendall(_frame(catalog.SEND_MESSAGE_V2.code, header, body))
            decoder = FrameDecoder()
            while (frame := decoder.next_frame()) is None:
                decoder.feed(self._socket.recv(65_536))
        return decode_command(frame).code == 0

    def _run(self) -> None:
        clock = ServerClock(self._pid)
        while not self._has_ended.is_set():
            began_s = clock.now_s()
            self.send(b"probe")
            self.waited_ms.append(clock.since_s(began_s) * 1000)
            self._has_ended.wait(0.005)


class _Crowd:
    """Members that request their group's member list at each NOTIFY_CONSUMER_IDS_CHANGED."""

    def __init__(self, members: list[socket.socket]) -> None:
        self._members = members
        self._has_ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._has_ended.set()
        self._thread.join()

    def _run(self) -> None:
        header = GetConsumerListByGroupRequest(consumer_group="g")
        question = _frame(catalog.GET_CONSUMER_LIST_BY_GROUP.code, header)
        notice = str(catalog.NOTIFY_CONSUMER_IDS_CHANGED.code).encode()
        with selectors.DefaultSelector() as selector:
            for member in self._members:
                selector.register(member, selectors.EVENT_READ)
            while not self._has_ended.is_set():
                for key, _ in selector.select(0.1):
                    peer = key.fileobj
                    assert isinstance(peer, socket.socket), "only sockets were registered"
                    if b'"code":' + notice in peer.recv(1 << 20):
                        peer.sendall(question)


def _heartbeat(client_id: str) -> bytes:
    consumer = ConsumerData(
        group_name="g",
        consume_type="CONSUME_PASSIVELY",
        message_model="CLUSTERING",
        consume_from_where="CONSUME_FROM_LAST_OFFSET",
        subscription_data_set=[build_subscription("Probe", "*", sub_version=1)],
    )
    data = HeartbeatData(client_id=client_id, consumer_data_set=[consumer], producer_data_set=[])
    return _frame(catalog.HEART_BEAT.code, None, encode_body(data, R_4_9_7))


def _pull(opaque: int) -> bytes:
    header = PullMessageRequest(
        consumer_group="CID_RMQ_SYS_torture",
        topic="Probe",
        queue_id=0,
        queue_offset=0,
        max_msg_nums=1_000,
        sys_flag=4,  # with a subscription
        commit_offset=0,
        suspend_timeout_millis=0,
        sub_version=0,
        subscription="*",
        expression_type="TAG",
    )
    return _frame(catalog.PULL_MESSAGE.code, header, opaque=opaque)


def _frame(code: int, header: Header | None, body: bytes = b"", opaque: int = 1) -> bytes:
    return encode_command(RemotingCommand(code=code, opaque=opaque, ext=ext_of(header), body=body))
