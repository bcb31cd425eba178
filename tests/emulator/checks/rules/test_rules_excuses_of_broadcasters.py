"""Messages that a broadcasting member may miss: because of its file of offsets, or its end.

It writes the file 10 s after its start and every 5 s from then on; each cause is tested inside,
just outside, and once it is over.
"""

from __future__ import annotations

import json

import pytest

from rocketmq_emulator.facts import PullAnswered, Queue, TopicCreated
from tests.support.checks.small_journals import (
    PEER,
    Q0,
    Q1,
    AJournal,
    a_member,
    client_of,
    objections,
)

ONE, TWO = "billing-1", "billing-2"
OF_B = Queue("orders", "broker-b", 0)
FOLDER = json.dumps({"consumers": [{"group": "billing", "settings": {"offset_folder": "x"}}]})


def counts(journal: AJournal) -> tuple[float, float]:
    """The numbers of lost messages, and of those excused as before a new beginning."""
    judgement = journal.judged()
    assert judgement.raised == {}
    metrics = judgement.metrics
    return metrics["lost.billing"], metrics.get("excused_began_anew.billing", 0)


def killed(
    at_s: float,
    *,
    claimed_s: float = 1,
    consumed_s: float = 2,
    queue: Queue = Q0,
    disk: tuple[str, float] | None = None,
) -> AJournal:
    """A member with a folder is killed, a message comes, and the member restarts behind it."""
    journal = AJournal().runs(FOLDER).store().consumer(ONE, broadcast=True)
    journal.at_s(min(claimed_s, 0.5)).claimed(ONE, Q1, offsets=(0,)).sent(0, Q1)
    journal.consumed(ONE, 0, Q1).at_s(claimed_s).claimed(ONE, Q0, offsets=(0,))
    journal.sent(0).at_s(consumed_s).consumed(ONE, 0)
    if disk is not None:
        journal.fault("full_disk", disk[0]).at_s(disk[1]).healed()
    journal.at_s(at_s).fault("kill", ONE, number=2).sent(1, queue).at_s(at_s + 5)
    journal.consumer(ONE, broadcast=True).healed(2).claimed(ONE, queue, offsets=(2,))
    return journal.sent(2, queue).consumed(ONE, 2, queue)


def test_a_member_that_ends_within_10_s_has_written_no_offset() -> None:
    assert counts(killed(9)) == (0, 1)
    assert counts(killed(11)) == (1, 0)


def test_a_second_member_and_what_comes_after_the_new_beginning_are_owed_all() -> None:
    journal = killed(9).sent(3).sent(4).consumed(ONE, 4)
    assert counts(journal) == (1, 1)
    other = AJournal().runs(FOLDER).store().consumer(TWO, broadcast=True)
    other.claimed(TWO, Q0, offsets=(0,)).sent(0).consumed(TWO, 0)
    other.consumer(ONE, broadcast=True).claimed(ONE, Q0, offsets=(1,)).at_s(9)
    other.fault("kill", ONE).sent(1).at_s(15).consumer(ONE, broadcast=True)
    other.claimed(ONE, Q0, offsets=(2,)).sent(2).consumed(ONE, 2).consumed(TWO, 2)
    assert counts(other) == (1, 1)


def test_a_queue_that_was_claimed_within_5_s_of_the_end_is_in_no_file() -> None:
    assert counts(killed(40, claimed_s=36, consumed_s=37)) == (0, 1)
    assert counts(killed(40, claimed_s=30, consumed_s=31)) == (1, 0)
    assert counts(killed(40, claimed_s=36, consumed_s=37, queue=Q1)) == (1, 0)


def test_a_queue_of_which_nothing_was_consumed_at_the_last_write_has_no_offset() -> None:
    assert counts(killed(40, consumed_s=35)) == (0, 1)
    assert counts(killed(40, consumed_s=33)) == (1, 0)
    assert counts(killed(40, consumed_s=35, queue=Q1)) == (1, 0)


def test_a_disk_that_took_no_file_makes_the_last_write_older_for_its_member_alone() -> None:
    assert counts(killed(60, consumed_s=33, disk=(ONE, 55))) == (0, 1)
    assert counts(killed(60, consumed_s=33, disk=(ONE, 53))) == (1, 0)
    assert counts(killed(60, consumed_s=33, disk=(TWO, 55))) == (1, 0)


def missing_at_the_start(
    held_s: float, *, release: str = "4.9.7", beside: bool = True, queue: Queue = Q0
) -> AJournal:
    """The file has Q0; a new process claims Q1, and Q0 *held_s* later, behind a new message."""
    journal = AJournal().runs(FOLDER).store()
    journal.consumer(ONE, broadcast=True, release=release).claimed(ONE, Q0, Q1, offsets=(0, 0))
    journal.sent(0).consumed(ONE, 0).sent(0, Q1).consumed(ONE, 0, Q1).at_s(30)
    journal.fault("kill", ONE).sent(1, queue).at_s(40)
    journal.consumer(ONE, broadcast=True, release=release).healed()
    if beside:
        journal.claimed(ONE, Q1, offsets=(2 if queue == Q1 else 1,))
    journal.at_s(40 + held_s).claimed(ONE, Q0, offsets=(2 if queue == Q0 else 1,))
    return journal.sent(2, queue).consumed(ONE, 2, queue)


