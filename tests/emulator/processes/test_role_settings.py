"""The sources of a role's settings, and the settings that are refused."""

from __future__ import annotations

import re

import msgspec
import pytest

from rocketmq_emulator.cluster.spec import ClusterSpec
from rocketmq_emulator.processes.role_settings import PROPERTY_TABLES, BadSetting, Settings
from rocketmq_emulator.settings.config import BrokerConfig, NameServerConfig, NetConfig
from rocketmq_emulator.settings.property_names import (
    ADVERTISED_HOST,
    BROKER,
    LISTEN_HOST,
    LISTEN_PORT,
)

SHIPPED_CONF = """
# what comes with a distribution
brokerClusterName = DefaultCluster
brokerName = broker-x
brokerId = 0
deleteWhen = 04
fileReservedTime = 48
brokerRole = ASYNC_MASTER
flushDiskType = ASYNC_FLUSH
"""


def a_file(tmp_path, name: str, text: str) -> str:
    path = tmp_path / name
    path.write_text(text)
    return str(path)


def test_each_source_beats_those_before_it(tmp_path) -> None:
    settings = Settings(BrokerConfig)
    names = ("brokerName", "regionId", "brokerClusterName")
    conf = "".join(f"{name}=conf\n" for name in names) + "defaultTopicQueueNums=1\nlistenPort=1\n"
    settings.add_properties_file(a_file(tmp_path, "broker.conf", conf))
    toml = 'name = "toml"\nregion = "toml"\ndefault_topic_queues = 2\ncluster = "toml"\n'
    settings.add_toml_file(a_file(tmp_path, "broker.toml", toml))
    settings.add_environment({"RMQEMU_NAME": "env", "RMQEMU_REGION": "env", "HOME": "/"})
    settings.add_assignments(["region=set", "brokerName=set"])
    settings.add_flags(name="flag", release=None)
    config = settings.config()
    assert isinstance(config, BrokerConfig)
    assert (config.name, config.region, config.cluster) == ("flag", "set", "toml")
    assert config.default_topic_queues == 2
    assert config.listen_address == "127.0.0.1:1"
    assert config.release == BrokerConfig().release


def test_the_conf_file_of_a_distribution_is_understood(tmp_path) -> None:
    settings = Settings(BrokerConfig)
    settings.add_properties_file(a_file(tmp_path, "broker.conf", SHIPPED_CONF))
    config = settings.config()
    assert (config.name, config.retained_hours_max) == ("broker-x", 48)
    assert settings.ignored == ["deleteWhen"]


def test_addresses_are_put_together_from_upstreams_parts() -> None:
    settings = Settings(BrokerConfig)
    settings.add_texts(
        {"brokerIP1": "10.1.2.3", "listenPort": "7000", "bindAddress": "0.0.0.0"}, "a file"
    )
    config = settings.config()
    assert config.listen_address == "0.0.0.0:7000"
    assert config.advertised_address == "10.1.2.3:7000"


def test_units_of_upstream_become_ours() -> None:
    settings = Settings(NameServerConfig)
    settings.add_assignments(["waitSecondsForService=7", "serverChannelMaxIdleTimeSeconds=30"])
    config = settings.config()
    assert config.wait_for_service_ms == 7_000
    assert config.net.idle_ms_max == 30_000


def test_several_name_servers_may_be_split_as_upstream_does() -> None:
    settings = Settings(BrokerConfig)
    settings.add_assignments(["namesrvAddr=a:1;b:2"])
    assert settings.config().namesrv == ("a:1", "b:2")


def test_facts_on_demand_are_a_list_and_each_must_be_one() -> None:
    settings = Settings(BrokerConfig)
    settings.add_assignments(["facts_on_demand=RequestReceived"])
    assert settings.config().facts_on_demand == ("RequestReceived",)
    settings.add_assignments(["facts_on_demand=PullHeld"])
    with pytest.raises(BadSetting, match="PullHeld cannot be asked for"):
        settings.config()


