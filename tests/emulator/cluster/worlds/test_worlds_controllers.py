"""Controllers elect masters: what happens when a master, a controller or a link is lost."""

from __future__ import annotations

import pytest
import trio

from rocketmq_emulator.cluster.fault_values import Partition
from rocketmq_emulator.cluster.spec import ClusterSpec
from rocketmq_emulator.protocol import catalog
from rocketmq_emulator.protocol.bodies.body import decode_body, encode_body
from rocketmq_emulator.protocol.bodies.controller import SyncStateSet
from rocketmq_emulator.protocol.bodies.extensions import ReplyRule
from rocketmq_emulator.protocol.bodies.routes import KVTable
from rocketmq_emulator.protocol.requests.admin import CreateTopicRequest
from rocketmq_emulator.protocol.requests.controller import (
    ElectMasterRequest,
    GetMetaDataReply,
    NotifyBrokerRoleChangedRequest,
)
from rocketmq_emulator.protocol.requests.sending import SendMessageRequest
from rocketmq_emulator.protocol.versions import R_5_3_3
from rocketmq_emulator.settings.setting_rules import BadField
from tests.support.cluster.controlled_runs import ControlledRun, run_controlled


def elect(number: int) -> ElectMasterRequest:
    return ElectMasterRequest(
        cluster_name="DefaultCluster",
        broker_name="broker-a",
        broker_id=number,
        designate_elect=True,
    )


def a_send() -> SendMessageRequest:
    return SendMessageRequest(
        producer_group="tool",
        topic="orders",
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=0,
        sys_flag=0,
        born_timestamp=0,
        flag=0,
    )


# The spec -------------------------------------------------------------------------------


def test_with_controllers_nodes_keep_their_names_and_no_role_is_given() -> None:
    spec = ClusterSpec(brokers=1, slaves=2, controllers=3, release="5.3.3", port=9876)
    assert spec.node_names == (
        "namesrv",
        *("controller-a", "controller-b", "controller-c"),
        *("broker-a", "broker-a-1", "broker-a-2"),
    )
    found = spec.broker_config("broker-a-1", (), ("127.0.0.1:9886",))
    assert (found.enable_controller_mode, found.controllers) == (True, ("127.0.0.1:9886",))
    assert (found.name, found.broker_id, found.broker_role) == ("broker-a", 0, "ASYNC_MASTER")
    addresses = {name: spec.controller_address(name) for name in spec.controller_names}
    peers = spec.controller_config("controller-b", addresses)
    assert peers.served_address == "127.0.0.1:9887"
    assert peers.peers == "n0-127.0.0.1:9886;n1-127.0.0.1:9887;n2-127.0.0.1:9888"


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"controllers": 2, "release": "5.3.3"}, "0, 1 or 3 controllers"),
        ({"controllers": 1}, "need a release from 5.1.1 on"),
        ({"controllers": 1, "release": "5.1.0"}, "need a release from 5.1.1 on"),
    ],
)
def test_controllers_that_cannot_be_are_refused(fields, reason) -> None:
    with pytest.raises(ValueError, match=reason):
        ClusterSpec(**fields)


def test_a_wrong_setting_of_a_controller_is_found_before_the_start() -> None:
    spec = ClusterSpec(controllers=1, release="5.3.3", controller_settings={"elections_max": -1})
    with pytest.raises(BadField, match="electMasterMaxRetryCount"):
        spec.check()


# Roles at the start ---------------------------------------------------------------------


def test_r43_the_first_broker_is_master_and_the_others_follow_it() -> None:
    async def script(run: ControlledRun) -> None:
        await trio.sleep(10)

    run = run_controlled(script, slaves=2)
    assert run.roles("broker-a") == [("master", 1)]
    assert run.roles("broker-a-1") == run.roles("broker-a-2") == [("slave", 1)]
    ids = [fact["broker_id"] for _, fact in run.facts("BrokerRegistered") if fact["first"]]
    assert ids == [0, 2, 3]
    *_, (_, last) = run.facts("SyncStateSetChanged")
    assert last["sync_state_set"] == [1, 2, 3]


