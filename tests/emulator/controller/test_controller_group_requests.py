"""Requests to a group of controllers: only the leader decides, and only with a majority."""

from __future__ import annotations

import pytest

from rocketmq_emulator.facts import BrokerIdApplied, ControllerLeads, MasterElected
from rocketmq_emulator.net.results import Refusal, Wait
from rocketmq_emulator.protocol.codes import RequestCode
from rocketmq_emulator.settings.config import ControllerConfig
from tests.support.controller.controllers import SET, ControllerBench
from tests.support.controller.groups import IDS
from tests.support.controller.trios import PEERS, OneOfThree, Trio

METADATA = RequestCode.CONTROLLER_GET_METADATA_INFO
CLEAN = RequestCode.CLEAN_BROKER_DATA
DATA = RequestCode.CONTROLLER_GET_SYNC_STATE_DATA
OF_LEADER = {
    "1001": lambda bench: bench.alter([1, 2]),
    "1002": lambda bench: bench.elect(1),
    "1003": lambda bench: bench.register(1),
    "1004": lambda bench: bench.invoke(RequestCode.CONTROLLER_GET_REPLICA_INFO, brokerName=SET),
    "1006": lambda bench: bench.invoke(DATA, body=b'["broker-a"]'),
    "1011": lambda bench: bench.invoke(CLEAN, brokerName=SET, isCleanLivingBroker="false"),
    "1012": lambda bench: bench.invoke(
        RequestCode.CONTROLLER_GET_NEXT_BROKER_ID, clusterName="C", brokerName=SET
    ),
    "1013": lambda bench: bench.apply(1),
}


def a_trio() -> tuple[Trio, OneOfThree]:
    """A trio that n0 leads."""
    trio = Trio()
    return trio, trio.lead("n0")


def a_master(trio: Trio, leader: OneOfThree) -> None:
    """The brokers 1 and 2 are alive, 1 is master."""
    for number in (1, 2):
        leader.apply(number)
        for each in trio.benches.values():
            each.heartbeat(number)
        leader.register(number)
    leader.elect(1)
    trio.carry()


# Who decides ----------------------------------------------------------------------------


@pytest.mark.parametrize("request_of", OF_LEADER.values(), ids=OF_LEADER)
def test_r48_followers_answer_that_they_do_not_lead(request_of) -> None:
    trio, leader = a_trio()
    for follower in ("n1", "n2"):
        reply = request_of(trio[follower])
        assert (reply.code, reply.remark) == (2007, "The controller is not in leader state")
        assert trio[follower].group.log.end == 1
    result = request_of(leader)
    trio.carry()
    assert leader.answer(result).code != 2007


def test_r48_each_answers_heartbeats_settings_and_who_leads() -> None:
    trio, _ = a_trio()
    for each in IDS:
        assert trio[each].heartbeat(1).code == 0
        assert trio[each].invoke(RequestCode.GET_CONTROLLER_CONFIG).code == 0
        assert trio[each].invoke(RequestCode.UPDATE_CONTROLLER_CONFIG, body=b"a=b").code == 0
        header = trio[each].invoke(METADATA).header
        assert header.controller_leader_id == "n0"
        assert header.controller_leader_address == "10.0.9.0:9878"
        assert header.is_leader == (each == "n0")
        assert header.peers == "n0:10.0.9.0:9878;n1:10.0.9.1:9878;n2:10.0.9.2:9878;"


def test_during_an_election_nobody_is_named() -> None:
    trio = Trio()
    header = trio["n1"].invoke(METADATA).header
    assert (header.controller_leader_address, header.is_leader) == ("", False)


def test_a_new_leader_refuses_until_its_first_entry_is_committed() -> None:
    trio = Trio()
    leader = trio.lead("n0", carried=False)
    trio.carry(1)  # a vote
    assert leader.group.role == "leader"
    assert leader.apply(1).code == 2007
    trio.carry()
    assert isinstance(leader.apply(1), Wait)


# Decisions ------------------------------------------------------------------------------


def test_a_decision_is_answered_and_noted_when_a_majority_has_it() -> None:
    trio, leader = a_trio()
    trio.away.add("n2")
    result = leader.apply(1)
    assert isinstance(result, Wait)
    assert leader.noted(BrokerIdApplied) == []
    trio.carry()
    assert leader.answer(result).code == 0
    assert len(leader.noted(BrokerIdApplied)) == 1
    assert trio["n1"].noted(BrokerIdApplied) == [], "only the leader notes it"


def test_without_a_majority_nothing_is_answered_and_after_five_seconds_the_code_is_1() -> None:
    trio, leader = a_trio()
    trio.away |= {"n1", "n2"}
    result = leader.apply(1)
    trio.carry()
    assert isinstance(result, Wait)
    assert result.until_ms == leader.now_ms + 5_000
    assert result.on.position > leader.committed_to
    reply = leader.answer(result, expired=True)
    assert (reply.code, reply.remark) == (
        1,
        "no majority of the controllers has stored this: it may still happen",
    )


def test_the_next_decision_counts_on_one_that_is_not_committed_yet_and_waits_for_it() -> None:
    trio, leader = a_trio()
    first, second = leader.apply(1), leader.apply(1, "10.0.0.9:10911;5")
    assert isinstance(first, Wait)
    assert second.code == 2014
    reading = OF_LEADER["1012"](leader)
    assert isinstance(reading, Wait), "it tells of what is not committed"
    trio.carry()
    assert leader.answer(reading).header.next_broker_id == 2