def test_limits_of_the_network_are_a_table_in_toml_and_a_prefix_elsewhere(tmp_path) -> None:
    settings = Settings(BrokerConfig)
    settings.add_toml_file(a_file(tmp_path, "b.toml", "[net]\nconnect_ms_max = 5\n"))
    settings.add_environment({"RMQEMU_NET_IDLE_MS_MAX": "6"})
    settings.add_assignments(["net.frame_bytes_max=70000"])
    assert settings.config().net == NetConfig(
        connect_ms_max=5, idle_ms_max=6, frame_bytes_max=70_000
    )


@pytest.mark.parametrize(
    ("assignment", "complaint"),
    [
        ("brokerNme=x", "brokerNme.*did you mean brokerName"),
        ("prem=4", "prem.*did you mean perm"),
        ("flushDiskType=NO_FLUSH", "is ASYNC_FLUSH or SYNC_FLUSH, not 'NO_FLUSH'"),
        ("brokerRole=MASTER", "ASYNC_MASTER"),
        ("brokerId=x", r"broker_id \(brokerId\) is a whole number, not 'x'"),
        ("net.idle_ms_max=x", r"net.idle_ms_max \(.*Seconds\) is a whole number, not 'x'"),
        ("trace_on=perhaps", r"trace_on \(traceOn\) is true or false, not 'perhaps'"),
        ("nonsense", "KEY=VALUE"),
    ],
)
def test_what_cannot_be_is_refused_by_name(assignment, complaint) -> None:
    with pytest.raises(BadSetting, match=complaint):
        Settings(BrokerConfig).add_assignments([assignment])


def test_synchronous_flushes_are_refused_by_name_without_a_store() -> None:
    settings = Settings(BrokerConfig)
    settings.add_assignments(["flushDiskType=SYNC_FLUSH", "syncFlushTimeout=200"])
    with pytest.raises(BadSetting, match=r"= SYNC_FLUSH needs a store"):
        settings.config()
    settings.add_assignments(["storePathRootDir=/somewhere"])
    config = settings.config()
    assert (config.flush_disk_type, config.sync_flush_ms_max) == ("SYNC_FLUSH", 200)


def test_an_unknown_key_in_toml_is_refused_with_its_file(tmp_path) -> None:
    path = a_file(tmp_path, "broker.toml", "brokr = 1\n")
    with pytest.raises(BadSetting, match=r"broker\.toml: there is no setting 'brokr'"):
        Settings(BrokerConfig).add_toml_file(path)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [("name = ", "is not valid TOML"), (b"\xff\xfe", "is not a text in UTF-8")],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path, text, complaint) -> None:
    path = tmp_path / "x.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(BadSetting, match=complaint):
        Settings(BrokerConfig).add_toml_file(str(path))
    with pytest.raises(BadSetting, match="No such file"):
        Settings(BrokerConfig).add_toml_file(str(tmp_path / "nothing"))


def test_settings_that_do_not_fit_together_are_refused() -> None:
    settings = Settings(BrokerConfig)
    settings.add_assignments(["register_interval_ms=500000"])
    with pytest.raises(BadSetting, match=r"register_interval_ms .* must be below"):
        settings.config()


BAD = "lock_ms_max (rocketmq.broker.rebalance.lockMaxLiveTime) is at least 1, not -5"


@pytest.mark.parametrize(
    ("give", "source"),
    [
        (lambda s, _: s.add_assignments(["lock_ms_max=-5"]), "--set lock_ms_max=-5"),
        (
            lambda s, _: s.add_environment({"RMQEMU_LOCK_MS_MAX": "-5"}),
            "the environment, RMQEMU_LOCK_MS_MAX",
        ),
        (
            lambda s, tmp: s.add_toml_file(a_file(tmp, "b.toml", "lock_ms_max = -5")),
            "/b.toml",
        ),
        (
            lambda s, tmp: s.add_properties_file(a_file(tmp, "b.conf", "lock_ms_max=-5")),
            "/b.conf",
        ),
        (lambda s, _: s.add_flags(lock_ms_max="-5"), "--lock-ms-max"),
    ],
)
def test_a_value_that_cannot_be_has_one_sentence_and_the_source_it_came_from(
    tmp_path, give, source
) -> None:
    settings = Settings(BrokerConfig)
    give(settings, tmp_path)
    with pytest.raises(BadSetting) as refused:
        settings.config()
    where, _, sentence = str(refused.value).partition(": ")
    assert sentence == BAD
    assert where.endswith(source)


