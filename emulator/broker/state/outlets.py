"""The outlets of a broker before its shell connects them: each does nothing, or does it at once.

A broker is made and reads its store before its ports are open.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from rocketmq_emulator.broker.replication.member_group import MinBrokerChange
from rocketmq_emulator.net.results import Peer
from rocketmq_emulator.protocol.bodies.extensions import PoolName
from rocketmq_emulator.protocol.bodies.topics import TopicConfig
from rocketmq_emulator.protocol.fields import Header
from rocketmq_emulator.settings.config import BrokerConfig

WaitingBytes = Callable[[Peer], int]  # that wait to be sent to a client
Waiting = Callable[[PoolName], tuple[int, int]]  # waiting requests, ms the oldest has waited
Announce = Callable[[Sequence[TopicConfig] | None, Hashable | None], None]  # None: every topic


def no_members(_change: MinBrokerChange) -> None:
    """The default of ``on_min_broker_changed``: no task follows the members."""


def no_pools(_config: BrokerConfig) -> None:
    """The default of ``on_reconfigured``: no server has pools yet."""


def no_waiting_bytes(_peer: Peer) -> int:
    """Before a server is connected: nothing waits."""
    return 0


def no_waiting_requests(_pool: PoolName) -> tuple[int, int]:
    """Before a server is connected: no pool has any."""
    return 0, 0


def no_ring(_bell: Hashable, _news: object) -> None:
    """Before ``connect``: no call is held."""


def no_push(_peer: Peer, _code: int, _header: Header | None, _body: bytes) -> bool:
    """Before ``connect``: it is not sent."""
    return False


def run_now(at_ms: int, action: Callable[[int], object]) -> None:
    """Before ``connect``: at once, as if the time had come."""
    action(at_ms)


def no_announce(_topics: Sequence[TopicConfig] | None, _bell: Hashable | None) -> None:
    """Before ``connect``: the first registration will carry every topic."""
