"""A group of controllers: one leads, the others follow, and what was answered stays."""

from __future__ import annotations

import itertools
import random

import pytest

from rocketmq_emulator.controller.state.events import MasterElecting, TablesSaved
from rocketmq_emulator.controller.state.group import (
    SILENCE_MS_MAX,
    AppendReply,
    AppendRequest,
    ControllerGroup,
    VoteReply,
    VoteRequest,
)
from rocketmq_emulator.controller.state.group_log import LOG, VOTE, GroupEntry, GroupLog, Snapshot
from rocketmq_emulator.disk.memory import MemoryDisk
from rocketmq_emulator.disk.port import DiskFull, StoreDamaged
from tests.support.controller.groups import IDS, GroupOfThree

HURTS = ("kill", "pause", "cut_off")


def a_group(seed: int = 1, **options) -> tuple[GroupOfThree, str]:
    """Three controllers that have a leader, which may decide."""
    group = GroupOfThree(seed, **options)
    group.run(6_000)
    (leader,) = group.leaders()
    return group, leader


def of(group: GroupOfThree, member_id: str) -> ControllerGroup:
    found = group.members[member_id].group
    assert found is not None
    return found


# Leading --------------------------------------------------------------------------------


def test_a_fresh_group_has_one_leader_within_some_seconds_and_all_know_it() -> None:
    for seed in range(30):
        group, leader = a_group(seed)
        assert {of(group, each).leader for each in IDS} == {leader}
        assert [of(group, each).role for each in IDS].count("leader") == 1


def test_when_the_leader_is_killed_another_leads_after_six_to_nine_seconds() -> None:
    for seed in range(30):
        group, leader = a_group(seed)
        group.kill(leader)
        group.run(SILENCE_MS_MAX - 2_000)  # its last heartbeat may be 2 s old
        assert group.leaders() == []
        group.run(6_000)
        (second,) = group.leaders()
        assert second != leader


def test_a_leader_without_a_majority_gives_up() -> None:
    group, leader = a_group()
    group.cut_off(leader)
    group.run(SILENCE_MS_MAX + 2_100)
    assert leader not in group.leaders()


def test_a_controller_alone_of_three_decides_nothing() -> None:
    group, leader = a_group()
    for other in IDS:
        if other != leader:
            group.kill(other)
    group.decide(2)
    group.run(60_000)
    assert group.answered == {}
    assert of(group, leader).role != "leader"


def test_a_decision_is_answered_when_one_other_has_it_on_disk() -> None:
    group, leader = a_group()
    others = [each for each in IDS if each != leader]
    group.kill(others[0])
    group.decide(2)
    group.run(200)
    (index,) = group.answered
    assert GroupLog(group.members[others[1]].disk, 100).entry(index).event == (
        MasterElecting("broker-a", 2)
    )


def test_a_new_leader_first_commits_an_entry_without_an_event() -> None:
    group, leader = a_group()
    assert of(group, leader).log.entries[0].event is None
    assert group.committed == {1: None}


def test_a_heartbeat_goes_to_each_other_every_two_seconds_and_never_two_at_once() -> None:
    group, _ = a_group()
    before = group.steps
    group.run(20_000)
    assert group.steps - before == 20


# Votes ----------------------------------------------------------------------------------


def a_member(disk: MemoryDisk | None = None) -> ControllerGroup:
    log = GroupLog(disk or MemoryDisk(), 1_000)
    return ControllerGroup("n0", ("n1", "n2"), log, rng=random.Random(1), now_ms=0)


def test_a_member_votes_once_a_term_and_remembers_it_after_a_restart() -> None:
    disk = MemoryDisk()
    assert a_member(disk).vote(VoteRequest(5, "n1", 0, 0), 0).is_granted
    again = a_member(disk)
    assert not again.vote(VoteRequest(5, "n2", 9, 4), 0).is_granted
    assert again.vote(VoteRequest(5, "n1", 0, 0), 0).is_granted
    assert again.vote(VoteRequest(6, "n2", 0, 0), 0).is_granted


