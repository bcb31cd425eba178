"""A pull that is held wakes when its message comes."""

from __future__ import annotations

import pytest

from rocketmq_emulator.facts import ConnectionClosed, PullHeld
from tests.support.checks.small_journals import PEER, Q0, AJournal, objections


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
