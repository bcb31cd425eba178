"""Key-values and settings: reading, changing, and what a restart keeps."""

from __future__ import annotations

import pytest

from rocketmq_emulator.disk.memory import MemoryDisk
from rocketmq_emulator.disk.port import StoreDamaged
from rocketmq_emulator.facts import SettingsIgnored
from rocketmq_emulator.nameserver.state.settings import KV_CONFIG, KVConfig
from rocketmq_emulator.protocol.codes import RequestCode
from rocketmq_emulator.protocol.java import java_properties
from rocketmq_emulator.settings.config import NameServerConfig
from tests.support import golden_data
from tests.support.nameserver.name_servers import RELEASES, NameServerBench, a_peer, table_of

each_release = pytest.mark.parametrize("release", RELEASES)
PUT, GET, DELETE = 100, 101, 102
LIST, UPDATE, SHOW = 219, 318, 319


class FullDisk(MemoryDisk):
    """A disk without room for any document."""

    def replace(self, name: str, data: bytes) -> None:
        raise OSError(28, f"no space left for {len(data)} bytes of {name}")


def settings_of(bench: NameServerBench) -> dict[str, str]:
    return java_properties.parse(bench.invoke(SHOW).body.decode())


@each_release
def test_a_key_is_put_read_replaced_and_deleted(release) -> None:
    bench, item = NameServerBench(release), {"namespace": "N", "key": "k"}
    assert bench.put_kv("N", "k", "1").code == 0
    assert bench.put_kv("N", "k", "2").code == 0
    assert bench.invoke_with(GET, **item).header.value == "2"
    assert bench.invoke_with(DELETE, **item).code == 0
    assert bench.invoke_with(GET, **item).code == 22
    assert bench.invoke_with(DELETE, **item).code == 0, "deleting nothing is no error"


@each_release
def test_a_list_is_empty_after_its_last_key_and_missing_before_its_first(release) -> None:
    bench = NameServerBench(release)
    missing = bench.invoke_with(LIST, namespace="N")
    assert (missing.code, missing.remark) == (22, "No config item, Namespace: N")
    bench.put_kv("N", "k", "1")
    assert table_of(bench.invoke_with(LIST, namespace="N")) == {"k": "1"}
    bench.invoke_with(DELETE, namespace="N", key="k")
    assert table_of(bench.invoke_with(LIST, namespace="N")) == {}


@each_release
@pytest.mark.parametrize("left_out", ["namespace", "key", "value"])
def test_a_put_without_one_of_its_fields_is_refused(release, left_out) -> None:
    bench = NameServerBench(release)
    fields = {"namespace": "N", "key": "k", "value": "1"}
    del fields[left_out]
    assert bench.invoke_with(PUT, **fields).code == 1
    assert bench.disk.read(KV_CONFIG) is None


def test_deletions_survive_a_restart_too() -> None:
    bench = NameServerBench()
    bench.put_kv("N", "k", "1")
    bench.put_kv("N", "l", "2")
    bench.invoke_with(DELETE, namespace="N", key="k")
    assert table_of(bench.restarted().invoke_with(LIST, namespace="N")) == {"l": "2"}


def test_what_could_not_be_stored_has_not_happened() -> None:
    bench = NameServerBench(disk=FullDisk())
    reply = bench.put_kv("N", "k", "1")
    assert reply.code == 1
    assert "no space left" in reply.remark
    assert bench.invoke_with(GET, namespace="N", key="k").code == 22


def test_there_is_room_for_so_many_keys_and_for_changing_them() -> None:
    bench = NameServerBench(kv_entries_max=2)
    assert [bench.put_kv("N", key, "1").code for key in "abc"] == [0, 0, 1]
    assert bench.put_kv("N", "a", "2").code == 0
    bench.invoke_with(DELETE, namespace="N", key="b")
    assert bench.put_kv("M", "c", "1").code == 0