def test_python_refuses_a_value_that_cannot_be_with_the_same_sentence() -> None:
    with pytest.raises(ValueError, match=re.escape(BAD)):
        BrokerConfig(lock_ms_max=-5)
    with pytest.raises(ValueError, match=re.escape(BAD)):
        ClusterSpec(broker_settings={"lock_ms_max": -5}).check()


def test_a_relation_names_every_source_that_has_a_part_in_it() -> None:
    settings = Settings(BrokerConfig)
    settings.add_environment({"RMQEMU_CLIENT_SILENCE_MS_MAX": "100"})
    settings.add_assignments(["registerNameServerPeriod=200"])
    with pytest.raises(BadSetting) as refused:
        settings.config()
    assert str(refused.value) == (
        "--set registerNameServerPeriod=200: the environment, RMQEMU_CLIENT_SILENCE_MS_MAX: "
        "register_interval_ms (registerNameServerPeriod) = 200 must be below "
        "client_silence_ms_max (channelExpiredTimeout) = 100"
    )


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("banana", "'banana'"),
        ("127.0.0.1:", "'127.0.0.1:'"),
        ("127.0.0.1:99999", "99999"),
        (":9876", "has no host"),
        ("127.0.0.1:0", "no port to connect to"),
        ("127.0.0.1:9876;;127.0.0.2:9876", "not ''"),
        ("300.1.1.1:9876", "not an IP address"),
        ("two words:9876", "not the name of a host"),
    ],
)
def test_a_name_server_that_cannot_be_is_refused_with_what_is_wrong(text, wrong) -> None:
    settings = Settings(BrokerConfig)
    settings.add_flags(namesrv=text)
    with pytest.raises(BadSetting, match=f"--namesrv: .*{wrong}"):
        settings.config()


@pytest.mark.parametrize("text", ["", " ", "a:1;", "a:1; b:2", "[::1]:9876"])
def test_addresses_that_upstream_takes_are_taken(text) -> None:
    settings = Settings(BrokerConfig)
    settings.add_flags(namesrv=text)
    assert "" not in settings.config().namesrv


def test_a_flag_is_named_as_it_was_given() -> None:
    settings = Settings(BrokerConfig)
    settings.add_flags(listen_address="here", advertised_address=None)
    with pytest.raises(BadSetting, match=r"^--listen: listen_address"):
        settings.config()


def test_a_setting_of_the_other_role_is_said_to_be_one() -> None:
    with pytest.raises(BadSetting, match="brokerName is a setting of a broker, not of a NameS"):
        Settings(NameServerConfig).add_assignments(["brokerName=x"])


def test_the_variable_of_the_control_address_is_no_setting() -> None:
    settings = Settings(BrokerConfig)
    settings.add_environment({"RMQEMU_CONTROL": "127.0.0.1:1", "RMQEMU_NAME": "broker-c"})
    assert settings.nested() == {"name": "broker-c"}


@pytest.mark.parametrize("kind", PROPERTY_TABLES, ids=lambda kind: kind.__name__)
def test_every_property_in_the_table_is_a_setting_of_ours(kind) -> None:
    ours = {field.name for field in msgspec.structs.fields(kind)}
    ours |= {f"net.{field.name}" for field in msgspec.structs.fields(NetConfig)}
    ours |= {ADVERTISED_HOST, LISTEN_HOST, LISTEN_PORT}
    dialect = PROPERTY_TABLES[kind]
    assert {known.field for known in dialect.settings.values()} <= ours
    assert not dialect.settings.keys() & dialect.harmless.keys()


def test_every_broker_setting_that_names_an_upstream_property_has_that_name_in_the_table() -> None:
    unnamed = {field.name for field in msgspec.structs.fields(BrokerConfig)} - {
        known.field for known in BROKER.settings.values()
    }
    ours_alone = {"release", "listen_address", "advertised_address", "net", "durable_offsets"}
    assert ours_alone <= unnamed
    assert {"name", "perm", "property_filter", "delay_levels", "store"}.isdisjoint(unnamed)