def test_r50_before_it_has_a_role_a_broker_answers_14_and_is_in_no_route() -> None:
    codes: list = []

    async def script(run: ControlledRun) -> None:
        run.cluster.kill("controller")
        await run.cluster.restart("broker-a")
        codes.append(await run.code("broker-a", catalog.SEND_MESSAGE, a_send(), b"one"))
        assert not [1 for at, fact in run.facts("BrokerRegistered") if at > 0.1]
        await run.cluster.start("controller")
        await trio.sleep(10)
        codes.append(await run.code("broker-a", catalog.SEND_MESSAGE, a_send(), b"one"))

    run = run_controlled(script, slaves=0)
    assert codes == [14, 0]
    (late,) = run.facts("RoleNotGranted")
    assert late[1]["reason"] == "no controller names a leader"


def test_a_broker_that_gets_no_id_sends_no_heartbeats_and_announces_no_topic() -> None:
    async def script(run: ControlledRun) -> None:
        run.cluster.kill("broker-a")
        await run.cluster.set_reply_rule(
            "controller", ReplyRule(code="CONTROLLER_REGISTER_BROKER", error_code=1)
        )
        await run.cluster.start("broker-a")
        topic = CreateTopicRequest(
            topic="early",
            default_topic="TBW102",
            read_queue_nums=1,
            write_queue_nums=1,
            perm=6,
            topic_filter_type="SINGLE_TAG",
        )
        assert await run.code("broker-a", catalog.UPDATE_AND_CREATE_TOPIC, topic) == 0
        await trio.sleep(30)
        assert not [1 for at, _ in run.facts("BrokerRegistered") if at > 0.1]
        await run.cluster.remove_reply_rule("controller")
        await trio.sleep(10)

    run = run_controlled(script, slaves=0)
    (started_s, _) = run.facts("NodeStarted", "broker-a")[-1]
    (alive_s, _) = run.facts("ReplicaAlive")[-1]
    (role_s, _) = run.facts("BrokerRoleChanged")[-1]
    assert alive_s > started_s + 29
    assert role_s > started_s + 29


def test_a_slave_refuses_sends_as_slaves_do_and_takes_them_as_a_new_master() -> None:
    codes: list = []

    async def script(run: ControlledRun) -> None:
        await trio.sleep(10)
        codes.append(await run.code("broker-a-1", catalog.SEND_MESSAGE, a_send(), b"one"))
        run.cluster.kill("broker-a")
        await trio.sleep(1)
        codes.append(await run.code("broker-a-1", catalog.SEND_MESSAGE, a_send(), b"one"))
        await run.cluster.start("broker-a")
        codes.append(await run.code("broker-a", catalog.SEND_MESSAGE, a_send(), b"one"))

    run_controlled(script)
    assert codes == [2, 0, 2]


# Fail-over ------------------------------------------------------------------------------


def test_r45_a_killed_master_is_replaced_at_once_and_the_producer_goes_on_at_its_route_poll() -> (
    None
):
    async def script(run: ControlledRun) -> None:
        run.start_producer()
        await trio.sleep(15)
        run.cluster.kill("broker-a")
        await trio.sleep(60)

    run = run_controlled(script)
    assert run.roles("broker-a-1") == [("slave", 1), ("master", 2)]
    (elected_s, elected) = run.facts("MasterElected")[-1]
    assert (elected["broker_id"], elected["master_epoch"]) == (2, 2)
    assert elected_s - 15 < 0.1
    registered = [at for at, f in run.facts("BrokerRegistered") if f["broker_id"] == 0 and at > 15]
    assert registered[0] - 15 < 0.2
    assert 0 < run.first_ok_after(15) - 15 <= 30.1  # its own poll of routes
    assert [how for at, how in run.sends if at > 50] != []
    assert {how for at, how in run.sends if at > 50} == {"SEND_OK"}