@pytest.mark.parametrize(
    "case", golden_data.cases("config-files.jsonl", "file_kvConfig"), ids=lambda case: case["id"]
)
def test_the_file_is_the_real_one_both_ways(case) -> None:
    disk = MemoryDisk()
    disk.replace(KV_CONFIG, case["out"].encode())
    given = {ns: dict(items["map"]) for ns, items in case["in"]["fields"]["configTable"]["map"]}
    loaded = KVConfig(disk, entries_max=1_000)
    assert {ns: loaded.of(ns) for ns in given} == given
    for namespace in given:  # each change writes the file
        loaded.put(namespace, "new", "")
        loaded.delete(namespace, "new")
    assert disk.read(KV_CONFIG).decode() == case["out"]


@each_release
def test_settings_are_shown_by_upstream_names(release) -> None:
    shown = settings_of(NameServerBench(release, order_message_enable=True))
    assert shown["orderMessageEnable"] == "true"
    assert shown["listenPort"] == "9876"
    assert ("waitSecondsForService" in shown) == (release == "5.3.3")


@each_release
def test_a_setting_can_be_changed_while_it_runs(release) -> None:
    bench = NameServerBench(release)
    bench.register(a_peer())
    bench.put_kv("ORDER_TOPIC_CONFIG", "T", "broker-a:4")
    assert bench.route("T").order_topic_conf is None
    assert bench.invoke(UPDATE, body=b"orderMessageEnable=true\nunheardOf=1\n").code == 0
    assert bench.route("T").order_topic_conf == "broker-a:4"
    assert settings_of(bench)["orderMessageEnable"] == "true"
    assert "unheardOf" not in settings_of(bench)


def test_a_text_that_is_no_number_leaves_a_setting_unchanged() -> None:
    bench = NameServerBench("5.3.3")
    body = b"waitSecondsForService=soon\nneedWaitForService=true"
    assert bench.invoke(UPDATE, body=body).code == 0
    assert settings_of(bench)["waitSecondsForService"] == "45"
    assert settings_of(bench)["needWaitForService"] == "true"
    bench.invoke(UPDATE, body=b"waitSecondsForService=7")
    assert settings_of(bench)["waitSecondsForService"] == "7"


@pytest.mark.parametrize(
    ("release", "name", "code", "remark"),
    [
        ("4.9.5", "kvConfigPath", 0, None),
        ("4.9.6", "kvConfigPath", 16, "Can not update config path"),
        ("4.9.6", "configStorePath", 0, None),
        ("4.9.7", "configStorePath", 16, "Can not update config path"),
        ("4.9.7", "configBlackList", 0, None),
        ("4.9.8", "configBlackList", 16, "Can not update config in black list."),
        ("5.1.0", "kvConfigPath", 0, None),
        ("5.1.1", "kvConfigPath", 16, "Can not update config path"),
        ("5.1.1", "configStorePath", 0, None),
        ("5.1.2", "configStorePath", 16, "Can not update config path"),
        ("5.1.4", "configBlackList", 0, None),
        ("5.2.0", "configBlackList", 16, "Can not update config in black list."),
        ("5.3.3", "kvConfigPath", 16, "Can not update config in black list."),
        ("5.3.3", "configBlackList", 16, "Can not update config in black list."),
        ("5.3.3", "listenPort", 16, "Can not update config in black list."),
    ],
)
def test_black_listed_settings_stay_and_keep_the_others_from_changing(
    release, name, code, remark
) -> None:
    bench = NameServerBench(release, config_black_list="listenPort;other")
    reply = bench.invoke(UPDATE, body=f"orderMessageEnable=true\n{name}=x".encode())
    assert (reply.code, reply.remark) == (code, remark)
    assert settings_of(bench)["orderMessageEnable"] == ("true" if code == 0 else "false")


def test_settings_that_are_no_properties_are_refused() -> None:
    reply = NameServerBench().invoke(UPDATE, body=b"orderMessageEnable=\\u12")
    assert (reply.code, reply.remark) == (1, "string2Properties error")
    long = NameServerBench().invoke(UPDATE, body=b"a" * 65_537)
    assert (long.code, long.remark) == (1, "65537 characters of properties: the limit is 65536")


