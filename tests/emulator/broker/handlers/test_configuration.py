"""Settings of a running broker: shown under upstream's names, changed, or ignored."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from rocketmq_emulator.broker.handlers.configuration import FIXED_4, FIXED_5, LIVE_5_3
from rocketmq_emulator.facts import SettingsChanged, SettingsIgnored
from rocketmq_emulator.protocol import catalog
from rocketmq_emulator.protocol.codes import ResponseCode
from rocketmq_emulator.protocol.java import java_properties
from rocketmq_emulator.protocol.requests.sending import ConsumerSendMsgBackRequest
from rocketmq_emulator.settings.property_names import BROKER
from tests.support.broker.bench import Bench, Client
from tests.support.broker.store_makers import LAST_4, LAST_5


def set_to(client: Client, text: str) -> int:
    return client.must(catalog.UPDATE_BROKER_CONFIG, None, text.encode()).code


def shown(client: Client) -> dict[str, str]:
    return java_properties.parse(client.must(catalog.GET_BROKER_CONFIG).body.decode())


def test_names_mean_here_what_they_mean_in_a_properties_file() -> None:
    for name, field in {**FIXED_4, **FIXED_5, **LIVE_5_3}.items():
        if name != "mappedFileSizeCommitLog":  # ignored in a file, shown here
            assert BROKER.settings[name] == (field, 1)


async def test_the_settings_that_mqadmin_exports_are_shown() -> None:
    of_4, of_5 = (shown(Bench(release=release).client()) for release in (LAST_4, LAST_5))
    assert (of_4["filterServerNums"], of_4["useTLS"]) == ("0", "false")
    assert of_4["msgTraceTopicName"] == "RMQ_SYS_TRACE_TOPIC"
    assert set(of_4) - set(of_5) == {"filterServerNums", "haSlaveFallbehindMax"}


@pytest.mark.parametrize(
    ("release", "port", "gap"),
    [(LAST_4, "10912", "haSlaveFallbehindMax"), (LAST_5, "40000", "haMaxGapNotInSync")],
)
async def test_the_settings_of_replication_are_shown(release: str, port: str, gap: str) -> None:
    settings = {"broker_role": "SLAVE", "broker_id": 2, "ha_port": 40_000}
    settings["listen_address"] = "127.0.0.1:10911"
    found = shown(Bench(release=release, **settings).client())
    expected = {
        "brokerId": "2",
        "brokerRole": "SLAVE",
        "haHousekeepingInterval": "20000",
        "haListenPort": port,
        "haSendHeartbeatInterval": "5000",
        "haTransferBatchSize": "32768",
        "offsetCheckInSlave": "false",
        "slaveTimeout": "3000",
        gap: "268435456",
    }
    assert found.items() >= expected.items()
    assert "haMasterAddress" not in found
    assert ("inSyncReplicas" in found) == ("minInSyncReplicas" in found) == (release == LAST_5)
    settings["ha_master_address"] = "127.0.0.1:9"
    found = shown(Bench(release=release, **settings).client())
    assert found["haMasterAddress"] == "127.0.0.1:9"


async def test_a_change_is_shown_and_a_fact() -> None:
    bench = Bench(release=LAST_5)
    client = bench.client()
    assert shown(client)["shortPollingTimeMills"] == "1000"
    assert set_to(client, "shortPollingTimeMills=20\ntraceTopicEnable=true\n") == 0
    assert shown(client)["shortPollingTimeMills"] == "20"
    (changed,) = bench.facts(SettingsChanged)
    assert changed.settings == ("shortPollingTimeMills=20",)
    (ignored,) = bench.facts(SettingsIgnored)
    assert (ignored.names, ignored.severity) == (("traceTopicEnable",), "warning")


@pytest.mark.parametrize("release", [LAST_4, LAST_5])
async def test_the_settings_of_transactions_replies_traces_and_filters_are_shown(
    release: str,
) -> None:
    client = Bench(release=release, consume_queue_ext=True).client()
    filters = {
        "enableCalcFilterBitMap": "false",
        "enableConsumeQueueExt": "true",
        "enablePropertyFilter": "false",
        "filterSupportRetry": "false",
    }
    others = {
        "rejectTransactionMessage": "false",
        "storeReplyMessageEnable": "true",
        "traceTopicEnable": "false",
        "transactionCheckInterval": "30000" if release == LAST_5 else "60000",
        "transactionCheckMax": "15",
        "transactionTimeOut": "6000",
    }
    wanted = {**filters, **others}
    if release == LAST_5:
        wanted |= {"transactionOpBatchInterval": "3000", "transactionOpMsgMaxSize": "4096"}
    assert shown(client).items() >= wanted.items()
    assert set_to(client, "enableCalcFilterBitMap=true\nstoreReplyMessageEnable=false\n") == 0
    assert shown(client)["enableCalcFilterBitMap"] == "true"
    assert not client.bench.broker.config.store_replies


@pytest.mark.parametrize(
    "text", ["noSuchSetting=1", "brokerPermission=many", "brokerPermission=9"]
)
async def test_what_changes_nothing_is_answered_success_with_a_warning(text: str) -> None:
    bench = Bench()
    client = bench.client()
    before = shown(client)
    assert set_to(client, text) == 0
    assert shown(client) == before
    assert [fact.names for fact in bench.facts(SettingsIgnored)] == [(text.partition("=")[0],)]


@pytest.mark.parametrize(
    ("release", "code", "is_changed"),
    [(LAST_4, 0, True), (LAST_5, ResponseCode.NO_PERMISSION, False)],
)
async def test_the_black_list_of_5_x_refuses_all_settings_of_a_request(
    release: str, code: int, *, is_changed: bool
) -> None:
    client = Bench(release=release).client()
    assert set_to(client, "slaveReadEnable=true\nrocketmqHome=/\n") == code
    assert (shown(client)["slaveReadEnable"] == "true") == is_changed


async def test_topics_and_groups_are_made_as_the_settings_say_now() -> None:
    bench = Bench()
    client = bench.client()
    set_to(client, "autoCreateTopicEnable=false\nautoCreateSubscriptionGroup=false\n")
    assert client.send_message("new").code == ResponseCode.TOPIC_NOT_EXIST
    set_to(client, "autoCreateTopicEnable=true\n")
    client.sent("new")
    answer = client.pull("new", sys_flag=4, subscription="*")
    assert answer is not None
    assert answer.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST


async def test_a_broker_that_may_not_be_read_refuses_pulls() -> None:
    client = Bench().client()
    client.sent("t")
    set_to(client, "brokerPermission=2\n")
    answer = client.pull("t", sys_flag=4, subscription="*")
    assert answer is not None
    assert answer.code == ResponseCode.NO_PERMISSION
    assert answer.remark == "the broker[127.0.0.1] pulling message is forbidden"


async def test_a_broker_that_may_not_be_written_to_refuses_what_is_sent_back() -> None:
    client = Bench().client()
    client.sent("t")
    set_to(client, "brokerPermission=4\n")
    header = ConsumerSendMsgBackRequest(offset=0, group="g", delay_level=1)
    answer = client.must(catalog.CONSUMER_SEND_MSG_BACK, header)
    assert answer.code == ResponseCode.NO_PERMISSION
    assert answer.remark == "the broker[127.0.0.1] sending message is forbidden"


async def test_pulls_give_out_as_many_messages_as_the_setting_says_now() -> None:
    client = Bench().client()
    for _ in range(5):
        client.sent("t")
    set_to(client, "maxTransferCountOnMessageInMemory=2\n")
    assert len(client.pulled("t", sys_flag=4, subscription="*")) == 2


async def test_members_are_notified_as_the_setting_says_now() -> None:
    client, other = (bench := Bench()).client(), bench.client()
    set_to(client, "notifyConsumerIdsChangedEnable=false\n")
    client.heartbeat("A", topics={"t": "*"})
    other.heartbeat("B", topics={"t": "*"})
    assert client.notices() == []


async def test_pulls_are_held_shortly_once_long_polling_is_off(autojump_clock: MockClock) -> None:
    async with trio.open_nursery() as nursery:
        bench = Bench()
        bench.start(nursery)
        client = bench.client()
        client.sent("t")
        client.heartbeat("A", topics={"t": "*"})
        set_to(client, "longPollingEnable=false\nshortPollingTimeMills=300\n")
        assert client.pull("t", 1) is None
        await trio.sleep(1.1)
        assert client.answer_to(client.last_opaque) is not None
        nursery.cancel_scope.cancel()


async def test_silent_clients_leave_when_the_setting_says_now(autojump_clock: MockClock) -> None:
    async with trio.open_nursery() as nursery:
        bench = Bench(release=LAST_5)
        bench.start(nursery)
        client = bench.client()
        client.heartbeat("A", topics={"t": "*"})
        set_to(client, "channelExpiredTimeout=31000\n")
        await trio.sleep(45)
        assert bench.broker.clients.group("g") is None
        nursery.cancel_scope.cancel()


async def test_what_is_no_text_of_settings_is_refused() -> None:
    client = Bench().client()
    assert set_to(client, "traceOn=\\u12") == ResponseCode.SYSTEM_ERROR
