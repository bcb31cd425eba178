"""The directions of links that a fault targets, by the names of their two ends."""

from __future__ import annotations

import pytest

from rocketmq_emulator.cluster.fault_values import Partition
from rocketmq_emulator.cluster.links.endpoints import SOME_CLIENTS, is_targeted, names_of_client

A = frozenset(["broker-a", "brokers", "masters"])
A_SLAVE = frozenset(["broker-a-1", "brokers", "slaves"])  # of broker-a, and no member of a group
B = frozenset(["broker-b", "brokers"])
NAMESRV = frozenset(["namesrv", "name_servers"])
MEMBER = names_of_client("10.0.0.1@billing-1@unit", ["billing"])


def an_id(value: object) -> str:
    """The same id in every process, although the order of a set differs."""
    return " and ".join(sorted(value)) if isinstance(value, frozenset) else str(value)


@pytest.mark.parametrize(
    ("fault", "source", "target", "is_so"),
    [
        (Partition(between=("broker-a", "namesrv")), A, NAMESRV, True),
        (Partition(between=("broker-a", "namesrv")), NAMESRV, A, True),
        (Partition(between=("broker-a", "namesrv"), one_way=True), NAMESRV, A, False),
        (Partition(between=("broker-a", "namesrv")), B, NAMESRV, False),
        (Partition(between=("brokers", "name_servers")), B, NAMESRV, True),
        (Partition(between=(("broker-a", "broker-b"), "clients")), SOME_CLIENTS, B, True),
        (Partition(around="broker-a"), A, NAMESRV, True),
        (Partition(around="broker-a"), SOME_CLIENTS, A, True),
        (Partition(around="broker-a", one_way=True), SOME_CLIENTS, A, False),
        (Partition(around=("broker-a", "namesrv")), A, NAMESRV, False),
        (Partition(around="billing"), MEMBER, A, True),
        (Partition(around="billing"), SOME_CLIENTS, A, False),
        (Partition(between=("billing-1", "broker-b")), B, MEMBER, True),
        (Partition(between=("10.0.0.1@billing-1@unit", "broker-b")), B, MEMBER, True),
        (Partition(between=("clients", "broker-b")), MEMBER, B, True),
        (Partition(around="broker-a"), A_SLAVE, A, True),
        (Partition(between=("broker-a", "namesrv")), A_SLAVE, NAMESRV, False),
        (Partition(between=("broker-a", "broker-a-1")), A_SLAVE, A, True),
        (Partition(between=("masters", "slaves"), one_way=True), A, A_SLAVE, True),
        (Partition(between=("masters", "slaves"), one_way=True), A_SLAVE, A, False),
    ],
    ids=an_id,
)
def test_a_fault_means_the_ways_between_its_sides(
    fault: Partition, source: frozenset[str], target: frozenset[str], is_so: bool
) -> None:
    assert is_targeted(fault, source, target) is is_so