@pytest.mark.parametrize(
    "bad",
    [
        {"unheard_of": 1},
        {"release": "newest"},
        {"scan_first_ms": 0},
        {"scan_interval_ms": -1},
        {"brokers_max": 0},
        {"scan_first_ms": 200_000},
    ],
)
def test_a_config_that_makes_no_sense_is_refused_when_it_is_made(bad) -> None:
    with pytest.raises((TypeError, ValueError)):
        NameServerConfig(**bad)


def test_the_scan_interval_can_be_set() -> None:
    assert NameServerBench("5.3.3", scan_interval_ms=1_234).server.scan_interval_ms == 1_234
    assert RequestCode.GET_NAMESRV_CONFIG == SHOW


def test_a_damaged_kv_config_is_an_error_and_is_left_as_it_is() -> None:
    disk = MemoryDisk()
    disk.replace(KV_CONFIG, b'{"configTable":{"N":')
    with pytest.raises(StoreDamaged, match=r"kvConfig\.json cannot be read"):
        KVConfig(disk, 10)
    assert disk.read(KV_CONFIG) == b'{"configTable":{"N":'


@each_release
def test_a_setting_that_is_ignored_is_a_warning_that_names_it(release) -> None:
    bench = NameServerBench(release)
    body = b"unheardOf=1\norderMessageEnable=true\nlistenPort=1\nserverWorkerThreads=9\n"
    assert bench.invoke(UPDATE, body=body).code == 0, "upstream answers so"
    (fact,) = bench.noted(SettingsIgnored)
    assert fact.names == ("listenPort", "serverWorkerThreads", "unheardOf")
    assert fact.severity == "warning"
    assert settings_of(bench)["orderMessageEnable"] == "true"


def test_a_number_that_is_none_is_ignored_with_a_warning() -> None:
    bench = NameServerBench("5.3.3")
    assert bench.invoke(UPDATE, body=b"waitSecondsForService=soon").code == 0
    (fact,) = bench.noted(SettingsIgnored)
    assert fact.names == ("waitSecondsForService",)


def test_settings_that_are_all_changed_warn_of_nothing() -> None:
    bench = NameServerBench()
    assert bench.invoke(UPDATE, body=b"orderMessageEnable=true").code == 0
    assert bench.noted(SettingsIgnored) == []


@each_release
def test_the_port_that_is_shown_is_the_one_that_was_bound(release) -> None:
    bench = NameServerBench(release, listen_address="127.0.0.1:0")
    bench.server.settings.set_listen_address("127.0.0.1:4711")
    assert settings_of(bench)["listenPort"] == "4711"


@each_release
def test_settings_without_effect_are_shown_as_changed(release) -> None:
    bench = NameServerBench(release)
    bench.invoke(UPDATE, body="listenPort=1\nserverWorkerThreads=x\nproductEnvName=é".encode())
    shown = settings_of(bench)
    assert (shown["listenPort"], shown["serverWorkerThreads"]) == ("1", "8")
    assert shown["productEnvName"] == "Ã©", "Java reads the text's bytes as Latin-1"


@pytest.mark.parametrize(("release", "line"), [("4.9.7", "4.9"), ("5.3.3", "5.3")])
def test_the_settings_are_those_of_a_real_one(release, line) -> None:
    (case,) = golden_data.cases("namesrv-settings.jsonl", "namesrv_settings", line)
    shown = settings_of(NameServerBench(release))
    of_this_machine = dict.fromkeys(case["in"]["left_out"], "")
    assert shown | of_this_machine == case["out"]


@pytest.mark.parametrize(
    ("name", "before", "since"),
    [
        ("supportActingMaster", "4.9.8", "5.0.0"),
        ("needWaitForService", "5.0.0", "5.1.0"),
        ("deleteTopicWithBrokerRegistration", "5.1.3", "5.1.4"),
        ("enableShutdownGracefully", "5.1.4", "5.2.0"),
        ("serverNettyWorkerGroupEnable", "5.3.0", "5.3.1"),
    ],
)
def test_settings_of_the_name_server_come_release_by_release(
    name: str, before: str, since: str
) -> None:
    assert name not in settings_of(NameServerBench(before))
    assert name in settings_of(NameServerBench(since))