def test_the_old_master_returns_as_a_slave_cut_to_what_both_have_and_rejoins_the_set() -> None:
    async def script(run: ControlledRun) -> None:
        run.start_producer(every_s=0.01)
        await trio.sleep(20)
        run.cluster.kill("broker-a")
        await trio.sleep(40)
        await run.cluster.start("broker-a")
        await trio.sleep(20)

    run = run_controlled(script)
    assert run.roles("broker-a") == [("master", 1), ("slave", 2)]
    ((_, cut),) = run.facts("LogTruncated", "broker-a")
    assert cut["message_count"] <= 11  # acknowledged, and lost: what 100 ms of sending are
    at_s, last = run.facts("SyncStateSetChanged")[-1]
    assert last["sync_state_set"] == [1, 2]
    assert 4.9 < at_s - 60 < 6.1


def test_with_all_acks_no_acknowledged_message_is_lost() -> None:
    async def script(run: ControlledRun) -> None:
        run.start_producer(every_s=0.05)
        await trio.sleep(20)
        run.cluster.kill("broker-a")
        await trio.sleep(40)
        await run.cluster.start("broker-a")
        await trio.sleep(10)

    run = run_controlled(script, broker_settings={"all_ack_in_sync_state_set": True})
    assert run.roles("broker-a") == [("master", 1), ("slave", 2)]
    sent = [fact for at, fact in run.facts("MessageSent") if at < 20]
    assert len(sent) > 100
    stored = [f for at, f in run.facts("MessageStored", "broker-a") if at < 20]
    (_, begun) = run.facts("EpochBegun", "broker-a-1")[-1]
    assert begun["position"] >= stored[-1]["position"] + stored[-1]["size_bytes"]
    assert run.facts("LogTruncated", "broker-a") == []


def test_r46_a_silent_master_is_replaced_after_ten_to_fifteen_seconds_and_loses_nothing() -> None:
    async def script(run: ControlledRun) -> None:
        await trio.sleep(20)
        run.cluster.pause("broker-a")
        await trio.sleep(30)
        run.cluster.resume("broker-a")
        await trio.sleep(20)

    run = run_controlled(script)
    elected_s, elected = run.facts("MasterElected")[-1]
    assert elected["broker_id"] == 2
    assert 10 < elected_s - 20 <= 15.1
    assert run.roles("broker-a")[-1] == ("slave", 2)
    assert run.facts("LogTruncated", "broker-a") == []
    assert run.facts("SyncStateSetChanged")[-1][1]["sync_state_set"] == [1, 2]


def test_a_replaced_master_that_hung_stores_what_waited_in_its_connections() -> None:
    """It handles requests before its role changes: acknowledged messages are truncated then.

    A real 5.3.3 broker, stopped for 25 s with 35 sends waiting, acknowledged all of them, and
    three of a client that went on; 0.12 s after it went on it refused the next one with code 2.
    """
    answers: list[tuple[int, float]] = []

    async def script(run: ControlledRun) -> None:
        async def wait_for_the_answer() -> None:
            send = catalog.SEND_MESSAGE, a_send(), b"waits"
            reply = await run.invoke("broker-a", *send, timeout_s=60)
            answers.append((reply.code, run.now_s))

        assert await run.code("broker-a", catalog.SEND_MESSAGE, a_send(), b"first") == 0
        await trio.sleep(20)
        run.cluster.pause("broker-a")
        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(wait_for_the_answer)
            await trio.sleep(25)
            assert run.roles("broker-a-1")[-1] == ("master", 2)
            run.cluster.resume("broker-a")
        await trio.sleep(0.2)
        assert await run.code("broker-a", catalog.SEND_MESSAGE, a_send(), b"late") == 2
        await trio.sleep(20)

    run = run_controlled(script)
    assert [code for code, _ in answers] == [0] * 5
    assert all(45 <= at_s < 45.1 for _, at_s in answers)
    ((_, cut),) = run.facts("LogTruncated", "broker-a")
    assert cut["message_count"] == 5


