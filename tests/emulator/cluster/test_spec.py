"""A cluster as a value."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_type_hints

import msgspec
import pytest

from rocketmq_emulator.cluster.spec import ClusterFields, ClusterSpec, SpecFields, checked_spec


def test_ports_follow_from_the_name_servers_as_upstream_habit_has_it() -> None:
    spec = ClusterSpec(brokers=2, port=9876)
    assert spec.name_server_config("namesrv").listen_address == "127.0.0.1:9876"
    assert spec.broker_config("broker-a").listen_address == "127.0.0.1:10911"
    assert spec.broker_config("broker-b").listen_address == "127.0.0.1:11011"


def test_port_0_means_any_free_port_for_every_node() -> None:
    spec = ClusterSpec(name_servers=2, port=0)
    assert spec.name_server_config("namesrv-b").listen_address == "127.0.0.1:0"
    assert spec.broker_config("broker-b").listen_address == "127.0.0.1:0"


def test_every_node_has_a_folder_of_its_own_in_the_store() -> None:
    spec = ClusterSpec(store="/data/mq")
    stores = {spec.broker_config(name).store for name in spec.broker_names}
    assert stores == {"/data/mq/broker-a", "/data/mq/broker-b"}
    assert spec.name_server_config("namesrv").store == "/data/mq/namesrv"


def test_one_brokers_settings_beat_those_for_every_broker() -> None:
    spec = ClusterSpec(
        broker_settings={"perm": 4, "default_topic_queues": 3},
        settings_of={"broker-b": {"perm": 6}},
    )
    assert spec.broker_config("broker-a").perm == 4
    assert spec.broker_config("broker-b").perm == 6
    assert spec.broker_config("broker-b").default_topic_queues == 3


def test_an_unknown_setting_is_found_before_anything_starts() -> None:
    spec = ClusterSpec(broker_settings={"pern": 4})
    with pytest.raises(msgspec.ValidationError, match="pern"):
        spec.check()


@pytest.mark.parametrize(
    ("wrong", "word"),
    [
        ({"brokers": 27}, "brokers"),
        ({"name_servers": 0}, "NameServers"),
        ({"port": 65_000}, "port"),
        ({"settings_of": {"broker-z": {}}}, "broker-z"),
        ({"advertised_host": "10.9.8.7"}, "an advertised host needs a port"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(wrong, word) -> None:
    with pytest.raises(ValueError, match=word):
        ClusterSpec(**wrong)


def test_a_spec_is_made_of_single_fields_or_changed_by_them() -> None:
    assert checked_spec(None, {"brokers": 3}) == ClusterSpec(brokers=3)
    changed = checked_spec(ClusterSpec(brokers=3), {"release": "5.3.3"})
    assert changed == ClusterSpec(brokers=3, release="5.3.3")
    assert checked_spec(None, {"store": Path("/data")}).store == "/data"


def test_the_fields_as_keywords_are_those_of_the_spec() -> None:
    assert tuple(get_type_hints(SpecFields)) == ClusterSpec.__struct_fields__


def test_settings_may_have_the_names_of_rocketmq_and_its_units() -> None:
    theirs: ClusterFields = {
        "settings": {
            "autoCreateTopicEnable": False,
            "default_topic_queues": 3,
            "serverChannelMaxIdleTimeSeconds": 7,
            "net.connect_ms_max": 500,
            "deleteWhen": "04",  # of no effect here
        },
        "settings_of": {"broker-b": {"brokerPermission": 4}},
        "name_server_settings": {"waitSecondsForService": 2},
    }
    spec = checked_spec(None, theirs)
    config = spec.broker_config("broker-b")
    assert (config.auto_create_topic, config.default_topic_queues, config.perm) == (False, 3, 4)
    assert (config.net.idle_ms_max, config.net.connect_ms_max) == (7_000, 500)
    assert spec.name_server_config("namesrv").wait_for_service_ms == 2_000


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"autoCreateTopicEnabel": False}, "; did you mean autoCreateTopicEnable?"),
        ({"defaultTopicQueueNums": 3, "default_topic_queues": 3}, "are the same setting"),
        ({"listenPort": 10911}, "give host and port"),
        ({"brokerRole": "SLAVE"}, "a SLAVE has an id above 0, a master has 0"),
        ({"aclEnable": True}, "aclEnable=true is not supported"),
        ({"lockInStrictMode": True}, "lockInStrictMode=true is not supported"),
        ({"autoCreateTopicEnable": "no"}, "auto_create_topic is a bool, not str 'no'"),
    ],
)
def test_a_setting_that_is_none_is_refused_with_the_name_that_was_given(settings, told) -> None:
    with pytest.raises(ValueError, match=re.escape(told)):
        checked_spec(None, {"settings": settings})


def test_settings_of_brokers_are_given_once() -> None:
    with pytest.raises(ValueError, match="settings and broker_settings of a cluster are the same"):
        checked_spec(None, {"settings": {"perm": 4}, "broker_settings": {}})
