"""The smallest id of a broker name, as one broker sees it: R38."""

from __future__ import annotations

from typing import Any

import pytest

from rocketmq_emulator.broker.replication.member_group import MemberGroup, MinBrokerChange
from rocketmq_emulator.settings.config import BrokerConfig
from rocketmq_emulator.settings.setting_rules import BadField
from tests.support.broker.store_makers import LAST_5

MASTER, FIRST, SECOND = "1.1.1.1:1", "2.2.2.2:1", "3.3.3.3:1"


def a_group(broker_id: int = 1, **settings: Any) -> MemberGroup:
    role: Any = "SLAVE" if broker_id else "ASYNC_MASTER"
    settings = {"slave_acting_master": True, **settings}
    return MemberGroup(
        BrokerConfig(release=LAST_5, broker_id=broker_id, broker_role=role, **settings)
    )


def test_a_slave_notices_that_its_master_is_lost_and_that_it_is_back() -> None:
    group = a_group()
    group.begin(0, MASTER)
    assert group.polled({0: MASTER, 1: FIRST}) is None
    assert group.polled({1: FIRST}) == MinBrokerChange(1, FIRST, MASTER)
    assert group.polled({1: FIRST}) is None
    assert group.polled({0: MASTER, 1: FIRST}) == MinBrokerChange(0, MASTER, None)


def test_a_slave_that_never_saw_a_master_has_lost_none() -> None:
    assert a_group().polled({1: FIRST, 2: SECOND}) == MinBrokerChange(1, FIRST, None)


def test_no_answer_and_an_empty_group_change_nothing() -> None:
    group = a_group()
    group.begin(0, MASTER)
    assert group.polled({}) is None
    assert (group.min_broker_id, group.alive_count) == (0, 1)


@pytest.mark.parametrize("settings", [{"broker_id": 0}, {"slave_acting_master": False}])
def test_masters_and_plain_slaves_react_to_nothing(settings: dict[str, Any]) -> None:
    group = a_group(**settings)
    assert group.polled({2: SECOND}) is None
    assert group.notified(MinBrokerChange(2, SECOND)) is None


def test_a_notice_counts_once_and_even_while_the_broker_is_isolated() -> None:
    group = a_group(total_replicas=2)
    assert group.is_isolated
    assert group.polled({1: FIRST}) is None
    change = MinBrokerChange(1, FIRST, MASTER, "2.2.2.2:2")
    assert group.notified(change) == change
    assert group.notified(change) is None


@pytest.mark.parametrize(
    ("addresses", "alive"), [({0: MASTER}, 2), ({0: MASTER, 1: FIRST}, 2), ({2: SECOND}, 2)]
)
def test_a_broker_counts_itself_as_alive(addresses: dict[int, str], alive: int) -> None:
    group = a_group(total_replicas=3)
    assert group.alive_count == 3  # until the first answer
    group.polled(addresses)
    assert group.alive_count == alive


@pytest.mark.parametrize(
    ("settings", "isolated"),
    [
        ({}, False),
        ({"total_replicas": 2}, True),
        ({"total_replicas": 2, "skip_pre_online": True}, False),
        ({"total_replicas": 2, "slave_acting_master": False}, False),
    ],
)
def test_r36_only_a_broker_of_several_replicas_starts_isolated(
    settings: dict[str, Any], isolated: bool
) -> None:
    assert a_group(**settings).is_isolated is isolated


def test_releases_of_4_cannot_act_as_a_master() -> None:
    with pytest.raises(BadField, match=r"enableSlaveActingMaster.* needs release 5.0.0"):
        BrokerConfig(release="4.9.7", slave_acting_master=True)