def test_brokers_are_notified_of_an_election_when_it_is_committed() -> None:
    trio, leader = a_trio()
    a_master(trio, leader)
    leader.alter([1, 2])
    trio.carry()
    leader.pushed.clear()
    leader.facts.clear()
    leader.close(1)
    assert leader.pushed == []
    trio.carry()
    assert [fact.broker_id for fact in leader.noted(MasterElected)] == [2]
    ((address, header, _),) = leader.pushed
    assert (address, header.master_broker_id) == ("10.0.0.2:10911", 2)


def test_only_the_leader_elects_when_a_master_has_gone() -> None:
    trio, leader = a_trio()
    a_master(trio, leader)
    leader.alter([1, 2])
    trio.carry()
    for follower in ("n1", "n2"):
        trio[follower].close(1)
        trio[follower].controller.scan_masters(trio[follower].now_ms)
    trio.carry()
    assert leader.answer(OF_LEADER["1004"](leader)).header.master_broker_id == 1


# A change of leaders --------------------------------------------------------------------


@pytest.mark.parametrize("dead", IDS)
def test_an_answered_decision_survives_the_death_of_any_one(dead) -> None:
    trio, leader = a_trio()
    a_master(trio, leader)
    trio.away.add(dead)
    second = trio.lead("n2" if dead == "n1" else "n1")
    reply = second.answer(OF_LEADER["1004"](second))
    assert (reply.header.master_broker_id, reply.header.master_epoch) == (1, 1)


def test_a_leader_that_loses_its_lead_forgets_what_was_not_committed() -> None:
    trio, leader = a_trio()
    a_master(trio, leader)
    trio.away.add("n0")
    waiting = leader.apply(3)
    trio.carry()
    second = trio.lead("n1")
    result = second.apply(3, "10.0.0.9:10911;5")
    trio.carry()
    assert second.answer(result).code == 0
    trio.away.clear()
    second.group.tick(second.now_ms + 2_000)
    trio.carry()
    assert leader.answer(waiting, expired=True).code == 2007
    replicas = leader.controller.replicas.replica_info_table[SET].replicas
    assert replicas[3].check_code == "10.0.0.9:10911;5"
    assert BrokerIdApplied("C", SET, 3, "10.0.0.3:10911") not in leader.facts


def test_a_new_leader_notes_what_the_old_one_may_not_have_noted() -> None:
    trio, leader = a_trio()
    leader.apply(1)
    trio.away.add("n0")  # after it has sent the entry, before it hears of it
    trio["n1"].group.append(leader.group._asked["n1"], 0)
    second = trio.lead("n1")
    assert [type(fact) for fact in second.facts] == [ControllerLeads, BrokerIdApplied]


def test_restarted_controllers_have_what_was_committed_when_they_hear_so() -> None:
    trio, leader = a_trio()
    a_master(trio, leader)
    for each in IDS:
        trio.restart(each)
    again = trio.lead("n2")
    reply = again.answer(OF_LEADER["1004"](again))
    assert reply.header.master_broker_id == 1


def test_a_long_log_is_replaced_by_a_snapshot_at_each_and_the_tables_stay() -> None:
    trio = Trio(events_max=10)
    leader = trio.lead("n0")
    for number in range(1, 31):
        leader.apply(number)
        trio.carry()
    trio["n0"].group.tick(leader.now_ms + 2_000)
    trio.carry()
    for each in IDS:
        assert len(trio[each].group.log.entries) <= 11
        trio.restart(each)
    again = trio.lead("n1")
    assert again.answer(OF_LEADER["1012"](again)).header.next_broker_id == 31


def test_what_is_not_committed_is_forgotten_after_a_snapshot_too() -> None:
    trio = Trio(events_max=2)
    leader = trio.lead("n0")
    for number in range(1, 5):
        leader.apply(number)
        trio.carry()
    assert leader.group.log.snapshot.index
    trio.away |= {"n1", "n2"}
    leader.apply(5)
    leader.group.tick(leader.now_ms + 20_000)
    assert leader.group.role == "follower"
    assert sorted(leader.controller.replicas.replica_info_table[SET].replicas) == [1, 2, 3, 4]


def test_a_reset_of_the_leader_resets_the_group_and_a_follower_refuses_one() -> None:
    trio, leader = a_trio()
    a_master(trio, leader)
    with pytest.raises(Refusal, match="not in leader state"):
        trio["n1"].controller.reset(0)
    leader.controller.reset(0)
    trio.carry()
    assert leader.answer(OF_LEADER["1012"](leader)).header.next_broker_id == 1


# Settings -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("peers", "reason"),
    [
        ("n0-1.1.1.1:1;n1-1.1.1.2:1", "a group has 1, 3, 5"),
        ("n0-1.1.1.1:1;n0-1.1.1.2:1;n2-1.1.1.3:1", "two controllers have the same id"),
        ("n1-1.1.1.1:1;n2-1.1.1.2:1;n3-1.1.1.3:1", "must be one of the controllers"),
        ("n0-1.1.1.1:1;1.1.1.2:1;n3-1.1.1.3:1", "named as n0-host:port"),
    ],
)
def test_a_group_that_cannot_be_is_refused(peers, reason) -> None:
    with pytest.raises(ValueError, match=reason):
        ControllerConfig(peers=peers)


def test_a_controller_listens_at_its_own_entry() -> None:
    assert ControllerConfig(peers=PEERS, self_id="n2").served_address == "10.0.9.2:9878"


def test_a_controller_alone_takes_no_requests_of_a_group() -> None:
    assert ControllerBench().invoke(RequestCode.CONTROLLER_GROUP).code == 1
    trio, _ = a_trio()
    assert trio["n1"].invoke(RequestCode.CONTROLLER_GROUP, body=b"nonsense").code == 1
