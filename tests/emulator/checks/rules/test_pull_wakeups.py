"""A pull that is held wakes when its message comes."""

from __future__ import annotations

import pytest

from rocketmq_emulator.facts import (
    BrokerRoleChanged,
    ConnectionClosed,
    LogCopied,
    MasterConnected,
    PullHeld,
    SlaveAcknowledged,
    StoreOpened,
    SyncStateSetChanged,
)
from tests.support.checks.small_journals import PEER, Q0, RECORD_BYTES, AJournal, objections


def a_held_pull() -> AJournal:
    journal = AJournal().runs().store().consumer("billing-1")
    return journal.note("broker-a", PullHeld("billing", Q0, 0, 0, PEER, 1))


def test_a_pull_that_slept_through_a_message_is_objected_to() -> None:
    late = a_held_pull().stored(0).at_s(4).pulled(0, 1).judged()
    assert objections(late, "wakes") == [
        (
            "a message came to orders@broker-a:0, and a pull of billing that waited for it was "
            "answered 4.0 s later"
        )
    ]
    assert late.metrics["late_wakes"] == 1
    at_once = a_held_pull().stored(0).pulled(0, 1).judged()
    assert objections(at_once, "wakes") == []
    assert at_once.metrics["late_wakes"] == 0


@pytest.mark.parametrize(
    "meanwhile",
    [
        lambda journal: journal.note("broker-a", ConnectionClosed("10.0.0.9:1", "reset")),
        lambda journal: journal.fault("busy", "broker-a"),
    ],
    ids=["connection lost", "broker busy"],
)
def test_who_was_disturbed_may_answer_late(meanwhile) -> None:
    before = meanwhile(a_held_pull()).stored(0).at_s(4).pulled(0, 1).judged()
    after = meanwhile(a_held_pull().stored(0)).at_s(4).pulled(0, 1).judged()
    assert objections(before, "wakes") == objections(after, "wakes") == []


def test_a_message_that_the_pull_does_not_want_wakes_nobody() -> None:
    journal = AJournal().runs().store().consumer("billing-1", expressions=("red",))
    journal.note("broker-a", PullHeld("billing", Q0, 0, 0, PEER, 1)).stored(0).at_s(4).pulled(0, 1)
    assert objections(journal.judged(), "wakes") == []


def test_a_member_that_joins_later_and_wants_less_is_known_at_once() -> None:
    journal = a_held_pull().stored(0).pulled(0, 1).consumer("billing-2", expressions=("red",))
    journal.note("broker-a", PullHeld("billing", Q0, 1, 1, PEER, 2)).stored(1).at_s(4).pulled(1, 1)
    assert objections(journal.judged(), "wakes") == []


# Messages that nobody may read yet ------------------------------------------------------------

SLAVE = "broker-a-1"


def held_until_copied(*, copied_s: float, answered_s: float, shrinks: bool = False) -> list[str]:
    """A message comes at 10 s; the slave has it, or leaves the sync-state set, at *copied_s*.

    The pull that waits for it is answered at *answered_s*.
    """
    journal = AJournal().runs(release="5.3.3").consumer("billing-1")
    for number, node in enumerate(("broker-a", SLAVE), 1):
        journal.note(node, StoreOpened("ASYNC_FLUSH", True, 72, awaits_sync_state_set=True))
        role = "slave" if number == 2 else "master"
        journal.note(node, BrokerRoleChanged(role, number, "10.0.0.1:10911", 1))
    journal.note(SLAVE, MasterConnected("10.0.0.1:10912", 0))
    journal.note("controller", SyncStateSetChanged("broker-a", (1, 2), 2))
    journal.at_s(10).note("broker-a", PullHeld("billing", Q0, 0, 0, PEER, 1)).stored(0)
    journal.at_s(copied_s)
    if shrinks:
        journal.note("controller", SyncStateSetChanged("broker-a", (1,), 3))
    else:
        journal.note(SLAVE, LogCopied(RECORD_BYTES, RECORD_BYTES, 1))
        journal.note("broker-a", SlaveAcknowledged("10.0.0.2:1", RECORD_BYTES))
    return objections(journal.at_s(answered_s).pulled(0, 1).judged(), "wakes")


@pytest.mark.parametrize("shrinks", [False, True])
def test_a_message_wakes_pulls_once_all_of_the_sync_state_set_have_it(shrinks: bool) -> None:
    assert held_until_copied(copied_s=14, answered_s=14.5, shrinks=shrinks) == []
    assert len(held_until_copied(copied_s=14, answered_s=16, shrinks=shrinks)) == 1
    assert held_until_copied(copied_s=20, answered_s=16, shrinks=shrinks) == []
