"""Slaves without sockets: whole brokers, or only the stream of one at its master."""

from __future__ import annotations

from typing import Any

from rocketmq_emulator.broker.replication.ha_service import HaConnection
from rocketmq_emulator.protocol.replication import encode_report
from tests.support.broker.bench import Bench

TOPIC = "Orders"


def a_slave(release: str, **settings: Any) -> Bench:
    """A slave that knows ``TOPIC``, and has no messages."""
    slave = Bench(release=release, broker_role="SLAVE", broker_id=1, **settings)
    slave.broker.ensure_topic(TOPIC, 4, slave.now_ms(), by="test")
    return slave


def a_master(release: str, *bodies: bytes, **settings: Any) -> Bench:
    """A master that has stored *bodies* in queue 0 of ``TOPIC``."""
    master = Bench(release=release, **settings)
    producer = master.client()
    for body in bodies:
        producer.sent(TOPIC, body)
    return master


def copy(master: Bench, slave: Bench) -> None:
    """Give *slave* what it lacks of the log of *master*."""
    copied, log = slave.broker.store.copied, master.broker.store.log
    assert copied is not None, "a slave copies"
    begin = copied.end_position
    copied.append(begin, bytes(log.read(begin, log.end_position - begin)))


class SlaveStream:
    """The stream of a slave, which reports what a test says."""

    local, values = "127.0.0.1:10912", None

    def __init__(self, bench: Bench, remote: str = "127.0.0.1:4711") -> None:
        self.remote = remote
        self.sent: list[bytes] = []
        self._log = bench.broker.store.log
        self.endpoint: HaConnection = bench.ha.accept(self)

    def send(self, data: bytes) -> None:
        self.sent.append(data)

    def unsent_bytes(self) -> int:
        return 0

    def close(self) -> None:
        self.endpoint.closed("closed here")

    def report(self, position: int | None = None) -> None:
        """Report *position*; without it the end of the log."""
        self.endpoint.feed(encode_report(self._log.end_position if position is None else position))