@pytest.mark.parametrize(
    ("last_term", "last_index", "granted"),
    [(2, 2, True), (2, 3, True), (3, 1, True), (2, 1, False), (1, 9, False)],
)
def test_only_a_candidate_whose_log_goes_as_far_gets_a_vote(
    last_term: int, last_index: int, granted: bool
) -> None:
    member = a_member()
    entries = [GroupEntry(1), GroupEntry(2)]
    member.append(AppendRequest(2, "n2", 0, 0, entries, 0), 0)
    reply = member.vote(VoteRequest(7, "n1", last_index, last_term), 0)
    assert (reply.is_granted, reply.term) == (granted, 7)


def test_a_candidate_of_an_old_term_learns_the_new_one() -> None:
    member = a_member()
    member.append(AppendRequest(4, "n2", 0, 0, [], 0), 0)
    reply = member.vote(VoteRequest(3, "n1", 9, 3), 0)
    assert (reply.is_granted, reply.term) == (False, 4)


def test_a_vote_that_cannot_be_stored_is_not_given() -> None:
    class FullDisk(MemoryDisk):
        def replace(self, name, data, *, flushed=False):
            if name == VOTE:
                raise DiskFull("full")
            super().replace(name, data, flushed=flushed)

    member = a_member(FullDisk())
    with pytest.raises(DiskFull):
        member.vote(VoteRequest(1, "n1", 0, 0), 0)
    assert member.term == 0
    member.tick(10_000)
    assert member.role == "follower"


# The first decisions of a leader --------------------------------------------------------


def a_leader_with_an_old_entry() -> tuple[ControllerGroup, list]:
    """A leader of term 2 whose log has an entry of term 1, of which it knows no more."""
    member = a_member()
    member.append(AppendRequest(1, "n1", 0, 0, [GroupEntry(1)], 0), 0)
    sent: list = []
    member.send = lambda other, request: sent.append((other, request))
    member.tick(20_000)
    (_, request), _ = sent
    member.answered("n1", request, VoteReply(2, is_granted=True), 20_000)
    assert member.role == "leader"
    del sent[:2]
    return member, sent


def test_a_leader_decides_nothing_before_its_own_first_entry_is_committed() -> None:
    member, sent = a_leader_with_an_old_entry()
    assert not member.may_decide
    (other, request), _ = sent
    member.answered(other, request, AppendReply(2, is_accepted=True, end=2), 20_000)
    assert member.may_decide


def test_entries_of_older_terms_are_committed_only_with_one_of_the_leaders_own() -> None:
    """A majority that has an old entry is not enough: a later leader may still remove it."""
    member, sent = a_leader_with_an_old_entry()
    (other, request), _ = sent
    member.answered(other, request, AppendReply(2, is_accepted=True, end=1), 20_000)
    assert member.committed == 0
    member.answered(other, sent[-1][1], AppendReply(2, is_accepted=True, end=2), 20_000)
    assert member.committed == 2


def test_another_is_sent_nothing_more_before_it_has_answered() -> None:
    member, sent = a_leader_with_an_old_entry()
    assert [other for other, _ in sent] == ["n1", "n2"]
    for number in range(3):
        member.propose(MasterElecting("broker-a", number))
    assert len(sent) == 2
    member.failed("n1", sent[0][1])
    member.tick(22_000)
    assert [len(request.entries) for _, request in sent[2:]] == [4]


def test_a_follower_commits_only_as_far_as_it_is_known_to_be_equal() -> None:
    """What an older leader left here may differ from what the new one has there."""
    member = a_member()
    member.append(
        AppendRequest(1, "n1", 0, 0, [GroupEntry(1), GroupEntry(1), GroupEntry(1)], 0), 0
    )
    member.append(AppendRequest(2, "n2", 1, 1, [], 3), 0)
    assert member.committed == 1


# Entries --------------------------------------------------------------------------------


def test_entries_that_do_not_follow_are_refused_with_the_place_to_go_on_from() -> None:
    member = a_member()
    assert not member.append(AppendRequest(1, "n1", 3, 1, [GroupEntry(1)], 0), 0).is_accepted
    reply = member.append(AppendRequest(1, "n1", 0, 0, [GroupEntry(1), GroupEntry(1)], 0), 0)
    assert (reply.is_accepted, reply.end) == (True, 2)
    reply = member.append(AppendRequest(2, "n2", 2, 2, [], 0), 0)
    assert (reply.is_accepted, reply.end) == (False, 1)