@pytest.mark.parametrize("release", ["4.9.7", "5.1.4"])
def test_a_queue_that_a_process_began_without_is_written_out_of_its_file(release) -> None:
    assert counts(missing_at_the_start(11, release=release)) == (0, 1)
    assert counts(missing_at_the_start(9, release=release)) == (1, 0)  # written after 10 s
    assert counts(missing_at_the_start(11, release=release, beside=False)) == (1, 0)
    assert counts(missing_at_the_start(11, release=release, queue=Q1)) == (1, 0)


def given_up_before_the_end(killed_s: float, *, release: str = "4.9.7") -> AJournal:
    """Q0 is released at 24 s, then gets a message; the process ends; the next one claims Q0."""
    journal = AJournal().runs(FOLDER).store()
    journal.consumer(ONE, broadcast=True, release=release).claimed(ONE, Q0, Q1, offsets=(0, 0))
    journal.sent(0).consumed(ONE, 0).sent(0, Q1).consumed(ONE, 0, Q1).at_s(24)
    journal.released(ONE, Q0).sent(1).at_s(killed_s).fault("kill", ONE).at_s(40)
    journal.consumer(ONE, broadcast=True, release=release).healed()
    return journal.claimed(ONE, Q0, Q1, offsets=(2, 1)).sent(2).consumed(ONE, 2)


def test_a_file_that_was_written_without_a_queue_lacks_it_for_the_next_process_too() -> None:
    assert counts(given_up_before_the_end(26)) == (0, 1)
    assert counts(given_up_before_the_end(24.9)) == (1, 0)  # written at 10, 15, 20, 25 s
    assert counts(given_up_before_the_end(26, release="4.9.8")) == (1, 0)


def consumed_again(second_s: float, *, release: str = "5.3.3") -> list[str]:
    """The first process has consumed 0 when it writes its file; the second consumes 1 and ends."""
    journal = AJournal().runs(FOLDER).store()
    journal.consumer(ONE, broadcast=True, release=release).claimed(ONE, Q0, offsets=(0,))
    journal.sent(0).consumed(ONE, 0).at_s(30).fault("kill", ONE).at_s(40)
    journal.consumer(ONE, broadcast=True, release=release).healed().claimed(ONE, Q0, offsets=(1,))
    journal.sent(1).consumed(ONE, 1).at_s(40 + second_s).fault("kill", ONE, number=2).at_s(140)
    journal.consumer(ONE, broadcast=True, release=release).healed(2)
    journal.claimed(ONE, Q0, offsets=(1,)).given(ONE, 1).consumed(ONE, 1)
    return objections(journal.judged(), "duplicates")


def test_a_process_that_ends_within_10_s_leaves_the_file_of_the_one_before() -> None:
    assert consumed_again(9) == []
    assert len(consumed_again(25)) == 1  # the file has the offset after 1


@pytest.mark.parametrize("release", ["4.9.8", "5.2.0", "5.3.3"])
def test_a_release_that_merges_its_file_loses_no_queue(release) -> None:
    assert counts(missing_at_the_start(11, release=release)) == (1, 0)


def test_what_comes_after_such_a_queue_was_found_is_owed() -> None:
    journal = missing_at_the_start(11).sent(3).sent(4).consumed(ONE, 4)
    assert counts(journal) == (1, 1)


def a_slow_first_pass(
    *,
    claimed_s: float = 52,
    broker: str = "broker-b",
    ended_s: float = 60,
    first: Queue = OF_B,
    release: str = "4.9.7",
) -> AJournal:
    """A process starts at 40 s; a fault of *broker* begins at 45 s."""
    journal = AJournal().runs(FOLDER).store().consumer(ONE, broadcast=True, release=release)
    for each in ("broker-a", "broker-b"):
        journal.note(each, TopicCreated("orders", 1, 1, 6, "admin"))
    journal.claimed(ONE, OF_B, Q0, offsets=(0, 0)).sent(0).consumed(ONE, 0)
    journal.sent(0, OF_B).consumed(ONE, 0, OF_B).at_s(30).fault("kill", ONE, number=2).sent(1)
    journal.at_s(40).consumer(ONE, broadcast=True, release=release).healed(2)
    journal.at_s(45).fault("stall", broker)
    if ended_s < claimed_s:
        journal.at_s(ended_s).healed()
    queues = (OF_B, Q0) if first == OF_B else (Q0, OF_B)
    journal.at_s(claimed_s).claimed(ONE, *queues, offsets=(1, 2) if first == OF_B else (2, 1))
    return journal.sent(2).consumed(ONE, 2)


def test_a_pass_that_waits_for_a_broker_comes_to_other_queues_after_the_file_was_written() -> None:
    assert counts(a_slow_first_pass()) == (0, 1)
    assert counts(a_slow_first_pass(claimed_s=49)) == (1, 0)  # the file is written at 50 s
    assert counts(a_slow_first_pass(ended_s=49)) == (1, 0)
    assert counts(a_slow_first_pass(broker="broker-a")) == (1, 0)
    assert counts(a_slow_first_pass(first=Q0)) == (1, 0)
    assert counts(a_slow_first_pass(release="4.9.8")) == (1, 0)
    assert counts(a_slow_first_pass().sent(3).sent(4).consumed(ONE, 4)) == (1, 1)


