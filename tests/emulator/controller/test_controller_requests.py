"""Whole requests to a controller: tools, settings, bad input, limits, and a restart."""

from __future__ import annotations

import pytest

from rocketmq_emulator.controller.state.events import EVENTS
from rocketmq_emulator.disk.memory import MemoryDisk
from rocketmq_emulator.disk.port import DiskFull, StoreDamaged
from rocketmq_emulator.facts import BrokerDataCleaned, SettingsIgnored
from rocketmq_emulator.net.results import Reply
from rocketmq_emulator.protocol.bodies.body import decode_body
from rocketmq_emulator.protocol.bodies.controller import BrokerReplicasInfo
from rocketmq_emulator.protocol.codes import RequestCode
from rocketmq_emulator.protocol.java import java_properties
from tests.support.controller.controllers import SET, ControllerBench, a_set, address_of

CLEAN = RequestCode.CLEAN_BROKER_DATA
DATA = RequestCode.CONTROLLER_GET_SYNC_STATE_DATA


def clean(bench: ControllerBench, ids: str | None = None, *, living: bool = False) -> Reply:
    fields = {"clusterName": "C", "brokerName": SET, "isCleanLivingBroker": str(living).lower()}
    return bench.invoke(CLEAN, **fields, **({"brokerControllerIdsToClean": ids} if ids else {}))


# Tools ----------------------------------------------------------------------------------


def test_the_metadata_names_this_controller_as_leader() -> None:
    bench = ControllerBench(self_id="n7", group="G", peers="n7-127.0.0.1:9878")
    header = bench.invoke(RequestCode.CONTROLLER_GET_METADATA_INFO).header
    assert (header.group, header.controller_leader_id, header.is_leader) == ("G", "n7", True)
    assert header.controller_leader_address == "127.0.0.1:9878"
    assert header.peers == "n7:127.0.0.1:9878;"


def test_the_sync_state_data_lists_known_names_with_who_is_alive() -> None:
    bench = a_set(1, 2, 3, in_sync=(1, 2))
    bench.close(2)
    reply = bench.invoke(DATA, body=b'["broker-a","unknown"]')
    (name,) = found = decode_body(reply.body, BrokerReplicasInfo).replicas_info_table
    info = found[name]
    assert (name, info.master_broker_id, info.master_address) == (SET, 1, address_of(1))
    alive = [(each.broker_id, each.alive) for each in info.in_sync_replicas]
    assert alive == [(1, True), (2, False)]
    assert [each.broker_id for each in info.not_in_sync_replicas] == [3]


@pytest.mark.parametrize("body", [b"", b"[]", b"null", b"{}", b"[1", b'"x"'])
def test_the_sync_state_data_of_no_names_is_an_error(body) -> None:
    assert ControllerBench().invoke(DATA, body=body).code == 1


def test_dead_brokers_are_cleaned_by_id_and_living_ones_are_not() -> None:
    bench = a_set(1, 2, 3, in_sync=(1, 2))
    bench.close(2)
    assert clean(bench, "2;3").remark == "Broker [broker-a,  3] is still alive, clean up failure"
    assert clean(bench, "2").code == 0
    assert bench.replica_info() == (1, 1, [1], 2)
    assert bench.noted(BrokerDataCleaned) == [BrokerDataCleaned(SET, (2,))]
    assert bench.next_id() == 4, "an id is never used twice"


def test_a_name_with_a_master_is_cleaned_only_if_asked_for_the_living() -> None:
    bench = a_set(1, 2)
    assert clean(bench).code == 2009
    assert clean(bench, living=True).code == 0
    assert bench.next_id() == 1
    assert clean(bench).remark == "Broker broker-a is not existed,clean broker data failure."


@pytest.mark.parametrize("ids", ["x", "1;;2", " 1", "1;99999999999999999999"])
def test_ids_that_are_no_numbers_are_refused(ids) -> None:
    reply = clean(a_set(1), ids)
    assert reply.code == 2009
    assert "java.lang.NumberFormatException: For input string: " in reply.remark


# Settings -------------------------------------------------------------------------------


def settings_of(bench: ControllerBench) -> dict[str, str]:
    reply = bench.invoke(RequestCode.GET_CONTROLLER_CONFIG)
    return java_properties.parse_body(reply.body)


