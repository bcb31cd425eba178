"""Subscription groups: the first use creates a group, if that is allowed."""

from __future__ import annotations

from typing import Any

import pytest

from rocketmq_emulator.broker.tables.subscription_groups import DOCUMENT, SubscriptionGroups
from rocketmq_emulator.disk.memory import MemoryDisk
from rocketmq_emulator.facts import Fact, GroupCreated
from rocketmq_emulator.protocol.bodies.groups import SubscriptionGroupConfig
from rocketmq_emulator.settings.config import BrokerConfig
from tests.support.broker.store_makers import LAST_4, LAST_5, NOW
from tests.support.golden_data import cases


class Rig:
    """The groups of one broker and the facts they noted."""

    def __init__(self, disk: MemoryDisk | None = None, **config: Any) -> None:
        self.disk = disk or MemoryDisk()
        self.facts: list[Fact] = []
        self.groups = SubscriptionGroups(
            self.disk, BrokerConfig(**config), note=self.facts.append, now_ms=NOW
        )

    def find(self, name: str) -> SubscriptionGroupConfig | None:
        return self.groups.find(name, NOW + 1, by="heartbeat")


def test_asking_for_a_group_makes_it_with_upstreams_defaults() -> None:
    rig = Rig()
    made = rig.find("g")
    assert made is not None
    assert (made.consume_enable, made.consume_broadcast_enable) == (True, True)
    assert (made.retry_queue_nums, made.retry_max_times) == (1, 16)
    assert (made.broker_id, made.which_broker_when_consume_slowly) == (0, 1)
    assert rig.facts == [GroupCreated("g", "heartbeat")]
    assert rig.find("g") is made
    assert rig.groups.get("never") is None


def test_without_auto_creation_an_unknown_group_stays_unknown() -> None:
    rig = Rig(auto_create_group=False)
    assert rig.find("g") is None
    assert rig.find("TOOLS_CONSUMER") is not None


@pytest.mark.parametrize("release", [LAST_4, LAST_5])
def test_a_system_group_is_made_even_without_auto_creation(release: str) -> None:
    rig = Rig(auto_create_group=False, release=release)
    assert rig.find("CID_RMQ_SYS_MINE") is not None


@pytest.mark.parametrize("name", ["no blanks", "g" * 256])
def test_names_are_checked_from_5_1_1(name: str) -> None:
    assert Rig(release="5.1.1").find(name) is None
    assert Rig(release="5.1.0").find(name) is not None
    assert Rig(release=LAST_4).find(name) is not None


def test_invariant_22_a_restart_keeps_groups_exactly() -> None:
    rig = Rig()
    rig.find("g")
    rig.groups.update(SubscriptionGroupConfig(group_name="h", retry_max_times=3), NOW + 2)
    again = Rig(rig.disk).groups
    assert again.get("g") == SubscriptionGroupConfig(group_name="g")
    assert again.get("h") == SubscriptionGroupConfig(group_name="h", retry_max_times=3)
    assert again.data_version == rig.groups.data_version
    assert again.data_version.counter == 2


def test_an_administrators_group_is_a_fact_once() -> None:
    rig = Rig()
    for times in (3, 4):
        rig.groups.update(SubscriptionGroupConfig(group_name="h", retry_max_times=times), NOW)
    assert rig.facts == [GroupCreated("h", "admin")]


def test_a_real_brokers_own_groups_are_there() -> None:
    (case, *_) = cases("config-files.jsonl", "file_subscriptionGroup", "5.3")
    real = {name for name, _ in case["in"]["fields"]["subscriptionGroupTable"]["map"]}
    own = {group.group_name for group in Rig(release=LAST_5).groups.all()}
    assert own <= real


@pytest.mark.parametrize(("line", "release"), [("4.9", LAST_4), ("5.3", LAST_5)])
def test_a_real_brokers_file_is_loaded_and_written_back_to_the_byte(
    line: str, release: str
) -> None:
    for case in cases("config-files.jsonl", "file_subscriptionGroup", line):
        text = case["out"].encode()
        rig = Rig(release=release)
        rig.disk.replace(DOCUMENT, text)
        groups = Rig(rig.disk, release=release).groups
        pairs = case["in"]["fields"]["subscriptionGroupTable"]["map"]
        table = groups.subscription_group_table
        groups.subscription_group_table = table.subset(name for name, _ in pairs)
        version = groups.data_version
        rig.disk.replace(DOCUMENT, b"")
        groups._changed("never", NOW)
        counter = f'"counter":{version.counter + 1}'.encode()
        written = rig.disk.read(DOCUMENT)
        assert written is not None
        assert counter in written
        assert without_version(written) == without_version(text)


def without_version(text: bytes) -> list[bytes]:
    """The lines without the three of the data version, which every change alters."""
    names = (b'"counter":', b'"timestamp":', b'"stateVersion":')
    return [line for line in text.splitlines() if not line.strip().startswith(names)]
