"""Each monitor of foreign clients objects to a wrong journal, and not to the right one."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from rocketmq_emulator.checks.judging.judging import judge
from rocketmq_emulator.checks.servers.table import SDK_MONITORS
from rocketmq_emulator.facts import (
    GroupOffsetMoved,
    MemberLeft,
    MessageSentBack,
    OffsetCommitted,
    PullAnswered,
    PullHeld,
    QueuesLocked,
    QueuesUnlocked,
    RequestReceived,
)
from tests.support.checks.small_journals import PEER, Q0, AJournal, a_member, objections

OTHER = "10.0.0.8:1"
GO = "a Go client"
RUST = "a Rust client"
FOUND, NOT_FOUND = 0, 19


def a_group(**member: str) -> AJournal:
    return AJournal().note("broker-a", a_member(GO, **member))


def two_members(other: str = RUST) -> AJournal:
    return a_group().note("broker-a", a_member(other, OTHER))


def held(journal: AJournal, offset: int = 0, peer: str = PEER, opaque: int = 1) -> AJournal:
    until_ms = 1_700_000_000_000 + journal.now_us // 1_000 + 15_000
    return journal.note("broker-a", PullHeld("billing", Q0, offset, until_ms, peer, opaque))


def answered(
    journal: AJournal, offset: int, next_offset: int, peer: str = PEER, code: int = FOUND
) -> AJournal:
    count = next_offset - offset
    fact = PullAnswered("billing", Q0, offset, code, count, next_offset, peer, 1)
    return journal.note("broker-a", fact)


def committed(journal: AJournal, offset: int, peer: str = PEER) -> AJournal:
    return journal.note("broker-a", OffsetCommitted("billing", Q0, offset, peer))


def locked(journal: AJournal, *, granted: bool = True) -> AJournal:
    yes, no = ((Q0,), ()) if granted else ((), (Q0,))
    return journal.note("broker-a", QueuesLocked("billing", GO, yes, no))


# Each journal is right with one value and wrong with another -------------------------------


def second_pull(seconds: float) -> AJournal:
    """A second held pull, more than *seconds* after the second of two members joined."""
    journal = held(two_members().at_s(seconds))
    return held(journal.at_s(seconds + 1), opaque=2)


def second_pull_alone(other_left: bool) -> AJournal:
    """A second held pull of one member; the other one leaves between the two, or before both."""
    journal, left = two_members(), MemberLeft("billing", RUST, OTHER, "unregistered")
    if not other_left:
        journal.note("broker-a", left)
    held(journal.at_s(5))
    if other_left:
        journal.note("broker-a", left)
    return held(journal.at_s(6), opaque=2)


def next_pull(offset: int) -> AJournal:
    return held(answered(a_group(), 0, 5), offset)


def answers_of_an_empty_queue(count: int) -> AJournal:
    journal = a_group()
    return journal.each(range(count), lambda _: answered(journal, 0, 0, code=NOT_FOUND))


def commit_after_five(offset: int) -> AJournal:
    return committed(answered(a_group(), 0, 5), offset)


def given_back_after(offset: int) -> AJournal:
    """Message 0 is sent back after *offset* was committed."""
    journal = committed(answered(a_group().stored(0), 0, 1), offset)
    fact = MessageSentBack("billing", "orders", "%RETRY%billing", 1, 3, 0, PEER)
    return journal.note("broker-a", fact)


def commit_of_who_pulled_before(seconds: float) -> AJournal:
    journal = answered(answered(two_members(), 0, 1), 1, 2, OTHER)
    return committed(journal.at_s(seconds), 1)


def pull_with_lock(granted: bool) -> AJournal:
    return held(locked(a_group().at_s(60), granted=granted).at_s(62))


def pull_after_unlock(seconds: float) -> AJournal:
    journal = locked(a_group().at_s(60)).note("broker-a", QueuesUnlocked("billing", GO, (Q0,)))
    return held(journal.at_s(60 + seconds))


def pull_with_old_lock(seconds: float) -> AJournal:
    return held(locked(a_group().at_s(60)).at_s(60 + seconds))


def turns(seconds: float) -> AJournal:
    """Two members pull one queue in turn, *seconds* after the second one joined."""
    journal = answered(two_members().at_s(seconds), 0, 1)
    return answered(answered(journal, 1, 2, OTHER), 2, 3)


def two_with_ids(other: str) -> AJournal:
    return held(held(two_members(other)), peer=OTHER)


def passes(seconds: float) -> AJournal:
    asked, heartbeat = RequestReceived(PEER, 38, 7), RequestReceived(PEER, 34, 8)
    journal = a_group().note("broker-a", asked).at_s(20).note("broker-a", heartbeat)
    return journal.at_s(seconds).note("broker-a", asked)


def passes_that_end(seconds: float) -> AJournal:
    journal = a_group().note("broker-a", RequestReceived(PEER, 38, 7)).at_s(20)
    return journal.note("broker-a", RequestReceived(PEER, 34, 8)).at_s(seconds).ends()


JOURNALS: list[tuple[str, Callable[..., AJournal], object, object]] = [
    ("one_pull_a_member", second_pull, 20, 31),
    ("one_pull_a_member", second_pull_alone, True, False),
    ("pulls_go_on", next_pull, 5, 6),
    ("empty_pulls_wait", answers_of_an_empty_queue, 4, 5),
    ("commits_follow_pulls", commit_after_five, 5, 6),
    ("given_back_before_committed", given_back_after, 0, 1),
    ("only_owners_commit", commit_of_who_pulled_before, 29, 31),
    ("locked_pulls", pull_with_lock, True, False),
    ("locked_pulls", pull_after_unlock, 0.5, 1.5),
    ("locks_are_renewed", pull_with_old_lock, 34, 36),
    ("one_member_a_queue", turns, 20, 31),
    ("client_ids_differ", two_with_ids, RUST, GO),
    ("passes_come", passes, 39, 41),
    ("passes_come", passes_that_end, 39, 41),
]


@pytest.mark.parametrize(("monitor", "journal_of", "right", "wrong"), JOURNALS)
def test_a_monitor_objects_to_the_story_told_wrong_only(
    monitor: str, journal_of: Callable[..., AJournal], right: object, wrong: object
) -> None:
    for value, count in ((right, 0), (wrong, 1)):
        judgement = judge(journal_of(value).entries, tuple(SDK_MONITORS.values()))
        assert len(objections(judgement, monitor)) == count, judgement.violations
        assert {each.checker for each in judgement.violations} <= {monitor}


def test_every_monitor_of_foreign_clients_has_a_story_and_names_its_invariants() -> None:
    inherited = {name for name, kind in SDK_MONITORS.items() if "servers" not in kind.__module__}
    assert SDK_MONITORS.keys() - inherited == {journal_of[0] for journal_of in JOURNALS}
    for name, kind in SDK_MONITORS.items():
        told = {int(found) for found in re.findall(r"\b\d+\b", kind.rule)}
        assert set(kind.invariants) <= told, name
        assert kind.servers_suffice, name


def test_a_tool_that_moves_a_group_lets_its_members_pull_and_commit_elsewhere() -> None:
    journal = committed(answered(a_group(), 0, 5), 5)
    journal.note("broker-a", GroupOffsetMoved("billing", Q0, 9, "broker", "10.0.0.7:1"))
    journal = held(committed(journal, 9), 9)
    assert judge(journal.entries, tuple(SDK_MONITORS.values())).violations == ()


@pytest.mark.parametrize("how", [{"consume_type": "CONSUME_ACTIVELY"}, {}])
def test_only_members_that_push_are_judged(how: dict[str, str]) -> None:
    journal = held(answered(a_group(**how), 0, 5), 9)
    assert bool(judge(journal.entries, tuple(SDK_MONITORS.values())).violations) == (not how)


@pytest.mark.parametrize(
    ("member", "objected"), [({}, 1), ({"consume_type": "CONSUME_ACTIVELY"}, 0), (None, 0)]
)
def test_only_a_known_push_consumer_may_not_ask_to_be_held_for_longer(
    member: dict[str, str] | None, objected: int
) -> None:
    journal = AJournal() if member is None else a_group(**member)
    until_ms = 1_700_000_000_000 + 24_000
    journal.note("broker-a", PullHeld("billing", Q0, 0, until_ms, PEER, 1))
    judgement = judge(journal.entries, tuple(SDK_MONITORS.values()))
    assert len(objections(judgement, "held_pulls")) == objected


def test_broadcasting_members_go_on_each_by_itself() -> None:
    how = {"message_model": "BROADCASTING"}
    journal = a_group(**how).note("broker-a", a_member(GO, OTHER, **how))
    journal = answered(answered(journal, 0, 5), 0, 2, OTHER)
    journal = held(held(journal, 5), 2, OTHER)
    assert judge(journal.entries, tuple(SDK_MONITORS.values())).violations == ()


def test_a_member_that_left_may_come_again_and_pull_from_where_the_group_is() -> None:
    journal = answered(two_members(), 0, 2)
    journal.note("broker-a", MemberLeft("billing", GO, PEER, "unregistered"))
    journal = answered(journal, 2, 8, OTHER).note("broker-a", a_member(GO))
    assert judge(held(journal, 8).entries, tuple(SDK_MONITORS.values())).violations == ()