def test_settings_are_listed_and_changed_by_upstreams_names() -> None:
    bench = a_set(1, 2)
    assert settings_of(bench)["enableElectUncleanMaster"] == "false"
    update = RequestCode.UPDATE_CONTROLLER_CONFIG
    assert bench.invoke(update, body=b"enableElectUncleanMaster=true\n").code == 0
    assert settings_of(bench)["enableElectUncleanMaster"] == "true"
    bench.close(1)
    assert bench.replica_info()[0] == 2, "the setting is in effect"


@pytest.mark.parametrize("name", ["configBlackList", "configStorePath", "rocketmqHome", "mine"])
def test_black_listed_settings_stay(name) -> None:
    bench = ControllerBench(config_black_list="mine;configStorePath")
    before = settings_of(bench)
    body = f"{name}=x\nenableElectUncleanMaster=true\n".encode()
    reply = bench.invoke(RequestCode.UPDATE_CONTROLLER_CONFIG, body=body)
    assert (reply.code, reply.remark) == (16, "Can not update config in black list.")
    assert settings_of(bench) == before


def test_settings_without_an_effect_are_answered_and_noted() -> None:
    bench = ControllerBench()
    body = b"electMasterMaxRetryCount=x\ncontrollerThreadPoolNums=3\nnobody=1\n"
    assert bench.invoke(RequestCode.UPDATE_CONTROLLER_CONFIG, body=body).code == 0
    (fact,) = bench.noted(SettingsIgnored)
    assert fact.names == ("controllerThreadPoolNums", "electMasterMaxRetryCount", "nobody")
    listed = settings_of(bench)
    assert (listed["electMasterMaxRetryCount"], listed["controllerThreadPoolNums"]) == ("3", "3")


# Bad input and limits -------------------------------------------------------------------

REQUIRED = {
    RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET: {"brokerName": "b", "masterEpoch": "1"},
    RequestCode.CONTROLLER_ELECT_MASTER: {
        "clusterName": "c",
        "brokerName": "b",
        "brokerId": "1",
        "designateElect": "false",
    },
    RequestCode.CONTROLLER_REGISTER_BROKER: {
        "brokerName": "b",
        "brokerId": "1",
        "brokerAddress": "a",
    },
    RequestCode.CONTROLLER_GET_REPLICA_INFO: {"brokerName": "b"},
    RequestCode.CLEAN_BROKER_DATA: {"brokerName": "b"},
    RequestCode.CONTROLLER_GET_NEXT_BROKER_ID: {"brokerName": "b"},
    RequestCode.CONTROLLER_APPLY_BROKER_ID: {
        "brokerName": "b",
        "appliedBrokerId": "1",
        "registerCheckCode": "a;1",
    },
    RequestCode.BROKER_HEARTBEAT: {"clusterName": "c", "brokerName": "b", "brokerAddr": "a"},
}
CASES = [(code, name) for code, fields in REQUIRED.items() for name in fields]


@pytest.mark.parametrize(("code", "missing"), CASES)
def test_a_missing_field_is_refused_and_changes_nothing(code, missing) -> None:
    bench = ControllerBench()
    fields = {name: text for name, text in REQUIRED[code].items() if name != missing}
    body = b'{"syncStateSet":[1]}' if code == RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET else b""
    reply = bench.invoke(code, body=body, **fields)
    assert (reply.code, missing in reply.remark) == (1, True)
    assert not bench.facts


@pytest.mark.parametrize("text", ["x", "", "1.5", "99999999999999999999", "9" * 5_000])
@pytest.mark.parametrize("name", ["appliedBrokerId"])
def test_a_number_that_is_none_is_refused(name, text) -> None:
    code = RequestCode.CONTROLLER_APPLY_BROKER_ID
    reply = ControllerBench().invoke(code, **(REQUIRED[code] | {name: text}))
    assert (reply.code, name in reply.remark) == (1, True)


@pytest.mark.parametrize(
    "body", [b"", b"{}", b"[]", b"null", b'{"syncStateSet":["x"]}', b'{"syncStateSet":[1', b"\xff"]
)
def test_a_body_that_is_no_set_is_refused(body) -> None:
    bench = a_set(1)
    fields = {"brokerName": SET, "masterBrokerId": 1, "masterEpoch": 1}
    assert bench.invoke(1001, body=body, **fields).code == 1
    assert bench.replica_info() == (1, 1, [1], 1)