def given_up_unanswered(
    *answers: tuple[str, Queue],
    peer: str = PEER,
    consumes: bool = False,
    late: tuple[int, int] | None = None,
) -> AJournal:
    """Q0 is released, and claimed again behind the message that came meanwhile.

    Before that, pulls of the members and queues in *answers* were answered without a message.
    The broker knows ONE by the address *peer*.  *late*: code and number of messages of an answer
    to ONE's pull of Q0, which was held until the message came.
    """
    journal = AJournal().runs(FOLDER).store()
    journal.consumer(ONE, broadcast=True, release="5.3.3")
    journal.consumer(TWO, broadcast=True, release="5.3.3")
    journal.note("broker-a", a_member(client_of(ONE), peer))
    journal.note("broker-a", a_member(client_of(TWO), "10.0.0.8:1"))
    journal.claimed(ONE, Q0, Q1, offsets=(0, 0)).at_s(5)
    for node, queue in answers:
        at = {ONE: PEER, TWO: "10.0.0.8:1"}[node]
        journal.note("broker-a", PullAnswered("billing", queue, 0, 19, 0, 0, at, 1))
    if consumes:
        journal.sent(0).consumed(ONE, 0)
    first = int(consumes)
    journal.at_s(24).released(ONE, Q0).sent(first)
    if late is not None:
        journal.note("broker-a", PullAnswered("billing", Q0, first, *late, first + 1, PEER, 2))
    journal.at_s(60).claimed(ONE, Q0, offsets=(first + 1,))
    return journal.sent(first + 1).consumed(ONE, first + 1)


def test_a_queue_that_was_given_up_before_a_pull_of_it_was_answered_has_no_offset() -> None:
    assert counts(given_up_unanswered((ONE, Q1))) == (0, 1)
    assert counts(given_up_unanswered((TWO, Q0))) == (0, 1)
    assert counts(given_up_unanswered((ONE, Q1), (ONE, Q0))) == (1, 0)
    assert counts(given_up_unanswered((ONE, Q0), peer="10.0.0.7:1")) == (1, 0)  # perhaps ONE's
    assert counts(given_up_unanswered((ONE, Q1), consumes=True)) == (1, 0)
    assert counts(given_up_unanswered()) == (1, 0)  # the journal has no answers


def test_messages_that_come_for_a_queue_given_up_meanwhile_set_no_offset() -> None:
    assert counts(given_up_unanswered((ONE, Q1), late=(0, 1))) == (0, 1)
    assert counts(given_up_unanswered((ONE, Q1), late=(20, 0))) == (1, 0)  # none, but an offset


def test_what_comes_after_a_queue_was_claimed_without_an_offset_is_owed() -> None:
    journal = given_up_unanswered((ONE, Q1)).sent(2).sent(3).consumed(ONE, 3)
    assert counts(journal) == (1, 1)


# Members that do not come back -----------------------------------------------------------------


def in_hand(ended_s: float, *, word: str = "kill", given: int = 1, ends: bool = True) -> AJournal:
    """Message *given* was given at 10 s and not finished; message 2 was."""
    journal = AJournal().runs().store().consumer(ONE, broadcast=True).claimed(ONE, Q0)
    journal.each(range(3), journal.sent).consumed(ONE, 0).at_s(10).given(ONE, given)
    journal.consumed(ONE, 2).at_s(ended_s)
    if ends:
        journal.fault(word, ONE)
    return journal.at_s(ended_s + 100).ends()


def unfinished(journal: AJournal) -> tuple[int, float]:
    judgement = journal.judged()
    found = judgement.metrics["excused_unfinished"]
    return len(objections(judgement, "lost")), found


@pytest.mark.parametrize("word", ["kill", "stop", "power_off"])
def test_a_member_that_ends_leaves_what_it_was_given_in_the_last_60_s(word) -> None:
    assert unfinished(in_hand(69, word=word)) == (0, 1)
    assert unfinished(in_hand(71, word=word)) == (1, 0)
    assert unfinished(in_hand(69, word=word, given=2)) == (1, 0)  # 1 was passed over
    assert unfinished(in_hand(69, ends=False)) == (1, 0)


def test_a_member_that_stood_still_before_its_end_may_have_older_ones_in_hand() -> None:
    def stood_still(node: str) -> AJournal:
        journal = AJournal().runs().store().consumer(ONE, broadcast=True).claimed(ONE, Q0)
        journal.each(range(3), journal.sent).consumed(ONE, 0).at_s(10).given(ONE, 1)
        journal.consumed(ONE, 2).at_s(20).fault("pause", node).at_s(100).healed()
        return journal.at_s(101).fault("kill", ONE, number=2).at_s(200).ends()

    assert unfinished(stood_still(ONE)) == (0, 1)
    assert unfinished(stood_still(TWO)) == (1, 0)