def test_an_elected_slave_that_once_reconnected_with_an_empty_log_strands_its_master() -> None:
    """As upstream: it has forgotten the epoch in which it got everything.

    Its handshake cuts the log to 0, and with it the epoch that begins there; the frames that
    follow are of an epoch that it has received already, so it is not added again.  Seen with a
    real 5.3.3 slave that was stopped for 25 s while the log was empty: elected later, it had no
    epoch but its own, and the old master found no consistent point for as long as it ran.

    Upstream: AutoSwitchHAClient.doTruncate, HAClientReader.processReadResult
    (currentReceivedEpoch).
    """

    async def script(run: ControlledRun) -> None:
        await trio.sleep(10)
        run.cluster.pause("broker-a-1")
        await trio.sleep(25)
        run.cluster.resume("broker-a-1")
        await trio.sleep(20)
        run.start_producer()
        await trio.sleep(30)
        run.cluster.kill("broker-a")
        await trio.sleep(20)
        await run.cluster.start("broker-a")
        await trio.sleep(60)

    run = run_controlled(script)
    assert run.roles("broker-a-1")[-1] == ("master", 2)
    ((_, stuck),) = run.facts("NoConsistentPoint", "broker-a")
    assert (stuck["epochs"], stuck["master_epochs"]) == ([1], [2])
    elected_s, _ = run.facts("MasterElected")[-1]
    assert run.facts("SyncStateSetChanged")[-1][0] < elected_s, "the old master never joins again"


def test_r45_a_slave_out_of_the_set_is_not_elected_and_the_old_master_is_when_it_returns() -> None:
    async def script(run: ControlledRun) -> None:
        run.cluster.kill("broker-a")  # the slave has not joined the set yet
        await trio.sleep(20)
        assert run.roles("broker-a-1") == [("slave", 1)]
        await run.cluster.start("broker-a")
        await trio.sleep(10)

    run = run_controlled(script)
    failed = run.facts("ElectionFailed")
    assert len(failed) >= 3
    assert all(fact["sync_state_set"] == [1] for _, fact in failed)
    assert run.roles("broker-a")[-1][0] == "master"


def test_an_unclean_election_takes_a_slave_that_is_out_of_the_set() -> None:
    async def script(run: ControlledRun) -> None:
        run.cluster.kill("broker-a")
        await trio.sleep(5)

    run = run_controlled(script, controller_settings={"elect_unclean_master": True})
    assert run.roles("broker-a-1") == [("slave", 1), ("master", 2)]


def test_a_tool_elects_a_master_by_hand_and_the_old_one_follows_it() -> None:
    codes: list = []

    async def script(run: ControlledRun) -> None:
        await trio.sleep(10)
        codes.append(await run.code("controller", catalog.CONTROLLER_ELECT_MASTER, elect(2)))
        await trio.sleep(40)
        codes.append(await run.code("controller", catalog.CONTROLLER_ELECT_MASTER, elect(1)))
        await trio.sleep(40)

    run = run_controlled(script)
    assert codes == [0, 0]
    assert run.roles("broker-a") == [("master", 1), ("slave", 2), ("master", 3)]
    assert run.roles("broker-a-1") == [("slave", 1), ("master", 2), ("slave", 3)]
    assert run.facts("SyncStateSetChanged")[-1][1]["sync_state_set"] == [1, 2]


# Controllers that are lost --------------------------------------------------------------


def test_without_its_controller_a_master_goes_on_and_a_restarted_one_knows_it() -> None:
    async def script(run: ControlledRun) -> None:
        run.start_producer()
        await trio.sleep(20)
        run.cluster.kill("controller")
        await trio.sleep(60)
        await run.cluster.start("controller")
        await trio.sleep(30)

    run = run_controlled(script)
    assert {how for at, how in run.sends} == {"SEND_OK"}
    assert run.roles("broker-a") == [("master", 1)]
    assert len(run.facts("MasterElected")) == 1