def test_entries_of_an_older_leader_that_were_not_committed_are_removed() -> None:
    disk = MemoryDisk()
    member = a_member(disk)
    lost = GroupEntry(1, MasterElecting("broker-a", 7))
    member.append(AppendRequest(1, "n1", 0, 0, [GroupEntry(1), lost], 1), 0)
    kept = GroupEntry(2, MasterElecting("broker-a", 8))
    assert member.append(AppendRequest(2, "n2", 1, 1, [kept], 2), 0).is_accepted
    assert member.log.entries == GroupLog(disk, 9).entries == [GroupEntry(1), kept]


def test_the_same_entries_again_change_nothing() -> None:
    member = a_member()
    request = AppendRequest(1, "n1", 0, 0, [GroupEntry(1), GroupEntry(1)], 2)
    for _ in range(2):
        assert member.append(request, 0).is_accepted
    late = AppendRequest(1, "n1", 0, 0, [GroupEntry(1)], 1)
    assert member.append(late, 0).is_accepted
    assert member.log.end == member.committed == 2


def test_one_that_was_away_for_long_gets_the_snapshot_and_then_the_rest() -> None:
    group, leader = a_group(lines_max=5)
    away = next(each for each in IDS if each != leader)
    group.kill(away)
    for number in range(40):
        group.decide(number)
        group.run(100)
        at = of(group, leader)
        if at.log.is_long and at.committed == at.log.end:
            at.compact(TablesSaved())
    assert of(group, leader).log.snapshot.index > 20
    group.start(away)
    group.run(5_000)
    assert of(group, away).log.end == of(group, leader).log.end
    assert of(group, away).committed == of(group, leader).committed


def test_a_log_is_read_again_as_it_was_and_a_torn_line_is_no_entry() -> None:
    disk = MemoryDisk()
    log = GroupLog(disk, 100)
    log.append([GroupEntry(1), GroupEntry(2, MasterElecting("broker-a", 1))])
    log.compact(Snapshot(1, 1, TablesSaved()))
    disk.append(LOG, b'{"term":3')
    again = GroupLog(disk, 100)
    assert (again.snapshot.index, again.entries) == (1, log.entries)
    again.append([GroupEntry(4)])
    assert [entry.term for entry in GroupLog(disk, 100).entries] == [2, 4]


def test_a_log_that_cannot_be_read_is_not_taken_for_an_empty_one() -> None:
    disk = MemoryDisk()
    GroupLog(disk, 100)
    disk.replace(LOG, b"nonsense\n")
    with pytest.raises(StoreDamaged, match=LOG):
        GroupLog(disk, 100)


# Hurt at every step ---------------------------------------------------------------------


@pytest.mark.parametrize(("hurt", "victim"), list(itertools.product(HURTS, IDS)))
def test_hurt_at_any_step_of_an_election_no_two_decisions_are_answered_for_one_place(
    hurt: str, victim: str
) -> None:
    for step in range(1, 25):
        group = GroupOfThree(step)

        def hurt_now(at: int, step: int = step, group: GroupOfThree = group) -> None:
            if at == step:
                getattr(group, hurt)(victim)

        group.on_step = hurt_now
        for number in range(150):
            group.run(100)
            group.decide(number)
        assert group.leaders(), f"the other two have no leader, step {step}"
        group.on_step = lambda _step: None
        group.heal()
        group.run(20_000)
        group.decide(1_000)
        group.run(5_000)
        assert MasterElecting("broker-a", 1_000) in group.answered.values()
        group.check_answers()


@pytest.mark.parametrize("first", range(0, 200, 20))
def test_in_storms_what_was_answered_stays_and_is_one(first: int) -> None:
    for seed in range(first, first + 20):
        group = GroupOfThree(seed, delay_ms_max=400, lines_max=20)
        rng, numbers = group.rng, itertools.count()
        for _ in range(150):
            group.run(rng.randrange(1, 1_500))
            group.decide(next(numbers))
            action = rng.random()
            if action < 0.25:
                getattr(group, rng.choice(HURTS))(rng.choice(IDS))
            elif action < 0.4:
                group.heal()
            elif action < 0.5:
                group.resume(rng.choice(IDS))
        group.heal()
        group.run(30_000)
        group.decide(10_000)
        group.run(10_000)
        assert MasterElecting("broker-a", 10_000) in group.answered.values(), seed
        group.check_answers()
        ends = {of(group, each).committed for each in IDS}
        assert len(ends) == 1, seed