def test_a_report_without_a_master_is_that_of_another_master() -> None:
    body = b'{"syncStateSet":[1,2],"syncStateSetEpoch":1}'
    reply = a_set(1, 2).invoke(1001, body=body, brokerName=SET, masterEpoch=1)
    assert reply.code == 2002
    assert reply.remark.endswith("current leader is:{1}, not {null}")


def test_a_heartbeat_without_a_broker_id_is_an_invalid_request() -> None:
    reply = ControllerBench().heartbeat(1, brokerId=None)
    assert (reply.code, reply.remark) == (2005, "Heart beat with empty brokerId")
    assert ControllerBench().heartbeat(1).remark == "Heart beat success"


@pytest.mark.parametrize("code", [1000, *range(1014, 1020), 1007, 1008, 100])
def test_log_entries_and_requests_to_brokers_are_not_supported(code) -> None:
    assert ControllerBench().invoke(code).code == 3


def test_names_brokers_and_texts_have_limits() -> None:
    bench = ControllerBench(groups_max=2, replicas_max=2, live_brokers_max=2)
    assert [bench.apply(1, name=name).code for name in ("a", "b", "c", "a")] == [0, 0, 1, 0]
    assert [bench.apply(number, name="a").code for number in (2, 3, 2)] == [0, 1, 0]
    assert [bench.heartbeat(number).code for number in (1, 2, 3, 2)] == [0, 0, 1, 0]
    assert bench.apply(1, "a" * 2_000, name="b").code == 2014
    assert ControllerBench().apply(1, "a" * 2_000).code == 1
    assert ControllerBench().apply(1, name="n" * 256).code == 1
    assert bench.register(1, "a" * 2_000, name="a").code == 1


# A restart ------------------------------------------------------------------------------


def test_every_answered_decision_survives_a_restart() -> None:
    bench = a_set(1, 2, in_sync=(1, 2))
    bench.register(2, "10.9.9.9:1")
    bench.close(1)
    again = bench.restarted()
    assert again.replica_info() == bench.replica_info() == (2, 2, [2], 3)
    assert again.controller.replicas.saved() == bench.controller.replicas.saved()
    assert not again.facts, "a restart decides nothing"
    assert again.apply(1, "another").code == 2014


def test_a_cleaned_name_is_gone_after_a_restart() -> None:
    bench = a_set(1)
    clean(bench, living=True)
    assert bench.restarted().next_id() == 1


def test_a_long_log_becomes_one_line_with_the_same_tables() -> None:
    bench = a_set(1, 2, events_max=5)
    for ids in ([1, 2], [1], [1, 2], [1], [1, 2]):
        bench.alter(ids, set_epoch=bench.replica_info()[3])
    assert bench.disk.read(EVENTS).count(b"\n") <= 6
    assert bench.restarted().replica_info() == (1, 1, [1, 2], 6)


def test_a_line_that_a_kill_cut_is_removed() -> None:
    bench = a_set(1)
    before = bench.disk.read(EVENTS)
    bench.disk.append(EVENTS, b'{"event":"Mast')
    again = bench.restarted()
    assert again.replica_info() == (1, 1, [1], 1)
    assert again.disk.read(EVENTS) == before


def test_a_damaged_line_stops_the_start() -> None:
    disk = MemoryDisk()
    disk.replace(EVENTS, b'{"event":"Nobody"}\n{}\n')
    with pytest.raises(StoreDamaged, match="line 1"):
        ControllerBench(disk)


class FullDisk(MemoryDisk):
    is_full = False

    def append(self, name: str, data: bytes, *, flushed: bool = False) -> None:
        if self.is_full:
            raise DiskFull("no space")
        super().append(name, data, flushed=flushed)


def test_a_decision_that_cannot_be_written_is_not_made() -> None:
    bench = ControllerBench(FullDisk())
    bench.apply(1)
    bench.disk.is_full = True
    reply = bench.elect(1)
    assert (reply.code, "no space" in reply.remark) == (1, True)
    assert bench.replica_info() == (None, 0, [], 0)
    bench.disk.is_full = False
    assert bench.elect(1).code == 0