def test_a_role_ends_the_isolation_of_a_broker_that_would_prepare_as_acting_masters_do() -> None:
    async def script(run: ControlledRun) -> None:
        run.start_producer()
        await trio.sleep(20)
        run.cluster.kill("broker-a")
        await trio.sleep(60)

    both = {"slave_acting_master": True, "total_replicas": 2}
    run = run_controlled(script, broker_settings=both)
    assert run.facts("PreOnlineBegan") == []
    first = [at for at, fact in run.facts("BrokerRegistered") if fact["first"]]
    assert max(first[:2]) < 1
    assert run.roles("broker-a-1") == [("slave", 1), ("master", 2)]
    assert run.sends[-1][1] == "SEND_OK"


def test_a_controller_that_forgot_everything_changes_no_role_of_brokers_that_run() -> None:
    async def script(run: ControlledRun) -> None:
        run.start_producer()
        await trio.sleep(15)
        await run.invoke("controller", catalog.RESET_SERVER)
        await run.cluster.restart("controller")  # its store is empty
        await trio.sleep(60)

    run = run_controlled(script)
    assert {how for at, how in run.sends} == {"SEND_OK"}
    assert (run.roles("broker-a"), run.roles("broker-a-1")) == ([("master", 1)], [("slave", 1)])
    assert len(run.facts("MasterElected")) == 1
    assert [at for at, _ in run.facts("RoleNotGranted")] == []


def test_after_that_nobody_is_elected_and_a_restarted_broker_says_why_it_has_no_role() -> None:
    """Upstream's own: an id that a broker has kept is not applied for again."""
    stored: list[int] = []

    async def script(run: ControlledRun) -> None:
        run.start_producer()
        await trio.sleep(15)
        await run.invoke("controller", catalog.RESET_SERVER)
        await trio.sleep(15)
        run.cluster.kill("broker-a")
        await trio.sleep(60)
        await run.cluster.start("broker-a")
        await trio.sleep(15)
        for node in ("broker-a", "broker-a-1"):
            reply = await run.invoke(node, catalog.GET_BROKER_RUNTIME_INFO)
            table = decode_body(reply.body, KVTable).table
            stored.append(int(table["commitLogMaxOffset"]))

    run = run_controlled(script)
    assert len(run.facts("MasterElected")) == 1
    assert run.roles("broker-a-1") == [("slave", 1)]
    (_, why) = run.facts("RoleNotGranted", "broker-a")[-1]
    assert "CONTROLLER_BROKER_NEED_TO_BE_REGISTERED" in why["reason"]
    assert {how for at, how in run.sends if at > 45} & {"SEND_OK"} == set()
    (_, last) = run.facts("MessageStored", "broker-a")[-1]
    assert stored[0] == stored[1] > last["position"], "both still have every message"


async def lead_in_epoch_1000(run: ControlledRun) -> int | str:
    """Tell broker-a what no controller has decided."""
    notice = NotifyBrokerRoleChangedRequest(
        master_address=run.cluster.addresses["broker-a"],
        master_epoch=1_000,
        sync_state_set_epoch=1_000,
        master_broker_id=1,
    )
    in_sync = encode_body(SyncStateSet([1, 2], 1_000), R_5_3_3)
    return await run.code("broker-a", catalog.NOTIFY_BROKER_ROLE_CHANGED, notice, in_sync)


def test_a_master_whose_file_has_an_epoch_from_the_future_takes_messages_and_says_so() -> None:
    async def script(run: ControlledRun) -> None:
        run.start_producer()
        await trio.sleep(15)
        await lead_in_epoch_1000(run)
        await trio.sleep(10)
        await run.cluster.restart("broker-a")
        await trio.sleep(40)

    run = run_controlled(script, slaves=0)
    assert run.roles("broker-a") == [("master", 1), ("master", 1_000), ("master", 5)]
    (_, fact) = run.facts("EpochNotKept")[-1]
    assert (fact["epoch"], fact["last_epoch"]) == (5, 1_000)
    assert {how for at, how in run.sends if at > 30} == {"SEND_OK"}


