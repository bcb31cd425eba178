"""The roles of brokers over time: elected, replaced, hung and acting masters."""

from __future__ import annotations

from rocketmq_emulator.facts import (
    ActingMasterBegan,
    ActingMasterEnded,
    BrokerRegistered,
    BrokerRoleChanged,
    ElectionFailed,
    FaultBegan,
    FaultEnded,
    MasterElected,
    NodeStarted,
)
from rocketmq_emulator.facts.journal import Entry
from rocketmq_emulator.scenarios.report.page import write_page
from rocketmq_emulator.scenarios.report.report_data import read_report_data
from tests.support.scenarios.journals_for_reports import BOOT_US, a_journal, a_store

A, B = "broker-a", "broker-a-1"
ADDRESSES = {A: "10.0.0.1:10911", B: "10.0.0.2:10911"}


def started(node: str) -> NodeStarted:
    return NodeStarted("broker", ADDRESSES[node], "5.3.3")


def role(name: str, epoch: int, broker_id: int = 1) -> BrokerRoleChanged:
    return BrokerRoleChanged(name, broker_id, ADDRESSES[A], epoch)


def registered(node: str, broker_id: int) -> BrokerRegistered:
    return BrokerRegistered("c", A, broker_id, ADDRESSES[node], 1, first=True)


def spans_of(entries: list[Entry]) -> list[tuple[str, str, float, float]]:
    return [
        (it.node, it.role, (it.from_us - BOOT_US) / 1e6, (it.until_us - BOOT_US) / 1e6)
        for it in read_report_data(entries).roles
    ]


def an_election(word: str = "kill") -> list[Entry]:
    """The master is killed, or hangs, for 20 s; its slave is elected after 10 s."""
    return a_journal(
        (0, "controller", NodeStarted("controller", "10.0.0.9:9878", "5.3.3")),
        (1, A, started(A)),
        (1, B, started(B)),
        (2, "controller", MasterElected(A, 1, 1, 1)),
        (2, A, role("master", 1)),
        (3, B, role("slave", 1, 2)),
        (10, "world", FaultBegan(1, f'{{"fault":"{word}","node":"broker-a"}}', (A,))),
        (19, "controller", ElectionFailed(A, 2, (1,))),
        (20, "controller", MasterElected(A, 2, 3, 2)),
        (20, B, role("master", 3, 2)),
        (30, "world", FaultEnded(1, "time is up", 1)),
        (30, A, started(A) if word == "kill" else a_store(0)),
        (31, A, role("slave", 3)),
        (60, B, a_store(1)),
        lives=[(30, A)] if word == "kill" else [],
    )


def test_a_killed_master_ends_and_the_elected_slave_is_the_master() -> None:
    assert spans_of(an_election()) == [
        (A, "master", 2, 10),
        (A, "slave", 31, 60),
        (B, "slave", 3, 20),
        (B, "master", 20, 60),
    ]


def test_a_master_that_hangs_is_one_until_it_knows_its_successor() -> None:
    assert spans_of(an_election("pause"))[:2] == [(A, "master", 2, 31), (A, "slave", 31, 60)]


def test_elections_have_their_facts_and_masters_their_epochs() -> None:
    report = read_report_data(an_election())
    kinds = [report.facts.kinds[report.facts.kind[i]].name for i in report.elections]
    assert kinds == ["MasterElected", "ElectionFailed", "MasterElected"]
    assert [it.epoch for it in report.roles] == [1, 3, 1, 3]


def test_without_controllers_the_broker_that_registers_with_id_0_is_the_master() -> None:
    """An acting master registers with its own id meanwhile; the returning one with 0."""
    entries = a_journal(
        (1, A, started(A)),
        (1, B, started(B)),
        (2, "namesrv", registered(A, 0)),
        (3, "namesrv", registered(B, 1)),
        (10, "world", FaultBegan(1, '{"fault":"kill","node":"broker-a"}', (A,))),
        (20, B, ActingMasterBegan(1)),
        (25, "namesrv", registered(B, 1)),
        (30, A, started(A)),
        (42, "namesrv", registered(A, 0)),
        (43, B, ActingMasterEnded(1, 0)),
        (60, B, a_store(1)),
        lives=[(30, A)],
    )
    assert spans_of(entries) == [
        (A, "master", 2, 10),
        (A, "master", 42, 60),
        (B, "slave", 3, 20),
        (B, "acting master", 20, 43),
        (B, "slave", 43, 60),
    ]


def test_a_cluster_of_masters_only_has_no_roles_to_show() -> None:
    entries = a_journal((1, A, started(A)), (2, "namesrv", registered(A, 0)), (9, A, a_store(0)))
    assert spans_of(entries) == []


def test_a_controller_that_records_nothing_for_minutes_is_not_gone() -> None:
    """It records elections and changes of sync-state sets only; a silent broker is gone."""
    report = read_report_data([*an_election(), *a_journal((300, B, a_store(2)))])
    assert [node.name for node in report.nodes] == ["controller", A, B]
    assert report.nodes[0].absences == []
    assert [it.how for it in report.nodes[1].absences] == ["down", "gone"]


def test_without_a_script_the_masters_are_a_table() -> None:
    page = write_page(read_report_data(an_election()), "An election")
    rows = page[page.index("<h2>Masters</h2>") :]
    assert "<td>2.000</td><td>10.000</td><td>broker-a</td><td>master, epoch 1</td>" in rows
    assert "<td>20.000</td><td>60.000</td><td>broker-a-1</td><td>master, epoch 3</td>" in rows
    assert "slave" not in rows[: rows.index("</table>")]