def test_an_epoch_from_the_future_is_believed_and_the_controllers_own_are_old_from_then_on() -> (
    None
):
    """Upstream's own: a broker compares the epoch of a notice with its own, and nothing else."""
    codes: list = []

    async def script(run: ControlledRun) -> None:
        run.start_producer()
        await trio.sleep(15)
        codes.append(await lead_in_epoch_1000(run))
        await trio.sleep(30)
        codes.append(await run.code("controller", catalog.CONTROLLER_ELECT_MASTER, elect(2)))
        await trio.sleep(30)

    run = run_controlled(script)
    assert codes == [0, 0]
    assert run.roles("broker-a") == [("master", 1), ("master", 1_000)]
    assert run.roles("broker-a-1")[-1] == ("master", 2), "the controller's epochs go on"
    before = [how for at, how in run.sends if at < 45]
    assert set(before) == {"SEND_OK"}


@pytest.mark.parametrize("seed", range(3))
def test_three_controllers_elect_on_while_any_one_is_dead(seed: int) -> None:
    async def script(run: ControlledRun) -> None:
        await trio.sleep(15)
        leader = run.facts("ControllerLeads")[-1][1]["controller"]
        name = run.cluster.spec.controller_names[int(leader[1:])]
        run.cluster.kill(name)
        await trio.sleep(30)
        assert run.facts("ControllerLeads")[-1][1]["controller"] != leader
        run.cluster.kill("broker-a")
        await trio.sleep(10)
        await run.cluster.start("broker-a")
        await trio.sleep(20)

    run = run_controlled(script, controllers=3, seed=seed)
    changed_s = run.facts("ControllerLeads")[-1][0]
    assert 4 < changed_s - 16 < 10.5
    assert run.roles("broker-a-1") == [("slave", 1), ("master", 2)]
    epochs = [fact["master_epoch"] for _, fact in run.facts("MasterElected")]
    assert epochs == [1, 2]
    changed_s, last = run.facts("SyncStateSetChanged")[-1]
    assert changed_s > 45, "the new master reports to the new leader"
    assert last["sync_state_set"] == [1, 2]


def test_one_of_three_controllers_alone_elects_nobody() -> None:
    replies: list = []

    async def script(run: ControlledRun) -> None:
        await trio.sleep(15)
        first, *others = run.cluster.spec.controller_names
        for name in others:
            run.cluster.kill(name)
        await trio.sleep(10)
        run.cluster.kill("broker-a")
        await trio.sleep(60)
        replies.append(await run.invoke(first, catalog.CONTROLLER_GET_METADATA_INFO))
        replies.append(await run.code(first, catalog.CONTROLLER_ELECT_MASTER, elect(2)))

    run = run_controlled(script, controllers=3)
    assert run.roles("broker-a-1") == [("slave", 1)]
    assert replies[0].decode(GetMetaDataReply).controller_leader_address in ("", None)
    assert replies[1] == 2007


def test_a_cut_between_the_leader_and_the_others_gives_one_leader_and_one_master() -> None:
    async def script(run: ControlledRun) -> None:
        await trio.sleep(15)
        leader = run.facts("ControllerLeads")[-1][1]["controller"]
        names = run.cluster.spec.controller_names
        cut = names[int(leader[1:])]
        others = tuple(name for name in (*names, "broker-a", "broker-a-1") if name != cut)
        async with run.cluster.under(Partition(between=((cut,), others))):
            await trio.sleep(20)
            run.cluster.kill("broker-a")
            await trio.sleep(20)
        await trio.sleep(20)

    run = run_controlled(script, controllers=3)
    assert run.roles("broker-a-1") == [("slave", 1), ("master", 2)]
    epochs = [fact["master_epoch"] for _, fact in run.facts("MasterElected")]
    assert epochs == [1, 2]
